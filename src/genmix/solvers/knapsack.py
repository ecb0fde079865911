"""Minimize a linear function over bounds, group sums and rows: fractional knapsacks and their dual.

    minimize  p·β   subject to   lo ≤ β ≤ hi,  Σ_{i∈g} β_i = s_g for every group g,  Cβ ≤ b

Without rows, the minimum is a fractional knapsack per group: fill the arms from lo to hi in the order of p.
With rows, every ``λ ≥ 0`` gives the lower bound ``min p·β + λ·(Cβ − b)``, again over knapsacks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import daqp
import numpy as np
from numpy.typing import NDArray

from genmix.core.arrays import Vector
from genmix.solvers.loss import EPS, Matrix
from genmix.solvers.simplex import EQUALITY

MAX_LINES = 200
"""Maximum number of knapsacks in the search for the best multiplier of one row."""

CYCLES = 3
"""Number of times the multipliers of several rows are improved in turn."""

PROXIMITY = 1e-3
"""Curvature of the quadratic program that finds first multipliers of several rows."""


class Bounds(NamedTuple):
    """Bounds per arm, and the groups whose weights have given sums."""

    lo: Vector
    hi: Vector
    groups: NDArray[np.int64]
    """The group of each arm, ``(m,)``."""
    sums: Vector
    """The sum of each group's weights."""

    def totals(self, values: Vector) -> Vector:
        """Return the sum of the values over each group."""
        found: Vector = np.bincount(self.groups, values, len(self.sums)).astype(np.float64)
        return found


class Minimum(NamedTuple):
    """A lower bound on a linear function over a region, with the multipliers that prove it."""

    value: float
    point: Vector
    """A minimizer; with several rows, of the Lagrangian."""
    multipliers: Vector
    """``λ`` ``(k,)``, one per row."""
    rounding: float
    """Bound on the rounding error of the value."""


def fill(prices: Vector, bounds: Bounds, ties: Vector | None = None) -> Vector:
    """Return the weights that minimize ``prices·β``; among equal prices, the least of ``ties`` first."""
    keys = (prices, bounds.groups) if ties is None else (ties, prices, bounds.groups)
    order = np.lexsort(keys)
    groups, room = bounds.groups[order], (bounds.hi - bounds.lo)[order]
    before = np.cumsum(room) - room
    firsts = np.searchsorted(groups, np.arange(len(bounds.sums)))
    left = bounds.sums - bounds.totals(bounds.lo) + before[np.minimum(firsts, len(room) - 1)]
    weights = bounds.lo.copy()
    weights[order] += np.clip(left[groups] - before, 0.0, room)
    return weights


def linear_minimum(
    prices: Vector, bounds: Bounds, rows: Matrix, limits: Vector, near: Vector
) -> Minimum:
    """Return the best lower bound on ``prices·β``. With several rows, ``near`` guides the multipliers."""
    multipliers = np.zeros(len(limits))
    if not np.all(np.isfinite(prices)):
        return Minimum(-np.inf, near, multipliers, 0.0)
    if len(limits) > 1:
        multipliers = _first_multipliers(prices, bounds, rows, limits, near)
    point = fill(prices + multipliers @ rows, bounds)
    for _ in range(CYCLES if len(limits) > 1 else 1):
        for k in range(len(limits)):
            multipliers[k] = 0.0
            others = prices + multipliers @ rows
            multipliers[k], point = _best_multiplier(others, bounds, rows[k], float(limits[k]))
    return _evaluated(prices, bounds, rows, limits, multipliers, point)


def _evaluated(
    prices: Vector, bounds: Bounds, rows: Matrix, limits: Vector, multipliers: Vector, point: Vector
) -> Minimum:
    combined = prices + multipliers @ rows
    least = fill(combined, bounds)
    value = float(combined @ least - multipliers @ limits)
    sizes = np.abs(prices) + multipliers @ np.abs(rows)
    largest = float(np.max(sizes, where=least > 0, initial=0.0)) + float(
        multipliers @ np.abs(limits)
    )
    return Minimum(value, point, multipliers, (len(prices) + 8) * EPS * largest)


