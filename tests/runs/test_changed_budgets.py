"""Planned runs whose budget or arms change, and whose arms run out."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.journal.reader import JournalReader
from genmix.runs.check import check_study
from genmix.runs.prepare import Parts, Plan
from genmix.runs.spending.estimate import estimate
from tests.runs.test_budget_plans import arm, check_cost, plan_events, study
from tests.support.endpoint import Endpoint


@pytest.fixture(autouse=True)
def _no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENMIX_REPORT", "off")


@pytest.mark.parametrize("budget", [{"samples": 200}, {"cost": 100.0}])
def test_without_the_limit_the_mixture_is_free_again(
    tmp_path: Path, budget: dict[str, float]
) -> None:
    run = gx.run(study(60, 15.0), tmp_path / "run")
    assert run.weights["big"] < 0.2
    more = gx.resume(run, study=study(None, None, budget=budget))
    planned = [event for event in plan_events(run.folder) if "mean_cost" in event]
    assert planned[-1] == {"mean_cost": None}
    assert more.weights["big"] > 0.4
    assert more.summary["mean_cost"] is None


def test_more_money_reaches_the_mixture_at_once_even_at_the_end_of_a_run(tmp_path: Path) -> None:
    """In the last tenth of the samples, the limit would otherwise stay as it was."""
    run = gx.run(study(200, 30.0, in_flight=1), tmp_path / "run")
    assert run.weights["big"] < 0.1
    before = run.counts["big"]
    more = gx.resume(run, study=study(218, 60.0, in_flight=1))
    assert sum("solve" in event for event in plan_events(run.folder)) == 1
    assert more.counts["big"] - before >= 5  # of 18: it has half of the weight now
    rows = list(gx.resume(more, study=study(218, 60.0, in_flight=1)).samples())
    assert rows == list(more.samples())  # replaying the journal solves at the same place
    check_cost(more, 60.0)


def test_an_arm_of_unknown_cost_joins_a_planned_run(tmp_path: Path) -> None:
    def local(seeds: list[int]) -> list[Any]:
        rows = [2 * np.eye(4)[2] + np.random.default_rng(s).normal(size=4) / 2 for s in seeds]
        return [row.tolist() for row in rows]

    run = gx.run(study(40, 16.0), tmp_path / "run")
    arms = study(40, 16.0)["arms"] | {"local": {"kind": "callable", "function": local}}
    more = gx.resume(run, study=study(90, 36.0, arms=arms))
    with JournalReader.open(run.folder) as journal:
        assert journal.failures() == []
    assert sum(more.counts.values()) == 90
    assert more.counts["local"] > 15
    check_cost(more, 36.0)


# -- prices and shares that change -------------------------------------------------------------------


def priced(samples: int, cost: float, big: float, **more: Any) -> dict[str, Any]:
    """Both arms bill their price, and that of the first one is ``big``."""
    arms = {
        "big": arm(0, lambda rng: big, price=big),
        "cheap": arm(1, lambda rng: 0.1, price=0.1),
    }
    return study(samples, cost, arms=arms, **more)


def test_a_new_price_reaches_the_mixture(tmp_path: Path) -> None:
    """With 0.28 per sample, the first arm's share is at most 0.2 at a price of 1, and free at 0.1."""
    run = gx.run(priced(60, 16.8, 1.0), tmp_path / "run")
    assert run.weights["big"] == pytest.approx(0.2, abs=0.05)
    before = run.counts["big"]
    later = gx.resume(run, study=priced(200, 56.0, 0.1))
    assert later.weights["big"] == pytest.approx(0.5, abs=0.1)
    costs = [e["new_prices"] for e in plan_events(run.folder) if "new_prices" in e]
    assert costs == [{"big": [0.1, before, pytest.approx(before)]}]
    (run.folder / "selector.npz").unlink()  # the journal alone reproduces it
    assert gx.resume(run, study=priced(200, 56.0, 0.1)).weights == later.weights
    check_cost(later, 56.0)


def test_a_higher_price_is_respected(tmp_path: Path) -> None:
    run = gx.run(priced(60, 30.0, 0.1), tmp_path / "run")
    assert run.weights["big"] == pytest.approx(0.5, abs=0.1)
    later = gx.resume(run, study=priced(200, 6.0 + 140 * 0.28, 1.0))
    assert sum(later.counts.values()) == 200
    assert later.weights["big"] < 0.35
    check_cost(later, 6.0 + 140 * 0.28)
    assert sum(e["kind"] == "changed" for e in events_of(run.folder)) >= 1


def events_of(folder: Path) -> list[dict[str, Any]]:
    with JournalReader.open(folder) as journal:
        return journal.events()


