"""Damaged files, and small files that would fill the memory: one sentence, before anything is read."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

import genmix as gx
from genmix.core.limits import DEFAULT, VARIABLE, max_bytes
from genmix.data.png import open_image
from genmix.data.samples import FieldError, sample_from
from genmix.data.text_files import numbered_lines, resolved
from tests.offline.test_bad_input import refused

MEGABYTE = 1 << 20


def array_file(shape: str, body: bytes, kind: str = "'|u1'") -> bytes:
    """An .npy file with a header that is written by hand."""
    header = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + body


def zip_file(path: Path, kind: int = zipfile.ZIP_DEFLATED, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", kind) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return path


def zipped_zeros(folder: Path) -> Path:
    """8 MB of bytes, which are 64 MB of float64, in 8 kB."""
    return zip_file(folder / "x.npz", reps=array_file("(8000, 1000)", bytes(8_000_000)))


def repeated_tensor(folder: Path) -> Path:
    torch.save(torch.ones(1).expand(8000, 1000), folder / "x.pt")
    return folder / "x.pt"


def compressed_tensor(folder: Path) -> Path:
    torch.save(torch.zeros(8000, 1000), folder / "y.pt")
    packed = zipfile.ZipFile(folder / "x.pt", "w", zipfile.ZIP_DEFLATED)
    with zipfile.ZipFile(folder / "y.pt") as stored, packed:
        for info in stored.infolist():
            packed.writestr(info.filename, stored.read(info))
    return folder / "x.pt"


def repeated_rows(folder: Path) -> Path:
    """A Parquet file whose dictionary contains one number."""
    column = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(1_600_000)), 1000)
    pq.write_table(pa.table({"embedding": column}), folder / "x.parquet")
    return folder / "x.parquet"


BOMBS: dict[str, Callable[[Path], Path]] = {
    "npz": zipped_zeros,
    "torch, a stride of zero": repeated_tensor,
    "torch, compressed": compressed_tensor,
    "parquet": repeated_rows,
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_cannot_fill_the_memory(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = BOMBS[name](tmp_path)
    monkeypatch.setenv(VARIABLE, str(10 * MEGABYTE))
    tracemalloc.start()
    refused(lambda: gx.read_features(path), "on disk", f"set {VARIABLE}=")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * MEGABYTE
    monkeypatch.setenv(VARIABLE, "1e8")
    assert isinstance(gx.read_features(path), gx.data.reference.Samples)


def test_a_large_file_is_not_suspicious(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "x.npy", np.zeros((100, 100), np.uint8))  # 8 times larger in memory
    monkeypatch.setenv(VARIABLE, "1")
    assert gx.read_features(tmp_path / "x.npy").dimension == 100


def test_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert max_bytes() == DEFAULT
    for text in ("much", "-1", "nan", "inf", "0"):
        monkeypatch.setenv(VARIABLE, text)
        refused(max_bytes, VARIABLE, text)


LIES = {
    "too few bytes": (array_file("(6, 4)", bytes(23)), "23 bytes follow"),
    "too many bytes": (array_file("(6, 4)", bytes(25)), "25 bytes follow"),
    "a huge array": (array_file("(10**9, 10**9)", bytes(24)), "not an .npy or .npz file"),
    "a huge shape": (array_file("(1000000000, 1000000000)", bytes(24)), "24 bytes follow"),
    "a negative shape": (array_file("(-6, -4)", bytes(24)), "24 bytes follow"),
    "an unknown version": (b"\x93NUMPY\x09\x09" + bytes(99), "not an array of plain"),
    "an unclosed bracket": (array_file("(" * 300, bytes(24)), "not an .npy or .npz file"),
    "objects": (array_file("(6, 4)", bytes(24 * 8), "'|O'"), "pickled objects"),
    "no version for numbers": (
        b"\x93NUMPY\x03\x00" + array_file("(6, 4)", b"")[8:],
        "not an array",
    ),
}


@pytest.mark.parametrize("name", LIES)
@pytest.mark.parametrize("place", ["x.npy", "x.npz"])
def test_a_header_that_contradicts_the_file(name: str, place: str, tmp_path: Path) -> None:
    content, words = LIES[name]
    if place == "x.npz":
        zip_file(tmp_path / place, reps=content)
    else:
        (tmp_path / place).write_bytes(content)
    refused(lambda: gx.read_features(tmp_path / place), place, words)


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_a_damaged_archive_is_called_damaged(write: Callable[..., None], tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    write(path, reps=np.random.default_rng(0).normal(size=(100, 4)))
    content, middle = path.read_bytes(), path.stat().st_size // 2
    flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
    for damaged in (content[:middle], flipped):
        path.write_bytes(damaged)
        refused(lambda: gx.read_features(path), "x.npz is damaged; write it again.")
        refused(lambda: gx.Shards(path).load(), "x.npz is damaged; write it again.")


@pytest.mark.parametrize("name", ["x.npz", "x.npy"])
def test_an_empty_file_is_called_empty(name: str, tmp_path: Path) -> None:
    (tmp_path / name).touch()
    refused(lambda: gx.read_features(tmp_path / name), f"{name} is empty; write it again.")
    refused(lambda: gx.Shards(tmp_path), f"{name} is empty; write it again.")


def test_an_unusual_compression_is_refused(tmp_path: Path) -> None:
    """Only the compression that numpy writes can be read in pieces of known size."""
    path = zip_file(tmp_path / "x.npz", zipfile.ZIP_LZMA, reps=array_file("(1, 1)", b"1"))
    refused(lambda: gx.read_features(path), "compression or encryption")


def test_names_in_a_file_stay_on_one_line(tmp_path: Path) -> None:
    path = zip_file(tmp_path / "x.npz", **{"a\nb_features": b"", "c\x1b[31m_features": b""})
    refused(lambda: gx.read_features(path), "x.npz")
    torch.save({1: torch.ones(2, 2), "features": torch.ones(2, 2)}, tmp_path / "x.pt")
    assert gx.read_features(tmp_path / "x.pt").dimension == 2


def test_statistics_of_any_shape_are_one_sentence(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", mu=np.zeros(2), sigma=np.eye(2), n=np.eye(30))
    refused(lambda: gx.read_features(tmp_path / "x.npz"), "the reference's n")


def test_damaged_parquet_metadata_cannot_end_the_process(tmp_path: Path) -> None:
    """Arrow aborts if Python reads some metadata of a damaged file; this must not happen to genmix."""
    pq.write_table(pa.table({"embedding": [[1.0, 2.0], [3.0, 4.0]]}), tmp_path / "x.parquet")
    code = """
