"""The paper's exponentiated gradient against Newton: the gap per step and the effect on a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import genmix as gx
from genmix.comparison.comparison import Comparison
from genmix.comparison.statistics import mean_interval
from genmix.comparison.variant import Variant
from genmix.comparison.worlds import World
from genmix.core.arrays import Vector
from genmix.objectives.pool import Pool
from genmix.paper.comparisons import WARM_START, Size, compare_policies
from genmix.paper.feature_files import LoadedDataset, load_datasets
from genmix.paper.items import Item, ItemOutput, Rows, Settings, in_parallel
from genmix.paper.markdown import data_line, table
from genmix.paper.published import choices
from genmix.solvers.eg import MIN_LOG_WEIGHT
from genmix.solvers.loss import Expansion, Loss
from genmix.solvers.simplex import feasible, lifted, uniform
from genmix.solvers.solve import Solver

DIMENSION, QUICK_DIMENSION = 64, 32
"""Dimension of the losses on which steps are counted."""

RUN_DIMENSION = 16
"""Dimension of the runs, which need up to 1000 eigendecompositions in every round."""

STEPS = (10, 100, 1000)
RATES = (0.001, 0.01, 0.1, 1.0, 10.0)
ROUNDS, REPEATS = 150, 10
QUICK_ROUNDS, QUICK_REPEATS = 45, 2
WARM_FRACTION = 0.9
"""A warm start is the best mixture of this fraction of the samples."""

TITLES = {"frechet_distance": "FD", "vendi": "Vendi"}
NEWTON = "Newton"


def make_solver(settings: Settings) -> ItemOutput:
    from genmix import charts

    (data,) = load_datasets(settings, ("ffhq",))
    gaps = measure_gaps(settings, data)
    runs = compare_solvers(settings, data, best_rates(gaps))
    compared = against_newton(runs)
    panels = [
        [charts.Panel(*panel, log_y=True, x=x) for panel in gap_panels(gaps, column)]
        for column, x in (("step", "steps"), ("expansions", "eigendecompositions"))
    ]
    drawn = {
        "gap-steps": charts.curves(panels[0]),
        "gap-cost": charts.curves(panels[1]),
        "runs": charts.intervals(
            run_rows(compared), "pooled score relative to Newton, % (→ better)"
        ),
    }
    tables = {"gaps": gaps, "runs": runs, "against_newton": compared}
    return ItemOutput(tables, drawn, report(data, settings, gaps, compared))


# -- losses ------------------------------------------------------------------------------------------


def project(data: LoadedDataset, dimension: int) -> World:
    """Project the world onto the first principal directions of its reference."""
    world, reference = data.world, data.real_data()
    center = reference.mean(axis=0)
    covariance = np.cov((reference - center).T, bias=True).reshape(2 * (len(center),))
    basis = np.linalg.eigh(covariance)[1][:, ::-1][:, :dimension]
    arms = {name: (rows - center) @ basis for name, rows in world.arms.items()}
    return replace(world, arms=arms, reference=(reference - center) @ basis)


def gap_dimension(settings: Settings) -> int:
    return QUICK_DIMENSION if settings.quick else DIMENSION


def objectives(world: World) -> tuple[gx.Objective, ...]:
    return gx.FrechetDistance(world.reference), gx.Vendi()


class CountedLoss(Loss):
    """A loss that counts its evaluations, each of which needs an eigendecomposition."""

    def __init__(self, loss: Loss) -> None:
        self._loss = loss
        self.size, self.scale = loss.size, loss.scale
        self.singular_boundary, self.smooth = loss.singular_boundary, loss.smooth
        self.hessian_reuse_ratio = loss.hessian_reuse_ratio
        self.count = 0

    def value(self, alpha: Vector, smoothing: float = 0.0) -> float:
        self.count += 1
        return self._loss.value(alpha, smoothing)

    def score(self, alpha: Vector) -> float:
        return self._loss.score(alpha)

    def expand(self, alpha: Vector, smoothing: float = 0.0) -> Expansion:
        self.count += 1
        return self._loss.expand(alpha, smoothing)


# -- gaps --------------------------------------------------------------------------------------------


def measure_gaps(settings: Settings, data: LoadedDataset) -> Rows:
    """Measure the certified gap after each step of Newton, and of EG at every rate, from both starts."""
    world = project(data, gap_dimension(settings))
    jobs = [(index, rate) for index in range(2) for rate in (None, *RATES)]
    found = in_parallel(settings, "ablation-solver, gaps", paths, world, jobs)
    return [row for rows in found for row in rows]


def paths(world: World, job: tuple[int, float | None]) -> Rows:
    """Record one objective and one rate (None for Newton), from a uniform and from a warm start."""
    index, rate = job
    objective = objectives(world)[index]
    loss = Pool.of(world.arms, objective).tally.loss(range(len(world.arms)))
    before = {name: rows[: int(WARM_FRACTION * len(rows))] for name, rows in world.arms.items()}
    warm = np.array(list(gx.optimal_mixture(before, objective).weights.values()))
    rows: Rows = []
    for start, alpha in (("uniform", uniform(loss.size)), ("warm", warm)):
        path = newton_path(loss, alpha) if rate is None else eg_path(loss, alpha, rate, STEPS[-1])
        common = {"objective": objective.name, "start": start, "rate": rate}
        rows += [
            {**common, "solver": "Newton" if rate is None else "EG", **point} for point in path
        ]
    return rows


def eg_path(loss: Loss, start: Vector, rate: float, steps: int) -> Iterator[dict[str, Any]]:
    """Yield the path of :class:`genmix.EG` at about 25 steps, evenly spaced on a log scale."""
    wanted = {0, *STEPS, *np.round(np.geomspace(1, steps, 25)).astype(int).tolist()}
    alpha = lifted(start)
    logs = np.log(alpha)
    for step in range(steps + 1):
        here = loss.expand(alpha)
        if step in wanted:
            yield {"step": step, "expansions": step + 1, "gap": here.gap, "loss": here.value}
        logs = logs - rate * here.gradient
        logs = np.maximum(logs - logs.max(), MIN_LOG_WEIGHT)
        alpha = feasible(np.exp(logs))


def newton_path(loss: Loss, start: Vector) -> Iterator[dict[str, Any]]:
    """Yield the results of Newton, stopped after 1, 2, 3, ... steps."""
    first = loss.expand(lifted(start))
    yield {"step": 0, "expansions": 1, "gap": first.gap, "loss": first.value}
    for steps in range(1, 100):
        counted = CountedLoss(loss)
        found = gx.Newton(max_steps=steps).solve(counted, start)
        if found.iterations < steps:
            return
        point = {"gap": found.gap, "loss": found.loss}
        yield {"step": steps, "expansions": counted.count, **point}


def best_rates(gaps: Rows) -> dict[str, float]:
    """Return, for each objective, the rate with the smallest gap after all steps from the uniform start."""
    found = {}
    for objective in TITLES:
        last = [r for r in _of(gaps, objective, "uniform") if r["step"] == STEPS[-1]]
        found[objective] = min(last, key=lambda row: float(row["gap"]))["rate"]
    return found


def _of(gaps: Rows, objective: str, start: str) -> Rows:
    return [row for row in gaps if row["objective"] == objective and row["start"] == start]


# -- runs --------------------------------------------------------------------------------------------


def solvers(rate: float) -> dict[str, Variant]:
    """Return the solvers to compare; the paper's takes 1000 steps from uniform weights."""
    few, some, many = STEPS
    found: dict[str, Solver] = {
        NEWTON: gx.Newton(),
        f"EG, {few} steps, warm": gx.EG(rate, few),
        f"EG, {few} steps, uniform": gx.EG(rate, few, "uniform"),
        f"EG, {some} steps, warm": gx.EG(rate, some),
        f"EG, {some} steps, uniform": gx.EG(rate, some, "uniform"),
        f"EG, {some} steps, uniform, η/10": gx.EG(rate / 10, some, "uniform"),
        f"EG, {some} steps, uniform, 10 η": gx.EG(rate * 10, some, "uniform"),
        f"EG, {many} steps, uniform": gx.EG(rate, many, "uniform"),
    }
    return {label: Variant(solver=solver) for label, solver in found.items()}


