"""Arms whose samples cost much less than their bounds are tried when the money does not suffice otherwise."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import genmix as gx
from genmix.journal.reader import JournalReader
from genmix.report.facts import Facts
from genmix.report.sentences import mixture_sentence
from genmix.runs.check import check_study
from genmix.runs.spending.budget import Limits, Money
from genmix.runs.spending.planning import Planner
from genmix.runs.spending.prices import Price, affordable, number_expected, worth_trying
from tests.support.endpoint import Answer, Call, Endpoint, error, says


@pytest.fixture(autouse=True)
def _no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENMIX_REPORT", "off")


def reply(call: Call) -> Answer:
    """A short answer: 20 tokens, although it could have 103."""
    text = "ab" * (call.payload.get("seed", 0) % 9 + 1)
    choice = {"message": {"content": text}, "finish_reason": "stop"}
    return says({"choices": [choice], "usage": {"prompt_tokens": 3, "completion_tokens": 20}})


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as found:
        found.behave(reply)
        yield found


def small(seeds: list[int]) -> list[str]:
    return [f"{'a' * (seed % 7)}b{seed % 5}" for seed in seeds]


def embed(texts: list[str]) -> list[list[float]]:
    return [[1.0, len(text), text.count("a")] for text in texts]


def study(endpoint: Endpoint, cost: float, **more: Any) -> dict[str, Any]:
    """A sample of ``http`` costs up to 0.00103, but really 0.0002; one of ``small`` costs 0.001."""
    http = {
        "kind": "openai",
        "model": "m",
        "base_url": endpoint.url,
        "prompt": "x",
        "max_tokens": 103,
        "price": {"input": 0.0, "output": 0.01},
    }
    return {
        "arms": {"http": http, "small": {"kind": "callable", "function": small, "price": 0.001}},
        "encoder": embed,
        "objective": "vendi",
        "budget": {"samples": 100, "cost": cost},
        "retries": {"first_wait": 0.001, "longest_wait": 0.01, "probe_after": 0.01},
        **more,
    }


@pytest.mark.parametrize(("cost", "in_flight"), [(0.03, 1), (0.023, 8)])
def test_an_arm_is_tried_before_it_is_called_too_expensive(
    endpoint: Endpoint, tmp_path: Path, cost: float, in_flight: int
) -> None:
    plan = study(endpoint, cost, in_flight=in_flight)
    found = check_study(plan).estimate
    assert found is not None
    assert found.expected == 100
    run = gx.run(plan, tmp_path / "run")
    assert sum(run.counts.values()) == 100
    assert run.counts["http"] >= 80
    assert run.summary["cost"] <= cost * (1 + 1e-9)


def test_a_trial_that_fails_does_not_end_the_run(endpoint: Endpoint, tmp_path: Path) -> None:
    endpoint.behave(lambda call: error(500))
    run = gx.run(study(endpoint, 0.02, in_flight=4), tmp_path / "run")
    assert run.status == "finished"
    assert run.counts == {"http": 0, "small": 20}


def test_an_arm_that_is_as_expensive_as_feared_is_left_out_and_named(
    endpoint: Endpoint, tmp_path: Path
) -> None:
    notes: list[str] = []
    plan = study(endpoint, 0.02, in_flight=1)
    plan["arms"]["http"]["max_tokens"] = 2000  # a trial would cost all the money
    run = gx.run(plan, tmp_path / "run", note=notes.append)
    assert run.counts == {"http": 0, "small": 20}
    reason = "because the cost budget does not cover its warm start"
    assert f"arm 'http' is left out for now, {reason}" in notes
    assert f"It does not include http, {reason}." in mixture_sentence(Facts(run.folder))


def test_a_run_that_was_interrupted_during_a_trial_continues_with_it(
    endpoint: Endpoint, tmp_path: Path
) -> None:
    plan = study(endpoint, 0.03, in_flight=1)

    def stop(live: Any) -> None:
        if live.told == 2:
            live.loop.stop("interrupted")

    whole = gx.run(plan, tmp_path / "whole")
    gx.run(plan, tmp_path / "part", callbacks=[stop])
    part = gx.resume(tmp_path / "part", study=plan)
    assert part.counts == whole.counts
    with JournalReader.open(part.folder) as journal:
        assert math.fsum(journal.costs()) == whole.summary["cost"]


# -- the rules ---------------------------------------------------------------------------------------


class Arm:
    """A generator with an upper bound; the cost may depend on the length of a sample."""

    def __init__(self, most: float | None, depends_on_length: bool = False) -> None:
        self._most, self._depends = most, depends_on_length

    def most_cost(self) -> float | None:
        return self._most

    def expected_cost(self, *tokens: float) -> float | None:
        return 0.0 if self._depends else self._most

    def available(self) -> None:
        return None


def test_trials_are_a_small_part_of_the_money() -> None:
    arms: dict[str, Any] = {
        "first": Arm(0.1),
        "exact": Arm(0.2),
        "b": Arm(0.5, True),
        "a": Arm(0.4, True),
        "c": Arm(0.6, True),
        "unknown": Arm(None, True),
    }
    assert worth_trying(arms, 9.5) == {"first", "a", "b"}
    assert worth_trying(arms, 5.0) == {"first", "a"}
    assert worth_trying(arms, 1.0) == {"first"}


def test_the_cheapest_arm_shows_its_cost_before_others_are_tried() -> None:
    trial = Price(3.0, 3.0, is_vague=True, is_trial=True)
    unpaid, paid = Price(1.0, 1.0, is_vague=True, is_trial=True), Price(1.0, 1.0)
    assert affordable({"a": trial, "b": unpaid}, 9.0, 10) == ["b"]
    assert affordable({"a": trial, "b": paid}, 9.0, 10) == ["a", "b"]
    assert affordable({"a": trial, "b": paid}, 2.0, 10) == ["b"]
    assert affordable({"a": trial, "b": paid}, 10.0, 10) == ["b"]  # b suffices


def test_the_expected_number_includes_the_samples_that_show_the_costs() -> None:
    bounds = {arm: Price(1.0, 1.0, is_vague=True, is_trial=True) for arm in "ab"}
    bounds["c"] = Price(1.5, 1.5, is_vague=True)
    costs = {"a": 0.1, "b": 0.9, "c": 0.01}  # a run never learns that c is cheap
    # One of a, one of b, and as many others of a as leave the bound of the last one.
    assert number_expected(bounds, costs, 4.05, 100) == 2 + 21
    assert number_expected(bounds, costs, 4.05, 20) == 20
    assert number_expected(bounds, costs, 0.5, 20) == 0


def test_an_arm_does_not_return_only_to_be_left_out_again() -> None:
    """The money guarantees nine samples from a, up to rounding, but none from b."""
    arms: dict[str, Any] = {
        label: SimpleNamespace(label=label, generator=Arm(most), exhausted=False)
        for label, most in (("a", 0.2), ("b", 0.4))
    }
    revived: list[str] = []
    selector = SimpleNamespace(
        is_warm=True,
        counts={"a": 12, "b": 9},
        total=21,
        warm_start=10,
        arms=["a"],
        in_flight=[],
        objective=SimpleNamespace(least_samples=1),
    )
    session: Any = SimpleNamespace(
        selector=selector,
        prompts=None,
        issued=lambda label: 0,
        revive=lambda label, why: revived.append(label),
    )
    for arm in arms.values():
        arm.suspended, arm.retries = False, SimpleNamespace(probing=False)
    money = Money(math.nextafter(9 * 0.2, 0.0), spent={"a": 1.2, "b": 0.9})
    planner = Planner(session, arms, money, Limits(30, 1, 1.0, goal=30))
    planner.left_out = {"b"}
    planner.readmit()
    assert revived == []


def test_a_sample_that_is_paid_but_not_told_counts_in_the_mean_cost() -> None:
    arms: dict[str, Any] = {"a": SimpleNamespace(label="a", generator=Arm(0.5), exhausted=False)}
    tickets = [SimpleNamespace(id=number, arm="a") for number in range(3)]
    selector = SimpleNamespace(counts={"a": 1}, in_flight=tickets, arms=["a"])
    session: Any = SimpleNamespace(selector=selector, issued=lambda label: 4)
    money = Money(10.0, paid=0.3, spent={"a": 0.3}, reserved={0: 0.0, 1: 0.0, 2: 0.5})
    planner = Planner(session, arms, money, Limits(30, 4, 1.0, goal=30))
    assert planner._prices()["a"].mean == pytest.approx(0.1)
