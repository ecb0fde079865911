"""The warning that keeping hurt fidelity: silent where nothing can hurt, and heard where it does."""

from __future__ import annotations

import numpy as np
import pytest

import genmix as gx
from genmix.objectives import Batch
from genmix.offline.fidelity import Fidelity, measure_fidelity
from genmix.offline.keeping import Baselines
from tests.support.helpers import Matrix

WORLDS = 20


def world(seed: int) -> tuple[Batch, int, np.random.Generator]:
    """Clusters of samples with qualities and costs that have nothing to do with them."""
    rng = np.random.default_rng([seed, 16])
    n, d = int(rng.integers(60, 300)), int(rng.integers(2, 20))
    centers = rng.standard_normal((5, d))
    rows = (
        centers[rng.integers(0, 5, n)] + rng.standard_normal((n, d)) * np.arange(1, d + 1) ** -0.5
    )
    batch = Batch(rows, quality=rng.beta(5, 1, n), cost=rng.random(n))
    return batch, int(rng.integers(5, n // 2)), rng


def has_warning(fidelity: Fidelity, indices: Matrix) -> bool:
    return any(change.is_fall for change in fidelity.changes(indices))


def rate(values: Matrix, k: int, repetitions: int) -> float:
    """How often random sets of k samples cause a warning."""
    rng = np.random.default_rng(1)
    fidelity = Fidelity({"quality": values}, "")
    found = [has_warning(fidelity, rng.permutation(len(values))[:k]) for _ in range(repetitions)]
    return float(np.mean(found))


def test_a_random_choice_rarely_warns() -> None:
    found = []
    for seed in range(WORLDS):
        batch, k, rng = world(seed)
        fidelity = measure_fidelity(batch)
        found += [has_warning(fidelity, rng.permutation(len(batch))[:k]) for _ in range(10)]
    assert np.mean(found) <= 0.05


def test_an_objective_that_has_nothing_to_do_with_fidelity_rarely_warns() -> None:
    found = []
    for seed in range(WORLDS):
        batch, k, _ = world(seed)
        found.append(bool(Baselines.of(batch, gx.Cost(), k).keep(np.arange(len(batch))).warnings))
    assert np.mean(found) <= 0.05


@pytest.mark.parametrize(("bad", "k"), [(5, 10), (9, 10), (5, 18), (30, 10), (1, 90), (60, 50)])
def test_a_rare_bad_sample_in_a_random_set_rarely_warns(bad: int, k: int) -> None:
    values = np.ones(1000)
    values[:bad] = 0
    assert rate(values, k, 500) <= 0.03


@pytest.mark.parametrize("k", [5, 20, 100])
def test_a_few_extreme_qualities_rarely_warn(k: int) -> None:
    assert rate(-np.random.default_rng(0).lognormal(0, 1.5, 1000), k, 500) <= 0.03


@pytest.mark.parametrize("value", [0.1, 1 / 3, -0.7, 1e9 / 7])
def test_equal_qualities_never_warn(value: float) -> None:
    fidelity = Fidelity({"quality": np.full(200, value)}, "")
    for k in range(1, 200):
        assert not has_warning(fidelity, np.arange(k))


def test_a_real_fall_warns() -> None:
    values = np.ones(1000)
    values[:100] = 0
    fidelity = Fidelity({"precision": values}, "")
    assert has_warning(fidelity, np.arange(92, 112))  # 8 bad ones of 20, where 2 are expected
    assert not has_warning(fidelity, np.arange(96, 116))
    assert has_warning(fidelity, np.arange(3))
