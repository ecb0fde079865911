"""Feasible regions: the simplex with bounds per arm, group sums and rows such as a budget.

    P = { α :  lo ≤ α ≤ hi,  Σ_{i∈g} α_i = s_g for every group g,  Cα ≤ b }

The certificate is weak duality: a plane p below the loss and any multipliers ``λ ≥ 0`` give the bound
``min p·β + λ·(Cβ − b)`` over the bounds and group sums, which is at most the minimum of the loss over P.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import daqp
import numpy as np
from numpy.typing import ArrayLike

from genmix.core.arrays import Vector
from genmix.errors import InputError
from genmix.solvers.knapsack import Bounds, Minimum, constraints, fill, linear_minimum
from genmix.solvers.loss import Expansion, Loss
from genmix.solvers.region_interior import (
    attained,
    center_of,
    cheapest_face,
    check_bounds,
    least_of_row,
    size_of,
)
from genmix.solvers.simplex import LIFT, Constraints, Mask, Simplex

TOLERANCE = 1e-12
"""Largest violation of a sum, or of a row relative to its largest entry."""

ROUNDING = 1e-16
"""Largest error of a sum that is not corrected."""

MARGIN = 1e-11
"""Distance to a row, relative to its largest entry, that steps keep because of rounding."""


class Region(Simplex):
    """A part of the simplex: bounds per arm, sums of groups, and rows ``Cα ≤ b``. It is immutable.

    Parameters
    ----------
    size : int
        Number of arms m.
    lo, hi : float or array of shape (m,), default 0 and 1
        Bounds on the weights.
    groups : array of int of shape (m,), optional
        The group of each arm, from 0. By default, all arms are in one group.
    sums : array of shape (number of groups,), optional
        The sum of each group's weights; together, they are 1.
    rows, limits : array of shape (k, m) and (k,), optional
        The rows C and their limits b.

    Raises
    ------
    InputError
        If no mixture satisfies all constraints. The message names one that must change, and the nearest
        value at which it can hold.

    Examples
    --------
    >>> region = Region(3, hi=[0.5, 1, 1], rows=[[3.0, 2.0, 1.0]], limits=[1.5])
    >>> region.contains([0.1, 0.2, 0.7]), region.contains([0.6, 0.2, 0.2])
    (True, False)
    """

    def __init__(
        self,
        size: int,
        lo: ArrayLike = 0.0,
        hi: ArrayLike = 1.0,
        groups: ArrayLike | None = None,
        sums: ArrayLike = (1.0,),
        rows: ArrayLike = (),
        limits: ArrayLike = (),
    ) -> None:
        self.size = size
        self.lo = np.broadcast_to(np.asarray(lo, float), (size,)).copy()
        self.hi = np.broadcast_to(np.asarray(hi, float), (size,)).copy()
        self.groups = np.array(np.zeros(size) if groups is None else groups, np.int64)
        self.sums = np.array(sums, float)
        self.rows = np.array(rows, float).reshape(-1, size)
        self.limits = np.array(limits, float).reshape(-1)
        for array in (self.lo, self.hi, self.groups, self.sums, self.rows, self.limits):
            array.setflags(write=False)
        self._given = Bounds(self.lo, self.hi, self.groups, self.sums)
        check_bounds(self._given, self.rows, self.limits)
        self._bounds = attained(self._given)
        kept = np.ones(len(self.limits), bool)
        for k, (row, limit) in enumerate(zip(self.rows, self.limits.tolist(), strict=True)):
            least = least_of_row(k, row, limit, self._bounds)
            if limit - least <= TOLERANCE * size_of(row):  # the row holds with equality everywhere
                self._bounds, kept[k] = cheapest_face(row, self._bounds), False
        self._rows, self._limits = self.rows[kept], self.limits[kept]
        self.center = center_of(self._bounds, self._rows, self._limits)
        """A point in the relative interior."""
        self._sizes = np.array([size_of(row) for row in self._rows])
        slack = np.maximum(self._limits - self._rows @ self.center, 0.0)
        self._margins = np.minimum(MARGIN * self._sizes, slack / 2)

    # -- points ----------------------------------------------------------------------------------

    @property
    def usable(self) -> list[int]:
        """Positions of the arms whose weight can be positive."""
        return [int(i) for i in np.flatnonzero(self._bounds.hi > 0)]

    def contains(self, alpha: ArrayLike, tolerance: float = 100 * TOLERANCE) -> bool:
        """Return whether the weights satisfy all constraints, up to a tolerance."""
        weights = np.asarray(alpha, float)
        inside = np.all(weights >= self.lo - tolerance) and np.all(weights <= self.hi + tolerance)
        sums = np.abs(self._given.totals(weights) - self.sums)
        sizes = np.array([size_of(row) for row in self.rows])
        excess = self.rows @ weights - self.limits
        return bool(inside and np.all(sums <= tolerance) and np.all(excess <= tolerance * sizes))

    def face(self, arms: Sequence[int]) -> Region | None:
        """Return the region of these arms alone, or None if the others cannot all have weight 0."""
        kept = list(arms)
        left_out = np.delete(self.lo, kept)
        if np.any(left_out > 0):
            return None
        try:
            found, groups = np.unique(self.groups[kept], return_inverse=True)
            if np.any(np.delete(self.sums, found) > 0):
                return None
            lo, hi, sums = self.lo[kept], self.hi[kept], self.sums[found]
            return Region(len(kept), lo, hi, groups, sums, self.rows[:, kept], self.limits)
        except InputError:
            return None

    def enter(self, start: Vector) -> Vector:
        """Return a point of the region near ``start``, moved a little toward the center."""
        alpha = self.clean(start)
        if np.any(alpha < LIFT):
            alpha = self.clean(alpha + min(self.size * LIFT, 1.0) * (self.center - alpha))
        return alpha

    def clean(self, alpha: Vector) -> Vector:
        """Return the weights with all constraints satisfied; apart from rounding, feasible weights stay.

        The bounds hold exactly, and the sums and rows up to rounding. Weights at a bound stay there if
        possible.
        """
        bounds = self._bounds
        alpha = np.clip(alpha, bounds.lo, bounds.hi)
        alpha = self._with_sums(alpha, (alpha - bounds.lo) * (bounds.hi - alpha), ROUNDING)
        alpha = self._with_sums(alpha, None, TOLERANCE)  # moves weights away from their bounds
        if np.any(self._rows @ alpha - self._limits > TOLERANCE * self._sizes):
            alpha = self._toward_center(alpha)
        return alpha

    def _with_sums(self, alpha: Vector, room: Vector | None, above: float) -> Vector:
        """Correct the sums of the groups in proportion to ``room``, or to the distance to the bounds."""
        bounds = self._bounds
        missing = bounds.sums - bounds.totals(alpha)
        if np.all(np.abs(missing) <= above):
            return alpha
        if room is None:
            rises = missing[bounds.groups] > 0
            room = np.where(rises, bounds.hi - alpha, alpha - bounds.lo)
        totals = bounds.totals(room)
        rate = np.where(totals > 0, missing / np.where(totals > 0, totals, 1.0), 0.0)
        return np.clip(alpha + rate[bounds.groups] * room, bounds.lo, bounds.hi)

    def _toward_center(self, alpha: Vector) -> Vector:
        """Return the first point on the way to the center that satisfies the rows."""
        step = self.center - alpha
        excess = self._rows @ alpha - (self._limits - self._margins)
        gains = -(self._rows @ step)
        shares = np.where(excess > 0, excess / np.where(gains > 0, gains, 1e-300), 0.0)
        return alpha + min(float(shares.max()), 1.0) * step

    def negligible(self, alpha: Vector, below: float) -> Mask:
        above = alpha - self._bounds.lo
        found: Mask = (above > 0) & (above < below)
        return found

    def without(self, alpha: Vector, negligible: Mask) -> Vector:
        """Return the nearest point of the region in which the negligible weights are at their bounds."""
        bounds = self._bounds
        hi = np.where(negligible, bounds.lo, bounds.hi)
        fixed = np.where(negligible, bounds.lo, alpha)
        lacking = (bounds.sums - bounds.totals(fixed))[bounds.groups]
        free = hi > bounds.lo
        count = np.maximum(bounds.totals(free.astype(float)), 1.0)[bounds.groups]
        near = np.where(free, fixed + lacking / count, fixed)
        a, upper, lower, sense, _ = constraints(
            bounds._replace(hi=hi),
            self._rows,
            self._limits - self._margins,
            near,
            np.ones(self.size),
        )
        x, _, flag, _ = daqp.solve(
            np.eye(self.size), np.zeros(self.size), a, upper, lower, sense, primal_tol=1e-11
        )
        return self.clean(near + x) if flag >= 1 and np.all(np.isfinite(x)) else alpha

    def corner(self, arm: int) -> Vector:
        """Return a point of the region in which the weight of one arm is as large as possible."""
        prices = np.zeros(self.size)
        prices[arm] = -1.0
        return self.clean(self._linear_minimum(prices, self.center).point)

    # -- the certificate -------------------------------------------------------------------------

    def expand(self, loss: Loss, alpha: Vector, smoothing: float = 0.0) -> Expansion:
        """Expand the loss, with the bound and the rounding errors of this region."""
        here = loss.expand(alpha, smoothing)
        found = [self._linear_minimum(plane, alpha) for plane in here.planes]
        best = int(np.argmax([each.value for each in found]))
        noise, errors = here.noise + found[best].rounding, here.noise_of_arms()
        prices = here.planes[best] + found[best].multipliers @ self._rows
        least = fill(prices - errors, self._bounds)  # if every error increased the plane
        noise += max(float(prices @ found[best].point - (prices - errors) @ least), 0.0)
        return replace(here, region_bound=found[best].value, noise=noise)

    def minimum(self, plane: Vector, alpha: Vector) -> float:
        return self._linear_minimum(plane, alpha).value

    def multipliers(self, gradient: Vector, alpha: Vector) -> Vector:
        """Return how much a unit of each limit would save, if the loss has this gradient at α."""
        return linear_minimum(gradient, self._given, self.rows, self.limits, alpha).multipliers

    def _linear_minimum(self, prices: Vector, near: Vector) -> Minimum:
        return linear_minimum(prices, self._bounds, self._rows, self._limits, near)

    # -- quadratic programs ----------------------------------------------------------------------

    def raised(self, floor: Vector) -> Bounds:
        bounds = self._bounds
        return bounds._replace(lo=np.minimum(np.maximum(floor, bounds.lo), bounds.hi))

    @property
    def has_rows(self) -> bool:  # type: ignore[override]
        return len(self._limits) > 0

    def prices(self, gradient: Vector, alpha: Vector) -> Vector:
        if not self.has_rows:
            return gradient
        found: Vector = gradient + self._linear_minimum(gradient, alpha).multipliers @ self._rows
        return found

    def mean_prices(self, prices: Vector, alpha: Vector) -> tuple[Vector, Vector]:
        bounds = self._bounds
        sums = np.maximum(bounds.sums, 1e-300)
        return (bounds.totals(prices * alpha) / sums)[bounds.groups], sums[bounds.groups]

    def rescaled(self, alpha: Vector) -> Vector:
        totals = np.maximum(self._bounds.totals(alpha), 1e-300)
        return self.clean(alpha * (self._bounds.sums / totals)[self._bounds.groups])

    def lowest(self, gradient: Vector, alpha: Vector, floor: Vector) -> Vector:
        found = linear_minimum(gradient, self.raised(floor), self._rows, self._limits, alpha)
        return self.clean(found.point)

    def model_gap(self, slope: Vector, found: Vector, floor: Vector) -> float:
        least = linear_minimum(slope, self.raised(floor), self._rows, self._limits, found)
        return float(slope @ found) - least.value

    def constraints(self, alpha: Vector, floor: Vector, scale: Vector) -> Constraints:
        limits = self._limits - self._margins
        limits = np.maximum(limits, self._rows @ alpha)  # the start can be closer than the margin
        return constraints(self.raised(floor), self._rows, limits, alpha, scale)[:4]