import pathlib, sys, genmix as gx
path = pathlib.Path(sys.argv[1])
content = path.read_bytes()
size = int.from_bytes(content[-8:-4], "little")
start = len(content) - 8 - size
for i in range(start, start + 40):
    path.write_bytes(content[:i] + bytes([content[i] ^ 1]) + content[i + 1:])
    try: gx.read_features(path)
    except gx.InputError: pass
print("done")
"""
    command = [sys.executable, "-c", code, str(tmp_path / "x.parquet")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr[-500:]


# -- images ------------------------------------------------------------------------------------------


def blank(side: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("L", (side, side)).save(buffer, "PNG")
    return buffer.getvalue()


def test_an_image_with_too_many_pixels_is_refused_before_it_is_decoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = blank(2000)
    assert len(content) < 20_000
    monkeypatch.setenv(VARIABLE, str(10 * MEGABYTE))
    with pytest.raises(FieldError, match=rf"2000 × 2000 pixels, .*{VARIABLE}=48000000"):
        open_image(content)
    monkeypatch.setenv(VARIABLE, "48000000")
    assert open_image(content).size == (2000, 2000)


# -- texts -------------------------------------------------------------------------------------------


def test_an_endless_line_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "3200")
    (tmp_path / "x.txt").write_text("a" * 99 + "\n" + "b" * 100)
    assert [number for number, _ in numbered_lines(tmp_path / "x.txt")] == [1, 2]
    (tmp_path / "x.txt").write_text("a" * 99 + "\n" + "b" * 101)
    refused(lambda: list(numbered_lines(tmp_path / "x.txt")), "line 2", "more than 100 characters")


def test_a_pipe_is_not_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.jsonl")
    refused(lambda: list(numbered_lines(tmp_path / "x.jsonl")), "not a file", "check the path")
    refused(lambda: gx.read_features(tmp_path / "x.jsonl"), "no feature file")


@pytest.mark.parametrize("name", ["~nobody-of-this-name/x", "loop", "x" * 5000])
def test_paths_that_lead_nowhere(name: str, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(gx.InputError, match=r"no feature file found .*; check the path\.$"):
        gx.read_features(resolved(name, tmp_path))


@pytest.mark.parametrize(
    "fields, words",
    [
        ({"input_tokens": 10**30}, "more than"),
        ({"output_tokens": 10**5000}, "more than"),
        ({"quality": 10**5000}, "a very large number"),
        ({"cost": 1e300}, "cost 1e+300"),
        ({"quality": np.eye(9)}, "has quality"),
    ],
)
def test_numbers_that_a_journal_cannot_store(fields: dict[str, object], words: str) -> None:
    with pytest.raises(FieldError) as caught:
        sample_from(text="a", **fields)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
