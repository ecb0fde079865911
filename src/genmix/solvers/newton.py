"""Newton's method on the simplex, with exact quadratic subproblems and a line search."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genmix.core.arrays import Vector
from genmix.core.description import Description
from genmix.errors import number, whole
from genmix.solvers import many_arms
from genmix.solvers.loss import Expansion, Loss, Matrix
from genmix.solvers.newton_steps import (
    NEGLIGIBLE_WEIGHT,
    bfgs_update,
    line_search,
    model_minimum,
)
from genmix.solvers.region import Region
from genmix.solvers.simplex import SIMPLEX, Simplex
from genmix.solvers.solve import FINAL_SMOOTHING, UNKNOWN_GAP, Solution, WarmSolver

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


@dataclass(frozen=True, eq=False)
class Newton(Description, WarmSolver):
    """Newton's method on the simplex, the default solver.

    Each step solves ``minimize g·(β−α) + ½(β−α)ᵀH(β−α)`` over the simplex exactly, with gradient g and
    Hessian H of the loss at α, followed by a line search. The solver stops when the certified gap is
    at most ``tolerance`` times the part of the loss that depends on the weights, or when rounding
    prevents further progress. Then weights that are almost zero become exactly zero if the gap stays
    small; if the loss is not differentiable, they are left as they are. The solution reports the gap.

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
    accepts_regions = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "tolerance", number(self.tolerance, "tolerance", 0.0))
        object.__setattr__(self, "max_steps", whole(self.max_steps, "max_steps", 1))

    def solve(
        self,
        loss: Loss,
        start: Vector,
        curvature: Matrix | None = None,
        region: Region | None = None,
    ) -> Solution:
        """Minimize a loss from ``start`` and certify the result.

        Parameters
        ----------
        loss : Loss
            A convex function of the weights.
        start : numpy.ndarray of shape (m,)
            Starting weights.
        curvature : numpy.ndarray of shape (m, m), optional
            A Hessian for the first step, e.g. from the last solution of a similar loss.
        region : Region, optional
            Where to look for the minimum; the simplex by default.

        Returns
        -------
        Solution
        """
        if loss.size == 1:
            return Solution(np.ones(1), loss.value(np.ones(1)), 0.0, 0)
        if region is not None and len(region.usable) < loss.size:
            return self._on_face(loss, start, region)
        within = SIMPLEX if region is None else region
        if not loss.smooth:
            return self._follow_smoothings(loss, within.enter(start), within)
        if loss.size >= many_arms.MANY:
            return self._descend_in_part(loss, start, curvature, within)
        return self._descend(loss, within.enter(start), curvature, True, within)

    def resolve(
        self,
        loss: Loss,
        start: Vector,
        curvature: Matrix | None = None,
        region: Region | None = None,
    ) -> Solution:
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
        region : Region, optional
            Where to look for the minimum; the simplex by default.

        Returns
        -------
        Solution
        """
        is_reduced = region is not None and len(region.usable) < loss.size
        if loss.size == 1 or not loss.smooth or is_reduced:
            return self.solve(loss, start, region=region)
        within = SIMPLEX if region is None else region
        if loss.size >= many_arms.MANY:
            return self._descend_in_part(loss, start, curvature, within)
        return self._descend(loss, within.enter(start), curvature, False, within)

    def _on_face(self, loss: Loss, start: Vector, region: Region) -> Solution:
        """Solve without the arms whose weight must be 0, where the slope can be infinite."""
        arms = region.usable
        face = region.face(arms)
        assert face is not None
        found = self.solve(loss.face(arms), start[arms], region=face)
        weights = np.zeros(loss.size)
        weights[arms] = found.weights
        return Solution(weights, found.loss, found.gap, found.iterations)

    def _descend(
        self, loss: Loss, alpha: Vector, hessian: Matrix | None, certify: bool, within: Simplex
    ) -> Solution:
        here = within.expand(loss, alpha)
        if not np.isfinite(here.value):  # every mixture of these arms has infinite loss
            return Solution(alpha, here.value, UNKNOWN_GAP, 0)
        best, stalls, steps = (here.gap, alpha, here.value), 0, 0
        while not self._has_converged(here) and stalls < MAX_STALLS and steps < self.max_steps:
            steps += 1
            if hessian is None:
                hessian = here.hessian
            target = model_minimum(loss, alpha, here, hessian, within)
            beta, there = line_search(loss, alpha, here, 0.0, target, within)
            left = (there.gap - there.noise) / (here.gap - here.noise)
            if left <= loss.hessian_reuse_ratio:
                hessian = bfgs_update(hessian, beta - alpha, there.gradient - here.gradient)
            else:
                hessian = None
            stalls = 0 if there.gap < 0.9 * best[0] or there.value < here.value else stalls + 1
            alpha, here = beta, there
            if not certify and hessian is not None and self._expects_convergence(here, left):
                target = model_minimum(loss, alpha, here, hessian, within)
                if target.min() > NEGLIGIBLE_WEIGHT:
                    return Solution(target, np.nan, UNKNOWN_GAP, steps + 1, hessian)
            best = min(best, (here.gap, alpha, here.value), key=lambda item: item[0])
        gap, alpha, value = best
        return self._without_negligible(loss, Solution(alpha, value, gap, steps, hessian), within)

    def _descend_in_part(
        self, loss: Loss, start: Vector, curvature: Matrix | None, within: Simplex
    ) -> Solution:
        """Minimize over many arms with steps in the weights of some of them."""
        found = many_arms.descend(
            loss, start, curvature, within, self._has_converged, self.max_steps
        )
        return self._without_negligible(loss, found, within)

    def _follow_smoothings(self, loss: Loss, alpha: Vector, within: Simplex) -> Solution:
        """Minimize a loss that is not differentiable through increasingly close smooth approximations.

        Every tangent plane is a lower bound on the minimum; the result uses the highest one.
        """
        smoothing, steps, bound = INITIAL_SMOOTHING, 0, -np.inf
        found = (np.inf, alpha)
        while smoothing > FINAL_SMOOTHING and steps < self.max_steps:
            here = within.expand(loss, alpha, smoothing)
            for _ in range(STEPS_PER_SMOOTHING):
                found = min(found, (here.value, alpha), key=lambda item: item[0])
                bound = max(bound, here.bound - here.noise)
                if float(here.gradient @ alpha - within.minimum(here.gradient, alpha)) <= smoothing:
                    break
                target = model_minimum(loss, alpha, here, here.hessian, within)
                alpha, here = line_search(loss, alpha, here, smoothing, target, within)
                steps += 1
            if found[0] - bound <= self._least_gap(here):
                break
            smoothing /= 4
        value, alpha = found
        return Solution(alpha, value, max(value - bound, 0.0), steps)

    def _has_converged(self, here: Expansion) -> bool:
        return here.gap - here.truncation <= self._least_gap(here)

    def _least_gap(self, here: Expansion) -> float:
        """Return the gap at which to stop, without truncation."""
        return max(self.tolerance * here.magnitude, 2 * here.noise)

    def _expects_convergence(self, here: Expansion, left: float) -> bool:
        """Return whether one more step should suffice; ``left`` is the gap ratio of the last step."""
        expected = SAFETY_FACTOR * max(left, MIN_REDUCTION) * (here.gap - here.noise)
        return expected <= self.tolerance * here.magnitude and not self._has_converged(here)

    def _without_negligible(self, loss: Loss, found: Solution, within: Simplex) -> Solution:
        """Set negligible weights to exactly zero unless that raises the gap too much."""
        negligible = within.negligible(found.weights, NEGLIGIBLE_WEIGHT)
        if not negligible.any():
            return found
        alpha = within.without(found.weights, negligible)
        clean = within.expand(loss, alpha)
        # Truncation is not counted, since it could hide a much larger Frank–Wolfe gap.
        allowed = max(self._least_gap(clean), found.gap - clean.truncation)
        if clean.gap > found.gap + allowed:
            return found
        return Solution(alpha, clean.value, clean.gap, found.iterations, found.curvature)
