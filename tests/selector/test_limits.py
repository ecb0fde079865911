"""A selector whose weights are bounded, and whose mean cost can change while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.solvers.solve import certify
from tests.support.regions import conditions

COSTS = {"a": 3.0, "b": 1.0, "c": 0.5}
DIRECTIONS = {"a": 8, "b": 4, "c": 2}
POLICIES = [gx.MixtureUCBV(), gx.MixtureGreedy(), gx.MixtureUCB(), gx.MixtureBonus()]


def sample(arm: str, number: int) -> Any:
    rng = np.random.default_rng([number, ord(arm)])
    row = 0.05 * rng.standard_normal(8)
    row[rng.integers(DIRECTIONS[arm])] += 1
    return row, COSTS[arm] * rng.uniform(0.9, 1.1)


def advance(selector: gx.Selector, steps: int) -> gx.Selector:
    for _ in range(steps):
        (ticket,) = selector.ask()
        row, cost = sample(ticket.arm, ticket.id)
        selector.tell(ticket, row, cost=cost)
    return selector


def limited(policy: gx.Policy | None = None, **limits: Any) -> gx.Selector:
    return gx.Selector(list(COSTS), gx.Vendi(), policy, warm_start=4, seed=0, **limits)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
@pytest.mark.parametrize(
    "limits",
    [
        {"at_least": {"c": 0.3}, "at_most": {"a": 0.2}},
        {"mean_cost": 1.2},
        {"at_least": {"c": 0.3}, "mean_cost": 1.0},
    ],
    ids=["bounds", "cost", "both"],
)
def test_weights_and_targets_stay_in_the_region(policy: gx.Policy, limits: Any) -> None:
    selector = advance(limited(policy, **limits), 60)
    region = selector.region
    assert region is not None
    for weights in (selector.weights, selector.targets, selector.mixture):
        assert region.contains(list(weights.values()))
        assert weights["c"] >= limits.get("at_least", {}).get("c", 0.0)
        assert weights["a"] <= limits.get("at_most", {}).get("a", 1.0)
    if "mean_cost" in limits:
        known = [selector.mean_costs[arm] for arm in selector.arms]
        spent = float(np.dot(known, list(selector.targets.values())))
        assert spent <= limits["mean_cost"] + 0.05  # the costs told since the last solve moved it
        assert selector.price_of_money is not None
    else:
        assert selector.price_of_money is None


def test_the_mixture_is_the_certified_best_for_the_row_that_was_used() -> None:
    import cvxpy as cp

    arms = ["a", "b", "c"]
    selector = gx.Selector(
        arms, gx.RKE(gx.Cosine()), gx.MixtureGreedy(), warm_start=4, mean_cost=1.1, resolve_growth=0
    )
    for step in range(40):
        selector.plan(mean_cost=1.0 + 0.02 * step)
        advance(selector, 1)
        if not selector.is_warm:
            continue
        region, loss = selector.region, selector._learner.loss
        assert region is not None
        x = cp.Variable(3)
        form = cp.quad_form(x, cp.psd_wrap(loss.matrix))
        problem = cp.Problem(cp.Minimize(form), conditions(region, x))
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
        found = loss.value(np.array(list(selector.mixture.values())))
        assert found == pytest.approx(problem.value, abs=1e-7)
        assert found - problem.value <= selector.gap + 1e-9


def test_a_plan_takes_effect_at_the_next_solve_and_never_solves_itself() -> None:
    selector = advance(limited(gx.MixtureGreedy(), mean_cost=2.0, resolve_growth=0.5), 40)
    before, price = selector.weights, selector.price_of_money
    selector.plan(mean_cost=0.9)
    assert (selector.weights, selector.price_of_money) == (before, price)
    assert selector.mean_cost == 0.9
    advance(selector, 40)
    assert selector.region is not None
    assert selector.region.limits.tolist() == [0.9]
    assert selector.weights["a"] < before["a"]
    selector.plan(mean_cost=None)
    advance(selector, 80)
    assert selector.region is None
    assert selector.price_of_money is None


def test_the_price_of_money_is_zero_if_there_is_enough() -> None:
    selector = advance(limited(gx.MixtureGreedy(), mean_cost=50.0), 40)
    assert selector.price_of_money == 0


def test_too_little_money_buys_the_cheapest_weights() -> None:
    selector = advance(limited(gx.MixtureGreedy(), mean_cost=0.01, at_least={"b": 0.2}), 40)
    assert selector.weights == pytest.approx({"a": 0.0, "b": 0.2, "c": 0.8}, abs=1e-9)
    assert selector.price_of_money is None


def test_told_costs_replace_prices() -> None:
    selector = limited(mean_cost=2.0, prices={"a": 9.0, "b": 9.0, "c": 9.0})
    assert selector.mean_costs == {"a": 9.0, "b": 9.0, "c": 9.0}
    (ticket,) = selector.ask()
    selector.tell(ticket, sample("a", 0)[0], cost=4.0)
    assert selector.mean_costs == {"a": 4.0, "b": 9.0, "c": 9.0}


def test_samples_without_a_cost_are_refused_only_if_it_is_needed() -> None:
    selector = limited(mean_cost=2.0, prices={"b": 1.0})
    first, second = selector.ask(2)
    with pytest.raises(gx.InputError, match=r"mean_cost needs the cost of each sample; pass cost="):
        selector.tell(first, sample("a", 0)[0])
    assert selector.counts["a"] == 0
    selector.tell(second, sample("b", 0)[0])
    free = limited()
    (ticket,) = free.ask()
    free.tell(ticket, sample("a", 0)[0])
    with pytest.raises(gx.InputError, match=r"the cost of arm 'a' is unknown; pass its price"):
        free.plan(mean_cost=1.0)
    free.plan(mean_cost=1.0, prices={"a": 2.0})
    assert free.mean_cost == 1.0


# --- saving ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [gx.MixtureUCBV(), gx.MixtureGreedy()])
def test_a_saved_selector_continues_bit_for_bit(policy: gx.Policy, tmp_path: Path) -> None:
    limits = {"at_least": {"c": 0.1}, "mean_cost": 1.4, "prices": {"a": 3.0}}
    whole, stopped = limited(policy, **limits), limited(policy, **limits)
    advance(whole, 20)
    advance(stopped, 20).save(tmp_path / "selector.npz")
    again = gx.Selector.load(tmp_path / "selector.npz")
    assert (again.price_of_money, again.gap) == (stopped.price_of_money, stopped.gap)
    assert again.mean_costs == stopped.mean_costs
    for each in (whole, again):
        each.plan(1.1)
        advance(each, 20)
    assert again.weights == whole.weights
    assert again.targets == whole.targets
    assert again.counts == whole.counts
    assert again.region is not None
    assert whole.region is not None
    assert np.array_equal(again.region.rows, whole.region.rows)


def test_reading_changes_nothing() -> None:
    quiet, read = limited(mean_cost=1.4), limited(mean_cost=1.4)
    advance(quiet, 30)
    for _ in range(30):
        advance(read, 1)
        assert read.price_of_money is None or read.price_of_money >= 0
        assert read.gap >= 0
    assert read.weights == quiet.weights
    assert read.targets == quiet.targets


def test_states_without_limits_load() -> None:
    state = advance(limited(), 30).state_dict()
    for key in ("limits", "spent", "region", "price"):
        del state[key]
    again = gx.Selector.from_state_dict(state)
    assert again.region is None
    assert again.mean_costs == {"a": None, "b": None, "c": None}
    advance(again, 10)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("limits", {"at_least": {"z": 0.1}, "at_most": {}, "mean_cost": None, "prices": {}}),
        ("spent", {"a": [-1, 2.0]}),
        ("spent", {"a": [1, float("nan")]}),
        ("region", {"lo": np.zeros(2), "hi": np.ones(2), "rows": np.zeros((0, 2)), "limits": []}),
    ],
)
def test_damaged_limits_get_a_sentence(key: str, value: Any) -> None:
    state = advance(limited(mean_cost=2.0), 20).state_dict() | {key: value}
    with pytest.raises(gx.InputError):
        gx.Selector.from_state_dict(state)


# --- arms that come and go ------------------------------------------------------------------------


def test_a_retired_arm_has_no_bounds_and_the_others_stay_feasible() -> None:
    selector = limited(gx.MixtureGreedy(), at_least={"c": 0.3}, at_most={"a": 0.3, "b": 0.3})
    advance(selector, 30)
    assert selector.weights["c"] >= 0.4 - 1e-12
    selector.retire_arm("c")
    assert selector.weights == pytest.approx({"a": 0.5, "b": 0.5})
    advance(selector, 10)
    selector.add_arm("c")
    advance(selector, 10)
    assert selector.weights["c"] >= 0.4 - 1e-12


def test_a_new_arm_is_not_bounded() -> None:
    selector = limited(gx.MixtureGreedy(), at_most={"a": 0.5}, mean_cost=1.5)
    advance(selector, 20)
    COSTS["d"], DIRECTIONS["d"] = 1.0, 6
    try:
        selector.add_arm("d")
        advance(selector, 40)
    finally:
        del COSTS["d"], DIRECTIONS["d"]
    assert selector.region is not None
    assert selector.region.contains(list(selector.weights.values()))
    assert selector.weights["d"] > 0.1


def test_the_warm_start_is_even_whatever_the_limits() -> None:
    plain, bounded = limited(), limited(at_most={"a": 0.1}, mean_cost=0.6)
    assert [t.arm for t in plain.ask(12)] == [t.arm for t in bounded.ask(12)]


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy",
    [
        gx.Uniform(),
        gx.Fixed({"a": 1.0}),
        gx.MixtureOracle({"a": 1.0}),
        gx.OneArmOracle("a"),
        gx.OneArmGreedy(),
        gx.OneArmUCB(),
        gx.EpsilonGreedy(),
        gx.MixtureOGD(),
    ],
    ids=lambda policy: type(policy).__name__,
)
def test_policies_that_do_not_solve_are_refused(policy: gx.Policy) -> None:
    with pytest.raises(gx.InputError, match=f"{type(policy).__name__} does not keep at_least"):
        limited(policy, at_least={"a": 0.1})
    selector = limited(policy, prices=COSTS)
    with pytest.raises(gx.InputError, match=f"{type(policy).__name__} does not keep at_least"):
        selector.plan(mean_cost=1.0)
    assert selector.mean_cost is None


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"at_least": {"a": 0.5, "b": 0.7}}, "at_least adds up to 1.2; lower it to at most 1."),
        ({"at_most": dict.fromkeys("abc", 0.2)}, "at_most adds up to 0.6; raise it to at least 1."),
        ({"at_least": {"z": 0.5}}, "at_least names an unknown arm 'z'; use a, b, c."),
        ({"at_least": {"a": 2}}, "at_least of 'a' is 2; pass a number between 0 and 1."),
        ({"at_least": 0.5}, "at_least is 0.5; pass a map from arm to share"),
        ({"at_least": {"a": 0.5}, "at_most": {"a": 0.2}}, "lower at_least to at most 0.2."),
        ({"mean_cost": -1}, "mean_cost is -1; pass a number of at least 0."),
        ({"prices": {"z": 1}}, "prices names an unknown arm 'z'; use a, b, c."),
        ({"prices": {"a": "x"}}, "the price of 'a' is 'x'; pass a number of at least 0."),
        ({"mean_cost": 1.0, "solver": gx.EG()}, "EG solves only over the whole simplex"),
    ],
)
def test_invalid_limits_get_a_sentence(limits: Any, message: str) -> None:
    with pytest.raises(gx.InputError, match=message):
        limited(**limits)


def test_a_losing_certificate_is_never_reported() -> None:
    selector = advance(limited(gx.MixtureGreedy(), mean_cost=1.2), 60)
    loss, region = selector._learner.loss, selector.region
    alpha = np.array(list(selector.mixture.values()))
    assert selector.gap == certify(loss, alpha, region=region).gap
