"""Solve the quadratic program of a Newton step exactly with an active-set method (DAQP)."""

from __future__ import annotations

import daqp
import numpy as np

from genmix.core.arrays import Vector
from genmix.solvers.loss import Matrix
from genmix.solvers.simplex import SIMPLEX, Simplex

RIDGES = (1e-10, 1e-8, 1e-6, 1e-4)
"""Curvature added to a singular quadratic program, relative to the diagonal of the Hessian."""


def quadratic_program(
    gradient: Vector, hessian: Matrix, alpha: Vector, floor: Vector, region: Simplex = SIMPLEX
) -> Vector:
    """Minimize ``g·(β−α) + ½(β−α)ᵀH(β−α)`` over mixtures β of a region with ``β ≥ floor``.

    H can be singular, e.g. for two identical arms. The ridge is a proximal term around α, so it does
    not change the limit of repeated steps. It grows until the Frank–Wolfe gap of the solution is small
    compared with the decrease in the model.
    """
    best, least = None, np.inf
    for ridge in RIDGES:
        found = _regularized_program(gradient, hessian, alpha, floor, ridge, region)
        if found is None:
            continue
        step = found - alpha
        slope = gradient + hessian @ step
        change = float((gradient + slope) @ step) / 2
        if change < least:
            best, least = found, change
        if region.model_gap(slope, found, floor) <= 0.1 * abs(change):
            break
    if best is None:  # the Frank–Wolfe vertex is always a descent direction
        return region.lowest(gradient, alpha, floor)
    return best


def _regularized_program(
    gradient: Vector,
    hessian: Matrix,
    alpha: Vector,
    floor: Vector,
    ridge: float,
    region: Simplex,
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
    added = ridge * np.maximum(diagonal, max(float(slope.max()), 1e-300))
    scale = 1 / np.sqrt(diagonal + added)
    scale /= scale.max()
    quadratic = (hessian + np.diag(added)) * np.outer(scale, scale)
    linear = slope * scale
    unit = max(float(np.abs(quadratic).max()), float(np.abs(linear).max()))
    rows, upper, lower, sense = region.constraints(alpha, floor, scale)
    x, _, flag, _ = daqp.solve(
        np.ascontiguousarray(quadratic / unit),
        np.ascontiguousarray(linear / unit),
        rows,
        upper,
        lower,
        sense,
        primal_tol=1e-11,
    )
    if flag < 1 or not np.all(np.isfinite(x)):
        return None
    return region.clean(np.maximum(alpha + scale * x, floor))
