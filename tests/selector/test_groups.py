"""A mixture for every group of prompts: known answers, draws, pooling, changing arms, saved states."""

from __future__ import annotations

import copy
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.solvers.region import Region

MODES = {
    ("travel", "a"): [0, 1, 2],
    ("travel", "b"): [3],
    ("food", "a"): [4],
    ("food", "b"): [5, 6, 7, 8],
}
SHARES = {"travel": 4 / 9, "food": 5 / 9}


def embedding(ticket: gx.Ticket, turn: int) -> Any:
    """The modes of a cell in turn, so that the statistics are exact."""
    modes = MODES.get((ticket.group or "", ticket.arm), [9])
    return np.eye(12)[modes[turn % len(modes)]]


def feed(sel: gx.Selector, samples: int, turns: Counter[Any] | None = None, **how: Any) -> None:
    turns = Counter() if turns is None else turns
    for _ in range(samples):
        [ticket] = sel.ask(**how)
        turns[ticket.group, ticket.arm] += 1
        sel.tell(ticket, embedding(ticket, turns[ticket.group, ticket.arm]))


def grouped(**options: Any) -> gx.Selector:
    given = {
        "groups": SHARES,
        "policy": gx.MixtureGreedy(),
        "seed": 3,
        "warm_start": 12,
        "resolve_growth": 0.15,
    }
    return gx.Selector(["a", "b"], gx.Vendi(), **(given | options))


def test_one_hot_modes_have_a_closed_form() -> None:
    # Nine modes; with these shares, all of them can have the same probability: weights k_gi / k_g.
    sel = grouped(pooling=0, resolve_growth=0.0)
    for turn in range(12):  # multiples of 1, 3 and 4 samples: every mode equally often
        for group in SHARES:
            for arm in "ab":
                sel.tell(ticket := sel.ask_from(arm, group=group), embedding(ticket, turn))
    assert sel.weights_by_group["travel"] == pytest.approx({"a": 3 / 4, "b": 1 / 4}, abs=1e-6)
    assert sel.weights_by_group["food"] == pytest.approx({"a": 1 / 5, "b": 4 / 5}, abs=1e-6)
    assert sel.weights == pytest.approx({"a": 4 / 9, "b": 5 / 9}, abs=1e-6)
    assert sel.score == pytest.approx(9, abs=1e-9)
    assert sel.gap < 1e-7
    assert sel.score_by_group == {g: pytest.approx(n) for g, n in (("travel", 4), ("food", 5))}
    assert sel.single_scores["a"] == pytest.approx(
        math.exp(4 / 9 * math.log(3 * 9 / 4) + 5 / 9 * math.log(9 / 5))
    )


def test_without_pooling_separate_groups_are_independent_problems() -> None:
    both = grouped(pooling=0, resolve_growth=0.0)
    alone = {
        g: gx.Selector(["a", "b"], gx.Vendi(), gx.MixtureGreedy(), warm_start=12) for g in SHARES
    }
    rng = np.random.default_rng(5)
    for _ in range(12):
        for group in SHARES:
            for arm in "ab":
                row = np.eye(12)[rng.choice(MODES[group, arm])]
                both.tell(both.ask_from(arm, group=group), row)
                alone[group].tell(alone[group].ask_from(arm), row)
    for group, sel in alone.items():
        assert both.weights_by_group[group] == pytest.approx(sel.weights, abs=1e-6)
        assert both.score_by_group[group] == pytest.approx(sel.score, rel=1e-6)


@pytest.mark.parametrize("draw", ["iid", "tracking"])
@pytest.mark.parametrize("policy", [gx.MixtureUCBV(), gx.MixtureGreedy(), gx.OneArmUCB()])
def test_infinite_pooling_is_the_selector_without_groups_bit_for_bit(
    draw: Any, policy: gx.Policy
) -> None:
    with_groups = gx.Selector(
        ["a", "b"], gx.Vendi(), policy, draw=draw, groups=SHARES, pooling=math.inf, seed=4
    )
    plain = gx.Selector(["a", "b"], gx.Vendi(), policy, draw=draw, seed=4)
    rng = np.random.default_rng(1)
    for _ in range(80):
        [mine], [theirs] = with_groups.ask(), plain.ask()
        assert (mine.arm, mine.weight, mine.propensity) == (
            theirs.arm,
            theirs.weight,
            theirs.propensity,
        )
        row = rng.standard_normal(6)
        with_groups.tell(mine, row)
        plain.tell(theirs, row)
    assert with_groups.weights == plain.weights
    assert with_groups.weights_by_group == dict.fromkeys(SHARES, plain.weights)
    assert (with_groups.score, with_groups.gap) == (plain.score, plain.gap)
    assert with_groups.score_by_group == dict.fromkeys(SHARES, plain.score)


