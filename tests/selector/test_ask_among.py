"""Drawing from some of the arms: the others keep their weights, and the draws stay proportional."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.errors import InputError


def selector(draw: str, **more: Any) -> gx.Selector:
    """Three arms with 2, 1 and 1 different samples; their best weights are 1/2, 1/4 and 1/4."""
    sel = gx.Selector(list("abc"), gx.Vendi(), gx.MixtureGreedy(), warm_start=2, draw=draw, **more)
    kinds = {"a": [0, 1], "b": [2, 2], "c": [3, 3]}
    for ticket in sel.ask(6):
        sel.tell(ticket, np.eye(4)[kinds[ticket.arm][sel.counts[ticket.arm]]])
    assert sel.weights == pytest.approx({"a": 0.5, "b": 0.25, "c": 0.25})
    return sel


def test_draws_are_proportional_to_the_weights_of_these_arms() -> None:
    tickets = selector("iid", seed=1).ask(3000, among=["a", "c"])
    counts = Counter(ticket.arm for ticket in tickets)
    assert set(counts) == {"a", "c"}
    assert counts["a"] == pytest.approx(2000, abs=4 * np.sqrt(3000 * 2 / 9))
    shares = {ticket.arm: ticket.propensity for ticket in tickets}
    assert shares == pytest.approx({"a": 2 / 3, "c": 1 / 3})
    assert {round(ticket.weight, 4) for ticket in tickets if ticket.arm == "a"} == {0.5}


def test_tracking_catches_up_afterwards() -> None:
    sel = selector("tracking")
    assert {ticket.arm for ticket in sel.ask(20, among=["b"])} == {"b"}
    assert {ticket.arm for ticket in sel.ask(54)} == {"a", "c"}
    asked = Counter(ticket.arm for ticket in sel.in_flight) + Counter("aabbcc")
    assert asked["a"] == pytest.approx(2 / 3 * 58, abs=1)


def test_the_warm_start_continues_with_these_arms() -> None:
    sel = gx.Selector(list("abc"), gx.Vendi(), warm_start=3)
    assert [ticket.arm for ticket in sel.ask(6, among="ac")] == list("acacac")
    assert [ticket.arm for ticket in sel.ask(2, among="ac")] == list("ac")  # b still lacks its own
    assert [ticket.arm for ticket in sel.ask(3)] == list("bbb")


def test_arms_without_weight_are_drawn_evenly_if_no_other_can_be() -> None:
    sel = gx.Selector(list("abc"), gx.Cost(), gx.MixtureGreedy(), warm_start=1, seed=2)
    for ticket in sel.ask(3):
        sel.tell(ticket, [1.0], cost={"a": 1.0, "b": 5.0, "c": 5.0}[ticket.arm])
    assert sel.weights["a"] == pytest.approx(1.0)
    counts = Counter(ticket.arm for ticket in sel.ask(1000, among=["b", "c"]))
    assert counts["b"] == pytest.approx(500, abs=4 * np.sqrt(250))


def test_all_arms_draw_as_without_the_option() -> None:
    assert selector("iid").ask(50, among="abc") == selector("iid").ask(50)


def test_no_active_arm_is_refused_and_nothing_is_drawn() -> None:
    sel = selector("iid")
    sel.retire_arm("c")
    with pytest.raises(InputError, match="among contains no active arm; the arms are a, b"):
        sel.ask(among=["c"])
    assert not sel.in_flight


def test_a_new_arm_that_cannot_be_drawn_leaves_the_weights_to_the_others() -> None:
    sel = selector("iid", seed=4)
    sel.add_arm("d")
    sel.ask(2)  # the warm start of d
    counts = Counter(ticket.arm for ticket in sel.ask(2000, among="abc"))
    assert counts["a"] == pytest.approx(1000, abs=4 * np.sqrt(500))
