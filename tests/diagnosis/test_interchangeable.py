"""Which arms are called interchangeable, and how far their weights can move."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import genmix as gx


def gaussians(seed: int, n: int = 60) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {"a": rng.normal(size=(n, 5)), "b": rng.normal(size=(n, 5)) + 1}


@pytest.mark.parametrize("seeds", [range(4), pytest.param(range(30), marks=pytest.mark.drill)])
def test_different_arms_are_told_apart(seeds: range) -> None:
    """Their scores differ by 4 standard errors or more, though one has nearly all weight."""
    mixes = [gx.optimal_mixture(gaussians(seed), gx.Vendi()) for seed in seeds]
    assert not any(mix.intervals(50).interchangeable for mix in mixes)


def test_identical_collapsed_arms_are_interchangeable() -> None:
    one = np.repeat(np.eye(4)[[0]], 50, axis=0)
    arms = {"a": one, "b": one.copy()}
    assert gx.optimal_mixture(arms, gx.Vendi()).intervals(50).weights["a"] == (0.0, 1.0)
    arms["c"] = np.eye(4)[np.random.default_rng(0).choice([1, 2], 50)]
    found = gx.optimal_mixture(arms, gx.Vendi()).intervals(50)
    assert found.interchangeable == (("a", "b"),)
    assert found.weights["a"][0] == 0.0
    assert found.weights["a"][1] == pytest.approx(found.together[0][1])


@pytest.mark.parametrize("mean_cost", [1.02, 1.4])
def test_the_intervals_respect_the_budget(mean_cost: float) -> None:
    rng = np.random.default_rng(1)
    arms = {name: rng.normal(size=(300, 4)) for name in "xy"}
    cost = {"x": np.full(300, 1.0), "y": np.full(300, 2.0)}
    mix = gx.optimal_mixture(arms, gx.Vendi(), cost=cost, mean_cost=mean_cost)
    found = mix.intervals(50)
    assert found.interchangeable == (("x", "y"),)
    assert found.weights["x"] == pytest.approx((2 - mean_cost, 1.0))
    assert found.weights["y"] == pytest.approx((0.0, mean_cost - 1))


@pytest.mark.parametrize(
    "limits",
    [
        {"at_most": {"b": 0.0}},
        {"at_least": {"a": 0.5}, "at_most": {"a": 0.5}},
        {"cost": {"a": np.ones(60), "b": np.full(60, 2.0)}, "mean_cost": 1.0},
    ],
)
def test_weights_that_cannot_move_are_not_interchangeable(limits: dict[str, Any]) -> None:
    arms = {"a": gaussians(0)["a"], "b": gaussians(1)["a"]}
    mix = gx.optimal_mixture(arms, gx.Vendi(), **limits)
    found = mix.intervals(50)
    assert found.interchangeable == ()
    for name, weight in mix.weights.items():
        assert found.weights[name] == pytest.approx((weight, weight), abs=1e-6)