def test_pooling_shrinks_the_statistics_of_a_cell_toward_its_arm() -> None:
    # A quadratic loss of the pooled moments, computed here from their definition.
    kappa, rng = 4.0, np.random.default_rng(2)
    sel = gx.Selector(
        ["a", "b"],
        gx.RKE(gx.Cosine()),
        gx.MixtureGreedy(),
        groups=SHARES,
        pooling=kappa,
        warm_start=3,
        resolve_growth=0.0,
    )
    rows: dict[tuple[str, str], list[Any]] = {(g, a): [] for g in SHARES for a in "ab"}
    for group, arm, n in (("travel", "a", 2), ("food", "a", 7), ("travel", "b", 5)):
        for _ in range(n):  # no sample of b in food: it counts as its arm
            row = rng.standard_normal(5)
            rows[group, arm].append(row / np.linalg.norm(row))
            sel.tell(sel.ask_from(arm, group=group), row)
    pooled = []
    for (_, arm), own in rows.items():
        every = np.array([row for (_, other), part in rows.items() for row in part if other == arm])
        moment = np.array(own).T @ np.array(own) if own else np.zeros((5, 5))
        pooled.append((moment + kappa * every.T @ every / len(every)) / (len(own) + kappa))
    weights = [sel.weights_by_group[g][a] * SHARES[g] for g, a in rows]
    mixed = sum(w * m for w, m in zip(weights, pooled, strict=True))
    assert sel.score == pytest.approx(1 / float(np.sum(mixed**2)), rel=1e-10)
    for k in range(2):  # no better weights in either group
        for step in (-1e-3, 1e-3):
            moved = np.array(weights)
            moved[2 * k] += step
            moved[2 * k + 1] -= step
            if moved.min() >= 0:
                other = sum(w * m for w, m in zip(moved, pooled, strict=True))
                assert np.sum(other**2) >= np.sum(mixed**2) - 1e-9


