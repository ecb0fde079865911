"""The sums of the newest rows are remembered, and forgotten when other rows make them incomplete."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.objectives import kernel_sums
from genmix.objectives.tally import Batch, Tally

RNG = np.random.default_rng(3)
REAL = RNG.normal(size=(30, 4))
OBJECTIVES = {
    "kd": gx.KernelDistance(REAL, gx.Gaussian(2.0)),
    "kd unbiased": gx.KernelDistance(REAL, gx.Gaussian(2.0), unbiased=True),
    "rke": gx.RKE(gx.Gaussian(2.0)),
}
ALPHA = np.array([0.3, 0.7])


def rows(n: int) -> Any:
    return RNG.normal(size=(n, 4))


def filled(objective: gx.Objective, arms: int = 2) -> Tally:
    tally = objective.tally(arms, REAL)
    for arm in range(arms):
        tally.add(arm, Batch(rows(8)))
    tally.flush()
    return tally


def plane(tally: Tally, batch: Batch) -> Any:
    return tally.sample_plane(tally.loss([0, 1]), [0, 1], ALPHA, batch)


def by_probe(tally: Any, batch: Batch) -> Any:
    """The plane as every other tally computes it: each sample is an arm of its own with weight 0."""
    return kernel_sums.PairTally.sample_plane(tally, tally.loss([0, 1]), [0, 1], ALPHA, batch)


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("few", [0, 64])  # 0: nothing is remembered
def test_the_plane_is_that_of_a_probe(name: str, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_sums, "FEW_ROWS", few)
    tally = filled(OBJECTIVES[name])
    new = [rows(3), rows(2)]
    for arm, each in enumerate(new):
        tally.add(arm, Batch(each))
    batch = Batch(np.concatenate(new[::-1]))  # in another order than added
    assert plane(tally, batch) == pytest.approx(by_probe(tally, batch), rel=1e-11, abs=1e-13)


def more_rows(tally: Tally) -> None:
    tally.add(0, Batch(rows(5)))


def many_rows(tally: Tally) -> None:
    tally.add(1, Batch(rows(kernel_sums.FEW_ROWS + 1)))


def merge(tally: Tally) -> None:
    tally.merge(filled(OBJECTIVES["kd"], arms=len(tally.counts)))


def grow(tally: Tally) -> None:
    tally.grow()
    tally.add(2, Batch(rows(2)))


@pytest.mark.parametrize("change", [more_rows, many_rows, merge, grow])
def test_rows_that_are_no_longer_the_newest_are_summed_again(change: Any) -> None:
    tally, batch = filled(OBJECTIVES["kd"]), Batch(rows(3))
    tally.add(0, batch)
    before = plane(tally, batch)
    change(tally)
    after = plane(tally, batch)
    assert after == pytest.approx(by_probe(tally, batch), rel=1e-11, abs=1e-13)
    if change is not grow:
        assert not np.allclose(after, before, rtol=1e-9)


def test_the_reference_is_read_once_for_new_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    tally, batch = filled(OBJECTIVES["kd"]), Batch(rows(3))
    tally.add(0, batch)
    tally.flush()
    read = []
    monkeypatch.setattr(kernel_sums, "sums_of_rows", lambda *given: read.append(given))
    plane(tally, batch)
    assert read == []
