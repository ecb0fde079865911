"""Extending a run gives the run that had the larger budget from the start, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.core import state
from genmix.journal.integrity import check_run
from genmix.journal.reader import JournalReader
from genmix.objectives import vendi
from genmix.runs.spending import supply

TIMES = ("at", "asked_at", "ended_at", "started_at", "made_at", "checksum")


@pytest.fixture(autouse=True)
def no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENMIX_REPORT", "off")


@pytest.fixture
def features(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    scales = {"flat": [1, 1, 0.1, 0.1], "tall": [0.1, 0.1, 1, 1], "dot": [0.01] * 4}
    for arm, scale in scales.items():
        np.save(tmp_path / f"{arm}.npy", 1 + rng.normal(size=(400, 4)) * scale)
    return tmp_path


def study(folder: Path, samples: int | None = None, **more: Any) -> dict[str, Any]:
    arms = {
        name: {"kind": "recorded", "path": str(folder / f"{name}.npy"), "exhausted": "retire"}
        for name in ("flat", "tall", "dot")
    }
    found = {"name": "t", "arms": arms, "objective": "vendi", "in_flight": 1, "seed": 3}
    found |= {"warm_start": 5, "resolve_growth": 0.05}
    return found | ({} if samples is None else {"budget": {"samples": samples}}) | more


def contents(folder: Path) -> dict[str, Any]:
    """Everything about a run but when it happened, how often it was started, and what was changed."""
    with JournalReader.open(folder) as journal:
        found = {
            table: [
                {k: v for k, v in row.items() if k not in TIMES}
                for row in journal._each_row(f"SELECT * FROM {table} ORDER BY 1")
            ]
            for table in ("tickets", "samples", "timeline", "failures")
        }
        events = [(e["kind"], e["arm"], e["step"]) for e in journal.events()]
    saved = state.load(folder / "selector.npz")
    return found | {
        "steps": [event for event in events if event[2] is not None],
        "selector": saved["selector"],
        "step": saved["step"],
        "weights": gx.Run(folder).weights,
        "dataset": (folder / "samples.jsonl").read_text(),
        "summary": {k: v for k, v in gx.Run(folder).summary.items() if k != "seconds"},
    }


def assert_same(found: Any, expected: Any, where: str = "") -> None:
    if isinstance(expected, dict):
        assert list(found) == list(expected), where
        for key in expected:
            assert_same(found[key], expected[key], f"{where}.{key}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        for k, pair in enumerate(zip(found, expected, strict=True)):
            assert_same(*pair, f"{where}[{k}]")
    elif isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype, where
        np.testing.assert_array_equal(found, expected, where)
    else:
        assert found == expected, where


def stop_at(*counts: int) -> Any:
    def stop(live: Any) -> None:
        if live.told in counts:
            live.loop.stop("interrupted")

    return stop


def short_arm(folder: Path, rows: int) -> dict[str, Any]:
    """An arm that is exhausted during the run, and that is part of the final mixture."""
    np.save(folder / "short.npy", 1 + np.random.default_rng(5).normal(size=(rows, 4)))
    return {"kind": "recorded", "path": str(folder / "short.npy"), "exhausted": "retire"}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"short": 8},
        *(
            pytest.param(more, marks=pytest.mark.drill)
            for more in (
                {"policy": "mixture-greedy", "resolve_growth": 0.2},
                {"policy": "mixture-greedy", "objective": {"vendi": {"kernel": "gaussian"}}},
                {"stop_when": {"weights_within": 1e-9, "over": 35}},
            )
        ),
    ],
    ids=["default", "exhausted", "greedy", "gaussian", "stop_when"],
)
def test_an_extended_run_is_the_run_with_the_larger_budget(
    features: Path, more: dict[str, Any]
) -> None:
    more = dict(more)
    short = more.pop("short", None)
    small, large = study(features, 40, **more), study(features, 70, **more)
    if short is not None:
        for each in (small, large):
            each["arms"]["short"] = short_arm(features, short)
    whole = gx.run(large, features / "whole")
    first = gx.run(small, features / "run")
    assert first.summary["samples"] == 40
    if short is not None:
        assert first.counts["short"] == short
        assert "short" in first.weights
    extended = gx.resume(first, samples=70)
    assert extended.status == "finished"
    assert_same(contents(extended.folder), contents(whole.folder))
    assert check_run(extended.folder).journal == "verified"


def test_it_is_the_same_after_interruptions_and_in_several_parts(features: Path) -> None:
    whole = gx.run(study(features, 90), features / "whole")
    folder = features / "run"
    gx.run(study(features, 50), folder, callbacks=[stop_at(22)])
    gx.resume(folder, samples=60, callbacks=[stop_at(37)])
    gx.resume(folder)
    assert gx.Run(folder).summary["samples"] == 60
    gx.resume(folder)  # finished: nothing happens
    gx.resume(folder, samples=90, callbacks=[stop_at(61)])
    assert gx.resume(folder).status == "finished"
    assert_same(contents(folder), contents(whole.folder))


@pytest.mark.parametrize("told", [12, 30])
def test_a_warm_start_that_the_budget_cut_continues(features: Path, told: int) -> None:
    """The time is over in the middle of the warm start, or later."""
    plain = study(features, budget={"samples": 50, "time": 1000})

    def end(live: Any) -> None:
        if live.told == told:
            live.loop.clock.limit = 0.0

    whole = gx.run(plain | {"budget": {"samples": 50, "time": 2000}}, features / "whole")
    first = gx.run(plain, features / "run", callbacks=[end])
    assert first.status == "finished"
    assert told <= first.summary["samples"] < 50
    extended = gx.resume(first, time=2000)
    assert_same(contents(extended.folder), contents(whole.folder))


def test_a_cost_budget_is_extended(features: Path) -> None:
    plain = study(features, budget={"cost": 9.0})
    for name, price in (("flat", 1.0), ("tall", 0.5), ("dot", 2.0)):
        plain["arms"][name]["cost"] = price
    first = gx.run(plain, features / "run")
    rows = list(first.samples())
    assert first.summary["cost"] <= 9.0
    extended = gx.resume(first, cost=45.0)
    assert 40.0 < extended.summary["cost"] <= 45.0
    assert list(extended.samples())[: len(rows)] == rows


def test_a_finished_run_without_new_numbers_stays_as_it_is(features: Path) -> None:
    run = gx.run(study(features, 60), features / "run")
    before = contents(run.folder)
    for numbers in ({}, {"samples": 60}):
        again = gx.resume(run, **numbers)
        assert_same(contents(again.folder), before)
    with JournalReader.open(run.folder) as journal:
        assert [event["kind"] for event in journal.events()] == ["start", "finished"]


def test_a_change_of_the_budget_is_an_event(features: Path) -> None:
    run = gx.run(study(features, 60), features / "run")
    gx.resume(run, samples=80, time="1h")
    with JournalReader.open(run.folder) as journal:
        events, plain = journal.events(), journal.meta("study")
    assert [e["kind"] for e in events] == [
        *("start", "finished", "changed", "changed", "start", "finished"),
    ]
    assert events[2]["detail"] == {
        "key": "budget.samples",
        "old": "60",
        "new": "80",
        "why": "budget.samples is now 80; it was 60",
    }
    assert events[3]["detail"]["why"] == "budget.time is now 3600.0; it was none"
    assert plain["budget"] == {"samples": 80, "cost": None, "time": 3600.0}


REFUSED: list[tuple[dict[str, Any], str]] = [
    (
        {"samples": 59},
        "budget.samples is 59, but the run already has 60 samples; pass a larger total.",
    ),
    (
        {"cost": 29.9},
        "budget.cost is 29.9, but the run has already cost 30; pass a larger total.",
    ),
    (
        {"time": 1e-9},
        "budget.time is 0 s, but the run has already taken ",
    ),
    (
        {"samples": -1},
        "budget.samples: budget.samples is -1; use a whole number of at least 1.",
    ),
    ({"samples": 5000}, "the arms have 1,200 samples in total, but the budget asks for 5,000"),
]


def test_totals_that_cannot_be_are_refused_in_one_sentence(features: Path) -> None:
    plain = study(features, 60)
    for arm in plain["arms"].values():
        arm["cost"] = 0.5
    run = gx.run(plain, features / "run")
    before = contents(run.folder)
    for numbers, sentence in REFUSED:
        with pytest.raises(gx.InputError) as refused:
            gx.resume(run, **numbers)
        assert str(refused.value).startswith(sentence)
        assert "\n" not in str(refused.value)
    assert_same(contents(run.folder), before)
    assert run.status == "finished"


def test_the_limit_of_an_exact_kernel_is_checked_again(
    features: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vendi, "EXACT_LIMIT", 30)
    monkeypatch.setattr(supply, "EXACT_LIMIT", 30)
    exact = {"vendi": {"kernel": "gaussian"}}
    run = gx.run(study(features, 20, objective=exact), features / "run")
    with pytest.raises(gx.InputError, match="the budget is too large for the objective"):
        gx.resume(run, samples=31)
    assert gx.resume(run, samples=30).summary["samples"] == 30


def test_an_unfinished_run_can_be_shortened(features: Path) -> None:
    folder = features / "run"
    gx.run(study(features, 60, in_flight=8), folder, callbacks=[stop_at(30)])
    told = gx.Run(folder).summary["samples"]
    assert told >= 30
    run = gx.resume(folder, samples=told + 1)
    assert run.status == "finished"
    assert run.summary["samples"] == told + 1


def test_a_run_that_has_settled_stays_so(features: Path) -> None:
    """The run with the larger budget would have stopped at the same sample."""
    plain = study(features, 150, stop_when={"weights_within": 0.5, "over": 20})
    run = gx.run(plain, features / "run")
    rows = list(run.samples())
    assert len(rows) < 150
    again = gx.resume(run, samples=300)
    assert list(again.samples()) == rows
    assert "settled" in again.summary["reason"]


@pytest.mark.drill
@pytest.mark.parametrize("policy", ["mixture-ucbv", "mixture-greedy"])
@pytest.mark.parametrize("seed", [0, 1])
def test_300_and_200_more_are_500(features: Path, policy: str, seed: int) -> None:
    more = {"policy": policy, "seed": seed, "draw": "iid", "warm_start": 10}
    whole = gx.run(study(features, 500, **more), features / "whole")
    run = gx.run(study(features, 300, **more), features / "run")
    gx.resume(run, samples=500)
    assert_same(contents(run.folder), contents(whole.folder))
