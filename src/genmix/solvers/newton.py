"""Newton's method on the simplex, with exact quadratic subproblems and a line search."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genmix.core.arrays import Vector
from genmix.core.description import Description
from genmix.errors import number, whole
from genmix.solvers.loss import EPS, Expansion, Loss, Matrix
from genmix.solvers.quadratic_program import quadratic_program
from genmix.solvers.simplex import feasible, lifted
from genmix.solvers.solve import FINAL_SMOOTHING, UNKNOWN_GAP, Solution, WarmSolver

MAX_SHRINK = 10.0
"""Largest factor by which a step may shrink a weight if the loss is singular at the boundary."""

INITIAL_SMOOTHING = 0.05
"""Initial smoothing of a loss that is not differentiable; the final value is ``FINAL_SMOOTHING``."""

STEPS_PER_SMOOTHING = 10
"""Maximum number of Newton steps on one smooth approximation."""

MAX_STALLS = 3
"""Number of consecutive steps without progress after which the solver stops."""

SAFETY_FACTOR = 3.0
"""A step is expected to leave this many times the fraction of the gap that the last step left."""

MIN_REDUCTION = 0.01
"""Smallest fraction of the gap that a step is expected to leave, even after a very good step."""

NEGLIGIBLE_WEIGHT = 1e-5
"""Weights below this are set to zero if the certificate allows it."""


@dataclass(frozen=True, eq=False)
class Newton(Description, WarmSolver):
    """Newton's method on the simplex, the default solver.

    Each step solves ``minimize g·(β−α) + ½(β−α)ᵀH(β−α)`` over the simplex exactly, with gradient g and
    Hessian H of the loss at α, followed by a line search. The solver stops when the certified gap is
    at most ``tolerance`` times the part of the loss that depends on the weights, or when rounding
    prevents further progress. The solution reports the achieved gap.

    Parameters
    ----------
    tolerance : float, default 1e-8
        Relative gap at which to stop.
    max_steps : int, default 200
        Maximum number of steps.

    Raises
    ------
    InputError
        If a parameter is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> import genmix as gx
    >>> arms = {"a": np.eye(4)[:1], "b": np.eye(4)[1:]}
    >>> mix = gx.optimal_mixture(arms, gx.Vendi(), solver=gx.Newton(tolerance=1e-10))
    >>> {arm: round(weight, 4) for arm, weight in mix.weights.items()}
    {'a': 0.25, 'b': 0.75}
    """

    tolerance: float = 1e-8
    max_steps: int = 200

    def __post_init__(self) -> None:
        object.__setattr__(self, "tolerance", number(self.tolerance, "tolerance", 0.0))
        object.__setattr__(self, "max_steps", whole(self.max_steps, "max_steps", 1))

    def solve(self, loss: Loss, start: Vector, curvature: Matrix | None = None) -> Solution:
        """Minimize a loss from ``start`` and certify the result.

        Parameters
        ----------
        loss : Loss
            A convex function of the weights.
        start : numpy.ndarray of shape (m,)
            Starting weights.
        curvature : numpy.ndarray of shape (m, m), optional
            A Hessian for the first step, e.g. from the last solution of a similar loss.

        Returns
        -------
        Solution
        """
        if loss.size == 1:
            return Solution(np.ones(1), loss.value(np.ones(1)), 0.0, 0)
        if not loss.smooth:
            return self._follow_smoothings(loss, lifted(start))
        return self._descend(loss, lifted(start), curvature, certify=True)

    def resolve(self, loss: Loss, start: Vector, curvature: Matrix | None = None) -> Solution:
        """Solve again after a small change in the loss, without certifying the last step.

        The last expansion of :meth:`solve` only confirms the prediction of earlier steps and takes a
        quarter of the time. If this method skips it, the solution's loss is NaN and its gap is ∞.

        Parameters
        ----------
        loss : Loss
            A convex function of the weights.
        start : numpy.ndarray of shape (m,)
            The last weights.
        curvature : numpy.ndarray of shape (m, m), optional
            The last solution's curvature.

        Returns
        -------
        Solution
        """
        if loss.size == 1 or not loss.smooth:
            return self.solve(loss, start)
        return self._descend(loss, lifted(start), curvature, certify=False)

    def _descend(
        self, loss: Loss, alpha: Vector, hessian: Matrix | None, certify: bool
    ) -> Solution:
        here = loss.expand(alpha)
        if not np.isfinite(here.value):  # every mixture of these arms has infinite loss
            return Solution(alpha, here.value, UNKNOWN_GAP, 0)
        best, stalls, steps = (here.gap, alpha, here.value), 0, 0
        while not self._has_converged(here) and stalls < MAX_STALLS and steps < self.max_steps:
            steps += 1
            if hessian is None:
                hessian = here.hessian
            beta, there = _newton_step(loss, alpha, here, 0.0, hessian)
            left = (there.gap - there.noise) / (here.gap - here.noise)
            if left <= loss.hessian_reuse_ratio:
                hessian = bfgs_update(hessian, beta - alpha, there.gradient - here.gradient)
            else:
                hessian = None
            stalls = 0 if there.gap < 0.9 * best[0] or there.value < here.value else stalls + 1
            alpha, here = beta, there
            if not certify and hessian is not None and self._expects_convergence(here, left):
                target = _model_minimum(loss, alpha, here, hessian)
                if target.min() > NEGLIGIBLE_WEIGHT:
                    return Solution(target, np.nan, UNKNOWN_GAP, steps + 1, hessian)
            best = min(best, (here.gap, alpha, here.value), key=lambda item: item[0])
        gap, alpha, value = best
        return self._without_negligible(loss, Solution(alpha, value, gap, steps, hessian))

    def _follow_smoothings(self, loss: Loss, alpha: Vector) -> Solution:
        """Minimize a loss that is not differentiable through increasingly close smooth approximations.

        Every tangent plane is a lower bound on the minimum; the result uses the highest one.
        """
        smoothing, steps, bound = INITIAL_SMOOTHING, 0, -np.inf
        found = (np.inf, alpha)
        while smoothing > FINAL_SMOOTHING and steps < self.max_steps:
            here = loss.expand(alpha, smoothing)
            for _ in range(STEPS_PER_SMOOTHING):
                found = min(found, (here.value, alpha), key=lambda item: item[0])
                bound = max(bound, here.bound - here.noise)
                if float(here.gradient @ alpha - here.gradient.min()) <= smoothing:
                    break
                alpha, here = _newton_step(loss, alpha, here, smoothing, here.hessian)
                steps += 1
            if found[0] - bound <= max(self.tolerance * here.magnitude, 2 * here.noise):
                break
            smoothing /= 4
        value, alpha = found
        return Solution(alpha, value, max(value - bound, 0.0), steps)

    def _has_converged(self, here: Expansion) -> bool:
        return here.gap - here.truncation <= max(self.tolerance * here.magnitude, 2 * here.noise)

    def _expects_convergence(self, here: Expansion, left: float) -> bool:
        """Return whether one more step should suffice; ``left`` is the gap ratio of the last step."""
        expected = SAFETY_FACTOR * max(left, MIN_REDUCTION) * (here.gap - here.noise)
        return expected <= self.tolerance * here.magnitude and not self._has_converged(here)

    def _without_negligible(self, loss: Loss, found: Solution) -> Solution:
        """Set negligible weights to exactly zero if the certificate allows it."""
        negligible = (found.weights > 0) & (found.weights < NEGLIGIBLE_WEIGHT)
        if not negligible.any():
            return found
        alpha = feasible(np.where(negligible, 0.0, found.weights))
        clean = loss.expand(alpha)
        if clean.gap > 2 * found.gap and not self._has_converged(clean):
            return found
        return Solution(alpha, clean.value, clean.gap, found.iterations, found.curvature)


def _newton_step(
    loss: Loss, alpha: Vector, here: Expansion, smoothing: float, hessian: Matrix
) -> tuple[Vector, Expansion]:
    """Take one Newton step: an Armijo line search toward the minimum of the quadratic model."""
    target = _model_minimum(loss, alpha, here, hessian)
    slope = float(here.gradient @ (target - alpha))
    value = loss.value(alpha, smoothing) if smoothing else here.value
    slack = 2 * here.noise + 8 * EPS * abs(value)
    length = 1.0
    while length > 1e-12:
        moved = feasible(alpha + length * (target - alpha))
        there = loss.expand(moved, smoothing) if length == 1.0 else None
        reached = there.value if there and not smoothing else loss.value(moved, smoothing)
        if reached <= value + 1e-4 * length * slope + slack:
            return moved, there or loss.expand(moved, smoothing)
        length /= 2
    return alpha, here


def _model_minimum(loss: Loss, alpha: Vector, here: Expansion, hessian: Matrix) -> Vector:
    """Return the minimum of the quadratic model, corrected by the predicted gradient if available."""
    floor = alpha / MAX_SHRINK if loss.singular_boundary else np.zeros_like(alpha)
    target = quadratic_program(here.gradient, hessian, alpha, floor)
    if here.gradient_predictor is not None:
        step = target - alpha
        corrected = here.gradient_predictor(step) - hessian @ step
        target = quadratic_program(corrected, hessian, alpha, floor)
    return target


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
