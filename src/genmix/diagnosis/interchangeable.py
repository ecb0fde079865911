"""Which arms the samples cannot tell apart: either can have the weight of both at no measurable loss."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from genmix.core.arrays import Vector
from genmix.diagnosis.bootstrap import Replicates
from genmix.diagnosis.resampling import Spread
from genmix.diagnosis.thresholds import UNUSED_WEIGHT
from genmix.solvers.loss import Matrix
from genmix.solvers.region import Region
from genmix.solvers.simplex import Mask

NEARLY_ALL = 0.9
"""If one of two arms has more than this share of their weight, it has replaced the other."""

REPLACED = 0.25
"""Fraction of replicates in which one of two interchangeable arms replaces the other."""

ROUNDING = 1e-9
"""Change of the loss that counts as none, relative to its size and curvature."""


def interchangeable(
    found: Replicates, alpha: Vector, loss: float, region: Region | None
) -> list[list[int]]:
    """Return groups of at least two arms in which each can replace each other."""
    rounding = ROUNDING * (abs(loss) + float(np.abs(found.hessians).max()))
    mutual = _mutual(found, alpha, rounding, region)
    groups: list[list[int]] = []
    for arm in np.argsort(-alpha, kind="stable").tolist():
        fitting = [group for group in groups if mutual[arm, group].all()]
        if fitting:
            fitting[0].append(arm)
        else:
            groups.append([arm])
    return sorted(sorted(group) for group in groups if len(group) > 1)


def _mutual(found: Replicates, alpha: Vector, rounding: float, region: Region | None) -> Mask:
    """Return for which pairs of arms weight can be moved both ways, as far as the region allows."""
    candidates: list[tuple[int, int, list[Vector]]] = []
    for a, b in combinations(range(len(alpha)), 2):
        moves = [_move(alpha, region, a, b), _move(alpha, region, b, a)]
        if max(move.max() for move in moves) >= UNUSED_WEIGHT:
            modeled = np.stack([_modeled(found, move) for move in moves], axis=1)
            is_flat = bool(np.abs(modeled).max() <= rounding)
            if is_flat or (not _is_harmful(modeled, rounding) and _are_replaced(found, a, b)):
                candidates.append((a, b, moves))
    mutual = np.zeros((len(alpha), len(alpha)), dtype=bool)
    if candidates:
        # The model extrapolates from the best mixture, so the loss itself decides.
        increases = found.increases([alpha + move for *_, moves in candidates for move in moves])
        for k, (a, b, _) in enumerate(candidates):
            harmless = not _is_harmful(increases[:, 2 * k : 2 * k + 2], rounding)
            mutual[a, b] = mutual[b, a] = harmless
    return mutual


def _move(alpha: Vector, region: Region | None, source: int, target: int) -> Vector:
    """Return the largest feasible change that gives weight of one arm to another."""
    step = float(alpha[source])
    if region is not None:
        step = min(step - float(region.lo[source]), float(region.hi[target] - alpha[target]))
        if region.groups[source] != region.groups[target]:
            step = 0.0
        rises = region.rows[:, target] - region.rows[:, source]
        room = region.limits - region.rows @ alpha
        step = min([step, *(room[rises > 0] / rises[rises > 0])])
    move = np.zeros(len(alpha))
    move[target], move[source] = max(step, 0.0), -max(step, 0.0)
    return move


def _modeled(found: Replicates, move: Vector) -> Vector:
    moved = np.flatnonzero(move)  # only two arms, of possibly hundreds
    step = move[moved]
    curvature = found.hessians[:, moved[:, None], moved] @ step @ step
    increases: Vector = found.gradients[:, moved] @ step + curvature / 2
    return increases


def _is_harmful(increases: Matrix, rounding: float) -> bool:
    """Return whether one of the moves increases the loss by more than rounding and chance."""
    spreads = [Spread.of(column.tolist()) for column in increases.T]
    return any(each.mean > rounding and each.is_beyond_chance for each in spreads)


def _are_replaced(found: Replicates, first: int, second: int) -> bool:
    """Return whether one of two arms often replaces the other, or another arm both."""
    sums = found.weights[:, first] + found.weights[:, second]
    shares = found.weights[:, first] / np.maximum(sums, 1e-9)
    often = (np.abs(shares - 0.5) > NEARLY_ALL - 0.5) | (sums < UNUSED_WEIGHT)
    return bool(np.mean(often) > REPLACED)
