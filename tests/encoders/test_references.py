"""References: features as they are, texts and images embedded once, and what cannot be one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from genmix.data.reference import Moments
from genmix.data.samples import Sample
from genmix.encoders import CachedEncoder
from genmix.encoders.embed_items import BATCH
from genmix.encoders.pixels import PixelsSettings
from genmix.encoders.precomputed import PrecomputedEncoder
from genmix.encoders.references import MAX_NOTES, read_reference
from genmix.errors import InputError
from tests.encoders.test_cache import Lengths
from tests.encoders.test_encoders import one_sentence
from tests.support import tiny_encoders as tiny

POINTS = np.random.default_rng(0).standard_normal((7, 3))


def read(path: str, folder: Path, encoder: Any = None) -> Any:
    return read_reference(path, folder, encoder, lambda _: None)


def refused(path: str, folder: Path, encoder: Any, *parts: str) -> None:
    with pytest.raises(InputError) as caught:
        read(path, folder, encoder)
    text = one_sentence(caught.value)
    for part in parts:
        assert part in text, text


def pixels() -> Any:
    return PixelsSettings(kind="pixels", size=2).build(Path())


def paint(file: Path, brightness: int, kind: str = "PNG") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(tiny.encoded(Image.new("RGB", (4, 4), (brightness,) * 3), kind))


# -- features ----------------------------------------------------------------------------------------


def test_features_need_no_encoder(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", POINTS)
    np.savez(tmp_path / "b.npz", reps=POINTS)
    records = [{"embedding": row.tolist()} for row in POINTS]
    (tmp_path / "c.jsonl").write_text("\n".join(map(json.dumps, records)))
    for name in ("a.npy", "b.npz", "c.jsonl", str(tmp_path / "a.npy")):
        np.testing.assert_array_equal(read(name, tmp_path), POINTS)


def test_parquet_with_an_embedding_column(tmp_path: Path) -> None:
    import pyarrow as arrow
    import pyarrow.parquet

    table = arrow.table({"embedding": POINTS.tolist(), "name": ["x"] * len(POINTS)})
    pyarrow.parquet.write_table(table, tmp_path / "real.parquet")
    np.testing.assert_array_equal(read("real.parquet", tmp_path), POINTS)


def test_moments_stay_moments(tmp_path: Path) -> None:
    np.savez(tmp_path / "m.npz", mu=np.zeros(3), sigma=np.eye(3))
    assert isinstance(read("m.npz", tmp_path), Moments)


# -- texts -------------------------------------------------------------------------------------------


def test_texts_by_line_and_by_field(tmp_path: Path) -> None:
    texts = ["one", "two\u2028still two", "three", "four"]
    records = [json.dumps({"text": text, "n": 1}, ensure_ascii=False) for text in texts]
    (tmp_path / "a.jsonl").write_text("\n".join([*records[:2], "", *records[2:]]) + "\n")
    (tmp_path / "b.txt").write_bytes("\ufeffone\r\n  two\u2028still two \n\nthree\nfour".encode())
    expected = Lengths().encode([Sample(text=text) for text in texts])
    for name in ("a.jsonl", "b.txt"):
        np.testing.assert_allclose(read(name, tmp_path, Lengths()), expected)


def test_progress_is_told_in_a_few_lines_and_the_second_time_is_from_the_cache(
    tmp_path: Path,
) -> None:
    count = 40 * BATCH + 3
    (tmp_path / "t.txt").write_text("\n".join(f"text {i}" for i in range(count)))
    notes: list[str] = []
    inner = tiny.Counting(Lengths())
    encoder = CachedEncoder(inner, tmp_path / "cache")
    rows = read_reference("t.txt", tmp_path, encoder, notes.append)
    assert rows.shape == (count, 3)
    assert notes[0] == f"embedding the reference: 0/{count}"
    assert notes[-1] == f"embedding the reference: {count}/{count}"
    assert 10 < len(notes) <= MAX_NOTES + 1
    assert inner.asked == count
    np.testing.assert_array_equal(read("t.txt", tmp_path, encoder), rows)
    assert inner.asked == count


@pytest.mark.parametrize(
    "line", ["{", "[]", "3", '{"txt": "x"}', '{"text": 3}', '{"text": " "}', '"bare"', "[" * 9999]
)
def test_lines_without_a_text(line: str, tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(f'{{"text": "good"}}\n\n{line}\n')
    refused("t.jsonl", tmp_path, Lengths(), "line 3", "no text")
    (tmp_path / "t.jsonl").write_text(f"{line}\n")
    refused("t.jsonl", tmp_path, Lengths(), "line 1")


# -- images ------------------------------------------------------------------------------------------


def test_images_in_the_order_of_their_paths(tmp_path: Path) -> None:
    for name, value, kind in [
        ("b.png", 20, "PNG"),
        ("a.JPG", 10, "JPEG"),
        ("sub/c.webp", 40, "WEBP"),
        ("c.jpeg", 30, "JPEG"),
    ]:
        paint(tmp_path / "real" / name, value, kind)
    (tmp_path / "real" / "notes.txt").write_text("no image")
    paint(tmp_path / "real" / "._b.png", 99)
    rows = read("real", tmp_path, pixels())
    np.testing.assert_allclose(rows[:, 0] * 255, [10, 20, 30, 40], atol=2)


def test_a_link_out_of_the_folder_is_refused_and_one_inside_is_not(tmp_path: Path) -> None:
    paint(tmp_path / "real" / "a.png", 10)
    paint(tmp_path / "secret.png", 99)
    inside = tmp_path / "real" / "b.png"
    inside.symlink_to(tmp_path / "real" / "a.png")
    assert read("real", tmp_path, pixels()).shape == (2, 12)
    for target, is_folder in ((tmp_path / "secret.png", False), (tmp_path, True)):
        link = tmp_path / "real" / "c.png"
        link.symlink_to(target, target_is_directory=is_folder)
        refused("real", tmp_path, pixels(), "outside the reference folder")
        link.unlink()
    (tmp_path / "real" / "loop").symlink_to(tmp_path / "real", target_is_directory=True)
    assert read("real", tmp_path, pixels()).shape == (2, 12)


def test_the_image_to_blame_is_named(tmp_path: Path) -> None:
    for i in range(5):
        paint(tmp_path / "real" / f"{i}.png", i)
    (tmp_path / "real" / "3.png").write_bytes(b"torn")
    refused("real", tmp_path, pixels(), "3.png", "cannot be read")


# -- what cannot be one ------------------------------------------------------------------------------


def test_what_cannot_be_a_reference(tmp_path: Path) -> None:
    refused("absent.npz", tmp_path, None, "absent.npz", "check the path")
    (tmp_path / "empty").mkdir()
    refused("empty", tmp_path, pixels(), "no images", ".png")
    (tmp_path / "empty.txt").write_text("\n \n")
    refused("empty.txt", tmp_path, Lengths(), "no texts")
    (tmp_path / "empty.jsonl").write_text("")
    refused("empty.jsonl", tmp_path, Lengths(), "no texts")
    (tmp_path / "x.csv").write_text("1,2")
    refused("x.csv", tmp_path, None, "unknown type", ".npz")
    (tmp_path / "latin.txt").write_bytes("é".encode("latin-1"))
    refused("latin.txt", tmp_path, Lengths(), "UTF-8")
    (tmp_path / "t.txt").write_text("a text")
    refused("t.txt", tmp_path, None, "no encoder", "add one")
    paint(tmp_path / "real" / "a.png", 1)
    refused("real", tmp_path, None, "no encoder")
    refused("t.txt", tmp_path, pixels(), "line 1", "embeds images")
    refused("t.txt", tmp_path, PrecomputedEncoder(), "without a vector")
