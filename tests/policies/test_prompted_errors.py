"""What policies that choose by the prompt refuse, and their states."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import genmix as gx
from tests.support.conformance import assert_same_bits
from tests.support.prompted import TOPICS, answers, ask, run, start, tell

# -- errors ------------------------------------------------------------------------------------------

BAD_PROMPTS: list[tuple[Any, str]] = [
    (None, "DAKUCB chooses an arm for every prompt; pass its embedding as prompt="),
    ([1.0, np.nan, 0.0, 0.0], "prompt"),
    ([[1.0, 0.0, 0.0, 0.0]] * 3, "prompt has 3 rows for 2 tickets; pass one per ticket"),
    ([[1.0], [2.0, 3.0]], "prompt"),
    (1.0, "prompt"),
    ([1.0, 0.0], "prompt has dimension 2 instead of 4; use the same encoder"),
]


@pytest.mark.parametrize(("prompt", "words"), BAD_PROMPTS, ids=lambda value: str(value)[:20])
def test_a_bad_prompt_is_refused_and_changes_nothing(prompt: Any, words: str) -> None:
    selector = start(gx.DAKUCB())
    ask(selector, answers(1)[0])
    before = copy.deepcopy(selector.state_dict())
    with pytest.raises(gx.InputError, match=words) as caught:
        selector.ask(2, prompt=prompt)
    assert len(str(caught.value).splitlines()) == 1
    assert_same_bits(selector.state_dict(), before)


def test_the_dimension_of_a_joint_kernel_counts_too() -> None:
    selector = start(gx.DAKUCB(), gx.RKE(gx.Joint(3)))
    with pytest.raises(gx.InputError, match="prompt has dimension 4 instead of 3"):
        selector.ask(prompt=TOPICS[0])


def test_kd_needs_references_of_the_dimension_of_the_outputs() -> None:
    selector = start(gx.DAKUCB("kd"))
    with pytest.raises(gx.InputError, match="compares with a reference answer to every prompt"):
        selector.ask(prompt=TOPICS[0])
    [ticket] = selector.ask(prompt=TOPICS[0], reference=[1.0, 0.0])
    with pytest.raises(gx.InputError, match="output has dimension 5 but the reference answer"):
        selector.tell(ticket, np.eye(5)[0])


def test_pak_ucb_needs_the_quality() -> None:
    selector = start(gx.PAKUCB())
    [ticket] = selector.ask(prompt=TOPICS[0])
    with pytest.raises(gx.InputError, match="PAKUCB learns from the quality of every sample"):
        selector.tell(ticket, np.eye(5)[0])
    with pytest.raises(gx.InputError, match="PAKUCB learns from the quality of every sample"):
        selector.check(ticket, np.eye(5)[0])
    selector.tell(ticket, np.eye(5)[0], quality=0.5)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: gx.DAKUCB("vendi"), 'diversity is \'vendi\'; pass "rke" or "kd"'),
        (lambda: gx.DAKUCB(gamma=0), "gamma is 0; pass a positive number"),
        (lambda: gx.DAKUCB(weight=-1), "weight is -1"),
        (lambda: gx.PAKUCB(delta=2), "delta is 2"),
        (lambda: gx.PAKUCB(rounds=0), "rounds is 0"),
        (lambda: gx.PAKUCB(degree=0), "degree is 0"),
        (lambda: start(gx.DAKUCB(delta=6.0)), "delta is 6, but it must be less than 6 for 3 arms"),
    ],
)
def test_bad_parameters_are_refused(make: Any, words: str) -> None:
    with pytest.raises(gx.InputError, match=words):
        make()


# -- states ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [gx.PAKUCB(), gx.DAKUCB(), gx.MixtureDAKUCB()], ids=str)
def test_a_failed_tell_leaves_no_trace(policy: gx.Policy) -> None:
    selector, untouched, given = start(policy), start(policy), answers(40)
    for each in (selector, untouched):
        run(each, given[:20])
    first, second = (ask(selector, given[k]) for k in (20, 21))
    before = copy.deepcopy(selector.state_dict())
    good = (first, given[20].outputs[first.arm], 0.5, None)
    with pytest.raises(gx.InputError, match="dimension"):
        selector.tell_all([good, (second, np.ones(3), 0.5, None)])
    assert_same_bits(selector.state_dict(), before)
    others = [ask(untouched, given[k]) for k in (20, 21)]
    for each, tickets in ((selector, (first, second)), (untouched, others)):
        for ticket, k in zip(tickets, (20, 21), strict=True):
            tell(each, ticket, given[k])
    assert run(selector, given[22:]) == run(untouched, given[22:])
    assert_same_bits(selector.state_dict(), untouched.state_dict())


def test_copies_are_independent() -> None:
    selector, given = start(gx.MixtureDAKUCB()), answers(50)
    run(selector, given[:20])
    twin = gx.Selector.from_state_dict(selector.state_dict())
    other = copy.copy(selector)
    run(other, given[35:])
    run(selector, given[20:35])
    run(twin, given[20:35])
    assert_same_bits(selector.state_dict(), twin.state_dict())


def _without_prompts(state: dict[str, Any]) -> None:
    del state["prompts"]


def _without_memory(state: dict[str, Any]) -> None:
    del state["memory"]


def _with_a_pair_less(state: dict[str, Any]) -> None:
    state["memory"]["arms"][0]["kept"][0]["rows"] = state["memory"]["arms"][0]["kept"][0]["rows"][
        1:
    ]


def _with_arms_swapped(state: dict[str, Any]) -> None:
    state["memory"]["arms"].reverse()


def _with_a_flat_prompt(state: dict[str, Any]) -> None:
    state["prompts"][0]["embedding"] = np.ones(4)


@pytest.mark.parametrize(
    "damage",
    [_without_prompts, _without_memory, _with_a_pair_less, _with_arms_swapped, _with_a_flat_prompt],
)
def test_a_damaged_state_is_refused(damage: Any) -> None:
    selector, given = start(gx.DAKUCB(delta=0.1)), answers(12)
    run(selector, given[:11])
    assert len(set(selector.counts.values())) > 1
    ask(selector, given[11])
    state = copy.deepcopy(selector.state_dict())
    damage(state)
    with pytest.raises(gx.InputError, match="damaged"):
        gx.Selector.from_state_dict(state)