def test_certificates_on_quadratics_agree_with_cvxpy() -> None:
    cp = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(0)
    for groups, arms in ((2, 3), (4, 2), (3, 5)):
        names = [f"g{g}" for g in range(groups)]
        shares = dict(zip(names, rng.dirichlet(np.ones(groups)), strict=True))
        samples = {
            g: {f"a{i}": rng.standard_normal((4, 6)) + rng.standard_normal(6) for i in range(arms)}
            for g in names
        }
        mix = gx.optimal_mixture(samples, gx.RKE(gx.Cosine()), groups=shares, pooling=0)
        matrix = mix.function.matrix
        w = cp.Variable(groups * arms, nonneg=True)
        sums = [cp.sum(w[g * arms : (g + 1) * arms]) == shares[n] for g, n in enumerate(names)]
        root = np.linalg.cholesky(matrix + 1e-13 * np.eye(len(matrix)))
        problem = cp.Problem(cp.Minimize(cp.sum_squares(root.T @ w)), sums)
        problem.solve(solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
        assert mix.loss == pytest.approx(problem.value, abs=1e-7)
        assert mix.loss - mix.gap <= problem.value + 1e-9
        assert mix.gap < 1e-7


def test_groups_are_drawn_by_their_shares_and_arms_by_their_weights() -> None:
    sel = grouped(groups={"travel": 0.3, "food": 0.7}, draw="iid", pooling=0)
    feed(sel, 150)
    tickets = sel.ask(4000)
    counts = Counter((ticket.group, ticket.arm) for ticket in tickets)
    for group, share in (("travel", 0.3), ("food", 0.7)):
        for arm, weight in sel.weights_by_group[group].items():
            expected = 4000 * share * weight
            assert abs(counts[group, arm] - expected) < 4.5 * math.sqrt(expected + 1)
    assert all(t.propensity == sel.weights_by_group[t.group][t.arm] for t in tickets)


def test_ask_takes_one_group_or_one_per_ticket() -> None:
    sel = grouped()
    assert [t.group for t in sel.ask(2, group="food")] == ["food", "food"]
    assert [t.group for t in sel.ask(2, group=["food", "travel"])] == ["food", "travel"]
    with pytest.raises(gx.InputError, match="3 groups for 2 tickets"):
        sel.ask(2, group=["food"] * 3)
    with pytest.raises(gx.InputError, match="unknown group 'sports'; the groups are travel, food"):
        sel.ask(group="sports")
    with pytest.raises(gx.InputError, match="has no groups"):
        gx.Selector(["a"], gx.Vendi()).ask(group="food")


def test_the_warm_start_is_per_arm_with_pooling_and_per_cell_without() -> None:
    pooled, separate = grouped(pooling=5), grouped(pooling=0)
    feed(pooled, 23)
    assert not pooled.is_warm
    assert pooled.will_solve(1)
    feed(pooled, 1)
    assert pooled.is_warm
    assert set(pooled.counts.values()) == {12}
    feed(separate, 23, group="food")
    assert not separate.is_warm
    feed(separate, 1, group="food")
    assert separate.is_warm  # the group is complete, and does not wait for the other
    assert set(separate.score_by_group) == {"food"}
    assert separate.weights_by_group["travel"] == {"a": 0.5, "b": 0.5}


def test_shares_are_learned_and_groups_appear() -> None:
    sel = grouped(groups="learned", pooling=3)
    assert sel.groups == {}
    assert sel.weights == {"a": 0.5, "b": 0.5}
    with pytest.raises(gx.InputError, match="no groups yet"):
        sel.ask()
    turns: Counter[Any] = Counter()
    feed(sel, 30, turns, group="travel")
    assert sel.groups == {"travel": 1.0}
    feed(sel, 13, turns, group="food")
    assert sel.groups == {"travel": 31 / 45, "food": 14 / 45}
    assert sum(sel.weights_by_group["food"].values()) == pytest.approx(1)
    assert sel.region is not None
    assert len(sel.region.sums) == 2
    assert sel.gap < 1e-6


def test_a_list_of_names_starts_with_equal_shares() -> None:
    sel = grouped(groups=["travel", "food"])
    assert sel.groups == {"travel": 0.5, "food": 0.5}
    sel.ask(8, group="food")
    assert sel.groups == {"travel": 0.1, "food": 0.9}
    sel.ask(50)  # what the selector draws does not count as arriving
    assert sel.groups == {"travel": 0.1, "food": 0.9}


@pytest.mark.parametrize("pooling", [0, 4.0, math.inf])
def test_saved_states_continue_bit_for_bit(pooling: float, tmp_path: Any) -> None:
    sel = gx.Selector(
        ["a", "b"],
        gx.Vendi(),
        groups=SHARES,
        pooling=pooling,
        warm_start=3,
        seed=1,
        resolve_growth=0.1,
    )
    turns: Counter[Any] = Counter()
    for step in range(4):
        feed(sel, 11, turns)
        sel.save(tmp_path / "state.npz")
        again = gx.Selector.load(tmp_path / "state.npz")
        assert again.weights_by_group == sel.weights_by_group
        assert again.score_by_group == sel.score_by_group
        if step == 2:
            again.add_arm("c")
            sel.add_arm("c")
        theirs = Counter(turns)
        feed(again, 9, theirs)
        feed(sel, 9, turns)
        assert again.weights_by_group == sel.weights_by_group
        assert (again.gap, again.counts, again.groups) == (sel.gap, sel.counts, sel.groups)
        assert again.ask(3) == sel.ask(3)


def test_copies_are_independent() -> None:
    sel = grouped(groups="learned", pooling=3)
    feed(sel, 30, group="travel")
    other = copy.copy(sel)
    feed(other, 30, group="food")
    assert sel.groups == {"travel": 1.0}
    assert sel.weights_by_group.keys() == {"travel"}


@pytest.mark.parametrize("pooling", [0, 6.0])
def test_arms_come_and_go(pooling: float) -> None:
    sel = grouped(pooling=pooling, warm_start=4)
    turns: Counter[Any] = Counter()
    feed(sel, 80, turns)
    before = sel.weights_by_group
    sel.add_arm("c")
    assert sel.weights["c"] == 0
    assert all(sel.weights_by_group[g][a] == before[g][a] for g in before for a in "ab")
    feed(sel, 60, turns)
    assert all(row["c"] > 0 for row in sel.weights_by_group.values())  # a mode of its own
    sel.retire_arm("a")
    assert sel.arms == ("b", "c")
    assert all(sum(row.values()) == pytest.approx(1) for row in sel.weights_by_group.values())
    sel.add_arm("a")
    feed(sel, 20, turns)
    assert sel.weights_by_group["travel"]["a"] > 0.3
    assert sel.gap < 1e-6
    assert set(sel.counts) == {"a", "b", "c"}


def test_limits_hold_for_the_sums_over_groups() -> None:
    sel = grouped(pooling=2, at_most={"b": 0.3}, prices={"a": 1.0, "b": 1.0}, mean_cost=2.0)
    feed(sel, 60)
    assert sel.weights["b"] == pytest.approx(0.3, abs=1e-8)
    assert sel.price_of_money == 0
    assert isinstance(sel.region, Region)
    sel = grouped(pooling=2, prices={"a": 3.0, "b": 1.0}, mean_cost=1.5)
    feed(sel, 60)
    assert sel.weights["a"] == pytest.approx(0.25, abs=1e-8)
    assert sel.price_of_money is not None
    assert sel.price_of_money > 0


def test_failed_tickets_are_counted_in_their_cell() -> None:
    sel = grouped()
    [ticket] = sel.ask(group="food")
    sel.fail(ticket)
    assert sel.failures == {"a": 1, "b": 0}
    assert sel.in_flight == ()
    assert "group='food'" in repr(ticket)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": {"x": 0.5, "y": 0.6}}, "add up to 1.1"),
        ({"groups": {"x": 0.0, "y": 1.0}}, "share of group 'x'"),
        ({"groups": []}, "groups is empty"),
        ({"groups": {}}, "groups is empty"),
        ({"groups": ["x", "x"]}, "listed twice"),
        ({"groups": "travel"}, "pass a map from group to share"),
        ({"groups": 3}, "groups is 3"),
        ({"groups": ["x"], "pooling": -1}, "pooling is -1"),
        ({"groups": None, "pooling": 3}, "there are none"),
        ({"policy": gx.Uniform(), "pooling": 3}, "Uniform has one set of weights"),
        ({"solver": gx.EG()}, "EG solves only over the whole simplex"),
    ],
)
def test_invalid_groups_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(gx.InputError, match=message):
        grouped(**options)


