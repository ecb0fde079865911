"""The best mixture of existing samples under limits on the weights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import genmix as gx

ARMS = {"a": np.eye(6)[:3], "b": np.eye(6)[3:5], "c": np.eye(6)[5:]}
COST = {"a": 0.004, "b": [0.001, 0.003], "c": 0.0005}


def best(**limits: Any) -> gx.Mixture:
    return gx.optimal_mixture(ARMS, gx.Vendi(), cost=COST, **limits)


def test_bounds_are_kept_and_named() -> None:
    mix = best(at_least={"c": 0.4}, at_most={"a": 0.3})
    # what remains is split in proportion to the number of directions, 3 : 2, so a gets its 0.3
    assert mix.weights == pytest.approx({"a": 0.3, "b": 0.3, "c": 0.4}, abs=1e-6)
    assert mix.binding == ("at_most a", "at_least c")
    assert mix.price_of_money is None
    assert "limits reached: at_most a, at_least c" in str(mix)


def test_the_price_of_money_is_the_slope_of_the_loss() -> None:
    limit, step = 0.0018, 1e-7
    mix = best(mean_cost=limit)
    slope = (best(mean_cost=limit - step).loss - best(mean_cost=limit + step).loss) / (2 * step)
    assert mix.binding == ("mean_cost",)
    assert mix.price_of_money == pytest.approx(slope, rel=1e-2)
    spent = 0.004 * mix.weights["a"] + 0.002 * mix.weights["b"] + 0.0005 * mix.weights["c"]
    assert spent == pytest.approx(limit, abs=1e-12)
    assert spent <= limit * (1 + 1e-9)


def test_enough_money_changes_nothing() -> None:
    free, rich = gx.optimal_mixture(ARMS, gx.Vendi()), best(mean_cost=1.0)
    assert rich.weights == pytest.approx(free.weights, abs=1e-6)
    assert rich.price_of_money == 0
    assert rich.binding == ()
    assert free.price_of_money is None
    assert free.region is None


def test_leave_one_out_respects_the_limits() -> None:
    mix = best(at_least={"c": 0.1}, at_most={"a": 0.6})
    assert mix.leave_one_out["c"] == math.inf
    assert mix.without("c") is None
    found = mix.without("b")
    assert found is not None
    assert found.weights == pytest.approx([0.6, 0.4], abs=1e-6)
    both = best(at_most={"a": 0.6, "b": 0.3})
    assert both.without("c") is None  # a and b may have 0.9 together


def test_losses_that_are_not_convex_are_solved_in_the_region() -> None:
    rng = np.random.default_rng(0)
    arms = {name: rng.standard_normal((4, 3)) for name in "abc"}
    objective = gx.KernelDistance(rng.standard_normal((20, 3)), unbiased=True)
    mix = gx.optimal_mixture(arms, objective, at_least={"a": 0.2, "b": 0.2, "c": 0.2})
    assert min(mix.weights.values()) >= 0.2
    assert np.isfinite(mix.gap)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (
            {"mean_cost": 0.001, "at_least": {"a": 0.5}},
            "mean_cost is 0.001, but the cheapest weights that at_least and at_most allow cost 0.00225; "
            "raise it to at least that.",
        ),
        ({"mean_cost": 0.0001}, "but the cheapest weights cost 0.0005; raise it to at least that."),
        ({"at_least": {"a": 0.6, "b": 0.6}}, "at_least adds up to 1.2; lower it to at most 1."),
        ({"at_most": {"z": 0.6}}, "at_most names an unknown arm 'z'; use a, b, c."),
        ({"mean_cost": "x"}, "mean_cost is 'x'; pass a number of at least 0."),
    ],
)
def test_impossible_limits_are_refused_with_the_nearest_value(limits: Any, message: str) -> None:
    with pytest.raises(gx.InputError, match=message):
        best(**limits)


def test_the_nearest_value_is_feasible_as_printed() -> None:
    cost = {"a": 1.0, "b": 1 / 3, "c": 2 / 3}
    with pytest.raises(gx.InputError) as caught:
        gx.optimal_mixture(ARMS, gx.Vendi(), cost=cost, mean_cost=0.1, at_most={"b": 0.7})
    words = str(caught.value).split()
    nearest = float(words[words.index("cost") + 1].rstrip(";"))
    gx.optimal_mixture(ARMS, gx.Vendi(), cost=cost, mean_cost=nearest, at_most={"b": 0.7})


def test_a_mean_cost_needs_every_cost() -> None:
    with pytest.raises(
        gx.InputError, match=r"mean_cost needs the cost of every arm, but arm 'a' has"
    ):
        gx.optimal_mixture(ARMS, gx.Vendi(), mean_cost=1.0)
    with pytest.raises(gx.InputError, match=r"but arm 'b' has none; pass it in cost="):
        gx.optimal_mixture(ARMS, gx.Vendi(), cost={"a": 1.0, "c": 1.0}, mean_cost=1.0)


def test_other_solvers_are_refused() -> None:
    with pytest.raises(gx.InputError, match="EG solves only over the whole simplex; use Newton"):
        best(at_least={"a": 0.2}, solver=gx.EG())