def test_shares_change_and_the_arm_that_they_name_can_go(tmp_path: Path) -> None:
    first = study(40, None, weights={"at_least": {"big": 0.6}})
    run = gx.run(first, tmp_path / "run")
    assert run.weights["big"] >= 0.6 - 1e-9
    run = gx.resume(run, study=study(80, None, weights={"at_most": {"big": 0.3}}))
    assert run.weights["big"] <= 0.3 + 1e-9
    (run.folder / "selector.npz").unlink()
    last = study(80, None, weights={"at_most": {"big": 0.3}})
    assert gx.resume(run, study=last).weights == run.weights
    rest = study(90, None)
    rest["arms"] = {"cheap": rest["arms"]["cheap"], "new": arm(2, lambda rng: 0.0, price=0.0)}
    run = gx.resume(run, study=rest)
    assert set(run.weights) == {"cheap", "new"}
    assert [e["shares"] for e in plan_events(run.folder) if "shares" in e] == [
        {"at_least": {}, "at_most": {"big": 0.3}},
        {"at_least": {}, "at_most": {}},
    ]


def test_an_arm_that_was_left_out_returns_when_the_others_run_out(tmp_path: Path) -> None:
    rows = 2 * np.eye(4)[2] + np.random.default_rng(0).normal(size=(60, 4)) / 2
    np.save(tmp_path / "mine.npy", rows)
    mine = {
        "kind": "recorded",
        "path": str(tmp_path / "mine.npy"),
        "exhausted": "retire",
        "cost": 0.1,
    }
    arms = {"mine": mine, "big": arm(0, lambda rng: 1.0, price=1.0)}
    run = gx.run(study(100, 9.5, arms=arms), tmp_path / "run")
    assert run.counts["mine"] == 60
    assert run.counts["big"] == 3  # what 3.5 covers
    check_cost(run, 9.5)


# -- an arm that runs out ----------------------------------------------------------------------------


@pytest.mark.parametrize("cost", [7.5, 20.0])
def test_a_free_arm_that_runs_out_is_not_counted_twice(tmp_path: Path, cost: float) -> None:
    """30 samples are free, and the other 50 cost at least 5."""
    rows = 2 * np.eye(4)[2] + np.random.default_rng(0).normal(size=(30, 4)) / 2
    np.save(tmp_path / "mine.npy", rows)
    mine = {"kind": "recorded", "path": str(tmp_path / "mine.npy"), "once": True}
    plan = study(80, cost, arms={"mine": mine} | study(80, cost)["arms"])
    run = gx.run(plan, tmp_path / "run")
    assert sum(run.counts.values()) == 80
    check_cost(run, cost)
    prepared = Plan.of(plan)
    found = estimate(prepared.study, Parts.build(prepared, print).generators)
    assert found.cost is not None
    assert (found.cost.cheapest, found.cost.dearest) == (pytest.approx(5.0), 80.0)
    assert found.lines[0].startswith("80 samples cost 5 (30 from mine) to 80 (all from big)")


# -- bounds on the weights ---------------------------------------------------------------------------


def test_bounds_that_the_budget_does_not_cover_are_named(tmp_path: Path) -> None:
    notes: list[str] = []
    plan = study(60, 15.0, weights={"at_least": {"big": 0.5}})
    run = gx.run(plan, tmp_path / "run", note=notes.append)
    assert notes[0] == (
        "60 samples with the shares in weights cost at least 33; the budget is 15: raise budget.cost, or "
        "expect other shares."
    )
    assert run.summary["price_of_money"] is None
    assert sum(run.counts.values()) == 60
    check_cost(run, 15.0)


def test_a_budget_that_covers_no_sample_is_refused(tmp_path: Path) -> None:
    with pytest.raises(gx.InputError) as refused:
        gx.run(study(20, 0.05), tmp_path / "run")
    assert str(refused.value).startswith(
        "the cost budget of 0.05 does not cover a single sample, because one from the cheapest arm can cost "
        "up to 0.1;"
    )
    [problem] = check_study(study(20, 0.05)).problems
    assert "does not cover a single sample" in problem


def test_a_new_token_price_scales_the_mean_cost(tmp_path: Path) -> None:
    """The upper bound is several times the mean, so it would starve the arm whose price has fallen."""
    with Endpoint() as endpoint:

        def priced_tokens(samples: int, cost: float, big: float) -> dict[str, Any]:
            arms = {
                name: {
                    "kind": "openai",
                    "base_url": endpoint.url,
                    "model": name,
                    "prompt": name,
                    "max_tokens": 60,
                    "price": {"input": 0.0, "output": price},
                }
                for name, price in (("big", big), ("small", 0.001))
            }
            more = {"encoder": {"kind": "callable", "function": embed}}
            return study(samples, cost, arms=arms, weights={"at_least": {"big": 0.4}}, **more)

        run = gx.run(priced_tokens(60, 40.0, 1.0), tmp_path / "run")
        mean = np.mean([row["cost"] for row in run.samples() if row["model_name"] == "big"])
        limit = run.summary["cost"] + 60 * mean / 4
        later = gx.resume(run, study=priced_tokens(120, limit, 0.5))
        [new] = [e["new_prices"] for e in plan_events(run.folder) if "new_prices" in e]
        assert new["big"][0] == pytest.approx(mean / 2)
        assert later.counts["big"] - run_counts(run, 60)["big"] >= 15
        check_cost(later, limit)


def embed(texts: list[str]) -> Any:
    return np.array([[1.0 + text.count(c) for c in "abcdefgh"] for text in texts])


def run_counts(run: gx.Run, first: int) -> Counter[str]:
    return Counter(row["model_name"] for row in list(run.samples())[:first])
