"""Feasible subsets: the best one, exchanges that stay feasible, and points inside of the polytope."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from genmix.solvers.subsets import Groups, Subsets


def family(rng: np.random.Generator) -> Subsets:
    """Up to nine samples in three groups, with counts that some subset satisfies."""
    size = int(rng.integers(4, 10))
    labels = np.concatenate([np.arange(3), rng.integers(0, 3, size - 3)])
    chosen = rng.choice(size, int(rng.integers(1, size)), replace=False)
    counts, sizes = np.bincount(labels[chosen], minlength=3), np.bincount(labels)
    low = rng.integers(0, counts + 1)
    high = rng.integers(counts, sizes + 1)
    return Subsets(size, len(chosen), Groups(labels, low, high))


def feasible(subsets: Subsets) -> list[np.ndarray]:
    every = itertools.combinations(range(subsets.size), subsets.count)
    return [np.array(s) for s in every if subsets.contains(np.array(s))]


@pytest.mark.parametrize("seed", range(30))
def test_the_best_subset_equals_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    subsets = family(rng)
    costs = rng.standard_normal(subsets.size)
    best = min(float(costs[s].mean()) for s in feasible(subsets))
    assert subsets.minimum(costs) == pytest.approx(best)
    assert subsets.contains(subsets.best(costs))


@pytest.mark.parametrize("seed", range(30))
def test_some_exchanges_lead_to_a_feasible_subset_and_all_to_the_best_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    subsets = family(rng)
    costs, inside = rng.standard_normal(subsets.size), subsets.sample(rng)
    out, new = subsets.exchanges(inside, costs)
    for count in range(len(out) + 1):
        moved = np.union1d(np.setdiff1d(inside, out[:count]), new[:count])
        assert len(moved) == subsets.count
        assert subsets.contains(moved)
    assert np.array_equal(moved, subsets.best(costs))


@pytest.mark.parametrize("seed", range(30))
def test_single_exchanges_are_all_the_feasible_ones(seed: int) -> None:
    rng = np.random.default_rng(seed)
    subsets = family(rng)
    inside = subsets.sample(rng)
    for out in inside.tolist():
        rest = np.setdiff1d(inside, [out])
        allowed = [
            j not in inside and subsets.contains(np.append(rest, j)) for j in range(subsets.size)
        ]
        assert subsets.can_exchange(inside, out).tolist() == allowed


@pytest.mark.parametrize("seed", range(30))
def test_adding_allowed_samples_always_completes_a_subset(seed: int) -> None:
    rng = np.random.default_rng(seed)
    subsets = family(rng)
    chosen = np.empty(0, dtype=np.int64)
    while len(chosen) < subsets.count:
        allowed = np.flatnonzero(subsets.can_add(chosen))
        chosen = np.append(chosen, rng.choice(allowed))
    assert subsets.contains(chosen)


@pytest.mark.parametrize("seed", range(30))
def test_the_center_is_inside_the_polytope(seed: int) -> None:
    subsets = family(np.random.default_rng(seed))
    center, groups = subsets.center, subsets.groups
    assert groups is not None
    counts = subsets.count * np.bincount(groups.labels, weights=center)
    assert center.sum() == pytest.approx(1)
    assert center.max() <= 1 / subsets.count + 1e-12
    assert np.all(counts >= groups.low - 1e-9)
    assert np.all(counts <= groups.high + 1e-9)


def test_without_groups_the_smallest_costs_are_best() -> None:
    assert Subsets(5, 2).best(np.array([3.0, 1.0, 2.0, 5.0, 4.0])).tolist() == [1, 2]
    assert Subsets(3, 3).best(np.zeros(3)).tolist() == [0, 1, 2]