def _best_multiplier(
    prices: Vector, bounds: Bounds, row: Vector, limit: float
) -> tuple[float, Vector]:
    """Maximize ``φ(λ) = min prices·β + λ (row·β − limit)`` over ``λ ≥ 0``; return λ and a minimizer.

    φ is the minimum of lines, one per β. The search keeps one increasing and one decreasing line, and
    continues where they intersect until no other line lies below that point.
    """
    rising = fill(prices, bounds, row)
    excess = float(row @ rising - limit)
    if excess <= 0:
        return 0.0, rising
    falling = fill(row, bounds, prices)
    slack = limit - float(row @ falling)
    for _ in range(MAX_LINES):
        if not excess + slack > 0:  # the row holds with equality everywhere
            return 0.0, falling
        level = float(prices @ (falling - rising))
        where = max(level / (excess + slack), 0.0)
        tilted = prices + where * row
        found = fill(tilted, bounds, row)
        gain = float(tilted @ (rising - found))
        if gain <= 4 * EPS * float(np.abs(tilted) @ (rising + found)):
            break
        beyond = float(row @ found - limit)
        if beyond > 0:
            rising, excess = found, beyond
        else:
            falling, slack = found, -beyond
    share = min(max(slack, 0.0) / (excess + max(slack, 0.0)), 1.0)
    return where, share * rising + (1 - share) * falling


def _first_multipliers(
    prices: Vector, bounds: Bounds, rows: Matrix, limits: Vector, near: Vector
) -> Vector:
    """Return multipliers from a quadratic program around ``near``; zeros if it fails.

    At the minimum of a loss, these are the exact multipliers of its tangent plane.
    """
    unit = max(float(np.ptp(prices)), 1e-300)
    quadratic = PROXIMITY * np.eye(len(prices))
    room = 1e-10 * np.max(np.abs(rows), axis=1)  # rounding must not make the program infeasible
    limits = np.maximum(limits, rows @ near) + room
    a, upper, lower, sense, scales = constraints(bounds, rows, limits, near, np.ones(len(near)))
    _, _, flag, info = daqp.solve(
        quadratic, (prices - prices.min()) / unit, a, upper, lower, sense, primal_tol=1e-11
    )
    if flag < 1:
        return np.zeros(len(limits))
    found = np.maximum(info["lam"][len(upper) - len(scales) :], 0.0) * unit / scales
    multipliers = np.zeros(len(limits))
    multipliers[varying(bounds, rows)] = np.where(np.isfinite(found), found, 0.0)
    return multipliers


def varying(bounds: Bounds, rows: Matrix) -> NDArray[np.int64]:
    """Return the positions of the rows that depend on a weight that is not fixed."""
    free = bounds.hi > bounds.lo
    return np.flatnonzero(np.any(rows[:, free] != 0, axis=1))


def constraints(
    bounds: Bounds, rows: Matrix, limits: Vector, alpha: Vector, scale: Vector
) -> tuple[Matrix, Vector, Vector, NDArray[np.int32], Vector]:
    """Return DAQP's A, upper, lower and sense for ``x = (β − α) / scale``, and the scales of the rows."""
    free = bounds.hi > bounds.lo
    groups = np.unique(bounds.groups[free])
    members = (bounds.groups[None, :] == groups[:, None]) & free
    used = varying(bounds, rows)
    scaled = rows[used] * scale
    sizes: Any = np.max(np.abs(scaled[:, free]), axis=1, initial=1e-300)
    sense = np.concatenate(
        [np.where(free, 0, EQUALITY), np.full(len(groups), EQUALITY), np.zeros(len(used))]
    )
    level = np.zeros(len(groups))
    upper = (limits[used] - rows[used] @ alpha) / sizes
    high = np.where(free, (bounds.hi - alpha) / scale, 0.0)
    low = np.where(free, (bounds.lo - alpha) / scale, 0.0)
    return (
        np.ascontiguousarray(np.vstack([members * scale, scaled / sizes[:, None]])),
        np.concatenate([high, level, upper]),
        np.concatenate([low, level, np.full(len(used), -1e30)]),
        sense.astype(np.int32),
        sizes,
    )
