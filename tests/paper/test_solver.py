"""EG against Newton: the paths are those of the solvers, the runs are paired, the words say so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import genmix as gx
from genmix.comparison.worlds import World
from genmix.paper import solver_ablation as solver
from genmix.paper.feature_files import LoadedDataset
from genmix.paper.items import Rows, Settings
from genmix.solvers.loss import Loss
from genmix.solvers.simplex import uniform
from tests.support.helpers import gaussian_arms, loss_of

RNG = np.random.default_rng(5)
CLOUDS = gaussian_arms(RNG, (60, 60, 60), 6, spread=0.7)
REFERENCE = np.concatenate([rows[:30] for rows in CLOUDS])
ARMS = {f"a{i}": rows for i, rows in enumerate(CLOUDS)}
DATA = LoadedDataset(World("fashion", ARMS, REFERENCE, "x"), ("ffhq",), False)
QUICK = Settings(quick=True)


@pytest.fixture(scope="module", autouse=True)
def rates() -> Iterator[tuple[float, ...]]:
    """Three of the five rates; a drill measures all of them."""
    every = solver.RATES
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solver, "RATES", (0.001, 0.1, 10.0))
        yield every


@pytest.fixture(scope="module")
def gaps() -> Rows:
    return solver.measure_gaps(QUICK, DATA)


@pytest.fixture(scope="module")
def runs() -> Rows:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solver, "STEPS", (2, 150, 200))
        patch.setattr(solver, "QUICK_ROUNDS", 18)
        return solver.compare_solvers(QUICK, DATA, {"frechet_distance": 0.1, "vendi": 1.0})


def losses() -> list[Loss]:
    return [loss_of(objective, ARMS) for objective in solver.objectives(DATA.world)]


# -- paths -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [10, 100])
@pytest.mark.parametrize("rate", [0.01, 0.5])
def test_the_path_of_eg_is_that_of_the_solver(steps: int, rate: float) -> None:
    for loss in losses():
        start = np.array([0.7, 0.2, 0.1])
        path = {p["step"]: p for p in solver.eg_path(loss, start, rate, 100)}
        found = gx.EG(rate, steps).solve(loss, start)
        assert path[steps]["gap"] == found.gap
        assert path[steps]["loss"] == found.loss
        assert path[steps]["expansions"] == steps + 1


def test_the_path_of_newton_ends_where_newton_does() -> None:
    for loss in losses():
        *_, last = solver.newton_path(loss, uniform(3))
        found = gx.Newton().solve(loss, uniform(3))
        assert (last["gap"], last["step"]) == (found.gap, found.iterations)
        assert last["expansions"] > last["step"]


def test_evaluations_are_counted() -> None:
    for loss in losses():
        counted = solver.CountedLoss(loss)
        gx.EG(0.1, 7).solve(counted, uniform(3))
        assert counted.count == 8  # and one for the certificate
        assert counted.value(uniform(3)) == loss.value(uniform(3))
        assert counted.count == 9


@pytest.mark.drill
def test_all_rates_of_the_item_are_measured(
    rates: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(solver, "RATES", rates)
    test_gaps_are_measured_for_every_rate_and_start(solver.measure_gaps(QUICK, DATA))


def test_gaps_are_measured_for_every_rate_and_start(gaps: Rows) -> None:
    series = {(row["objective"], row["start"], row["rate"]) for row in gaps}
    assert len(series) == 2 * 2 * (1 + len(solver.RATES))
    for row in gaps:
        assert row["gap"] > 0
        assert (row["solver"] == "Newton") == (row["rate"] is None)
    ends = [r for r in gaps if r["rate"] == 0.1 and r["step"] in (10, 100, 1000)]
    assert len(ends) == 12


def test_newton_certifies_far_less_with_far_less(gaps: Rows) -> None:
    for objective in solver.TITLES:
        mine = [r for r in gaps if r["objective"] == objective and r["start"] == "uniform"]
        newton = [r for r in mine if r["rate"] is None][-1]
        slow = next(r for r in mine if r["rate"] == 0.001 and r["step"] == 1000)
        assert newton["gap"] < 1e-6 < slow["gap"]
        assert newton["expansions"] < 30
        every = [r["loss"] for r in mine]
        assert newton["loss"] <= min(every) + newton["gap"]


def test_the_best_rate_is_the_one_with_the_least_gap() -> None:
    rows = [
        {"objective": name, "start": start, "rate": rate, "step": 1000, "gap": gap}
        for name in solver.TITLES
        for start in ("uniform", "warm")
        for rate, gap in ((0.1, 0.5), (1.0, 0.2 if start == "uniform" else 9.0))
    ]
    assert solver.best_rates(rows) == {"frechet_distance": 1.0, "vendi": 1.0}


# -- the reduced world -------------------------------------------------------------------------------


def test_the_reduced_world_keeps_the_directions_of_most_variance() -> None:
    scale = np.array([5.0, 0.1, 3.0, 0.2])
    reference = RNG.standard_normal((400, 4)) * scale + 7
    world = World("fashion", {"a": reference[:50], "b": reference[50:]}, reference)
    small = solver.project(LoadedDataset(world, ("ffhq",), False), 2)
    assert small.reference is not None
    assert small.dimension == 2
    assert small.reference.var(axis=0) == pytest.approx(reference.var(axis=0)[[0, 2]], rel=0.01)
    assert abs(small.reference.mean(axis=0)).max() < 1e-12
    whole = solver.project(LoadedDataset(world, ("ffhq",), False), 64)
    before = gx.score(world.arms, gx.FrechetDistance(world.reference)).arms
    after = gx.score(whole.arms, gx.FrechetDistance(whole.reference)).arms
    for name in world.arms:
        old, new = (float(side[name]["frechet_distance"]) for side in (before, after))
        assert new == pytest.approx(old)


# -- runs --------------------------------------------------------------------------------------------


def test_solvers_of_runs() -> None:
    made = solver.solvers(0.3)
    assert next(iter(made)) == "Newton"
    assert list(made)[-1] == "EG, 1000 steps, uniform"
    last = made["EG, 1000 steps, uniform"]
    assert last.solver == gx.EG(0.3, 1000, "uniform")
    assert made["EG, 100 steps, uniform, 10 η"].solver == gx.EG(3.0, 100, "uniform")


def test_a_uniform_start_forgets_the_last_weights() -> None:
    loss = losses()[0]
    found = gx.EG(0.01, 3, "uniform").solve(loss, np.array([1.0, 0.0, 0.0]))
    assert np.array_equal(found.weights, gx.EG(0.01, 3).solve(loss, uniform(3)).weights)


def test_exact_solvers_give_the_same_run(runs: Rows) -> None:
    for objective in solver.TITLES:
        mine = {
            (r["solver"], r["repeat"]): r["pooled"] for r in runs if r["objective"] == objective
        }
        assert len(mine) == 8 * solver.QUICK_REPEATS
        for repeat in range(solver.QUICK_REPEATS):
            assert mine["EG, 200 steps, uniform", repeat] == pytest.approx(
                mine["Newton", repeat], rel=0.05
            )
    vendi = {(r["solver"], r["repeat"]): r for r in runs if r["objective"] == "vendi"}
    assert vendi["Newton", 0]["pooled"] == vendi["EG, 150 steps, uniform", 0]["pooled"]
    assert vendi["Newton", 0]["pooled"] != vendi["Newton", 1]["pooled"]
    assert all(row["mean_excess"] >= -1e-12 for row in runs)


def test_differences_to_newton_are_paired_and_positive_where_better() -> None:
    rows = []
    for objective in solver.TITLES:
        for repeat, base in enumerate((10.0, 20.0)):
            for label, pooled in (("EG, 10 steps, warm", 1.1 * base), ("Newton", base)):
                rows.append(
                    {
                        "objective": objective,
                        "solver": label,
                        "repeat": repeat,
                        "pooled": pooled,
                        "mean_excess": 0.5,
                    }
                )
    found = {(r["objective"], r["solver"]): r for r in solver.against_newton(rows)}
    assert found["vendi", "EG, 10 steps, warm"]["percent"] == pytest.approx(10)
    assert found["frechet_distance", "EG, 10 steps, warm"]["percent"] == pytest.approx(-10)
    assert found["vendi", "EG, 10 steps, warm"]["gain"] == pytest.approx(1.5)
    assert found["vendi", "Newton"]["gain_low"] == 0
    labels = [row["label"] for row in solver.run_rows(list(found.values()))]
    assert labels == ["EG, 10 steps, warm"] * 2


def test_the_number_of_workers_changes_no_gap(gaps: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver, "RATES", (0.1,))
    some = [row for row in gaps if row["rate"] in (None, 0.1)]
    assert solver.measure_gaps(Settings(quick=True, workers=2), DATA) == some


# -- showing -----------------------------------------------------------------------------------------


def test_panels_have_every_series(gaps: Rows) -> None:
    panels = solver.gap_panels(gaps, "expansions")
    titles = [title for title, _, _ in panels]
    assert titles == [
        "FD, uniform start",
        "FD, warm start",
        "Vendi, uniform start",
        "Vendi, warm start",
    ]
    for _, rows, _ in panels:
        assert {row["series"] for row in rows} == {
            "Newton",
            *(f"EG η={rate:g}" for rate in solver.RATES),
        }
        assert all(row["x"] >= 1 and row["mean"] > 0 for row in rows)


def test_the_words_say_gaps_and_runs(gaps: Rows, runs: Rows, tmp_path: Path) -> None:
    said = solver.report(DATA, QUICK, gaps, solver.against_newton(runs))
    newton = next(line for line in said.splitlines() if line.startswith("| Newton"))
    assert newton.count("|") == 7
    assert "#### Vendi, warm start" in said
    assert "(quick)" in said
    assert "not known in advance" in said
    assert "Vendi: EG, 200 steps, uniform" in said
