"""Vendi of small order: the gap covers eigenvalues at rounding level, judged with mpmath."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest

import genmix as gx

mp.mp.dps = 60


def gaussian(points: Any, sigma: float) -> Any:
    rows = [[mp.mpf(float(value)) for value in point] for point in points]
    scale = 2 * mp.mpf(sigma) ** 2
    return [
        [mp.exp(-sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) / scale) for y in rows]
        for x in rows
    ]


def cosine(points: Any, sigma: float) -> Any:
    rows = [[mp.mpf(float(value)) for value in point] for point in points]
    units = [[a / mp.sqrt(sum(b * b for b in x)) for a in x] for x in rows]
    return [[sum(a * b for a, b in zip(x, y, strict=True)) for y in units] for x in units]


def true_loss(gram: Any, counts: tuple[int, int], order: float, alpha: Any) -> Any:
    shares = (alpha, 1 - alpha)
    roots = [mp.sqrt(s / n) for s, n in zip(shares, counts, strict=True) for _ in range(n)]
    size = len(roots)
    moment = mp.matrix(size, size)
    for i in range(size):
        for j in range(size):
            moment[i, j] = roots[i] * roots[j] * gram[i][j]
    values = mp.eigsy(moment, eigvals_only=True)
    q = mp.mpf(order)
    return (sum(v**q for v in values if v > mp.mpf(10) ** -50) - 1) / (q - 1)


def true_minimum(loss: Callable[[Any], Any], steps: int) -> Any:
    """Golden-section search; the loss is convex in the weight of the first arm."""
    ratio = (mp.sqrt(5) - 1) / 2
    low, high = mp.mpf(0), mp.mpf(1)
    left, right = high - ratio, low + ratio
    at_left, at_right = loss(left), loss(right)
    for _ in range(steps):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = loss(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = loss(right)
    return min(at_left, at_right, loss(mp.mpf(0)), loss(mp.mpf(1)))


def excess(mix: gx.Mixture, gram: Any, counts: tuple[int, int], order: float, steps: int) -> float:
    """How far the true loss of the mixture is above the true minimum."""

    def loss(alpha: Any) -> Any:
        return true_loss(gram, counts, order, alpha)

    return float(loss(mp.mpf(mix.weights["x"])) - true_minimum(loss, steps))


def test_eigenvalues_below_rounding_level_are_part_of_the_gap() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(12, 1)), rng.normal(size=(12, 1)) * 1.5 + 0.5
    mix = gx.optimal_mixture({"x": x, "y": y}, gx.Vendi(0.3, kernel=gx.Gaussian(2.0)))
    gram = gaussian(np.concatenate([x, y]), 2.0)

    def loss(alpha: Any) -> Any:
        return true_loss(gram, (12, 12), 0.3, alpha)

    # The minimum is at this weight of x, found by a search with 45 steps.
    lost = float(loss(mp.mpf(mix.weights["x"])) - loss(mp.mpf("3.761842417e-6")))
    assert lost > 1e-6
    assert lost <= mix.gap < 5e-3
    assert mix.leave_one_out["x"] <= mix.gap
    assert mix.leave_one_out["y"] > mix.gap


@pytest.mark.parametrize("seeds", [(9, 11), pytest.param(range(100, 220), marks=pytest.mark.long)])
def test_the_gap_of_small_orders_holds_in_random_worlds(seeds: Any) -> None:
    for seed in seeds:
        rng = np.random.default_rng(seed)
        order = float(rng.choice([0.1, 0.2, 0.3, 0.4, 0.5]))
        counts = (int(rng.integers(2, 6)), int(rng.integers(2, 6)))
        d, sigma = int(rng.choice([1, 2])), float(rng.choice([0.5, 2, 10]))
        x, y = (rng.normal(size=(n, d)) * s for n, s in zip(counts, (1.0, 1.5), strict=True))
        mix = gx.optimal_mixture({"x": x, "y": y}, gx.Vendi(order, kernel=gx.Gaussian(sigma)))
        gram = gaussian(np.concatenate([x, y]), sigma)
        assert excess(mix, gram, counts, order, 22) <= mix.gap + 1e-15


@pytest.mark.parametrize("seeds", [(0,), pytest.param(range(1, 120), marks=pytest.mark.long)])
def test_near_duplicates_are_part_of_the_gap(seeds: Any) -> None:
    """Rows that differ by rounding errors have singular values that floats cannot tell from zero."""
    for seed in seeds:
        rng = np.random.default_rng(seed)
        order, d = float(rng.choice([0.1, 0.3])), int(rng.choice([2, 3, 20]))
        x = rng.normal(size=(3, d))
        y = np.concatenate([x[:1] * 2.7, x[1:] * (1 + 1e-15) + 1e-16, rng.normal(size=(1, d))])
        mix = gx.optimal_mixture({"x": x, "y": y}, gx.Vendi(order))
        gram = cosine(np.concatenate([x, y]), 0.0)
        assert excess(mix, gram, (3, 4), order, 22) <= mix.gap + 1e-13


def test_a_well_conditioned_kernel_keeps_a_small_gap() -> None:
    rng = np.random.default_rng(1)
    arms = {"x": rng.normal(size=(20, 8)), "y": 2 * rng.normal(size=(20, 8))}
    for order in (0.1, 0.3, 0.5, 1.0, 2.0):
        mix = gx.optimal_mixture(arms, gx.Vendi(order, kernel=gx.Gaussian(1.0)))
        assert mix.gap < 1e-8 * max(1.0, abs(mix.loss))
