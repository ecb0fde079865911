"""States that version 0.1.0 saved still load, and their runs continue with the same draws.

``data/*.npz`` were written by ``Selector.save`` of that version. ``data/continuations.json`` records what
it drew next: each ticket, then the weights, gap and pooled score at the end.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.core import state
from tests.support.conformance import assert_same_bits

DATA = Path(__file__).parent / "data"
EXPECTED: dict[str, Any] = json.loads((DATA / "continuations.json").read_text())
DIMENSION = 4

every_state = pytest.mark.parametrize("name", EXPECTED)


def sample(selector: gx.Selector, arm: str) -> dict[str, Any]:
    """The next sample of an arm, in numbers that every machine represents exactly."""
    index = "abcd".index(arm)
    rng = np.random.default_rng([index, selector.counts[arm]])
    row = rng.integers(-32, 33, DIMENSION) / 16 + np.eye(DIMENSION)[index] * 3
    return {"embedding": row, "quality": float(rng.integers(1, 9)) / 8, "cost": 1.0}


@every_state
def test_an_old_state_loads_without_losing_a_bit(name: str) -> None:
    path = DATA / f"{name}.npz"
    now, then = gx.Selector.load(path).state_dict(), state.load(path)
    assert now["streams"] == 1  # the first version of the random streams
    assert_same_bits(entries_of(now, then), entries_of(then, then))


def entries_of(now: Any, then: Any) -> Any:
    """Return the entries that an old state has as well, in a fixed order."""
    if isinstance(then, dict):
        return {key: entries_of(now[key], then[key]) for key in sorted(then)}
    return now


@every_state
def test_an_old_run_continues_with_the_same_draws(name: str) -> None:
    selector, expected = gx.Selector.load(DATA / f"{name}.npz"), EXPECTED[name]
    for ticket in selector.in_flight:
        selector.tell(ticket, **sample(selector, ticket.arm))
    for number, arm, weight, propensity in expected["drawn"]:
        (ticket,) = selector.ask()
        assert (ticket.id, ticket.arm) == (number, arm)
        # Other linear algebra libraries round differently.
        assert ticket.weight == pytest.approx(float.fromhex(weight), abs=1e-6)
        assert ticket.propensity == pytest.approx(float.fromhex(propensity), abs=1e-6)
        selector.tell(ticket, **sample(selector, arm))
    weights = {arm: float.fromhex(weight) for arm, weight in expected["weights"].items()}
    assert selector.weights == pytest.approx(weights, abs=1e-6)
    pooled: Any = selector.pooled_score
    pooled = pooled if isinstance(pooled, dict) else {pooled.name: pooled}
    assert {key: float(value) for key, value in pooled.items()} == pytest.approx(
        {key: float.fromhex(value) for key, value in expected["pooled_score"].items()}, rel=1e-9
    )


def test_the_old_states_cover_tickets_in_flight_and_arms_that_came_and_went() -> None:
    vendi, frechet, retired = (
        gx.Selector.load(DATA / f"{name}.npz")
        for name in ("warm_vendi", "frechet_in_flight", "retired_arm")
    )
    assert vendi.is_warm
    assert frechet.is_warm
    assert len(frechet.in_flight) == 3
    assert sum(frechet.failures.values()) == 1
    assert retired.arms == ("a", "c", "d")
    assert retired.counts["b"] > 0
    assert not retired.is_warm  # d has not completed its warm start
