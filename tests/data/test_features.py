"""Feature files: every format gives the same samples, and nothing dangerous or broken gets in."""

from __future__ import annotations

import contextlib
import json
import pickle
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import genmix as gx
from genmix.data.arm_files import read_arm_file
from genmix.data.features import Statistics, _stacked, read_file, write_statistics
from genmix.data.reference import Moments, Samples
from tests.offline.test_bad_input import refused

ROWS = np.random.default_rng(0).standard_normal((7, 3))


def archive(**members: Any) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        np.savez(folder / "x.npz", **members)
        return folder / "x.npz"

    return write


def parquet(columns: dict[str, Any], rows_in_group: int = 3) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        pq.write_table(pa.table(columns), folder / "x.parquet", row_group_size=rows_in_group)
        return folder / "x.parquet"

    return write


def tensor(value: Any, name: str = "x.pt") -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        torch.save(value, folder / name)
        return folder / name

    return write


def jsonl(*records: Any, name: str = "x.jsonl") -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        lines = [r if isinstance(r, str) else json.dumps(r) for r in records]
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        return folder / name

    return write


def npy(folder: Path) -> Path:
    np.save(folder / "x.npy", ROWS)
    return folder / "x.npy"


def lists(kind: Any = None, rows: Any = ROWS) -> Any:
    return pa.array([row.tolist() for row in rows], type=kind)


RECORDS = [{"text": f"a {i}", "embedding": row.tolist()} for i, row in enumerate(ROWS)]

SAME: dict[str, tuple[Callable[[Path], Path], str | None]] = {
    "npy": (npy, None),
    "npy with a key for others": (npy, "reps"),
    "dgm-eval": (archive(reps=ROWS, model="dinov2"), None),
    "clean-fid": (archive(feats=ROWS), None),
    "features": (archive(features=ROWS), None),
    "mixture-ucb": (archive(dinov2_features=ROWS), None),
    "a key": (archive(mine=ROWS, reps=ROWS[:2]), "mine"),
    "a key beside statistics": (archive(mu=ROWS[0], sigma=np.eye(3), mine=ROWS), "mine"),
    "parquet": (parquet({"id": range(7), "embedding": lists()}), None),
    "parquet of fixed size": (parquet({"embedding": lists(pa.list_(pa.float64(), 3))}), None),
    "parquet of large lists": (parquet({"embedding": lists(pa.large_list(pa.float64()))}), None),
    "parquet, the only list": (parquet({"text": ["a"] * 7, "clip": lists()}), None),
    "parquet, not the only list": (
        parquet({"clip": lists(rows=ROWS[:, :2]), "embedding": lists(), "tags": [["a"]] * 7}),
        None,
    ),
    "parquet, a key": (
        parquet({"embedding": lists(rows=ROWS[:, :2]), "clip": lists()}),
        "clip",
    ),
    "torch": (tensor(torch.from_numpy(ROWS)), None),
    "torch with a gradient": (tensor(torch.nn.Parameter(torch.from_numpy(ROWS))), None),
    "torch, a slice": (tensor(torch.from_numpy(np.tile(ROWS, 2))[:, :3], "x.pth"), None),
    "torch map": (tensor({"features": torch.from_numpy(ROWS), "step": 3}), None),
    "torch map, a key": (tensor({"a": torch.from_numpy(ROWS), "b": torch.ones(2)}), "a"),
    "jsonl": (jsonl(*RECORDS), None),
    "jsonl with empty lines": (jsonl(*RECORDS[:3], "", "  ", *RECORDS[3:]), None),
    "jsonl, a key": (jsonl(*({"v": r["embedding"]} for r in RECORDS), name="x.ndjson"), "v"),
}


@pytest.mark.parametrize("case", SAME)
def test_every_format_gives_the_same_samples(case: str, tmp_path: Path) -> None:
    write, key = SAME[case]
    found = gx.read_features(write(tmp_path), key)
    assert isinstance(found, Samples)
    assert type(found.points) is np.ndarray
    assert found.points.dtype == np.float64
    np.testing.assert_array_equal(found.points, ROWS)


