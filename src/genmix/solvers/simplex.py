"""Points on the simplex, i.e. vectors of nonnegative weights that sum to 1."""

from __future__ import annotations

import numpy as np

from genmix.core.arrays import Vector
from genmix.errors import InputError

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
