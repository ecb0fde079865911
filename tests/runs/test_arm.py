"""Calls of an arm to its generator: positions, costs, and protocols that generators get wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from genmix.data.samples import Sample
from genmix.generators import GenerationError
from genmix.journal.schema import Entry
from genmix.runs.arm import ArmState, FinishedCall
from genmix.runs.retries import Retries
from genmix.study.sections import Retries as RetrySettings


def outcomes_of(generate: Callable[..., Any], count: int) -> list[Any]:
    """What an arm makes of a batch, in the order of its requests, and then an extra error, if any."""

    class Generator:
        def generate(self, requests: Any) -> Any:
            return generate(requests)

        def available(self) -> None:
            return None

    arm = ArmState("a", Generator(), 1, count, Retries(RetrySettings()))  # type: ignore[arg-type]
    entries = [Entry(i, "a", i, i, 1.0, 1.0) for i in range(count)]
    events: list[Any] = []
    asyncio.run(arm.call(entries, events.append))
    *replies, finished = events
    assert isinstance(finished, FinishedCall)
    found = [reply.outcome for reply in sorted(replies, key=lambda reply: reply.entry.id)]
    return found if finished.extra is None else [*found, finished.extra.outcome]


def test_replies_before_an_error_are_kept_and_its_cost_counts_once() -> None:
    async def generate(requests: Any) -> Any:
        yield 1, Sample(text="kept", cost=1.0)
        raise GenerationError("broken.", cost=5.0)

    first, second, third = outcomes_of(generate, 3)
    assert (first.cost, second.text, second.cost, third.cost) == (5.0, "kept", 1.0, None)


def test_the_cost_of_an_error_after_every_reply_is_not_lost() -> None:
    async def generate(requests: Any) -> Any:
        yield 0, Sample(text="a", cost=1.0)
        yield 1, Sample(text="b", cost=1.0)
        raise GenerationError("billed anyway.", cost=5.0)

    assert [outcome.cost for outcome in outcomes_of(generate, 2)] == [1.0, 1.0, 5.0]


@pytest.mark.parametrize("position", [0, 7, -1])
def test_an_answer_to_no_open_request_is_an_error_that_keeps_its_cost(position: int) -> None:
    async def generate(requests: Any) -> Any:
        yield 0, Sample(text="a", cost=1.0)
        yield position, Sample(text="b", cost=4.0)

    first, second = outcomes_of(generate, 2)
    assert first.text == "a"
    assert isinstance(second, GenerationError)
    assert not second.retryable
    assert (first.cost, second.cost) == (1.0, 4.0)
    assert f"position {position}, which is a duplicate or out of range" in str(second)


def test_a_generator_that_returns_a_list_is_told_what_to_do() -> None:
    async def generate(requests: Any) -> Any:
        return [Sample(text="a")]

    (outcome,) = outcomes_of(generate, 1)
    assert not outcome.retryable
    assert "must be an async generator" in str(outcome)


@pytest.mark.parametrize(
    ("sample", "why"),
    [
        (Sample(image="no bytes", cost=1.0), "returned image of type str; it must be bytes."),  # type: ignore[arg-type]
        (Sample(text=b"bytes", cost=1.0), "returned text of type bytes; it must be str."),  # type: ignore[arg-type]
        (Sample(text="a", prompt=7, cost=1.0), "returned prompt of type int; it must be str."),  # type: ignore[arg-type]
    ],
)
def test_a_sample_of_the_wrong_type_is_an_error_that_keeps_its_cost(
    sample: Sample, why: str
) -> None:
    async def generate(requests: Any) -> Any:
        yield 0, sample

    [found] = outcomes_of(generate, 1)
    assert isinstance(found, GenerationError)
    assert (str(found), found.cost) == (why, 1.0)
