"""The default policy: the mixture of Mixture-Greedy, drawn with a bonus of the size of the measured error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.policies.policy import Situation
from genmix.selector.deviations import PRIOR_DEGREES, deviations

ARMS = ("steady", "unlucky")


def steady(rng: np.random.Generator, count: int) -> Any:
    """Four samples of 10 repeat the first mode; the others are spread over nine."""
    return np.eye(40)[0 if rng.random() < 0.4 else rng.integers(1, 10)]


def unlucky(rng: np.random.Generator, count: int) -> Any:
    """An arm whose first 10 samples repeat the modes of the other by chance, and which has 30 of its own."""
    return np.eye(40)[[0, 0, 0, 0, 0, 0, 1, 2, 3, 4][count] if count < 10 else rng.integers(10, 40)]


def play(policy: gx.Policy | None, rounds: int = 300, **options: Any) -> gx.Selector:
    selector = gx.Selector(ARMS, gx.RKE(gx.Cosine()), policy, **options)
    rng = np.random.default_rng(1)
    arms = {"steady": steady, "unlucky": unlucky}
    for _ in range(rounds):
        [ticket] = selector.ask()
        selector.tell(ticket, arms[ticket.arm](rng, selector.counts[ticket.arm]))
    return selector


def test_an_unlucky_warm_start_does_not_lock_an_arm_out() -> None:
    """Ten samples of the unlucky arm add nothing to those of the other: greedy never draws it again."""
    greedy, default = play(gx.MixtureGreedy()), play(None)
    assert greedy.counts["unlucky"] == 10
    assert default.counts["unlucky"] > 150
    assert default.pooled_score > 2 * greedy.pooled_score


def test_the_mixture_is_certified_and_the_draws_explore() -> None:
    selector = play(None, 100)
    assert selector.gap < 1e-7
    assert selector.mixture == selector.weights
    assert selector.targets != selector.weights
    assert sum(selector.targets.values()) == pytest.approx(1)


def test_without_both_terms_it_is_mixture_greedy() -> None:
    nothing = play(gx.MixtureUCBV(errors=0, bias=0), 120)
    greedy = play(gx.MixtureGreedy(), 120, draw="tracking")
    assert nothing.counts == greedy.counts
    assert nothing.weights == greedy.weights
    assert nothing.targets == pytest.approx(nothing.weights, abs=1e-3)


def test_the_targets_minimize_the_loss_minus_the_bonus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compared with a search over a grid, from the situation that the policy was given."""
    seen: list[tuple[Situation, Any]] = []
    decide = gx.MixtureUCBV.decide

    def recording(policy: gx.MixtureUCBV, situation: Situation) -> Any:
        seen.append((situation, decide(policy, situation)))
        return seen[-1][1]

    monkeypatch.setattr(gx.MixtureUCBV, "decide", recording)
    play(None, 60)
    situation, decision = seen[-1]
    n, t = situation.counts, situation.total
    assert situation.deviations is not None
    assert t == n.sum()
    bonus = 1.5 * situation.deviations * np.sqrt(np.log(t / n) / n)
    bonus += 0.2 * situation.loss.inflation(n / t) / n
    grid = np.stack([np.linspace(0, 1, 2001), 1 - np.linspace(0, 1, 2001)], axis=1)
    tilted = [situation.loss.value(alpha) - bonus @ alpha for alpha in grid]
    assert decision.targets == pytest.approx(grid[np.argmin(tilted)], abs=2e-2)


def test_few_samples_lean_on_the_deviations_of_all_arms() -> None:
    """Two arms with 11 measured samples and mean squares of 4 and 0: each keeps half of its own."""
    found = deviations({"a": (11, 40.0), "b": (11, 0.0)}, ["a", "b", "new"])
    common, own = 2.0, 10
    assert found[0] ** 2 == pytest.approx((40 + PRIOR_DEGREES * common) / (own + PRIOR_DEGREES))
    assert found[1] ** 2 == pytest.approx(PRIOR_DEGREES * common / (own + PRIOR_DEGREES))
    assert found[2] ** 2 == pytest.approx(common)


def test_a_saved_selector_continues_with_its_measurements() -> None:
    selector = play(None, 57)
    again = gx.Selector.from_state_dict(selector.state_dict())
    rng = np.random.default_rng(9)
    rows = rng.dirichlet(np.ones(40), size=40)
    for each in (selector, again):
        for row in rows:
            [ticket] = each.ask()
            each.tell(ticket, row)
    assert again.targets == selector.targets
    assert again.state_dict()["spread"] == selector.state_dict()["spread"]
    assert again.counts == selector.counts


@pytest.mark.parametrize("field", ["errors", "bias"])
def test_negative_coefficients_are_refused(field: str) -> None:
    with pytest.raises(gx.InputError, match=field):
        gx.MixtureUCBV(**{field: -1})


def test_how_arms_are_drawn_is_the_policys_choice_unless_given() -> None:
    objective = gx.Vendi()
    assert gx.Selector(ARMS, objective).state_dict()["draw"] == "tracking"
    assert gx.Selector(ARMS, objective, gx.MixtureGreedy()).state_dict()["draw"] == "iid"
    assert gx.Selector(ARMS, objective, draw="iid").state_dict()["draw"] == "iid"
