"""Solve the quadratic program of a Newton step exactly with an active-set method (DAQP)."""

from __future__ import annotations

import daqp
import numpy as np
from numpy.typing import NDArray

from genmix.core.arrays import Vector
from genmix.solvers.loss import Matrix
from genmix.solvers.simplex import SIMPLEX, Mask, Simplex

Program = tuple[Matrix, Vector, Matrix, Vector, Vector, NDArray[np.int32]]
"""DAQP's H, f, A, upper bounds, lower bounds and kinds of the constraints."""

MANY_ARMS = 128
"""Number of arms above which expensive arms with little weight are left out of a program."""

LITTLE_WEIGHT = 1e-4
"""Weight, relative to that of its group, below which an expensive arm is left out."""

PROXIMAL = 1e-6
"""Weight of the term in DAQP's proximal iterations."""

PRECISION = 1e-12
"""Change of the proximal term at which these iterations end; DAQP's default ends them much earlier."""

LEAST_RIDGE = 1e-10
"""First ridge to try after the proximal iterations, relative to the diagonal of the Hessian."""

RIDGES = (0.0, LEAST_RIDGE, 1e-8, 1e-6, 1e-4)
"""Ridges to try; without one, DAQP does proximal iterations."""

PIVOT = 1e-12
"""Smallest pivot that DAQP accepts; with its default of 1e-8, it reorders large programs again and again."""


def quadratic_program(
    gradient: Vector,
    hessian: Matrix,
    alpha: Vector,
    floor: Vector,
    region: Simplex = SIMPLEX,
    fixed: Mask | None = None,
) -> Vector:
    """Minimize ``g·(β−α) + ½(β−α)ᵀH(β−α)`` over mixtures β of a region with ``β ≥ floor``.

    H can be singular, e.g. for two identical arms, or almost singular. DAQP's proximal iterations solve most
    such programs to full precision. In the others, the minimum is far along a flat direction, so a ridge is
    added: a proximal term around α that does not change the limit of repeated steps. It grows
    until the Frank–Wolfe gap of the solution is small compared with the decrease in the model. Arms that are
    ``fixed`` are at their floor; by default, those are the expensive ones if there are many.
    """
    best, least = None, np.inf
    if fixed is None:
        fixed = _priced_out(gradient, alpha, region)
    for ridge in RIDGES:
        found = _regularized_program(gradient, hessian, alpha, floor, ridge, region, fixed)
        if found is None:
            continue
        step = found - alpha
        slope = gradient + hessian @ step
        change = float((gradient + slope) @ step) / 2
        if change < least:
            best, least = found, change
        if fixed is not None:
            slope = np.where(fixed, slope.max(), slope)
        if region.model_gap(slope, found, floor) <= 0.1 * abs(change):
            break
    if best is None:  # the Frank–Wolfe vertex is always a descent direction
        return region.lowest(gradient, alpha, floor)
    return best


def _priced_out(gradient: Vector, alpha: Vector, region: Simplex) -> Mask | None:
    """Return the arms that only shrink in this step, because they are expensive and have little weight.

    A dense program with hundreds of arms is slow. Arms that are fixed by mistake are cheap, and therefore
    free, in the next step; the certificate is always about all arms.
    """
    if (
        len(alpha) <= MANY_ARMS or region.has_rows
    ):  # a row can make an expensive arm worth its price
        return None
    prices, sums = region.mean_prices(gradient, alpha)
    fixed: Mask = (alpha < LITTLE_WEIGHT * sums) & (gradient > prices)
    return fixed


def _regularized_program(
    gradient: Vector,
    hessian: Matrix,
    alpha: Vector,
    floor: Vector,
    ridge: float,
    region: Simplex,
    fixed: Mask | None,
) -> Vector | None:
    """Solve the program in terms of ``x = (β−α)/s``; return None if DAQP fails.

    The scale s is the inverse square root of H's diagonal, which keeps the program well conditioned
    even with weights of 1e-9 and 1. The ridge is relative to each arm's curvature; otherwise the
    steepest arm would freeze all others.
    """
    if not np.all(np.isfinite(hessian)):
        return None
    slope = gradient - gradient.min()
    diagonal = np.maximum(np.diag(hessian), 0.0)  # rounding can leave tiny negative entries
    unit = np.maximum(diagonal, max(float(slope.max()), 1e-300))
    scale = 1 / np.sqrt(diagonal + max(ridge, LEAST_RIDGE) * unit)
    scale /= scale.max()
    quadratic = (hessian + np.diag(ridge * unit)) * np.outer(scale, scale)
    linear = slope * scale
    size = max(float(np.abs(quadratic).max()), float(np.abs(linear).max()), 1e-300)
    program = (quadratic / size, linear / size, *region.constraints(alpha, floor, scale))
    proximal = -PROXIMAL if ridge else PROXIMAL  # negative: only if DAQP finds a singular program
    x, flag = (
        _solved(program, proximal) if fixed is None else _solved_with(program, fixed, proximal)
    )
    if flag < 1 or not np.all(np.isfinite(x)):
        return None
    return region.clean(np.maximum(alpha + scale * x, floor))


def _solved(program: Program, proximal: float) -> tuple[Vector, int]:
    quadratic, linear, rows, upper, lower, sense = program
    x, _, flag, _ = daqp.solve(
        np.ascontiguousarray(quadratic),
        np.ascontiguousarray(linear),
        np.ascontiguousarray(rows),
        upper,
        lower,
        sense,
        primal_tol=1e-11,
        pivot_tol=PIVOT,
        eps_prox=proximal,
        eta_prox=PRECISION,
    )
    return x, flag


def _solved_with(program: Program, fixed: Mask, proximal: float) -> tuple[Vector, int]:
    """Solve the program with some variables at their lower bounds."""
    quadratic, linear, rows, upper, lower, sense = program
    m, free = len(linear), ~fixed
    x = np.where(fixed, lower[:m], 0.0)
    shift = rows[:, fixed] @ x[fixed]
    kept = np.concatenate([free, np.ones(len(rows), bool)])
    offset = np.concatenate([np.zeros(int(free.sum())), shift])
    x[free], flag = _solved(
        (
            quadratic[np.ix_(free, free)],
            linear[free] + quadratic[np.ix_(free, fixed)] @ x[fixed],
            rows[:, free],
            upper[kept] - offset,
            lower[kept] - offset,
            sense[kept],
        ),
        proximal,
    )
    return x, flag