@pytest.mark.parametrize("case", ["npy", "parquet", "torch", "jsonl"])
def test_every_format_is_a_reference(case: str, tmp_path: Path) -> None:
    path = SAME[case][0](tmp_path)
    assert gx.FrechetDistance(path) == gx.FrechetDistance(ROWS)
    assert gx.Precision(str(path), k=2) == gx.Precision(ROWS, k=2)


@pytest.mark.parametrize("kind", ["float16", "float32", "int8"])
def test_smaller_numbers_are_widened(kind: str, tmp_path: Path) -> None:
    rows = (10 * ROWS).astype(kind)
    arrow, other = pa.list_(pa.from_numpy_dtype(rows.dtype)), torch.from_numpy(rows)
    for write in (archive(reps=rows), parquet({"embedding": lists(arrow, rows)}), tensor(other)):
        np.testing.assert_array_equal(gx.read_features(write(tmp_path)).points, rows.astype(float))


def test_bfloat16_is_read(tmp_path: Path) -> None:
    rows = torch.from_numpy(ROWS).to(torch.bfloat16)
    found = gx.read_features(tensor(rows)(tmp_path)).points
    np.testing.assert_array_equal(found, rows.to(torch.float64).numpy())


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    rows=arrays(
        np.float64,
        st.tuples(st.integers(1, 9), st.integers(1, 4)),
        elements=st.floats(-1e30, 1e30),
    ),
    group=st.integers(1, 10),
)
def test_no_format_changes_a_bit(rows: Any, group: int, tmp_path: Path) -> None:
    column = {"embedding": lists(rows=rows)}
    records = [{"embedding": row.tolist()} for row in rows]
    for write in (parquet(column, group), jsonl(*records), tensor(torch.from_numpy(rows))):
        np.testing.assert_array_equal(gx.read_features(write(tmp_path)).points, rows)


# -- statistics --------------------------------------------------------------------------------------


def test_statistics_come_back_as_they_were_written(tmp_path: Path) -> None:
    mu, sigma = ROWS.mean(0), np.cov(ROWS.T)
    path = write_statistics(
        tmp_path / "real.npz", mu, torch.from_numpy(sigma), 7, encoder="dinov2", dtype="float32"
    )
    found = read_file(path)
    assert isinstance(found, Statistics)
    np.testing.assert_array_equal(found.mu, mu)
    np.testing.assert_array_equal(found.sigma, sigma)
    assert (int(found.n), found.encoder, found.dtype) == (7, "dinov2", "float32")
    moments = gx.read_features(path)
    assert isinstance(moments, Moments)
    np.testing.assert_allclose(moments.covariance, np.cov(ROWS.T, ddof=0), rtol=1e-14)


def test_written_statistics_measure_as_the_samples_do(tmp_path: Path) -> None:
    arms = {"a": ROWS + 0.3, "b": 2 * ROWS}
    path = write_statistics(tmp_path / "real.npz", ROWS.mean(0), np.cov(ROWS.T), 7)
    whole, short = gx.FrechetDistance(ROWS), gx.FrechetDistance(path)
    expected, found = (gx.optimal_mixture(arms, objective) for objective in (whole, short))
    assert float(found.score) == pytest.approx(float(expected.score), rel=1e-10)
    unstated = read_file(path)
    assert isinstance(unstated, Statistics)
    assert (unstated.encoder, unstated.dtype) == (None, None)


def test_other_tools_read_the_statistics(tmp_path: Path) -> None:
    """pytorch-fid and clean-fid do no more than this."""
    path = write_statistics(tmp_path / "x.npz", ROWS.mean(0), np.cov(ROWS.T), 7, encoder="é")
    with np.load(path) as file:
        np.testing.assert_array_equal(file["mu"], ROWS.mean(0))
        np.testing.assert_array_equal(file["sigma"], np.cov(ROWS.T))


def test_statistics_without_n_are_read(tmp_path: Path) -> None:
    found = gx.read_features(archive(mu=ROWS[0], sigma=np.eye(3))(tmp_path))
    assert isinstance(found, Moments)
    assert found.n is None


