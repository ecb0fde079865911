"""Newton's method with many arms: steps in the weights of the arms that matter, certified over all arms.

With hundreds of arms, a Hessian and a dense quadratic program take seconds, but few arms share most of the
weight. So the Hessian contains only these arms and the cheapest others. The remaining arms are expensive and
have little weight; in each step, they shrink. Every expansion of the loss contains the tangent plane at all
arms: its gap holds for all mixtures, and an arm that was left out by mistake is cheap in it and joins the
next step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np

from genmix.core.arrays import Vector
from genmix.solvers.loss import Expansion, Loss, Matrix
from genmix.solvers.newton_steps import MAX_SHRINK, bfgs_update, line_search
from genmix.solvers.quadratic_program import LITTLE_WEIGHT, quadratic_program
from genmix.solvers.simplex import LIFT, Mask, Simplex
from genmix.solvers.solve import UNKNOWN_GAP, Solution

MANY = 200
"""With this number of arms or more, a step contains only some of them."""

SPARE = 0.15
"""Number of arms that a Hessian contains beyond those that matter now, as a fraction of these."""

REUSE_RATIO = 0.3
"""Reuse a Hessian if its step left at most this fraction of the gap, unless a new one is cheap."""

NEAR = 0.1
"""Reuse the Hessian of an earlier solve only if the gap is at most this fraction of the loss.

Farther from the minimum, its step gains much less than that of a new one.
"""

REMOVED = 0.1
"""Weight that a step may remove from expensive arms without their curvature, relative to the gap.

