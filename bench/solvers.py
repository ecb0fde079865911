"""Cold solves of the same static losses: Newton, exponentiated gradient, SLSQP, CVXPY."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import genmix as gx
from bench.clouds import Rows, clouds, reference, samples
from bench.online import accepted_gap
from bench.opponents import cvxpy_loop, paper, slsqp
from bench.table import Report, Row, Size, Table
from bench.timing import timed
from genmix.objectives.pool import Pool
from genmix.solvers.loss import Loss, QuadraticLoss


@dataclass(frozen=True)
class Parameters:
    d: int
    each: int
    """Samples per arm."""
    steps: int
    """Steps of exponentiated gradient."""
    tuning_steps: int
    factors: tuple[float, ...]
    repeats: int
    arms: int = 5


SIZES: dict[Size, Parameters] = {
    "full": Parameters(512, 600, paper.STEPS, 60, paper.FACTORS, 5),
    "quick": Parameters(48, 100, 300, 30, paper.FACTORS[1:5], 3),
    "tiny": Parameters(6, 12, 20, 5, paper.FACTORS[2:4], 1, arms=3),
}

ALIKE = 0.95
"""Fraction of their variance that arms have in common in the harder worlds."""


def run(size: Size = "full") -> Report:
    at = SIZES[size]
    tables = []
    for label, alike in (("distinct arms", 0.0), ("similar arms", ALIKE)):
        world = clouds(at.arms, at.d, alike=alike)
        arms, real = samples(world, at.each), reference(world, 2 * at.d)
        kernel = gx.Gaussian().fix_bandwidths([*arms.values(), real])
        objectives = {
            "FD": gx.FrechetDistance(real),
            "Vendi": gx.Vendi(),
            "KD": gx.KernelDistance(real, kernel),
            "RKE": gx.RKE(kernel),
        }
        tables += [
            _table(
                f"{name}, {label}", Pool.of(arms, objective), _problem(name, objective, arms), at
            )
            for name, objective in objectives.items()
        ]
    return Report(
        "solvers on static losses, from the uniform mixture",
        size,
        asdict(at) | {"alike": ALIKE},
        tables,
        notes=[
            f"EG: {at.steps} steps with the best of {len(at.factors)} step sizes after "
            f"{at.tuning_steps} steps, on the paper's own statistics; tuning is not timed",
            "computing the statistics and forming the loss are not timed",
        ],
    )


def _problem(name: str, objective: gx.Objective, arms: dict[str, Rows]) -> paper.Problem:
    """The same loss for exponentiated gradient."""
    if name in ("KD", "RKE"):
        loss: Any = Pool.of(arms, objective).tally.loss(range(len(arms)))
        return paper.Quadratic(loss.matrix, loss.linear, loss.constant)
    d = next(iter(arms.values())).shape[1]
    problem: paper.Statistics = paper.Vendi(len(arms), d)
    if isinstance(objective, gx.FrechetDistance):
        moments = objective.moments
        problem = paper.Frechet(len(arms), moments.mean, moments.covariance)
    for arm, rows in enumerate(arms.values()):
        problem.add(arm, rows)
    return problem


def _table(title: str, pool: Pool, problem: paper.Problem, at: Parameters) -> Table:
    fresh = partial(pool.tally.loss, range(at.arms))
    judge: Any = fresh()
    start = paper.uniform(problem)
    losses = [fresh() for _ in range(2 * at.repeats)]  # a loss may cache earlier results
    ours, taken = timed(at.repeats, lambda: gx.solve(losses.pop()))
    rows = [Row("genmix, Newton", taken, ours.loss, ours.gap, f"{ours.iterations} steps")]

    step = paper.tuned_step(problem, at.tuning_steps, at.factors)
    (mixture, gaps), taken = timed(1, paper.descend, problem, start, step, at.steps)
    early = paper.steps_until(gaps, accepted_gap(ours))
    how = (
        "does not reach our tolerance"
        if early is None
        else f"reaches our tolerance after {early} steps"
    )
    rows.append(_judged("EG, tuned", taken, judge, mixture, how))

    mixture, taken = timed(at.repeats, lambda: slsqp.solve(losses.pop(), start))
    rows.append(_judged("SLSQP", taken, judge, mixture))
    if isinstance(judge, QuadraticLoss):
        way, ways, solve = cvxpy_loop.fastest(judge.matrix, judge.linear, at.repeats)
        mixture = solve(judge.matrix, judge.linear)
        rows.append(_judged("CVXPY", ways[way], judge, mixture, way))
    return Table(title, "s", rows)


def _judged(who: str, cost: float, judge: Loss, mixture: Rows, how: str = "measured") -> Row:
    here = judge.expand(mixture)
    return Row(who, cost, here.value, here.gap, how)