def test_an_old_file_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = write_statistics(tmp_path / "x.npz", [0.0], [[1.0]], 5)
    before = path.read_bytes()
    refused(lambda: write_statistics(path, [0.0, 1.0], [[1.0]], 5), "shape", "(2, 2)")
    refused(lambda: write_statistics(path, [0.0], [[1.0]], 1), "n is 1")
    assert path.read_bytes() == before
    write_statistics(path, [3.0], [[1.0]], 5)
    assert gx.read_features(path).mean == pytest.approx([3.0])
    assert [p.name for p in tmp_path.iterdir()] == ["x.npz"]


def test_statistics_that_cannot_be_written_leave_nothing(tmp_path: Path) -> None:
    refused(
        lambda: write_statistics(tmp_path / "no" / "x.npz", [0.0], [[1.0]], 5),
        "x.npz",
        error=gx.StorageError,
    )
    (tmp_path / "there.npz").mkdir()
    refused(
        lambda: write_statistics(tmp_path / "there.npz", [0.0], [[1.0]], 5),
        "there.npz",
        error=gx.StorageError,
    )
    refused(lambda: write_statistics(tmp_path / "x.txt", [0.0], [[1.0]], 5), "x.npz")
    assert [p.name for p in tmp_path.iterdir()] == ["there.npz"]


# -- what is refused ---------------------------------------------------------------------------------

FIRST = RECORDS[0]

