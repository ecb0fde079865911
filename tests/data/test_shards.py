"""Files of embeddings, read in blocks and at any row."""

from __future__ import annotations

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
