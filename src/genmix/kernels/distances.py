"""Norms, pairwise distances, and the median heuristic for bandwidths."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from genmix.core.arrays import Array, check_spread, namespace, to_numpy
from genmix.core.streams import private_stream
from genmix.data.streamed_rows import StreamedRows
from genmix.errors import InputError

BANDWIDTH_POINTS = 2000
"""Number of points that the median heuristic uses, across all arms and the reference."""

PRODUCT_ERROR = 1e-11
"""Bound on the error of a squared distance from a matrix product, relative to the squared norms."""

SAFE_SQUARE = 1e-200
"""No square that matters underflows if the sum of squares is larger, or overflows if it is below 1/this."""


def norms(x: Array) -> Array:
    """Compute ``‖x_j‖`` for each row, without underflow for tiny vectors."""
    xp = namespace(x)
    square = xp.vecdot(x, x)
    if len(x) == 0:
        return square
    if float(xp.min(square)) > SAFE_SQUARE and float(xp.max(square)) < 1 / SAFE_SQUARE:
        return xp.sqrt(square)
    largest = xp.max(xp.abs(x), axis=1)
    safe = xp.where(largest > 0, largest, xp.ones_like(largest))
    scaled = x / safe[:, None]
    return largest * xp.sqrt(xp.sum(scaled * scaled, axis=1))


def squared_distances(x: Array, y: Array) -> Array:
    """Compute ``‖x − y‖²`` for all pairs with one matrix product, clipped at zero."""
    xp = namespace(x)
    center = xp.mean(y, axis=0)  # leaves distances unchanged but reduces cancellation
    x, y = x - center, y - center
    square = xp.sum(x * x, axis=1)[:, None] + xp.sum(y * y, axis=1)[None, :]
    product = x @ y.mT
    product *= 2  # in place: these matrices are the largest of a score
    square -= product
    negative = square < 0
    if bool(xp.any(negative)):
        square[negative] = 0.0
    return square


class DistancesTo:
    """Squared distances to fixed points ``(r, d)``, prepared for many blocks of other points.

    With x and y relative to the same center, ``‖x − y‖² = (−2x, ‖x‖², 1)·(y, 1, ‖y‖²)``: one matrix product.
    """

    def __init__(self, points: Array) -> None:
        xp = namespace(points)
        # A common center leaves distances unchanged but reduces cancellation.
        self._center = xp.mean(points, axis=0)
        rows, squares = self._relative(points)
        self._points = xp.concat([rows, xp.ones_like(squares), squares], axis=1)
        self._squares, self._largest = squares[:, 0], xp.max(squares)

    def of(self, points: Array) -> SquaredDistances:
        """Return the distances of points ``(n, d)``."""
        xp = namespace(points)
        rows, squares = self._relative(points)
        rows *= -2
        values = xp.concat([rows, squares, xp.ones_like(squares)], axis=1) @ self._points.mT
        by_column = PRODUCT_ERROR * (xp.max(squares) + self._squares)[None, :]
        return SquaredDistances(values, PRODUCT_ERROR * (squares + self._largest), by_column)

    def _relative(self, points: Array) -> tuple[Array, Array]:
        """Return points relative to the center, and their squared norms ``(n, 1)``."""
        rows = points - self._center
        return rows, namespace(rows).vecdot(rows, rows)[:, None]


@dataclass(frozen=True)
class SquaredDistances:
    """Squared distances ``(n, r)`` from a matrix product; rounding can make them negative."""

    values: Array
    row_errors: Array
    """Bounds on the errors in each row, ``(n, 1)``."""
    column_errors: Array
    """Bounds on the errors in each column, ``(1, r)``."""


def _rows_at(group: Array, rows: Any) -> Any:
    """Return some rows as a numpy array; only these are read if the group is on disk."""
    return group[rows, :] if isinstance(group, StreamedRows) else to_numpy(group)[rows, :]


def median_distance(groups: Sequence[Array], seed: int) -> float:
    """Return the median pairwise distance between random points, the same number from each group.

    If it is zero, return the median of the nonzero distances instead.
    """
    rng = private_stream(seed, "bandwidth")
    share = min(BANDWIDTH_POINTS // len(groups), *(g.shape[0] for g in groups), BANDWIDTH_POINTS)
    share = max(share, 1)
    points = np.concatenate(
        [_rows_at(g, np.sort(rng.permutation(g.shape[0])[:share])) for g in groups]
    )
    centered = points - points.mean(0)
    check_spread(float(np.max(np.abs(centered))), "the set of points for the median bandwidth")
    upper = np.triu_indices(len(points), 1)
    distances = np.sqrt(squared_distances(points, points)[upper])
    noise = 1e-7 * math.sqrt(float(np.max(np.sum(centered**2, axis=1))))
    distances = np.where(distances > noise, distances, 0.0)
    median = float(np.median(distances)) if distances.size else 0.0
    if median == 0 and (distances > 0).any():
        median = float(np.median(distances[distances > 0]))
    if median == 0:
        raise InputError(
            f"the median bandwidth is 0 because all {len(points)} points are identical; "
            "pass a number, e.g. Gaussian(bandwidth=1.0)."
        )
    return median
