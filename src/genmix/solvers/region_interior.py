"""Check that a region is not empty, and find a point in its relative interior."""

from __future__ import annotations

import math

import daqp
import numpy as np

from genmix.core.arrays import Vector
from genmix.errors import InputError
from genmix.solvers.knapsack import Bounds, constraints, fill, varying
from genmix.solvers.loss import Matrix

ROUNDING = 1e-12
"""Differences up to this are rounding errors of numbers that a user wrote, such as 0.1 + 0.2 + 0.7."""


def size_of(row: Vector) -> float:
    return max(float(np.max(np.abs(row), initial=0.0)), 1e-300)


def at_least_text(value: float) -> str:
    """Format a number with 6 digits, rounded up, so that it is feasible as printed."""
    return _rounded(value, math.ceil)


def at_most_text(value: float) -> str:
    """Format a number with 6 digits, rounded down."""
    return _rounded(value, math.floor)


def _rounded(value: float, rounding: object) -> str:
    if value == 0:
        return "0"
    digits = 5 - math.floor(math.log10(abs(value)))
    nearest = round(value, digits)
    if abs(nearest - value) <= ROUNDING * abs(value):
        return f"{nearest:.6g}"
    step = 10.0**-digits
    return f"{rounding(value / step) * step:.6g}"  # type: ignore[operator]


def check_bounds(bounds: Bounds, rows: Matrix, limits: Vector) -> None:
    """Refuse numbers that are not finite, and bounds and sums that contradict each other."""
    for what, values in (
        ("lo", bounds.lo),
        ("hi", bounds.hi),
        ("sums", bounds.sums),
        ("rows", rows),
        ("limits", limits),
    ):
        if not np.all(np.isfinite(values)):
            raise InputError(f"{what} of the region is not finite; pass finite numbers.")
    if len(limits) != len(rows):
        raise InputError(
            f"there are {len(rows)} rows but {len(limits)} limits; pass one limit per row."
        )
    if len(bounds.groups) != len(bounds.lo) or set(bounds.groups.tolist()) - set(
        range(len(bounds.sums))
    ):
        raise InputError("groups does not match sums; pass one group per arm, numbered from 0.")
    if np.any(bounds.lo < 0) or np.any(bounds.sums < 0) or abs(bounds.sums.sum() - 1) > ROUNDING:
        raise InputError(
            "lo or sums is not part of the simplex; pass lo ≥ 0 and sums ≥ 0 that add up to 1."
        )
    crossed = np.flatnonzero(bounds.lo > bounds.hi)
    if len(crossed):
        i = crossed[0]
        raise InputError(
            f"lo of arm {i} is {bounds.lo[i]:g}, but hi is {bounds.hi[i]:g}; lower lo to at most that."
        )
    for g, (low, high, total) in enumerate(
        zip(bounds.totals(bounds.lo), bounds.totals(bounds.hi), bounds.sums, strict=True)
    ):
        if low > total + ROUNDING:
            raise InputError(
                f"lo of group {g} adds up to {low:.6g}; lower it to at most {at_most_text(total)}."
            )
        if high < total - ROUNDING:
            raise InputError(
                f"hi of group {g} adds up to {high:.6g}; raise it to at least {at_least_text(total)}."
            )


def attained(bounds: Bounds) -> Bounds:
    """Tighten the bounds to the values that the weights can attain, given the sums of the groups."""
    rest_lo = (bounds.sums - bounds.totals(bounds.lo))[bounds.groups]
    rest_hi = (bounds.sums - bounds.totals(bounds.hi))[bounds.groups]
    lo = np.maximum(bounds.lo, bounds.hi + rest_hi)
    hi = np.minimum(bounds.hi, bounds.lo + rest_lo)
    is_fixed = hi - lo <= 1e-14
    lo = np.where(is_fixed, np.clip(lo, bounds.lo, bounds.hi), lo)
    return bounds._replace(lo=lo, hi=np.where(is_fixed, lo, hi))


def least_of_row(k: int, row: Vector, limit: float, bounds: Bounds) -> float:
    """Return the least value of a row, or refuse its limit if that is larger."""
    least = float(row @ fill(row, bounds))
    if least > limit + ROUNDING * size_of(row):
        raise InputError(
            f"the limit of row {k} is {limit:g}, but the row is at least {at_least_text(least)}; "
            "raise it to that."
        )
    return least