BAD: dict[str, tuple[Callable[[Path], Path], tuple[str, ...]]] = {
    "folder": (lambda folder: folder, ("is a folder", "pass a feature file")),
    "missing": (lambda folder: folder / "x.parquet", ("no feature file", "x.parquet")),
    "npz, nothing known": (archive(a=ROWS, b=ROWS), ("contains a, b", "key=", "reps")),
    "parquet, nothing known": (
        parquet({"a": lists(), "b": lists()}),
        ("columns a, b", "key=", "'embedding'"),
    ),
    "parquet of texts": (parquet({"text": ["a"]}), ("columns text", "key=")),
    "parquet, embedding is text": (parquet({"embedding": ["a"]}), ("columns embedding",)),
    "parquet, null row": (parquet({"embedding": [[1.0], [2.0], [3.0], None]}), ("row 3 is null",)),
    "parquet, null number": (parquet({"embedding": [[1.0], [None]]}), ("sample 1", "NaN")),
    "parquet, ragged": (
        parquet({"embedding": [[1.0], [2.0], [1.0, 2.0]]}),
        ("row 2 has 2 numbers", "have 1"),
    ),
    "parquet, ragged between groups": (
        parquet({"embedding": [[1.0], [2.0], [3.0], [1.0, 2.0]]}),
        ("row 3 has 2 numbers", "have 1"),
    ),
    "parquet of nothing": (
        parquet({"embedding": lists(rows=ROWS[:0], kind=pa.list_(pa.float32()))}),
        ("empty",),
    ),
    "parquet of empty lists": (
        parquet({"embedding": pa.array([[]], pa.list_(pa.float32()))}),
        ("empty",),
    ),
    "parquet, nested": (parquet({"embedding": [[[1.0]]]}), ("dtype object",)),
    "torch, one row": (tensor(torch.ones(3)), ("shape (3,)",)),
    "torch, a list": (tensor([torch.ones(3)]), ("not a dense tensor",)),
    "torch, sparse": (tensor(torch.eye(3).to_sparse()), ("not a dense tensor",)),
    "torch, complex": (tensor(torch.ones((2, 2), dtype=torch.complex64)), ("complex64",)),
    "torch, a module": (tensor(torch.nn.Linear(2, 2)), ("not a plain tensor", "torch.save")),
    "torch map, nothing known": (tensor({"a": torch.ones(2, 2)}), ("contains a", "key=")),
    "torch map, no tensor": (
        tensor({"features": "text"}),
        ("x.pt (features)", "not a dense tensor"),
    ),
    "jsonl of texts": (jsonl({"text": "a city"}), ("embed the texts", "'embedding'")),
    "jsonl, nothing there": (jsonl({"x": 1}), ("line 1", "'embedding' is not a list of numbers")),
    "jsonl, later texts": (jsonl(FIRST, {"text": "b"}), ("line 2", "encoder")),
    "jsonl, ragged": (jsonl(FIRST, {"embedding": [1]}), ("line 2 has 1 numbers", "have 3")),
    "jsonl, torn": (jsonl(FIRST, '{"embedding": [1,'), ("line 2 is not JSON",)),
    "jsonl, no object": (jsonl([1.0, 2.0]), ("line 1 is not a JSON object",)),
    "jsonl, texts in it": (jsonl({"embedding": [1, "2"]}), ("line 1", "list of numbers")),
    "jsonl, nested": (jsonl({"embedding": [[1], [2]]}), ("line 1", "list of numbers")),
    "jsonl, very deep": (jsonl("[" * 100_000), ("line 1 is not JSON",)),
    "jsonl, NaN": (jsonl(FIRST, {"embedding": [0, 1, float("nan")]}), ("sample 1", "NaN")),
    "jsonl, beyond all numbers": (jsonl({"embedding": [10**400, 1]}), ("real numbers",)),
    "jsonl, empty": (jsonl(), ("empty",)),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_read_is_one_sentence(case: str, tmp_path: Path) -> None:
    write, parts = BAD[case]
    path = write(tmp_path)
    refused(lambda: gx.read_features(path), path.name, *parts)


@pytest.mark.parametrize(
    "write, message",
    [
        (archive(features=ROWS, other=ROWS), "has no array 'reps', only features, other;"),
        (tensor({"a": torch.ones(2, 2)}), "has no array 'reps', only a;"),
        (
            parquet({"text": ["a"], "embedding": [[1.0]]}),
            "there is no column 'reps'; the columns are text, embedding;",
        ),
    ],
)
def test_a_wrong_key_is_named(write: Callable[[Path], Path], message: str, tmp_path: Path) -> None:
    path = write(tmp_path)
    refused(lambda: gx.read_features(path, "reps"), path.name, message, "--key")


def test_chunks_of_a_column_are_one_matrix() -> None:
    """Arrow splits large columns as it likes; an empty piece has no width."""
    kind = pa.list_(pa.float64())
    pieces = [
        lists(kind, ROWS[:0]),
        lists(kind, ROWS[:4]),
        lists(kind, ROWS[:0]),
        lists(kind, ROWS[4:]),
    ]
    np.testing.assert_array_equal(_stacked(pieces, "x"), ROWS)
    np.testing.assert_array_equal(_stacked([lists(kind, ROWS)[2:5]], "x"), ROWS[2:5])
    refused(lambda: _stacked([*pieces, lists(kind, ROWS[:2, :2])], "x"), "row 7 has 2", "have 3")


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.parquet", "x.pt", "x.jsonl", "x", "x.csv"])
@pytest.mark.parametrize("content", [b"", b"\xff\xfenothing of the kind", b"PK\x03\x04 nothing"])
def test_junk_is_refused_under_every_name(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    refused(lambda: gx.read_features(tmp_path / name), name)


@pytest.mark.parametrize("case", ["dgm-eval", "parquet", "torch", "npy", "statistics"])
def test_a_torn_file_is_refused(case: str, tmp_path: Path) -> None:
    torn = archive(mu=ROWS[0], sigma=np.eye(3)) if case == "statistics" else SAME[case][0]
    path = torn(tmp_path)
    content = path.read_bytes()
    for share in (0.1, 0.5, 0.9, 0.99):
        path.write_bytes(content[: int(share * len(content))])
        refused(lambda: gx.read_features(path), path.name)


def test_a_damaged_member_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez_compressed(path, reps=np.zeros((500, 20)))
    content = bytearray(path.read_bytes())
    content[120:150] = bytes(30)
    path.write_bytes(content)
    refused(lambda: gx.read_features(path), "x.npz", "write it again")


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(case=st.sampled_from(["npy", "dgm-eval", "torch", "jsonl"]), data=st.data())
def test_damaged_bytes_are_read_or_refused(case: str, data: Any, tmp_path: Path) -> None:
    path = SAME[case][0](tmp_path)
    content = bytearray(path.read_bytes())
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=5)):
        content[place] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    with contextlib.suppress(gx.InputError):
        assert isinstance(gx.read_features(path), Samples)


