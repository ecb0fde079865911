"""The cost-score frontier: the best mixture for each cost weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from genmix.core.arrays import Vector
from genmix.errors import InputError
from genmix.objectives import Cost, Objective, Sum
from genmix.objectives.pool import Pool
from genmix.selector.limits import Limits
from genmix.solvers.knapsack import fill
from genmix.solvers.loss import LinearLoss, Loss, SumLoss
from genmix.solvers.newton import Newton
from genmix.solvers.region import Region
from genmix.solvers.weight_limits import bounds_of, region_of

PRICES = tuple(np.geomspace(1e-3, 30, 14).tolist())
"""Cost weights, in units of the range of the loss divided by the range of the cost."""

RAISE = 0.1
"""How much larger the budget is for which the report also computes the best mixture."""

MIN_DISTANCE = 1e-3
"""Points are merged if they are closer than this fraction of the range on both axes."""


@dataclass(frozen=True)
class Point:
    """A mixture with its mean cost per sample and its score."""

    cost: float
    score: float
    weights: dict[str, float]


@dataclass(frozen=True)
class Frontier:
    """Pareto-optimal mixtures, from the most expensive to the cheapest."""

    name: str
    maximise: bool
    points: list[Point]
    singles: dict[str, Point]
    mixture: Point | None
    """The final mixture of the run."""
    budget: Point | None = None
    """The best mixture for the mean cost that the study allows."""
    raised: Point | None = None
    """The best mixture for a mean cost that is larger by ``RAISE``."""


def cost_frontier(
    pool: Pool,
    arms: Sequence[str],
    costs: Sequence[float],
    weights: dict[str, float] | None,
    prices: Sequence[float] = PRICES,
    budget: float | None = None,
    limits: Limits | None = None,
) -> Frontier | None:
    """Compute the frontier of these arms; return None if all cost the same.

    ``budget`` is the mean cost that the study allows, and ``limits`` contain its bounds on the weights.
    All mixtures satisfy these bounds, except the single arms.
    """
    cost = np.array(costs)
    if len(cost) < 2 or not np.ptp(cost) > 0:
        return None
    base, name, maximise = _without_cost(pool, [pool.arms.index(arm) for arm in arms])
    singles = np.array([base.reported(vertex) for vertex in np.eye(len(arms))])
    bounds = limits or Limits()

    def point(alpha: Vector) -> Point:
        shares = dict(zip(arms, alpha.tolist(), strict=True))
        return Point(float(cost @ alpha), base.score(alpha), shares)

    def best(mean_cost: float) -> Point | None:
        try:
            region = region_of(arms, bounds.at_least, bounds.at_most, cost, mean_cost)
        except InputError:  # the cheapest mixture costs more
            return None
        return point(_within(base, region))

    region = region_of(arms, bounds.at_least, bounds.at_most)
    cheapest = fill(cost, bounds_of(arms, bounds.at_least, bounds.at_most), ties=singles)
    found = [*_solved(base, cost, singles, prices, region), cheapest]
    return Frontier(
        name,
        maximise,
        _pareto([point(alpha) for alpha in found], maximise),
        {arm: point(np.eye(len(arms))[i]) for i, arm in enumerate(arms)},
        None if weights is None else point(np.array([weights.get(arm, 0.0) for arm in arms])),
        None if budget is None else best(budget),
        None if budget is None else best(budget * (1 + RAISE)),
    )


def _within(base: Loss, region: Region | None) -> Vector:
    """Return the best mixture in a region that limits the mean cost."""
    assert region is not None
    return Newton(tolerance=1e-8).solve(base, region.center, region=region).weights


def _solved(
    base: Loss, cost: Vector, singles: Vector, prices: Sequence[float], region: Region | None
) -> list[Vector]:
    """Return the best mixture in the region for each price of cost, from the cheapest price."""
    solver, even = Newton(tolerance=1e-6), np.full(len(cost), 1 / len(cost))
    alpha = solver.solve(base, even, region=region).weights
    gain = float(np.max(singles[np.isfinite(singles)])) - base.reported(alpha)
    unit = max(gain, 1e-12) / float(np.ptp(cost))
    found = [alpha]
    for price in prices:
        start = np.maximum(found[-1], 1e-3)
        loss = SumLoss([(1.0, base), (price * unit, LinearLoss(cost))])
        found.append(solver.solve(loss, start / start.sum(), region=region).weights)
    return found


def _without_cost(pool: Pool, indices: list[int]) -> tuple[Loss, str, bool]:
    """Return the loss, the name and the direction of all terms except cost, which has its own axis."""
    loss, objective = pool.tally.loss(indices), pool.objective
    if not isinstance(objective, Sum):
        return loss, objective.name, objective.maximise
    assert isinstance(loss, SumLoss)
    kept: list[tuple[Objective, tuple[float, Loss]]] = [
        (term, part)
        for (_, term), part in zip(objective.terms, loss.terms, strict=True)
        if not isinstance(term, Cost)
    ]
    if len(kept) == 1:
        return kept[0][1][1], kept[0][0].name, kept[0][0].maximise
    return SumLoss([part for _, part in kept]) if kept else loss, "loss", False


def _pareto(points: list[Point], maximise: bool) -> list[Point]:
    """Remove dominated and nearly equal points; sort the rest from most expensive to cheapest."""
    sign = -1.0 if maximise else 1.0
    ordered = sorted(
        (p for p in points if np.isfinite(p.score)), key=lambda p: (p.cost, sign * p.score)
    )
    best: list[Point] = []
    for point in ordered:  # a more expensive point must be better
        if not best or sign * point.score < sign * best[-1].score:
            best.append(point)
    if len(best) < 2:
        return best
    spans = [abs(best[-1].cost - best[0].cost) or 1.0, abs(best[-1].score - best[0].score) or 1.0]
    kept = [best[0]]
    for point in best[1:-1]:
        distance = max(
            abs(point.cost - kept[-1].cost) / spans[0], abs(point.score - kept[-1].score) / spans[1]
        )
        if distance > MIN_DISTANCE:
            kept.append(point)
    return [*kept, best[-1]][::-1]
