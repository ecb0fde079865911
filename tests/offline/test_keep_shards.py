"""Keeping the best samples of shards chooses the same samples as in memory, with the same bound."""

from __future__ import annotations

from collections.abc import Iterator
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
from genmix.offline.streamed_samples import remove_copies, unpacked_rows
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
    twice = Batch(unpacked_rows(shards), QUALITY), Batch(ROWS.astype(float), QUALITY)
    chosen = np.flatnonzero((least or 0.0) <= QUALITY)
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


def test_copies_of_packed_files_are_used_again_and_removed(
    shards: gx.Shards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = unpacked_rows(shards)
    np.testing.assert_array_equal(rows[np.array([199, 3, 100]), :], ROWS[[199, 3, 100]])
    copies = sorted((tmp_path / "cache" / "unpacked").iterdir())
    assert len(copies) == 3, "compressed, Parquet and Fortran order"
    assert np.load(copies[0]).dtype == np.float32, "the precision in which they are stored"
    times = [file.stat().st_mtime_ns for file in copies]
    unpacked_rows(shards)
    assert [file.stat().st_mtime_ns for file in copies] == times
    remove_copies(shards)
    assert not any(file.exists() for file in copies)


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
