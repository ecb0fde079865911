"""Keeping the best samples of shards chooses the same samples as in memory, with the same bound."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.data import shard_files
from genmix.data import shards as shards_module
from genmix.objectives import Batch
from genmix.offline import fidelity, sample_losses
from genmix.offline.keeping import Baselines
from genmix.offline.streamed_samples import unpacked_rows
from genmix.solvers import swaps
from tests.support.shard_folders import clouds, write_folder

ROWS = clouds(4, {"a": 200})["a"]
QUALITY = np.random.default_rng(1).random(200)
REFERENCE = np.random.default_rng(2).normal(size=(30, 5))
OBJECTIVES = {
    "vendi": gx.Vendi(),
    "order 2": gx.Vendi(2.0),
    "order inf": gx.Vendi(np.inf),
    "random features": gx.Vendi(0.5, gx.Gaussian(features=4)),
    "rke": gx.RKE(gx.Cosine(), unbiased=True),
    "kd": gx.KernelDistance(REFERENCE, gx.Cosine(), unbiased=True),
    "fd": gx.FrechetDistance(REFERENCE, ddof=1),
    "sum": gx.Vendi() + 0.3 * gx.Precision(REFERENCE) + gx.Quality(),
    "quality": gx.QualityVendi(),
    "coverage": gx.Coverage(REFERENCE, at=50),
}


@pytest.fixture
def shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[gx.Shards]:
    """Shards that are read in blocks of 30 rows."""
    monkeypatch.setattr(shards_module, "HELD_BYTES", 0)
    monkeypatch.setattr(shard_files, "BLOCK_VALUES", 150)
    monkeypatch.setattr(swaps, "RESTARTS", 0)
    monkeypatch.setattr(
        sample_losses, "DENSE_LIMIT", 0
    )  # the relaxation without a shifted diagonal
    with gx.streaming(folder=tmp_path / "cache"):
        yield gx.Shards(write_folder(tmp_path / "a", ROWS, quality=QUALITY))


@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_same_samples_and_the_same_bound(name: str, shards: gx.Shards) -> None:
    options: Any = {"tolerance": 1e-2, "seed": 1}
    expected = gx.keep(ROWS, 30, OBJECTIVES[name], quality=QUALITY, **options)
    found = gx.keep(shards, 30, OBJECTIVES[name], **options)
    np.testing.assert_array_equal(found.indices, expected.indices)
    assert found.score == pytest.approx(expected.score, rel=1e-10)
    assert found.loss_bound == pytest.approx(expected.loss_bound, rel=1e-10, abs=1e-10)
    assert (found.steps, found.directions) == (expected.steps, expected.directions)
    assert str(found) == str(expected)


def test_counts_of_groups(shards: gx.Shards) -> None:
    groups = ["even" if j % 2 == 0 else "odd" for j in range(200)]
    options: Any = {"groups": groups, "at_least": {"odd": 25}, "tolerance": 1e-2}
    found, expected = (gx.keep(x, 30, gx.Vendi(), **options) for x in (shards, ROWS))
    np.testing.assert_array_equal(found.indices, expected.indices)
    assert sum(j % 2 for j in found.indices) >= 25


@pytest.mark.parametrize("reference", [None, REFERENCE])
@pytest.mark.parametrize("least", [None, 0.3])
def test_baselines_and_fidelity(reference: Any, least: float | None, shards: gx.Shards) -> None:
    chosen = np.flatnonzero((least or 0.0) <= QUALITY)
    with ExitStack() as copies:
        twice = Batch(unpacked_rows(shards, copies), QUALITY), Batch(ROWS.astype(float), QUALITY)
        found, expected = (
            Baselines.of(batch, gx.Vendi(), 40, reference=reference).keep(chosen).as_dict()
            for batch in twice
        )
    for key in ("random_loss", "loss_bound", "loss"):
        assert found.pop(key) == pytest.approx(expected.pop(key), abs=1e-10)
    for key in ("random_scores", "scores", "all_scores", "bound", "gap", "measures"):
        mine, theirs = found.pop(key), expected.pop(key)
        assert _flat(mine) == pytest.approx(_flat(theirs), abs=1e-10), key
    assert found == expected


def _flat(value: Any, where: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {where: value}
    return {k: v for key, item in value.items() for k, v in _flat(item, f"{where}/{key}").items()}


def test_centers_of_many_samples_are_distinct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fidelity, "MANY_SAMPLES", 10)
    rows = np.repeat(ROWS[:60].astype(float), 2, axis=0)
    rows[0, 0], rows[1, 0] = 0.0, -0.0
    rows[0, 1:] = rows[1, 1:]
    found = fidelity.measure_fidelity(Batch(rows)).measures
    monkeypatch.setattr(fidelity, "MANY_SAMPLES", 10**6)
    expected = fidelity.measure_fidelity(Batch(rows)).measures
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], err_msg=name)


def copies_in(place: Path) -> list[Path]:
    return sorted(file for file in place.rglob("*") if file.is_file())


def test_copies_of_packed_files_exist_during_the_call_only(
    shards: gx.Shards, tmp_path: Path
) -> None:
    with ExitStack() as copies:
        rows = unpacked_rows(shards, copies)
        np.testing.assert_array_equal(rows[np.array([199, 3, 100]), :], ROWS[[199, 3, 100]])
        found = copies_in(tmp_path / "cache")
        assert len(found) == 3, "compressed, Parquet and Fortran order"
        assert np.load(found[0]).dtype == np.float32, "the precision in which they are stored"
    assert not copies_in(tmp_path / "cache")
    gx.keep(shards, 10, gx.Vendi(), tolerance=1e-1)
    gx.predict_keep(shards, 10, gx.Vendi(), more=10)
    assert not copies_in(tmp_path / "cache")


def test_one_call_leaves_the_copies_of_another_alone(shards: gx.Shards) -> None:
    with ExitStack() as copies:
        rows = unpacked_rows(shards, copies)
        with ExitStack() as others:
            unpacked_rows(shards, others)
        np.testing.assert_array_equal(rows[50:110, :], ROWS[50:110])


@pytest.mark.parametrize(
    "k, options, message",
    [
        (201, {}, "only 200 samples"),
        (5, {"at_least": 1}, "at_least needs groups"),
        (5, {"groups": [0] * 199, "at_least": 1}, "199 labels"),
    ],
)
def test_counts_are_checked_before_anything_is_copied(
    k: int, options: Any, message: str, shards: gx.Shards, tmp_path: Path
) -> None:
    with pytest.raises(gx.InputError, match=message):
        gx.keep(shards, k, gx.Vendi(), **options)
    assert not (tmp_path / "cache").exists()


def test_copies_of_killed_processes_are_removed(shards: gx.Shards, tmp_path: Path) -> None:
    script = f"""
