"""Cost against score: the best mixture at every weight that one may give to cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from genmix.core.arrays import Vector
from genmix.objectives import Cost
from genmix.objectives import Objective, Sum
from genmix.objectives.pool import Pool
from genmix.solvers.loss import LinearLoss, Loss, SumLoss
from genmix.solvers.newton import Newton

PRICES = tuple(np.geomspace(1e-3, 30, 14).tolist())
"""Weights of cost beside 0, in units of the loss that is at stake over the cost that is."""

ALIKE = 1e-3
"""Points nearer than this, as a share of both axes, are one."""


@dataclass(frozen=True)
class Point:
    """A mixture: the mean cost of a sample, and the score."""

    cost: float
    score: float
    weights: dict[str, float]


@dataclass(frozen=True)
class Frontier:
    """Mixtures from the dearest to the cheapest; none of them is both dearer and worse than another."""

    name: str
    maximise: bool
    points: list[Point]
    singles: dict[str, Point]
    mixture: Point | None
    """What the run ended with."""


def frontier(
    pool: Pool,
    arms: Sequence[str],
    costs: Sequence[float],
    weights: dict[str, float] | None,
    prices: Sequence[float] = PRICES,
) -> Frontier | None:
    """None where all arms cost the same, so that there is nothing to weigh."""
    cost = np.array(costs)
    if len(cost) < 2 or not np.ptp(cost) > 0:
        return None
    base, name, maximise = _without_cost(pool, [pool.arms.index(arm) for arm in arms])
    singles = np.array([base.value(vertex) for vertex in np.eye(len(arms))])

    def point(alpha: Vector) -> Point:
        shares = dict(zip(arms, alpha.tolist(), strict=True))
        return Point(float(cost @ alpha), base.score(alpha), shares)

    return Frontier(
        name,
        maximise,
        _trimmed([point(alpha) for alpha in _solved(base, cost, singles, prices)], maximise),
        {arm: point(np.eye(len(arms))[i]) for i, arm in enumerate(arms)},
        None if weights is None else point(np.array([weights.get(arm, 0.0) for arm in arms])),
    )


def _solved(base: Loss, cost: Vector, singles: Vector, prices: Sequence[float]) -> list[Vector]:
    solver, even = Newton(tolerance=1e-6), np.full(len(cost), 1 / len(cost))
    alpha = solver.solve(base, even).weights
    stake = float(np.max(singles[np.isfinite(singles)])) - base.value(alpha)
    unit = max(stake, 1e-12) / float(np.ptp(cost))
    found = [alpha]
    for price in prices:
        start = np.maximum(found[-1], 1e-3)
        loss = SumLoss([(1.0, base), (price * unit, LinearLoss(cost))])
        found.append(solver.solve(loss, start / start.sum()).weights)
    cheapest = np.zeros(len(cost))
    cheapest[min(range(len(cost)), key=lambda i: (cost[i], singles[i]))] = 1.0
    return [*found, cheapest]


def _without_cost(pool: Pool, places: list[int]) -> tuple[Loss, str, bool]:
    """The loss of everything but cost, which has an axis of its own."""
    loss, objective = pool.tally.loss(places), pool.objective
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


def _trimmed(points: list[Point], maximise: bool) -> list[Point]:
    """From the dearest to the cheapest, without those that are dominated or as good as the one before."""
    sign = -1.0 if maximise else 1.0
    ordered = sorted(
        (p for p in points if np.isfinite(p.score)), key=lambda p: (p.cost, sign * p.score)
    )
    best: list[Point] = []
    for point in ordered:  # from the cheapest: a dearer one must be better
        if not best or sign * point.score < sign * best[-1].score:
            best.append(point)
    if len(best) < 2:
        return best
    spans = [abs(best[-1].cost - best[0].cost) or 1.0, abs(best[-1].score - best[0].score) or 1.0]
    kept = [best[0]]
    for point in best[1:-1]:
        apart = max(
            abs(point.cost - kept[-1].cost) / spans[0], abs(point.score - kept[-1].score) / spans[1]
        )
        if apart > ALIKE:
            kept.append(point)
    return [*kept, best[-1]][::-1]
