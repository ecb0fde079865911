"""The best mixture of every group, from samples that already exist."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import genmix as gx


def world(seed: int, n: int = 8) -> dict[str, dict[str, Any]]:
    rng = np.random.default_rng(seed)
    return {
        group: {arm: rng.standard_normal((n, 6)) + 2 * rng.standard_normal(6) for arm in "abc"}
        for group in ("x", "y")
    }


def test_a_mixture_per_group_is_at_least_as_good_as_one_for_all() -> None:
    for seed in range(5):
        for pooling in (0, 3, 30):
            mix = gx.optimal_mixture(world(seed), gx.Vendi(), pooling=pooling)
            one = mix.one_for_all
            assert mix.loss <= one.loss + mix.gap + 1e-12
            assert sum(one.weights.values()) == pytest.approx(1)
            assert mix.gap < 1e-6
            assert mix.groups == {"x": 0.5, "y": 0.5}
            for row in mix.weights_by_group.values():
                assert sum(row.values()) == pytest.approx(1, abs=1e-12)


def test_strong_pooling_approaches_one_mixture_of_all_samples() -> None:
    arms = world(1)
    joined = {arm: np.vstack([arms[g][arm] for g in arms]) for arm in "abc"}
    plain = gx.optimal_mixture(joined, gx.Vendi())
    mix = gx.optimal_mixture(arms, gx.Vendi(), pooling=1e9)
    assert mix.weights == pytest.approx(plain.weights, abs=1e-4)
    assert mix.score == pytest.approx(plain.score, rel=1e-6)


def test_a_cell_without_samples_counts_as_its_arm() -> None:
    arms = world(2)
    del arms["y"]["c"]
    mix = gx.optimal_mixture(arms, gx.Vendi(), groups={"x": 0.4, "y": 0.6}, pooling=3)
    assert mix.weights_by_group["y"]["c"] > 0
    assert mix.gap < 1e-6
    assert set(mix.score_by_group) == {"x", "y"}
    with pytest.raises(gx.InputError, match="arm 'c' has no samples in group 'y'"):
        gx.optimal_mixture(arms, gx.Vendi(), pooling=0)


def test_leave_one_out_and_limits_concern_the_arm_in_all_groups() -> None:
    arms = world(3)
    cost = {g: {"a": 3.0, "b": 1.0, "c": 1.0} for g in arms}
    mix = gx.optimal_mixture(
        arms, gx.Vendi(), cost=cost, mean_cost=1.2, at_least={"b": 0.45}, pooling=0
    )
    assert mix.weights["a"] <= 0.1 + 1e-9
    assert mix.weights["b"] >= 0.45 - 1e-9
    assert "mean_cost" in mix.binding
    assert mix.price_of_money is not None
    assert mix.price_of_money > 0
    assert 3 * mix.one_for_all.weights["a"] + 1 - mix.one_for_all.weights["a"] - 1e-9 <= 1.2
    free = gx.optimal_mixture(arms, gx.Vendi(), pooling=0)
    rest = {g: {a: x for a, x in row.items() if a != "a"} for g, row in arms.items()}
    without = gx.optimal_mixture(rest, gx.Vendi(), pooling=0)
    assert free.leave_one_out["a"] == pytest.approx(without.loss - free.loss, abs=1e-6)
    assert "by group:" in str(free)


def test_sums_of_objectives_and_quality_by_group() -> None:
    arms = world(4)
    quality = {g: dict.fromkeys("abc", 0.5) for g in arms}
    mix = gx.optimal_mixture(arms, gx.Vendi() + 0.1 * gx.Quality(), quality, pooling=3)
    assert isinstance(mix.score, dict)
    assert mix.score["quality"] == pytest.approx(0.5)
    assert isinstance(mix.one_for_all.score, dict)
    mix = gx.optimal_mixture(arms, gx.QualityVendi(), quality, pooling=3)
    assert mix.gap < 1e-6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": {"x": 1.0}}, "pass a map from x, y to their shares"),
        ({"groups": {"x": 0.2, "y": 0.2}}, "add up to 0.4"),
        ({"pooling": -1}, "pooling is -1"),
        ({"pooling": math.inf}, "all groups have the same mixture"),
    ],
)
def test_invalid_groups_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(gx.InputError, match=message):
        gx.optimal_mixture(world(0), gx.Vendi(), **options)
    with pytest.raises(gx.InputError, match="need samples by group"):
        gx.optimal_mixture(world(0)["x"], gx.Vendi(), **options)


def test_intervals_are_refused() -> None:
    with pytest.raises(gx.InputError, match="not available"):
        gx.optimal_mixture(world(0), gx.Vendi()).intervals()