import os, signal, genmix as gx
from genmix.data import shards
from genmix.offline import streamed_samples
shards.HELD_BYTES = 0
copy = streamed_samples._copy
def killed(*given):
    copy(*given)
    os.kill(os.getpid(), signal.SIGKILL)
streamed_samples._copy = killed
with gx.streaming(folder={str(tmp_path / "cache")!r}):
    gx.keep(gx.Shards({str(tmp_path / "a")!r}), 5, gx.Vendi())
"""
    subprocess.run([sys.executable, "-c", script], check=False)
    assert copies_in(tmp_path / "cache")
    gx.keep(shards, 10, gx.Vendi(), tolerance=1e-1)
    assert not copies_in(tmp_path / "cache")


def test_a_cache_that_cannot_be_written_is_one_sentence(
    shards: gx.Shards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("GENMIX_CACHE", str(tmp_path / "file"))
    with gx.streaming(), pytest.raises(gx.StorageError, match="set GENMIX_CACHE to another"):
        gx.keep(shards, 5, gx.Vendi())


def test_a_file_that_changes_is_not_copied(shards: gx.Shards, tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a" / "1.npz", features=ROWS[:150], quality=QUALITY[:150])
    with pytest.raises(gx.InputError, match=r"1\.npz changed while it was being read"):
        gx.keep(shards, 10, gx.Vendi())
    assert not copies_in(tmp_path / "cache")


def test_a_damaged_file_that_is_read_at_any_row_is_refused(
    tmp_path: Path, shards: gx.Shards
) -> None:
    rows = np.random.default_rng(0).normal(size=(2000, 5))  # more than zipfile reads at once
    np.savez(tmp_path / "b.npz", features=rows)
    data = bytearray((tmp_path / "b.npz").read_bytes())
    data[data.index(rows[-1].tobytes())] ^= 1
    (tmp_path / "b.npz").write_bytes(data)
    damaged = gx.Shards(tmp_path / "b.npz")
    with pytest.raises(gx.InputError, match=r"b\.npz is damaged; write it again"):
        gx.keep(damaged, 10, gx.Vendi())


def test_what_cannot_be_read_in_blocks_is_refused(shards: gx.Shards) -> None:
    for objective in (
        gx.RKE(),
        gx.Vendi(kernel=gx.Gaussian()),
        gx.Vendi() + gx.KernelDistance(REFERENCE),
    ):
        with pytest.raises(gx.InputError, match=r"exact kernel .* Gaussian\(features=512\)"):
            gx.keep(shards, 10, objective)
    with pytest.raises(gx.InputError, match="X, sample 0: the row is not a probability"):
        gx.keep(shards, 10, gx.InceptionScore())


def test_bad_samples_are_located(shards: gx.Shards, tmp_path: Path) -> None:
    bad = ROWS.copy()
    bad[155] = 0
    with pytest.raises(gx.InputError, match=r"X, sample 155: .*zero vector"):
        gx.keep(gx.Shards(write_folder(tmp_path / "bad", bad)), 10, gx.Vendi())