def cheapest_face(row: Vector, bounds: Bounds) -> Bounds:
    """Return the bounds of the points at which a row has its least value."""
    lo, hi = bounds.lo.copy(), bounds.hi.copy()
    weights, close = fill(row, bounds), ROUNDING * size_of(row)
    for g in range(len(bounds.sums)):
        arms = bounds.groups == g
        raised = arms & (weights > bounds.lo)
        if not raised.any():
            hi[arms] = lo[arms]
            continue
        threshold = float(row[raised].max())
        hi = np.where(arms & (row > threshold + close), lo, hi)
        lo = np.where(arms & (row < threshold - close), hi, lo)
    return attained(bounds._replace(lo=lo, hi=hi))


def center_of(bounds: Bounds, rows: Matrix, limits: Vector) -> Vector:
    """Return a point in the relative interior: between all bounds, and below all limits."""
    room = bounds.totals(bounds.hi - bounds.lo)
    left = bounds.sums - bounds.totals(bounds.lo)
    share = np.where(room > 0, left / np.where(room > 0, room, 1.0), 0.0)
    middle: Vector = bounds.lo + share[bounds.groups] * (bounds.hi - bounds.lo)
    if len(limits) > 1:
        return _interior(bounds, rows, limits, middle)
    for row, limit in zip(rows, limits.tolist(), strict=True):
        cheapest = fill(row, bounds)
        least, here = float(row @ cheapest), float(row @ middle)
        target = (least + limit) / 2
        if here > target:
            middle = middle + (here - target) / (here - least) * (cheapest - middle)
    return middle


def _interior(bounds: Bounds, rows: Matrix, limits: Vector, middle: Vector) -> Vector:
    """Return a point below the limits of several rows, or refuse rows that contradict each other."""
    sizes = np.array([size_of(row) for row in rows])
    for relaxed in (0.0, 10 * ROUNDING):  # rows can leave a single point, up to rounding
        found = _deepest(bounds, rows, limits + relaxed * sizes, middle)
        if found is not None:
            return found
    for k in range(1, len(limits)):
        if _deepest(bounds, rows[: k + 1], limits[: k + 1], middle) is None:
            low, high = float(limits[k]), float(rows[k] @ middle) + float(sizes[k])
            for _ in range(60):
                tried = (low + high) / 2
                tested = np.append(limits[:k], tried)
                fits = _deepest(bounds, rows[: k + 1], tested, middle) is not None
                low, high = (low, tried) if fits else (tried, high)
            raise InputError(
                f"the limit of row {k} is {limits[k]:g}, but with the rows before it, the row is at least "
                f"{at_least_text(high)}; raise it to that."
            )
    raise InputError("the rows of the region contradict each other; raise one of their limits.")


def _deepest(bounds: Bounds, rows: Matrix, limits: Vector, middle: Vector) -> Vector | None:
    """Find the point that keeps the largest share t of all distances, by one program; None if there is none.

    The bounds shrink toward the middle with t, and the limits toward the least values of the rows.
    """
    m = len(middle)
    least = np.array([float(row @ fill(row, bounds)) for row in rows])
    a, upper, lower, sense, sizes = constraints(bounds, rows, limits, middle, np.ones(m))
    free, used = bounds.hi > bounds.lo, varying(bounds, rows)
    shrink = np.append(np.zeros(len(a) - len(sizes)), ((limits - least) / 2)[used] / sizes)
    eye, below, above = np.eye(m)[free], (middle - bounds.lo)[free], (bounds.hi - middle)[free]
    walls = np.vstack(
        [np.hstack([eye, -below[:, None] / 2]), np.hstack([-eye, -above[:, None] / 2])]
    )
    x, _, flag, _ = daqp.solve(
        1e-4 * np.eye(m + 1),
        np.append(np.zeros(m), -1.0),
        np.ascontiguousarray(np.vstack([np.hstack([a, shrink[:, None]]), walls])),
        np.concatenate([upper[:m], [1.0], upper[m:], np.full(len(walls), 1e30)]),
        np.concatenate([lower[:m], [0.0], lower[m:], -below, -above]),
        np.concatenate([sense[:m], [0], sense[m:], np.zeros(len(walls))]).astype(np.int32),
        primal_tol=1e-11,
    )
    if flag < 1 or not np.all(np.isfinite(x)):
        return None
    found: Vector = np.clip(middle + x[:m], bounds.lo, bounds.hi)
    return found
