"""What can be read of a selector while an arm that was added later has its warm start."""

from __future__ import annotations

import copy
import math
from pathlib import Path

import numpy as np
import pytest

import genmix as gx

RNG = np.random.default_rng(0)
SPREAD = {"a": 1.0, "b": 0.3, "c": 2.0, "d": 0.5}


def draw(selector: gx.Selector, count: int) -> list[str]:
    drawn = []
    for _ in range(count):
        [ticket] = selector.ask()
        selector.tell(ticket, SPREAD[ticket.arm] * RNG.normal(size=3) + 1)
        drawn.append(ticket.arm)
    return drawn


def solved(policy: gx.Policy | None = None) -> gx.Selector:
    selector = gx.Selector(["a", "b"], gx.Vendi(), policy, warm_start=3, resolve_growth=0.0)
    draw(selector, 12)
    return selector


@pytest.mark.parametrize("policy", [None, gx.MixtureOGD()], ids=["greedy", "ogd"])
def test_the_last_mixture_score_and_gap_stay_readable(policy: gx.Policy | None) -> None:
    selector = solved(policy)
    weights, mixture = selector.weights, selector.mixture
    score, gap, singles = float(selector.score), selector.gap, selector.single_scores
    selector.add_arm("c")
    for _ in range(2):
        assert selector.weights == weights | {"c": 0.0}
        assert selector.mixture == mixture | {"c": 0.0}
        assert float(selector.score) == score
        assert selector.gap == gap < math.inf
        assert {k: float(v) for k, v in selector.single_scores.items()} == {
            k: float(v) for k, v in singles.items()
        }
        assert not selector.is_warm
        assert draw(selector, 1) == ["c"]
    assert draw(selector, 1) == ["c"]
    assert selector.is_warm
    assert set(selector.single_scores) == {"a", "b", "c"}


def test_a_ticket_has_the_weight_that_can_be_read() -> None:
    selector = solved()
    selector.add_arm("c")
    for _ in range(6):
        [ticket] = selector.ask()
        assert ticket.weight == selector.weights[ticket.arm]
    assert selector.ask_from("a").weight == selector.weights["a"] > 0


def test_a_second_new_arm_changes_nothing() -> None:
    selector = solved()
    weights = selector.weights
    selector.add_arm("c")
    selector.add_arm("d")
    assert selector.weights == weights | {"c": 0.0, "d": 0.0}


def readings(selector: gx.Selector) -> tuple[object, ...]:
    singles = {arm: float(score) for arm, score in selector.single_scores.items()}
    return selector.weights, selector.mixture, selector.gap, float(selector.score), singles


def test_retiring_an_arm_meanwhile_solves_for_the_others() -> None:
    selector = gx.Selector(["a", "b", "c"], gx.Vendi(), warm_start=3, resolve_growth=0.0)
    draw(selector, 20)
    other = copy.copy(selector)
    other.retire_arm("b")
    other.add_arm("d")
    selector.add_arm("d")
    selector.retire_arm("b")
    assert set(selector.weights) == set("acd")
    assert selector.weights["d"] == 0.0
    assert selector.gap < 1e-6
    assert readings(selector) == readings(other)
    assert draw(selector, 3) == ["d"] * 3
    assert selector.is_warm


def test_retiring_an_arm_meanwhile_keeps_the_progress_of_the_new_arms() -> None:
    selector = solved()
    selector.add_arm("c")
    selector.add_arm("d")
    for _ in range(3):  # one sample of c, one of d, and one failure of c
        [ticket] = selector.ask()
        if selector.counts["d"]:
            selector.fail(ticket)
        else:
            selector.tell(ticket, RNG.normal(size=3))
    selector.retire_arm("a")
    assert selector.counts["c"] == selector.counts["d"] == 1
    assert selector.failures["c"] == 1
    assert selector.weights == {"b": 1.0, "c": 0.0, "d": 0.0}
    assert not selector.is_warm


def test_retiring_the_new_arm_returns_to_the_others() -> None:
    selector = solved()
    weights = selector.weights
    selector.add_arm("c")
    selector.retire_arm("c")
    assert selector.is_warm
    assert selector.weights == pytest.approx(weights, abs=1e-6)


def test_retiring_all_arms_of_the_last_mixture_ends_it() -> None:
    selector = solved()
    selector.add_arm("c")
    selector.retire_arm("a")
    selector.retire_arm("b")
    assert selector.weights == {"c": 1.0}
    assert (selector.gap, selector.score, selector.single_scores) == (math.inf, None, {})
    assert draw(selector, 3) == ["c"] * 3
    assert selector.gap < 1e-6


def test_before_the_first_solve_there_is_nothing_to_keep() -> None:
    selector = gx.Selector(["a", "b"], gx.Vendi())
    selector.add_arm("c")
    assert selector.weights == dict.fromkeys("abc", 1 / 3)
    assert (selector.gap, selector.score) == (math.inf, None)


def test_a_saved_state_keeps_it(tmp_path: Path) -> None:
    selector = solved()
    selector.add_arm("c")
    selector.save(tmp_path / "s.npz")
    again = gx.Selector.load(tmp_path / "s.npz")
    assert (again.weights, again.mixture) == (selector.weights, selector.mixture)
    assert (again.gap, float(again.score)) == (selector.gap, float(selector.score))
    older = {k: v for k, v in selector.state_dict().items() if k != "previous"}
    assert gx.Selector.from_state_dict(older).weights == dict.fromkeys("abc", 1 / 3)
