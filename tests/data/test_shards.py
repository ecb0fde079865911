"""Files of embeddings, read in blocks and at any row."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import genmix as gx
from genmix.data import shard_files
from genmix.data.streamed_rows import StreamedRows
from tests.support.shard_folders import clouds, write_folder, write_parquet

ROWS = clouds()["a"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(shard_files, "BLOCK_VALUES", 35)  # 7 rows
    return write_folder(tmp_path / "a", ROWS)


def test_blocks_are_the_rows_in_the_order_of_the_files(folder: Path) -> None:
    shards = gx.Shards(folder)
    assert repr(shards) == "<120 samples of dimension 5 in 5 files>"
    blocks = list(StreamedRows(shards).blocks())
    assert max(len(block) for _, block in blocks) == 7
    assert all(block.dtype == np.float64 for _, block in blocks)
    np.testing.assert_array_equal(np.concatenate([block for _, block in blocks]), ROWS)
    np.testing.assert_array_equal(shards.load(), ROWS)


@pytest.mark.parametrize("count", [1, 5, 60, 120])
def test_rows_are_taken_in_any_order(folder: Path, count: int) -> None:
    chosen = np.random.default_rng(count).permutation(120)[:count]
    np.testing.assert_array_equal(gx.Shards(folder).take(chosen), ROWS[chosen])


def test_streamed_rows_are_like_an_array(folder: Path) -> None:
    rows = StreamedRows(gx.Shards(folder))
    np.testing.assert_array_equal(rows[20:50, :], ROWS[20:50])
    np.testing.assert_array_equal(rows[:, 1:3][np.array([3, 99]), :], ROWS[[3, 99], 1:3])
    doubled = rows.mapped(lambda x: 2 * x, 5).subset(np.array([50, 7]))
    [(part, block)] = doubled.blocks()
    np.testing.assert_array_equal(block, 2.0 * ROWS[[7, 50]][part])
    assert rows[:0, :].shape == (0, 5)
    with pytest.raises(gx.InputError, match="needs all of them in memory"):
        np.asarray(rows)


def test_quality_and_cost_come_from_the_files(tmp_path: Path) -> None:
    quality = np.linspace(0, 1, 120)
    shards = gx.Shards(write_folder(tmp_path / "a", ROWS, quality=quality))
    np.testing.assert_array_equal(shards.quality, quality)
    assert shards.cost is None
    assert gx.Shards(write_folder(tmp_path / "b", ROWS)).quality is None


def test_tools_files_and_empty_shards_are_skipped(tmp_path: Path) -> None:
    np.save(tmp_path / "b.npy", ROWS)
    np.save(tmp_path / "a.npy", ROWS[:0])
    np.save(tmp_path / "_metadata.npy", ROWS)
    np.save(tmp_path / ".hidden.npy", ROWS)
    (tmp_path / "deep").mkdir()
    np.save(tmp_path / "deep" / "part.npy", ROWS[:3])
    (tmp_path / "notes.txt").write_text("not a shard")
    assert [file.path.name for file in gx.Shards(tmp_path).files] == ["b.npy", "part.npy"]
    assert len(gx.Shards([tmp_path / "deep", tmp_path / "b.npy"])) == 123


def _nan(folder: Path) -> None:
    bad = ROWS.copy()
    bad[30, 2] = np.nan
    np.save(folder / "x.npy", bad)


REFUSED: dict[str, tuple[Any, str]] = {
    "nothing": (lambda folder: None, "contains no files of embeddings"),
    "dimensions": (
        lambda f: [np.save(f / "a.npy", ROWS), np.save(f / "b.npy", ROWS[:, :2])],
        "b.npy has dimension 2, but .*a.npy has 5",
    ),
    "one number per row": (lambda f: np.save(f / "a.npy", ROWS[:, 0]), r"shape \(120,\)"),
    "no rows": (lambda f: np.save(f / "a.npy", ROWS[:0]), "contains no samples"),
    "pickle": (
        lambda f: np.save(f / "a.npy", np.array([None, 1], dtype=object), allow_pickle=True),
        "pickled",
    ),
    "damaged": (lambda f: (f / "a.parquet").write_bytes(b"PAR1 nothing"), "not a readable Parquet"),
    "two arrays": (
        lambda f: np.savez(f / "a.npz", reps=ROWS, feats=ROWS),
        "choose the features with",
    ),
    "statistics": (lambda f: np.savez(f / "a.npz", mu=ROWS[0], sigma=np.eye(5)), "mu, sigma"),
    "texts": (
        lambda f: __import__("pyarrow.parquet").parquet.write_table(
            pa.table({"text": ["a"]}), f / "a.parquet"
        ),
        "has the columns text",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_unusable_folders_are_refused(case: str, tmp_path: Path) -> None:
    write, message = REFUSED[case]
    write(tmp_path)
    with pytest.raises(gx.InputError, match=message):
        gx.Shards(tmp_path)


def test_a_bad_number_is_located(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_files, "BLOCK_VALUES", 35)
    _nan(tmp_path)
    with pytest.raises(gx.InputError, match=r"x\.npy, sample 30: the embedding contains NaN"):
        gx.Shards(tmp_path).load()


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", ROWS)
    data = (tmp_path / "a.npy").read_bytes()
    shards = gx.Shards(tmp_path)
    (tmp_path / "a.npy").write_bytes(data[:-40])
    with pytest.raises(gx.InputError, match="changed while it was being read"):
        shards.load()


def test_rows_of_different_lengths_are_refused(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    lists = [[1.0, 2.0]] * 10 + [[1.0]]
    pq.write_table(pa.table({"embedding": lists}), tmp_path / "a.parquet")
    with pytest.raises(gx.InputError, match="row 10"):
        gx.Shards(tmp_path).load()


def test_a_folder_can_be_a_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_folder(tmp_path / "real", ROWS)
    small = gx.read_features(tmp_path / "real")
    np.testing.assert_array_equal(small.points, ROWS)  # type: ignore[union-attr]
    monkeypatch.setattr("genmix.data.shards.HELD_BYTES", 0)
    monkeypatch.setattr(shard_files, "BLOCK_VALUES", 35)
    large = gx.read_features(tmp_path / "real")
    expected = gx.FrechetDistance(ROWS).moments
    np.testing.assert_allclose(large.mean, expected.mean, atol=1e-12)  # type: ignore[union-attr]
    np.testing.assert_allclose(large.covariance, expected.covariance, atol=1e-12)  # type: ignore[union-attr]
    assert large.n == 120  # type: ignore[union-attr]
    write_parquet(tmp_path / "real" / "more.parquet", ROWS)
    assert gx.FrechetDistance(gx.Shards(tmp_path / "real")).moments.n == 240


# -- files that change, vanish or are damaged ----------------------------------------------------------


def test_a_file_that_was_replaced_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", ROWS)
    shards = gx.Shards(tmp_path)
    before = (tmp_path / "a.npy").stat()
    np.save(tmp_path / "new.npy", ROWS[::-1].copy())
    os.utime(tmp_path / "new.npy", ns=(before.st_atime_ns, before.st_mtime_ns))
    (tmp_path / "new.npy").replace(tmp_path / "a.npy")  # the same size and modification time
    for read in (shards.load, lambda: shards.take(np.array([3]))):
        with pytest.raises(gx.InputError, match=r"a\.npy changed while it was being read"):
            read()


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.parquet"])
def test_a_file_that_changes_while_it_is_read_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_files, "BLOCK_VALUES", 35)
    path = tmp_path / name
    if name == "a.parquet":
        write_parquet(path, ROWS)
    else:
        np.save(path, ROWS) if name == "a.npy" else np.savez(path, features=ROWS)
    blocks = gx.Shards(path).files[0].blocks()
    next(blocks)
    os.utime(path, (1, 1))
    with pytest.raises(gx.InputError, match="changed while it was being read"):
        list(blocks)


def test_the_identity_is_that_of_the_file_that_was_opened(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", ROWS)
    [old] = gx.Shards(tmp_path).files
    identity = old.identity()
    np.save(tmp_path / "a.npy", ROWS[:50])
    assert old.identity() == identity
    assert gx.Shards(tmp_path).files[0].identity() != identity


@pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray])
def test_damaged_uncompressed_archives_are_refused(layout: Any, tmp_path: Path) -> None:
    rows = layout(
        np.random.default_rng(0).normal(size=(2000, 5))
    )  # more than zipfile reads at once
    np.savez(tmp_path / "a.npz", features=rows)
    data = bytearray((tmp_path / "a.npz").read_bytes())
    data[data.index(rows.tobytes("A")[-80:])] ^= 1
    (tmp_path / "a.npz").write_bytes(data)
    shards = gx.Shards(tmp_path)
    with pytest.raises(gx.InputError, match=r"a\.npz is damaged; write it again"):
        shards.load()


def test_fortran_order_is_read_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_files, "BLOCK_VALUES", 2**14)
    rows = np.random.default_rng(0).normal(size=(100_000, 16))
    np.save(tmp_path / "a.npy", np.asfortranarray(rows))
    np.savez(tmp_path / "b.npz", features=np.asfortranarray(rows))
    for file in gx.Shards(tmp_path).files:
        tracemalloc.start()
        for first, block in file.blocks():
            np.testing.assert_array_equal(block, rows[first : first + len(block)])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < rows.nbytes / 2, file.where
    np.savez_compressed(tmp_path / "c.npz", features=np.asfortranarray(rows))
    np.testing.assert_array_equal(gx.Shards(tmp_path / "c.npz").load(), rows)
    monkeypatch.setattr(shard_files, "MAX_WHOLE", rows.nbytes - 1)
    with pytest.raises(gx.InputError, match=r"c\.npz .* Fortran order.*ascontiguousarray"):
        gx.Shards(tmp_path / "c.npz")


def test_a_list_keeps_its_order_and_has_every_file_once(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", ROWS)
    np.save(tmp_path / "b.npy", ROWS[:1])
    shards = gx.Shards([tmp_path / "b.npy", tmp_path / "a.npy"])
    assert [file.path.name for file in shards.files] == ["b.npy", "a.npy"]
    with pytest.raises(gx.InputError, match=r"a\.npy are the same file; leave one"):
        gx.Shards([tmp_path / "a.npy", tmp_path])


def test_a_null_among_whole_numbers_is_refused(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    lists = pa.array([[1, 2], [3, 4], [5, None]], pa.list_(pa.int64()))
    pq.write_table(pa.table({"embedding": lists}), tmp_path / "a.parquet", row_group_size=1)
    with pytest.raises(gx.InputError, match="row 2 contains a null; write a number instead"):
        gx.Shards(tmp_path).load()


def test_other_machines_get_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "a.npy", ROWS)
    monkeypatch.chdir(tmp_path)
    [file] = gx.Shards("a.npy").files
    other = file.elsewhere()
    monkeypatch.chdir("/")
    os.utime(tmp_path / "a.npy", (1, 1))  # a copy has another time
    np.testing.assert_array_equal(other.take(np.arange(len(ROWS))), ROWS)