def compare_solvers(settings: Settings, data: LoadedDataset, rates: dict[str, float]) -> Rows:
    """Run Mixture-Greedy with each solver, solving in every round."""
    world = project(data, RUN_DIMENSION)
    rounds, repeats = (QUICK_ROUNDS, QUICK_REPEATS) if settings.quick else (ROUNDS, REPEATS)
    size = Size(max(rounds, (WARM_START + 1) * len(world.arms)), repeats)
    rows: Rows = []
    for objective in objectives(world):
        variants = solvers(rates[objective.name])
        found = compare_policies(settings, world, objective, variants, size, resolve_growth=0.0)
        for label in variants:
            rows += _run_rows(found, label)
    return rows


def _run_rows(found: Comparison, label: str) -> Rows:
    pooled, regret = found.pooled(label)[:, -1], found.regret(label)[:, -1]
    rounds = int(found.times[-1])
    return [
        {
            "objective": found.score_name,
            "solver": label,
            "repeat": repeat,
            "rounds": rounds,
            "pooled": float(score),
            "mean_excess": float(excess) / rounds,
        }
        for repeat, (score, excess) in enumerate(zip(pooled, regret, strict=True))
    ]


def against_newton(runs: Rows) -> Rows:
    """Compute how much better each solver's pooled score is than Newton's, paired over repeats."""
    rows = []
    for objective in TITLES:
        sign = 1.0 if objective == "vendi" else -1.0
        mine = sorted((r for r in runs if r["objective"] == objective), key=lambda r: r["repeat"])
        labels = list(dict.fromkeys(row["solver"] for row in mine))
        score = {label: _column(mine, label, "pooled") for label in labels}
        for label in labels:
            gain = sign * (score[label] - score[NEWTON])
            paired = mean_interval(gain)
            percent = mean_interval(100 * gain / np.abs(score[NEWTON]))
            rows.append(
                {
                    "objective": objective,
                    "solver": label,
                    "repeats": len(gain),
                    "pooled": float(score[label].mean()),
                    "gain": paired.mean,
                    "gain_low": paired.low,
                    "gain_high": paired.high,
                    "percent": percent.mean,
                    "percent_low": percent.low,
                    "percent_high": percent.high,
                    "mean_excess": float(_column(mine, label, "mean_excess").mean()),
                }
            )
    return rows


