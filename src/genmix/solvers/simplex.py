"""Points on the simplex, i.e. vectors of nonnegative weights that sum to 1."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from genmix.core.arrays import Vector
from genmix.errors import InputError
from genmix.solvers.loss import Expansion, Loss, Matrix

Mask = NDArray[np.bool_]

Constraints = tuple[Matrix, Vector, Vector, NDArray[np.int32]]
"""DAQP's A, upper bounds, lower bounds and kinds of the constraints."""

EQUALITY = 5
"""DAQP's flag for an equality constraint."""

LIFT = 1e-9
"""Smallest weight of a starting point; a weight of exactly 0 could never grow."""


def uniform(size: int) -> Vector:
    return np.full(size, 1.0 / size)


def vertex(size: int, index: int) -> Vector:
    """Return weights that put everything on one arm."""
    weights = np.zeros(size)
    weights[index] = 1.0
    return weights


def feasible(weights: Vector) -> Vector:
    """Remove rounding errors: clip negative weights to 0 and normalize the sum to 1."""
    positive: Vector = np.maximum(weights, 0.0)
    total: float = positive.sum()
    return positive / total


def lifted(alpha: Vector) -> Vector:
    """Raise every weight to at least ``LIFT`` and normalize."""
    return feasible(np.maximum(alpha, LIFT))


class Simplex:
    """What a solver needs to know about the set of all mixtures; :class:`Region` is a part of it."""

    def enter(self, start: Vector) -> Vector:
        """Return a starting point from which every weight can change."""
        return lifted(start)

    def clean(self, alpha: Vector) -> Vector:
        """Remove rounding errors."""
        return feasible(alpha)

    def negligible(self, alpha: Vector, below: float) -> Mask:
        """Return which weights are above their lower bounds by less than ``below``."""
        found: Mask = (alpha > 0) & (alpha < below)
        return found

    def without(self, alpha: Vector, negligible: Mask) -> Vector:
        """Return the weights without the negligible ones."""
        return feasible(np.where(negligible, 0.0, alpha))

    def expand(self, loss: Loss, alpha: Vector, smoothing: float = 0.0) -> Expansion:
        """Expand the loss; the expansion's bound holds for all points of this set."""
        return loss.expand(alpha, smoothing)

    def minimum(self, plane: Vector, alpha: Vector) -> float:
        """Return the minimum of a linear function."""
        return float(plane.min())

    has_rows = False
    """Whether there are rows such as a budget, which give arms a price in addition to the gradient."""

    def prices(self, gradient: Vector, alpha: Vector) -> Vector:
        """Return what a unit of weight of each arm adds to the loss, including the prices of the rows."""
        return gradient

    def mean_prices(self, prices: Vector, alpha: Vector) -> tuple[Vector, Vector]:
        """Return the mean price in the group of each arm, and the weight of that group."""
        return np.full_like(alpha, prices @ alpha), np.ones_like(alpha)

    def rescaled(self, alpha: Vector) -> Vector:
        """Return positive weights, scaled to the right sums, as a point of this set."""
        return feasible(alpha)

    def lowest(self, gradient: Vector, alpha: Vector, floor: Vector) -> Vector:
        """Return the point above ``floor`` with the smallest ``gradient·β`` (Frank–Wolfe)."""
        best = floor.copy()
        best[int(np.argmin(gradient))] += 1 - floor.sum()
        return best

    def model_gap(self, slope: Vector, found: Vector, floor: Vector) -> float:
        """Return the Frank–Wolfe gap of a point above ``floor``."""
        return float(slope @ (found - floor) - (1 - floor.sum()) * slope.min())

    def constraints(self, alpha: Vector, floor: Vector, scale: Vector) -> Constraints:
        """Return the constraints of a quadratic program in ``x = (β − α) / scale``."""
        sense = np.zeros(len(alpha) + 1, dtype=np.int32)
        sense[-1] = EQUALITY  # the last row: the weights sum to 1
        upper, lower = np.zeros((2, len(alpha) + 1))
        upper[:-1], lower[:-1] = (1 - alpha) / scale, (floor - alpha) / scale
        return np.ascontiguousarray(scale[None, :]), upper, lower, sense


SIMPLEX = Simplex()
"""All mixtures."""


def on_simplex(weights: object, size: int | None = None, what: str = "the weights") -> Vector:
    """Validate ``weights`` as a point on the simplex; ``what`` names them in errors."""
    try:
        alpha = np.array(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} are not numbers; pass numbers that sum to 1.") from error
    if alpha.ndim != 1 or len(alpha) == 0 or (size is not None and len(alpha) != size):
        raise InputError(f"{what} have shape {alpha.shape}; pass one weight per arm.")
    if not np.all(np.isfinite(alpha)) or alpha.min() < 0 or abs(alpha.sum() - 1) > 1e-6:
        raise InputError(
            f"{what} {np.round(alpha, 6).tolist()} are not on the simplex; "
            "pass numbers of at least 0 that sum to 1."
        )
    return feasible(alpha)
