"""Minimize a loss that is not convex: a convex part minus a positive semidefinite quadratic form.

    R(α) = L(α) − αᵀNα

Two convex problems enclose it. Linearizing the form at a mixture gives an upper bound that touches R there,
so minimizing it never increases R (the convex–concave procedure). Replacing the form with ``Σ α_i N_ii``,
which is at least as large on the simplex, gives a lower bound that touches R at the vertices; its minimum is
at most that of R and certifies the result.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from genmix.core.arrays import Vector
from genmix.solvers.loss import EPS, Loss, Matrix, concave
from genmix.solvers.region import Region
from genmix.solvers.simplex import uniform, vertex
from genmix.solvers.solve import (
    FINAL_SMOOTHING,
    UNKNOWN_GAP,
    Solution,
    Solver,
    WarmSolver,
    certify,
    region_argument,
)

MAX_STEPS = 50
"""Maximum number of steps of the convex–concave procedure from one starting point."""

MIN_DECREASE = 1e-10
"""Decrease, relative to the magnitude of the loss, below which the procedure stops."""

VERTICES = 4
"""Number of vertices (the best ones) from which the procedure starts."""

Minimize = Callable[[Loss], Solution]


def solve_reported(
    loss: Loss,
    solver: Solver,
    start: Vector,
    thorough: bool = True,
    region: Region | None = None,
) -> Solution:
    """Minimize the reported loss; if it is convex, this is one call to the solver.

    Otherwise the solution is a local minimum that is never worse than a single arm (in a region: than the
    corner with the most of an arm), and its gap bounds the distance to the global minimum. The best starting
    points are improved with the convex–concave procedure only by a :class:`WarmSolver`, because other
    solvers can be slow. If not ``thorough``, as for solving again after a small change, it starts only from
    ``start`` and from the best arm, and the gap is unknown.
    """
    part = loss.concave_part
    within = region_argument(solver, region)
    if part is None:
        return solver.solve(loss, start, **within)

    def minimize(convex: Loss) -> Solution:
        return solver.solve(convex, start, **within)

    corners = _corners(loss, region)
    if not thorough and isinstance(solver, WarmSolver):
        begin = start if region is None else region.clean(start)
        return _solve_again(loss, part, [corners[0], begin], minimize)
    below = minimize(_tilted(loss, -np.diag(part)))
    found = minimize(_tilted(loss, np.zeros(loss.size)))
    points = [found.weights, below.weights, *corners[:VERTICES]]
    if isinstance(solver, WarmSolver):
        points = [_descend(loss, part, point, minimize) for point in points]
    values = [loss.reported(point) for point in points]
    best = int(np.argmin(values))
    gap = _gap(loss, part, points[best], below)
    return Solution(points[best], values[best], gap, found.iterations + below.iterations)


def _corners(loss: Loss, region: Region | None) -> list[Vector]:
    """Return the vertices of the simplex, or the corners of a region, from the best to the worst."""
    if region is None:
        order = np.argsort(loss.singles(), kind="stable")
        return [vertex(loss.size, int(i)) for i in order]
    corners = [region.corner(arm) for arm in range(loss.size)]
    return sorted(corners, key=loss.reported)


def _solve_again(loss: Loss, part: Matrix, starts: list[Vector], minimize: Minimize) -> Solution:
    best, start = starts
    points = [best, *(_descend(loss, part, point, minimize) for point in (start, best))]
    values = [loss.reported(point) for point in points]
    return Solution(points[int(np.argmin(values))], min(values), UNKNOWN_GAP, 1)


def certify_reported(
    loss: Loss, alpha: Vector, solver: Solver, region: Region | None = None
) -> Solution:
    """Return ``alpha`` as a solution with its reported loss and gap."""
    part = loss.concave_part
    if part is None:
        return certify(loss, alpha, region=region)
    within = region_argument(solver, region)
    below = solver.solve(_tilted(loss, -np.diag(part)), uniform(loss.size), **within)
    return Solution(alpha, loss.reported(alpha), _gap(loss, part, alpha, below), 0)


def row_multipliers(loss: Loss, alpha: Vector, region: Region) -> Vector:
    """Return how much of the reported loss one more unit of each of the region's limits would save."""
    here = loss.expand(alpha, 0.0 if loss.smooth else FINAL_SMOOTHING)
    part = loss.concave_part
    return region.multipliers(here.gradient - (0 if part is None else 2 * part @ alpha), alpha)


def _gap(loss: Loss, part: Matrix, alpha: Vector, below: Solution) -> float:
    rounding = 16 * EPS * concave(np.abs(part), alpha) + loss.expand(alpha).noise
    return max(loss.reported(alpha) - (below.loss - below.gap), 0.0) + rounding


def _tilted(loss: Loss, slopes: Vector) -> Loss:
    """Return the convex part plus a linear function."""
    convex = loss.tilted(-slopes)
    convex.concave_part = None
    return convex


def _descend(loss: Loss, part: Matrix, alpha: Vector, minimize: Minimize) -> Vector:
    value = loss.reported(alpha)
    for _ in range(MAX_STEPS):
        moved = minimize(_tilted(loss, -2 * part @ alpha)).weights
        reached = loss.reported(moved)
        if not reached < value - MIN_DECREASE * abs(value):
            break
        alpha, value = moved, reached
    return alpha
