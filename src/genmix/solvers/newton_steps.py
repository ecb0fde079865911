"""Parts of Newton's method: the minimum of the quadratic model, the line search, quasi-Newton updates."""

from __future__ import annotations

import numpy as np

from genmix.core.arrays import Vector
from genmix.solvers.loss import EPS, Expansion, Loss, Matrix
from genmix.solvers.quadratic_program import quadratic_program
from genmix.solvers.simplex import Simplex

MAX_SHRINK = 10.0
"""Largest factor by which a step may shrink a weight if the loss is singular at the boundary."""


NEGLIGIBLE_WEIGHT = 1e-5
"""Weights below this are set to zero if the certificate allows it."""


def model_minimum(
    loss: Loss, alpha: Vector, here: Expansion, hessian: Matrix, within: Simplex
) -> Vector:
    """Return the minimum of the quadratic model, corrected by the predicted gradient if available."""
    floor = alpha / MAX_SHRINK if loss.singular_boundary else np.zeros_like(alpha)
    target = quadratic_program(here.gradient, hessian, alpha, floor, within)
    if here.gradient_predictor is not None:
        step = target - alpha
        corrected = here.gradient_predictor(step) - hessian @ step
        target = quadratic_program(corrected, hessian, alpha, floor, within)
    return target


def line_search(
    loss: Loss, alpha: Vector, here: Expansion, smoothing: float, target: Vector, within: Simplex
) -> tuple[Vector, Expansion]:
    """Return the first point from ``target`` back to α that decreases the loss enough (Armijo)."""
    slope = float(here.gradient @ (target - alpha))
    value = loss.value(alpha, smoothing) if smoothing else here.value
    slack = 2 * here.noise + 8 * EPS * abs(value)
    length = 1.0
    while length > 1e-12:
        moved = within.clean(alpha + length * (target - alpha))
        there = within.expand(loss, moved, smoothing) if length == 1.0 else None
        reached = there.value if there and not smoothing else loss.value(moved, smoothing)
        if reached <= value + 1e-4 * length * slope + slack:
            return moved, there or within.expand(loss, moved, smoothing)
        length /= 2
    return alpha, here


def bfgs_update(hessian: Matrix, step: Vector, change: Vector) -> Matrix:
    """Update the Hessian with a step and the change in the gradient along it (BFGS).

    The result is positive semidefinite; updates that would violate this are skipped, as are those along
    directions without curvature (between identical arms), which would consist of rounding errors. The
    values of a tangent plane differ from the gradient by a constant, which does not matter for steps within
    the simplex.
    """
    expected = hessian @ step
    seen, believed = float(change @ step), float(expected @ step)
    rounding = 16 * EPS * float(np.abs(step) @ np.abs(hessian) @ np.abs(step))
    if not seen > 1e-3 * believed > 1e-3 * rounding:
        return hessian
    change = change - change.mean()
    return hessian + np.outer(change, change) / seen - np.outer(expected, expected) / believed
