"""Losses of weighted samples: planes lie below the loss, and derivatives and updates are consistent."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from genmix.objectives import Batch
from genmix.offline import spectral_samples
from genmix.offline.sample_losses import sample_loss
from genmix.offline.spectral_samples import EntropySamples
from genmix.solvers.sample_loss import SampleLoss, combine
from genmix.solvers.subsets import Subsets
from tests.support.keep_judges import JUDGES, make_case

NOT_DIFFERENTIABLE = {"vendi_infinity", "coverage", "sum_of_distances"}

SHARP = 1e-9
"""A smoothing so small that the smoothed loss equals the loss."""


def loss_of(name: str, seed: int = 0) -> tuple[SampleLoss, int]:
    case, k = make_case(name, seed, 9)
    objective = JUDGES[name][0](case.reference)
    batch = Batch(case.X, case.quality, case.cost)
    return sample_loss(objective, batch, Subsets(len(batch), k)).loss, k


def weights(rng: np.random.Generator, size: int) -> Any:
    return rng.dirichlet(np.full(size, rng.choice([0.2, 1.0, 5.0])))


@pytest.mark.parametrize("name", JUDGES)
def test_planes_touch_the_loss_and_lie_below_it_everywhere(name: str) -> None:
    loss, _ = loss_of(name)
    rng = np.random.default_rng(1)
    for floor in (0.0, 1e-4):
        here = weights(rng, loss.size)
        found = loss.expand(loss.moment(here), SHARP, floor)
        if floor == 0:
            value = loss.value(loss.moment(here))
            assert found.plane @ here == pytest.approx(value, abs=1e-6 * max(1, abs(value)))
        for _ in range(20):
            there = weights(rng, loss.size)
            below = loss.value(loss.moment(there)) + found.noise + 1e-12
            assert found.plane @ there <= below


@pytest.mark.parametrize("name", sorted(set(JUDGES) - NOT_DIFFERENTIABLE))
def test_curvature_equals_second_differences(name: str) -> None:
    loss, _ = loss_of(name)
    rng = np.random.default_rng(2)
    at, to = (loss.moment(rng.dirichlet(np.full(loss.size, 5.0))) for _ in range(2))
    direction = combine(1.0, to, -1.0, at)
    step = 1e-3
    values = [loss.value(combine(1.0, at, x, direction)) for x in (-step, 0.0, step)]
    expected = (values[0] - 2 * values[1] + values[2]) / step**2
    found = loss.expand(at).curvature(direction)
    assert found == pytest.approx(expected, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("name", JUDGES)
def test_adding_a_sample_changes_the_loss_as_predicted(name: str) -> None:
    loss, k = loss_of(name, seed=4)
    inside, rest = np.arange(k - 1), np.arange(k - 1, loss.size)
    at = loss.moment(np.full(k - 1, 1 / k), inside)
    expected = [loss.value(loss.subset(np.append(inside, j))) for j in rest]
    assert loss.after_adding(at, 1 / k, rest) == pytest.approx(np.array(expected), abs=1e-7)


@pytest.mark.parametrize("name", JUDGES)
def test_no_subset_is_below_the_trivial_bound(name: str) -> None:
    loss, k = loss_of(name)
    case, _ = make_case(name, 0, 9)
    assert all(loss.lowest <= loss.value(loss.subset(each)) + 1e-12 for each in case.subsets(k))


def test_adding_one_of_many_samples_needs_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(5).normal(size=(50_000, 4))
    loss = EntropySamples(rows / np.linalg.norm(rows, axis=1, keepdims=True), 10)
    inside, rest = np.arange(9), np.arange(9, len(rows))
    at = loss.moment(np.full(9, 0.1), inside)
    expected = loss.after_adding(at, 0.1, rest)
    monkeypatch.setattr(spectral_samples, "BLOCK_VALUES", 2**14)
    tracemalloc.start()
    found = loss.after_adding(at, 0.1, rest)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * len(rows), "a few vectors, not one number for each point of the integral"
    np.testing.assert_allclose(found, expected, atol=1e-13)