def test_policies_without_mixtures_have_the_same_weights_in_all_groups() -> None:
    sel = grouped(policy=gx.Fixed({"a": 0.25, "b": 0.75}))
    feed(sel, 30)
    assert sel.weights_by_group == {group: {"a": 0.25, "b": 0.75} for group in SHARES}
    with pytest.raises(gx.InputError, match="cannot be pooled"):
        gx.Selector(["a"], gx.RKE(unbiased=True), groups=["x"], pooling=2)


def test_a_damaged_state_of_cells_is_refused() -> None:
    sel = grouped(pooling=3)
    feed(sel, 30)
    for key, value in (("arms", ["a"]), ("places", [["food", "a"]]), ("waiting", 3)):
        state = sel.state_dict()
        state["cells"] = state["cells"] | {key: value}
        with pytest.raises(gx.InputError):
            gx.Selector.from_state_dict(state)


# -- the default policy ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "policy", "draw"),
    [
        ({}, gx.MixtureUCBV(), "tracking"),
        ({"groups": SHARES}, gx.MixtureGreedy(), "tracking"),
        ({"groups": SHARES, "pooling": 0}, gx.MixtureGreedy(), "tracking"),
        ({"groups": SHARES, "draw": "iid"}, gx.MixtureGreedy(), "iid"),
        ({"groups": SHARES, "pooling": math.inf}, gx.MixtureUCBV(), "tracking"),
        ({"groups": SHARES, "policy": gx.MixtureGreedy()}, gx.MixtureGreedy(), "iid"),
    ],
)
def test_the_default_policy_depends_on_whether_groups_have_their_own_weights(
    options: dict[str, Any], policy: gx.Policy, draw: str
) -> None:
    sel = gx.Selector(["a", "b"], gx.Vendi(), **options)
    again = gx.Selector.from_state_dict(sel.state_dict())
    for each in (sel, again):
        assert repr(each).startswith(f"<Selector: {type(policy).__name__} for")
        assert each.state_dict()["draw"] == draw