class Trap:
    """Pickles as a call that leaves a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


def pickled_npy(trap: Any, path: Path) -> None:
    np.save(path, np.array([trap], dtype=object), allow_pickle=True)


def pickled_npz(trap: Any, path: Path) -> None:
    np.savez(path, reps=np.array([trap], dtype=object))


def pickled_statistics(trap: Any, path: Path) -> None:
    np.savez(path, mu=ROWS[0], sigma=np.eye(3), encoder=np.array([trap], dtype=object))


def bare_pickle(trap: Any, path: Path) -> None:
    path.write_bytes(pickle.dumps(trap))


def torch_pickle(trap: Any, path: Path) -> None:
    torch.save(trap, path)


@pytest.mark.parametrize(
    "write, name, part",
    [
        (pickled_npy, "x.npy", "pickled objects"),
        (pickled_npz, "x.npz", "pickled objects"),
        (pickled_statistics, "x.npz", "pickled objects"),
        (bare_pickle, "x.npy", "pickled objects"),
        (bare_pickle, "x.pkl", "pickled objects"),
        (bare_pickle, "x.pt", "never unpickles"),
        (torch_pickle, "x.pt", "never unpickles"),
    ],
)
def test_pickles_are_refused_and_never_run(
    write: Callable[[Any, Path], None], name: str, part: str, tmp_path: Path
) -> None:
    sprung = tmp_path / "sprung"
    write(Trap(sprung), tmp_path / name)
    refused(lambda: gx.read_features(tmp_path / name), name, part)
    assert not sprung.exists()
    pickle.loads(pickle.dumps(Trap(sprung)))
    assert sprung.exists(), "the trap does not work"


@pytest.mark.parametrize(
    "name, module, extra", [("x.parquet", "pyarrow", "export"), ("x.pt", "torch", "torch")]
)
def test_a_missing_package_names_the_fix(
    name: str, module: str, extra: str, tmp_path: Path
) -> None:
    (tmp_path / name).touch()
    code = (
        f"import sys; sys.modules[{module!r}] = None; import genmix as gx\n"
        f"try: gx.read_features({str(tmp_path / name)!r})\n"
        "except gx.InputError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert re.search(
        rf"needs the {module} package; .*pip install {module} .*genmix\[{extra}\]", done.stdout
    )


def zipped(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("[Content_Types].xml", "<Types/>")


@pytest.mark.parametrize("name", ["x.csv", "x.xlsx", "x.json", "x.h5", "x"])
def test_an_unsupported_type_is_refused_with_those_that_are_supported(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    zipped(path) if name == "x.xlsx" else path.write_text("1,2\n3,4\n")
    types = r"\(\.npy, \.npz, \.parquet, \.pq, \.pt, \.pth, \.jsonl, \.ndjson\)"
    with pytest.raises(gx.InputError, match=rf"unsupported type; use .*{types}\.$"):
        gx.read_features(path)
    if name == "x.csv":
        with pytest.raises(gx.InputError, match=rf"choose the texts .* another type {types}\.$"):
            read_arm_file(path)
    else:
        tables = r"a table \(\.jsonl, \.ndjson, \.csv, \.parquet, \.pq, \.txt\)"
        with pytest.raises(gx.InputError, match=rf"{types}, {tables}, or a folder of images"):
            read_arm_file(path)


@pytest.mark.parametrize("name", ["x.dat", "x", "x.zip"])
def test_a_feature_file_with_another_name_is_still_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    with path.open("wb") as file:
        np.savez(file, features=np.eye(3)) if name == "x.zip" else np.save(file, np.eye(3))
    np.testing.assert_array_equal(gx.read_features(path), np.eye(3))
