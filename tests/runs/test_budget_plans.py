"""Runs with both a number of samples and a cost budget deliver all samples within the cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import genmix as gx
from genmix.generators.base import GenerationError
from genmix.journal.reader import JournalReader
from genmix.journal.schema import embedding_of
from genmix.runs.check import check_study
from genmix.runs.spending.planning import UNAFFORDABLE
from genmix.runs.timeline import Live

Function = Callable[[list[int]], Any]


@pytest.fixture(autouse=True)
def _no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENMIX_REPORT", "off")


def arm(position: int, cost: Callable[[Any], float | None], **more: Any) -> dict[str, Any]:
    """An arm that returns points around its own axis."""

    async def make(seeds: list[int]) -> list[Any]:
        found = []
        for seed in seeds:
            rng = np.random.default_rng(seed)
            row = 2 * np.eye(4)[position] + 0.5 * rng.normal(size=4)
            found.append({"vector": row.tolist(), "cost": cost(rng)})
        return found

    return {"kind": "callable", "function": make, "concurrency": 4, **more}


def study(samples: int | None, cost: float | None, **more: Any) -> dict[str, Any]:
    arms = {
        "big": arm(0, lambda rng: 1.0, price=1.0),
        "cheap": arm(1, lambda rng: 0.1, price=0.1),
    }
    limits = {"samples": samples, "cost": cost}
    plain = {
        "arms": arms,
        "objective": {"rke": {"kernel": "cosine"}},
        "policy": "mixture-greedy",
        "budget": {key: value for key, value in limits.items() if value is not None},
        "resolve_growth": 0.1,
    }
    return plain | more


def plan_events(folder: Path) -> list[dict[str, Any]]:
    with JournalReader.open(folder) as journal:
        return [e["detail"] for e in journal.events() if e["kind"] == "plan"]


def check_cost(run: gx.Run, cost: float) -> None:
    assert run.summary["cost"] <= cost * (1 + 1e-9)
    with JournalReader.open(run.folder) as journal:
        assert math.fsum(journal.costs()) == run.summary["cost"]


# -- all samples, within the cost, with the best mixture ---------------------------------------------


class Solves:
    """Keeps the weights and the region after every solve of a run."""

    def __init__(self) -> None:
        self.found: list[tuple[int, dict[str, float], Any, float]] = []

    def __call__(self, live: Live) -> None:
        selector = live.selector
        if selector.region is not None and (
            not self.found or self.found[-1][2] is not selector.region
        ):
            told = sum(selector.counts.values())
            self.found.append((told, selector.weights, selector.region, selector.gap))


def check_solves(run: gx.Run, solves: Solves, arms: list[str]) -> None:
    """Every mixture is the best one for the row that the run used, by CVXPY on its own kernel means."""
    with JournalReader.open(run.folder) as journal:
        rows = [(row["arm"], embedding_of(row), row["cost"]) for row in journal.told_rows()]
    assert len(solves.found) >= 10
    for told, weights, region, gap in solves.found:
        unit = {a: np.array([x for b, x, _ in rows[:told] if a == b]) for a in arms}
        unit = {a: x / np.linalg.norm(x, axis=1, keepdims=True) for a, x in unit.items()}
        means = np.array([[np.mean((unit[a] @ unit[b].T) ** 2) for b in arms] for a in arms])
        costs = np.array([np.mean([c for b, _, c in rows[:told] if a == b]) for a in arms])
        np.testing.assert_allclose(region.rows, costs[None, :], rtol=1e-9)
        limit = max(float(region.limits[0]), costs.min())
        alpha = cp.Variable(len(arms), nonneg=True)
        problem = cp.Problem(
            cp.Minimize(cp.quad_form(alpha, cp.psd_wrap(means))),
            [cp.sum(alpha) == 1, costs @ alpha <= limit],
        )
        best = problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11)
        ours = np.array([weights[a] for a in arms])
        assert costs @ ours <= limit * (1 + 1e-7)
        assert ours @ means @ ours == pytest.approx(best, abs=1e-7)
        assert gap < 1e-6


def play(folder: Path, seed: int, cost: float, is_checked: bool) -> None:
    in_flight, batch = (1, 1) if seed % 20 == 0 else (16, 8)
    plan = study(300, cost, seed=seed, in_flight=in_flight)
    for settings in plan["arms"].values():
        settings["batch"] = batch
    solves = Solves()
    run = gx.run(plan, folder / f"run {seed}", callbacks=[solves] if is_checked else [])
    assert sum(run.counts.values()) == 300
    assert run.status == "finished"
    check_cost(run, cost)
    assert run.summary["reason"] == "the budget of 300 samples is spent"
    if is_checked:
        check_solves(run, solves, ["big", "cheap"])


@pytest.mark.parametrize(("seed", "cost"), [(1, 60.0), (2, 120.0), (3, 48.0), (4, 31.0)])
def test_300_samples_arrive_within_the_cost(tmp_path: Path, seed: int, cost: float) -> None:
    play(tmp_path, seed, cost, is_checked=cost > 40)


@pytest.mark.long
def test_300_samples_arrive_within_the_cost_in_100_runs(tmp_path: Path) -> None:
    for seed in range(100):
        cost = 30.0 + 3.0 * (seed % 25)
        play(tmp_path, seed, cost, is_checked=cost > 45 and seed % 10 == 0)


def test_the_final_mixture_is_the_best_one_for_the_budget_per_sample(tmp_path: Path) -> None:
    run = gx.run(study(60, 15.0), tmp_path / "run")
    weights = run.summary["weights"]
    assert weights["big"] + 0.1 * weights["cheap"] == pytest.approx(0.25, rel=1e-6)
    assert run.summary["mean_cost"] == 0.25
    assert run.summary["price_of_money"] > 0
    assert run.summary["asked"] == {"samples": 60, "cost": 15.0}
    (tmp_path / "run" / "selector.npz").unlink()
    again = gx.resume(tmp_path / "run", study=study(60, 15.0))
    assert again.summary["weights"] == weights


# -- costs that vary, are unknown, or are charged for failures ---------------------------------------


@pytest.mark.parametrize("in_flight", [1, 8])
def test_random_costs(tmp_path: Path, in_flight: int) -> None:
    arms = {
        "big": arm(0, lambda rng: float(rng.uniform(0.2, 1.0)), price=1.0),
        "mid": arm(2, lambda rng: float(rng.uniform(0.1, 0.5)), price=0.5),
        "cheap": arm(1, lambda rng: float(rng.uniform(0.05, 0.1)), price=0.1),
    }
    run = gx.run(study(60, 14.0, arms=arms, in_flight=in_flight), tmp_path / "run")
    assert sum(run.counts.values()) == 60
    check_cost(run, 14.0)
    assert run.summary["cost"] > 9


def test_bounds_far_above_the_costs_do_not_exclude_arms(tmp_path: Path) -> None:
    """Texts cost much less than their longest possible answer."""
    arms = {
        "big": arm(0, lambda rng: float(rng.uniform(0.1, 0.3)), price=2.0),
        "cheap": arm(1, lambda rng: float(rng.uniform(0.02, 0.04)), price=0.4),
    }
    run = gx.run(study(60, 7.0, arms=arms), tmp_path / "run")  # 60 samples could cost 24
    assert sum(run.counts.values()) == 60
    check_cost(run, 7.0)
    assert run.counts["big"] >= 15


def test_unknown_costs(tmp_path: Path) -> None:
    arms = {"big": arm(0, lambda rng: 1.0), "cheap": arm(1, lambda rng: 0.1)}
    run = gx.run(study(60, 18.0, arms=arms, in_flight=4), tmp_path / "run")
    assert sum(run.counts.values()) == 60
    check_cost(run, 18.0)


def test_arms_that_report_no_cost_count_as_free(tmp_path: Path) -> None:
    arms = {"big": arm(0, lambda rng: 1.0, price=1.0), "local": arm(1, lambda rng: None)}
    run = gx.run(study(60, 15.0, arms=arms), tmp_path / "run")
    assert sum(run.counts.values()) == 60
    assert run.summary["cost"] == run.counts["big"] <= 15


def flaky(position: int, cost: float, share: float, charged: float) -> dict[str, Any]:
    """An arm that fails now and then, and charges for it."""

    async def make(seeds: list[int]) -> list[Any]:
        found: list[Any] = []
        for seed in seeds:
            rng = np.random.default_rng(seed)
            if rng.random() < share:
                found.append(GenerationError("no luck.", cost=charged))
                continue
            row = 2 * np.eye(4)[position] + 0.5 * rng.normal(size=4)
            found.append({"vector": row.tolist(), "cost": cost})
        return found

    return {"kind": "callable", "function": make, "price": cost, "concurrency": 4}


RETRIES = {"first_wait": 0.001, "longest_wait": 0.01, "probe_after": 0.01, "suspend_after": 9}


@pytest.mark.parametrize("in_flight", [1, 6])
def test_failing_arms(tmp_path: Path, in_flight: int) -> None:
    arms = {"big": flaky(0, 1.0, 0.3, 0.02), "cheap": flaky(1, 0.1, 0.3, 0.01)}
    plan = study(60, 20.0, arms=arms, in_flight=in_flight, retries=RETRIES)
    run = gx.run(plan, tmp_path / "run")
    assert sum(run.counts.values()) == 60
    check_cost(run, 20.0)
    assert run.summary["failures"]["cheap"] > 0


def test_the_plan_continues_without_a_cheap_arm_that_fails(tmp_path: Path) -> None:
    async def broken(seeds: list[int]) -> list[Any]:
        return [GenerationError("out of order.", retryable=False) for _ in seeds]

    arms = study(40, None)["arms"] | {
        "broken": {"kind": "callable", "function": broken, "price": 0.01}
    }
    retries = RETRIES | {"probe_after": 60.0}
    run = gx.run(study(40, 20.0, arms=arms, retries=retries), tmp_path / "run")
    assert sum(run.counts.values()) == 40
    check_cost(run, 20.0)


def test_waiting_for_a_cheap_arm_ends_after_a_while(tmp_path: Path) -> None:
    """Then the money that was kept for it is spent on the others."""
    calls = 0

    async def once_good(seeds: list[int]) -> list[Any]:
        nonlocal calls
        calls += 1
        if calls > 4:
            return [GenerationError("try again later.") for _ in seeds]
        rows = [2 * np.eye(4)[1] + np.random.default_rng(s).normal(size=4) / 2 for s in seeds]
        return [{"vector": row.tolist(), "cost": 0.1} for row in rows]

    arms = {
        "big": arm(0, lambda rng: 1.0, price=1.0),
        "cheap": {"kind": "callable", "function": once_good, "price": 0.1},
    }
    retries = {"first_wait": 0.001, "attempts": 1, "suspend_after": 1, "probe_after": 0.02}
    plan = study(30, 10.0, arms=arms, retries=retries | {"give_up": 0.2}, warm_start=3)
    run = gx.run(plan, tmp_path / "run")
    assert run.counts == {"big": 9, "cheap": 4}
    assert run.summary["reason"] == "the cost budget of 10 does not cover another sample"


# -- budgets that do not suffice ---------------------------------------------------------------------


def test_as_many_samples_as_possible_if_the_cost_does_not_suffice(tmp_path: Path) -> None:
    notes: list[str] = []
    run = gx.run(study(60, 5.0), tmp_path / "run", note=notes.append)
    assert notes[0] == (
        "60 samples cost at least 6; the budget is 5: expect about 50, all from the cheapest arm."
    )
    assert run.counts == {"big": 0, "cheap": 50}
    assert run.summary["reason"] == "the cost budget of 5 does not cover another sample"
    assert run.weights == {"cheap": 1.0}


def test_a_run_that_continues_says_what_the_money_left_does_not_cover(tmp_path: Path) -> None:
    run, notes = gx.run(study(60, 20.0), tmp_path / "run"), list[str]()
    paid, before = run.summary["cost"], run.counts["cheap"]
    more = gx.resume(run, samples=80, study=study(60, 20.0), note=notes.append)
    left = 20.0 - paid
    assert more.counts["cheap"] - before == pytest.approx(left / 0.1, abs=1)
    [line] = [note for note in notes if "is left for" in note]
    enough = float(line.rpartition("--cost ")[2].partition(")")[0])
    assert enough == pytest.approx(paid * 80 / 60, rel=0.01)
    assert enough >= paid * 80 / 60
    assert line == (
        f"{left:.2g} is left for 20 more samples: expect about {left / 0.1:.0f}, all from the cheapest "
        f"arm; a total cost of {enough:g} (--cost {enough:g}) keeps the mixture."
    )
    notes.clear()
    gx.resume(run, samples=80, cost=enough, study=study(60, 20.0), note=notes.append)
    assert not any("is left for" in note for note in notes)


def test_a_run_that_continues_says_that_the_mixture_will_change(tmp_path: Path) -> None:
    run, notes = gx.run(study(60, 20.0), tmp_path / "run"), list[str]()
    gx.resume(run, samples=80, cost=22.5, study=study(60, 20.0), note=notes.append)
    [line] = [note for note in notes if "is left for" in note]
    assert (
        "is left for 20 more samples, which cost 6.5 at the mean cost so far: expect more" in line
    )
    assert line.endswith("; a total cost of 26 (--cost 26) keeps the mixture.")


def test_a_warm_start_that_does_not_fit_is_shortened(tmp_path: Path) -> None:
    notes: list[str] = []
    run = gx.run(study(60, 11.0), tmp_path / "run", note=notes.append)
    assert notes[0].startswith("The warm start is shortened to 5 samples per arm, because the cost")
    assert plan_events(tmp_path / "run")[0] == {"warm_start": 5}
    assert sum(run.counts.values()) == 60
    assert run.counts["big"] == 5
    check_cost(run, 11.0)
    assert set(run.weights) == {"big", "cheap"}


def test_an_arm_whose_warm_start_does_not_fit_is_left_out(tmp_path: Path) -> None:
    notes: list[str] = []
    run = gx.run(study(60, 8.0), tmp_path / "run", note=notes.append)
    assert (
        "The arm 'big' will not be used unless samples cost less than their upper bound" in notes[0]
    )
    assert run.counts == {"big": 0, "cheap": 60}
    assert run.summary["retired"] == ["big"]
    with JournalReader.open(run.folder) as journal:
        [retired] = [e for e in journal.events() if e["kind"] == "retire"]
    assert retired["detail"]["why"] == UNAFFORDABLE


def test_an_arm_that_was_left_out_joins_when_the_budget_is_raised(tmp_path: Path) -> None:
    gx.run(study(60, 8.0), tmp_path / "run")
    run = gx.resume(tmp_path / "run", samples=100, cost=40.0, study=study(60, 8.0))
    assert sum(run.counts.values()) == 100
    assert run.counts["big"] > 10
    check_cost(run, 40.0)


@pytest.mark.parametrize(("in_flight", "costs"), [(1, (9.1, 10.5)), (8, (5.0, 8.9, 9.1, 12.0))])
def test_more_money_does_not_exclude_an_arm(
    tmp_path: Path, in_flight: int, costs: tuple[float, ...]
) -> None:
    """Samples cost a tenth of their bounds; from a budget of 9, the bounds guarantee all samples."""
    arms = {
        "big": arm(0, lambda rng: float(rng.uniform(0.05, 0.15)), price=1.0),
        "cheap": arm(1, lambda rng: float(rng.uniform(0.005, 0.015)), price=0.1),
    }
    for cost in costs:
        run = gx.run(study(90, cost, arms=arms, in_flight=in_flight), tmp_path / f"run {cost}")
        assert sum(run.counts.values()) == 90
        check_cost(run, cost)
        assert run.counts["big"] >= 20
        assert run.summary["retired"] == []


def test_a_resumed_run_lets_the_arm_return_at_the_same_sample(tmp_path: Path) -> None:
    arms = {
        "big": arm(0, lambda rng: 0.1, price=1.0),
        "cheap": arm(1, lambda rng: 0.01, price=0.1),
    }
    plan = study(60, 6.2, arms=arms, in_flight=1)

    def stop(live: Live) -> None:
        if live.told == 25:
            live.loop.stop("interrupted")

    whole = gx.run(plan, tmp_path / "whole")
    gx.run(plan, tmp_path / "part", callbacks=[stop])
    part = gx.resume(tmp_path / "part", study=plan)
    drawn = [[row["model_name"] for row in run.samples()] for run in (whole, part)]
    assert drawn[0] == drawn[1]
    assert drawn[0].index("big") > 25


def test_a_cost_budget_alone_is_spent_on_the_arms_that_still_fit(tmp_path: Path) -> None:
    run = gx.run(study(None, 25.35), tmp_path / "run")
    assert run.summary["cost"] == pytest.approx(25.3)  # 0.05 is left: less than any sample
    assert run.summary["reason"] == "the cost budget of 25.35 does not cover another sample"
    assert plan_events(tmp_path / "run")[-1] == {"arms": ["cheap"]}


def test_policies_that_do_not_solve_stay_within_the_cost(tmp_path: Path) -> None:
    run = gx.run(study(60, 20.0, policy="uniform"), tmp_path / "run")
    assert sum(run.counts.values()) == 60
    check_cost(run, 20.0)
    assert all("mean_cost" not in event for event in plan_events(tmp_path / "run"))


# -- killing and resuming ----------------------------------------------------------------------------


@pytest.mark.parametrize(("stop_at", "keeps_snapshot"), [(5, True), (17, False), (29, True)])
def test_a_resumed_run_keeps_the_plan(tmp_path: Path, stop_at: int, keeps_snapshot: bool) -> None:
    plan = study(32, 7.0, in_flight=1, warm_start=3, resolve_growth=0.2)

    def stop(live: Live) -> None:
        if live.told == stop_at:
            live.loop.stop("interrupted")

    whole = gx.run(plan, tmp_path / "whole")
    assert gx.run(plan, tmp_path / "part", callbacks=[stop]).status == "interrupted"
    if not keeps_snapshot:
        (tmp_path / "part" / "selector.npz").unlink()
    part = gx.resume(tmp_path / "part", study=plan)
    assert part.weights == whole.weights
    drawn = [[row["model_name"] for row in run.samples()] for run in (whole, part)]
    assert drawn[0] == drawn[1]
    means = [
        [event["mean_cost"] for event in plan_events(folder) if "mean_cost" in event]
        for folder in (tmp_path / "whole", tmp_path / "part")
    ]
    assert means[0] == means[1]


# -- promises and results ----------------------------------------------------------------------------


@pytest.mark.parametrize("in_flight", [1, 8])
@pytest.mark.parametrize(
    ("costs", "cost"),
    [
        ({"only": (0.1, 0.5)}, 3.0),
        ({"only": (0.1, 0.5)}, 3.4),
        ({"big": (1.0, 1.5), "cheap": (0.1, 0.5)}, 4.5),
        ({"big": (0.3, 0.9), "cheap": (0.1, 0.5)}, 8.0),
        ({"exact": (0.6, 0.6), "cheap": (0.1, 0.5)}, 5.0),
    ],
)
def test_as_many_samples_arrive_as_check_says(
    tmp_path: Path, costs: dict[str, tuple[float, float]], cost: float, in_flight: int
) -> None:
    """The costs are known exactly only from the samples, some of which fail before they are charged."""

    def rarely(position: int, each: float, bound: float) -> dict[str, Any]:
        plain = flaky(position, each, 0.1, 0.0)
        return plain | {"price": bound}

    arms = {
        name: arm(position, lambda rng, each=each: each, price=bound)  # type: ignore[misc]
        for position, (name, (each, bound)) in enumerate(costs.items())
    }
    plan = study(30, cost, arms=arms, in_flight=in_flight)
    found = check_study(plan).estimate
    assert found is not None
    flaky_arms = {name: rarely(k, *each) for k, (name, each) in enumerate(costs.items())}
    run = gx.run(plan | {"arms": flaky_arms, "retries": RETRIES}, tmp_path / "run")
    check_cost(run, cost)
    assert sum(run.counts.values()) == found.expected


@pytest.mark.parametrize(("cost", "is_enough"), [(4.3, False), (4.5, True)])
def test_a_run_that_continues_keeps_the_bound_of_the_last_sample(
    tmp_path: Path, cost: float, is_enough: bool
) -> None:
    arms = {"only": arm(0, lambda rng: 0.1, price=0.5)}
    run, notes = gx.run(study(20, 4.0, arms=arms), tmp_path / "run"), list[str]()
    plan = study(20, 4.0, arms=arms)
    more = gx.resume(run, samples=41 if is_enough else 40, cost=cost, study=plan, note=notes.append)
    short = [note for note in notes if "is left for" in note]
    if is_enough:
        assert not short
        assert more.counts["only"] == 41
        return
    assert "expect about 19" in short[0]
    assert "--cost 4.4" in short[0]
    assert more.counts["only"] == 39
