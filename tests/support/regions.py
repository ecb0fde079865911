"""Random feasible regions, and independent judges of the minimum over them."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np

from genmix.solvers.region import Region

TIGHT = {"tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12}


def random_region(rng: np.random.Generator, m: int, rows: int | None = None) -> Region:
    """A region around a random point: bounds, up to 3 groups and up to 3 rows, one of which can be tight."""
    point = rng.dirichlet(np.ones(m))
    _, groups = np.unique(rng.integers(0, rng.integers(1, 4), m), return_inverse=True)
    sums = np.bincount(groups, point)
    lo = np.where(rng.random(m) < 0.4, point * rng.random(m), 0.0)
    hi = np.where(rng.random(m) < 0.4, point + 0.3 * rng.random(m), 1.0)
    hi = np.where(rng.random(m) < 0.1, np.where(point < 0.05, np.maximum(point, lo), hi), hi)
    count = int(rng.integers(0, 4)) if rows is None else rows
    c = rng.random((count, m)) * 10 ** rng.uniform(-4, 2, (count, 1))
    slack = rng.choice([1e-6, 0.01, 0.3], count)
    return Region(m, lo, hi, groups, sums / sums.sum(), c, (c @ point) * (1 + slack))


def conditions(region: Region, x: cp.Variable) -> list[Any]:
    """The region's constraints for CVXPY, with rows of size 1."""
    found = [x >= region.lo, x <= region.hi]
    for g, total in enumerate(region.sums):
        found.append(cp.sum(x[np.flatnonzero(region.groups == g)]) == total)
    for row, limit in zip(region.rows, region.limits, strict=True):
        size = np.abs(row).max()
        found.append((row / size) @ x <= limit / size)
    return found


def least_quadratic(factor: Any, linear: Any, region: Region) -> float:
    """The minimum of ``|factor x|² − 2 linear·x`` over the region, by CVXPY."""
    x = cp.Variable(region.size)
    form = cp.sum_squares(factor @ x) - 2 * linear @ x
    problem = cp.Problem(cp.Minimize(form), conditions(region, x))
    problem.solve(solver=cp.CLARABEL, **TIGHT)
    return float(problem.value)


def points_of(region: Region, rng: np.random.Generator, count: int) -> list[Any]:
    """Feasible points that the region's own code did not choose: minima of random linear functions.

    Random mixtures of these vertices are also included.
    """
    from scipy.optimize import linprog

    members = (region.groups[None, :] == np.arange(len(region.sums))[:, None]).astype(float)
    vertices = []
    for _ in range(count):
        found = linprog(
            rng.standard_normal(region.size),
            A_ub=region.rows if len(region.limits) else None,
            b_ub=region.limits if len(region.limits) else None,
            A_eq=members,
            b_eq=region.sums,
            bounds=list(zip(region.lo, region.hi, strict=True)),
        )
        if found.x is not None:
            vertices.append(np.maximum(found.x, 0))
    mixed = [rng.dirichlet(np.ones(len(vertices))) @ np.array(vertices) for _ in vertices]
    return vertices + mixed