def _column(rows: Rows, solver: str, name: str) -> NDArray[np.float64]:
    return np.array([row[name] for row in rows if row["solver"] == solver])


# -- presentation ------------------------------------------------------------------------------------


BAND = ("mean", "low", "high")


def gap_panels(gaps: Rows, x: str) -> list[tuple[str, Rows, str]]:
    """Return the title, rows and y-axis of one panel per objective and start."""
    panels = []
    for objective, title in TITLES.items():
        for start in ("uniform", "warm"):
            rows = [
                {"series": _series(row), "x": row[x], **dict.fromkeys(BAND, row["gap"])}
                for row in _of(gaps, objective, start)
                if row["step"] > 0
            ]
            panels.append((f"{title}, {start} start", rows, "certified gap ↓ (loss)"))
    return panels


def _series(row: dict[str, Any]) -> str:
    return NEWTON if row["rate"] is None else f"EG η={row['rate']:g}"


def run_rows(compared: Rows) -> Rows:
    return [
        {
            "label": row["solver"],
            "mean": row["percent"],
            "low": row["percent_low"],
            "high": row["percent_high"],
            "panel": TITLES[row["objective"]],
        }
        for row in compared
        if row["solver"] != NEWTON
    ]


def report(data: LoadedDataset, settings: Settings, gaps: Rows, compared: Rows) -> str:
    """Format the gaps at the given steps, and the runs."""
    dimension = min(gap_dimension(settings), data.world.dimension)
    parts = [
        f"### {data.title}",
        data_line(data.world),
        f"Steps are counted on the loss of all samples, along the first {dimension} principal directions "
        "of the reference. The gap is certified: the loss exceeds the minimum by at most the gap. Every "
        "evaluation of the loss needs an eigendecomposition.",
    ]
    for objective, title in TITLES.items():
        for start in ("uniform", "warm"):
            parts += [f"#### {title}, {start} start", _gap_table(_of(gaps, objective, start))]
    rates = ", ".join(f"{TITLES[name]} {rate:g}" for name, rate in best_rates(gaps).items())
    parts += [
        "#### Runs",
        f"Mixture-Greedy re-solves in every round; {min(RUN_DIMENSION, data.world.dimension)} "
        f"dimensions, {compared[0]['repeats']} paired repeats"
        f"{' (quick)' if settings.quick else ''}. η is the step size with the smallest gap after 1000 "
        f'steps ({rates}), which is not known in advance; η/10 and 10 η are also compared. "Mean excess" '
        "is how far the population loss of the weights is above the minimum, averaged over all rounds.",
        _run_table(compared),
    ]
    return "\n\n".join(parts)


def _gap_table(gaps: Rows) -> str:
    lines = []
    for rate in (None, *RATES):
        mine = {row["step"]: row for row in gaps if row["rate"] == rate}
        last = mine[max(mine)]
        reached = [mine[max(s for s in mine if s <= step)]["gap"] for step in STEPS]
        line = [_series(last), *(f"{gap:.1e}" for gap in reached)]
        lines.append([*line, str(last["step"]), str(last["expansions"])])
    headings = ["solver", *(f"gap at {step}" for step in STEPS), "steps", "eigendecompositions"]
    return table(headings, lines)


def _run_table(compared: Rows) -> str:
    lines = [
        [
            f"{TITLES[row['objective']]}: {row['solver']}",
            f"{row['pooled']:.5g}",
            "–" if row["solver"] == NEWTON else _percent(row),
            f"{row['mean_excess']:.3g}",
        ]
        for row in compared
    ]
    headings = ["solver", "pooled score", "better than Newton by", "mean excess"]
    return table(headings, lines)


def _percent(row: dict[str, Any]) -> str:
    return f"{row['percent']:+.2f}% [{row['percent_low']:+.2f}, {row['percent_high']:+.2f}]"


ITEMS = (
    Item(
        "ablation-solver",
        "EG with different step counts, step sizes and starts against Newton: gap and effect on a run",
        "ffhq with real data",
        "fashion",
        choices("start", "step"),
        make_solver,
    ),
)