The curvature times the square of this weight is much smaller than what the step gains.
"""

FEW = 300
"""Number of arms up to which a step with all of them takes a fraction of a second."""

SCREENING_STEPS = 10
"""Largest number of first-order steps before the first Newton step."""

MAX_STALLS = 3
"""Number of consecutive steps without progress after which the solver stops."""


@dataclass(frozen=True)
class Part:
    """The Hessian of some of the arms."""

    known: Mask
    """Which arms it contains, ``(m,)``."""
    hessian: Matrix
    """The Hessian ``(k, k)`` of these arms."""

    @classmethod
    def at(cls, here: Expansion, known: Mask) -> Self:
        return cls(known, here.hessian_at(np.eye(len(known))[known]))

    @classmethod
    def of(cls, curvature: Matrix | None) -> Self | None:
        """Return the part that a matrix ``(m, m)`` from :meth:`full` contains."""
        if curvature is None:
            return None
        known = np.count_nonzero(curvature, axis=1) > 1
        return cls(known, curvature[np.ix_(known, known)]) if known.any() else None

    def full(self) -> Matrix:
        """Return a matrix ``(m, m)``; the other arms have the largest curvature and no correlations."""
        found = np.diag(np.full(len(self.known), np.max(np.diag(self.hessian), initial=0.0)))
        found[np.ix_(self.known, self.known)] = self.hessian
        return found

    def updated(self, step: Vector, change: Vector) -> Self:
        known = self.known
        return type(self)(known, bfgs_update(self.hessian, step[known], change[known]))


def descend(
    loss: Loss,
    start: Vector,
    curvature: Matrix | None,
    within: Simplex,
    has_converged: Callable[[Expansion], bool],
    max_steps: int,
) -> Solution:
    """Minimize a differentiable loss of many arms; see :class:`Newton`."""
    alpha = within.clean(start)
    here = within.expand(loss, alpha)
    if not np.isfinite(here.value):
        alpha = within.enter(start)
        here = within.expand(loss, alpha)
    if not np.isfinite(here.value):  # every mixture of these arms has infinite loss
        return Solution(alpha, here.value, UNKNOWN_GAP, 0)
    reuse_ratio = REUSE_RATIO if loss.hessian_reuse_ratio else 0.0
    part, steps = Part.of(curvature) if reuse_ratio else None, 0
    if part is None:
        alpha, here, steps = _screened(loss, alpha, here, within, has_converged)
    elif here.gap > NEAR * here.magnitude:
        part = None
    best, stalls = (here.gap, alpha, here.value), 0
    while not has_converged(here) and stalls < MAX_STALLS and steps < max_steps:
        steps += 1
        free, spare = _free(here, alpha, within)
        if stalls:  # prices can mislead if there are rows
            free = spare = np.ones(loss.size, bool)
        if part is None or np.any(free & ~part.known):
            part = Part.at(here, spare)
        hessian = part.full()
        floor = _floor(loss, alpha, here, np.diag(hessian), free)
        base = within.enter(alpha)  # the active-set method cycles if many weights are zero
        gradient = here.gradient + hessian @ np.where(part.known, base - alpha, 0.0)
        target = quadratic_program(gradient, hessian, base, floor, within, ~part.known)
        target[(target < LIFT) & (floor == 0)] = 0.0  # rounding errors
        beta, there = line_search(loss, alpha, here, 0.0, target, within)
        left = (there.gap - there.noise) / (here.gap - here.noise)
        is_good = left <= reuse_ratio
        part = part.updated(beta - alpha, there.gradient - here.gradient) if is_good else None
        stalls = 0 if there.gap < 0.9 * best[0] or there.value < here.value else stalls + 1
        alpha, here = beta, there
        best = min(best, (here.gap, alpha, here.value), key=lambda item: item[0])
    gap, alpha, value = best
    return Solution(alpha, value, gap, steps, None if part is None else part.full())


def _floor(loss: Loss, alpha: Vector, here: Expansion, curvature: Vector, free: Mask) -> Vector:
    """Return how far weights may shrink: little ones to zero, others by a factor.

    A cheap arm with infinite curvature at zero is raised to a weight from which it can grow.
    """
    is_stuck = (alpha < LIFT) & (curvature * LIFT > here.gap)
    lowest = np.where(is_stuck, LIFT, alpha / MAX_SHRINK)
    return np.where(free & loss.singular_boundary, lowest, 0.0)


def _free(here: Expansion, alpha: Vector, within: Simplex) -> tuple[Mask, Mask]:
    """Return the arms that matter in the next step, and the same with some to spare.

    The others are expensive and have too little weight together to matter.
    """
    prices = within.prices(here.gradient, alpha)
    means, sums = within.mean_prices(prices, alpha)
    excess = prices - means
    limit = REMOVED * here.gap / max(float(np.max(np.abs(excess))), here.magnitude)
    by_weight = np.argsort(alpha, kind="stable")
    free = np.ones(len(alpha), bool)
    free[by_weight[np.cumsum(np.where(excess > 0, alpha, 0.0)[by_weight]) <= limit]] = False
    free |= (alpha >= LITTLE_WEIGHT * sums) | (excess <= 0)
    spare, count = free.copy(), int(np.count_nonzero(free))
    order = np.argsort(np.where(free, np.inf, excess), kind="stable")
    spare[order[: min(int(SPARE * count), len(free) - count)]] = True
    return free, spare


def _screened(
    loss: Loss,
    alpha: Vector,
    here: Expansion,
    within: Simplex,
    has_converged: Callable[[Expansion], bool],
) -> tuple[Vector, Expansion, int]:
    """Shrink expensive arms with exponentiated-gradient steps until only a few arms matter."""
    rate, steps = 0.0, 0
    while steps < SCREENING_STEPS and not has_converged(here):
        if np.count_nonzero(_free(here, alpha, within)[0]) <= FEW:
            break
        prices = within.prices(here.gradient, alpha)
        excess = prices - within.mean_prices(prices, alpha)[0]
        rate = rate or 1 / max(float(np.abs(excess) @ alpha), 1e-300)
        most = np.log(MAX_SHRINK)
        beta = within.rescaled(alpha * np.exp(np.clip(-rate * excess, -most, most)))
        there = within.expand(loss, beta)
        steps += 1
        if there.value < here.value:
            alpha, here, rate = beta, there, 2 * rate
        else:
            rate /= 4
    return alpha, here, steps
