"""Nearest-neighbor balls for precision, recall, density and coverage.

Each ball extends to the k-th nearest neighbor of its center. Balls are open (``distance < radius``), as in
the ``prdc`` package. Distances are computed with matrix products; where rounding error could change the
result, they are recomputed from explicit differences.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from genmix.core.arrays import (
    SMALLEST_SPREAD,
    Array,
    check_spread,
    namespace,
    smallest,
    to_numpy,
)
from genmix.errors import InputError, whole
from genmix.kernels.blocks import BLOCK_BYTES
from genmix.kernels.distances import DistancesTo, SquaredDistances
from genmix.kernels.neighbor_progress import reported

COMPARING = "comparing samples with neighborhoods"


@dataclass(frozen=True)
class Balls:
    """Balls around ``centers`` ``(r, d)`` with squared ``radii`` ``(r,)``."""

    centers: Array
    radii: Array
    k: int
    distances: DistancesTo
    """Distances to the centers."""

    @classmethod
    def around(cls, points: Array, k: int, what: str = "the reference") -> Balls:
        check_neighbors(points.shape[0], k, what)
        xp = namespace(points)
        check_spread(float(xp.max(xp.abs(points - xp.mean(points, axis=0)))), what)
        distances = DistancesTo(points)
        radii = [
            _exact_kth(distances.of(points[rows, :]), points, rows.start, k)
            for rows in reported(
                _blocks(points.shape[0], points.shape[0]), f"finding the neighbors in {what}"
            )
        ]
        return cls(points, xp.concat(radii), k, distances)

    def contains(self, points: Array) -> Array:
        """Return whether each ball contains each point: booleans ``(n, r)``."""
        return self.contains_at(points, self.distances.of(points))

    def contains_at(self, points: Array, square: SquaredDistances) -> Array:
        """Do the same from the squared distances of the points to the centers."""
        return _is_inside(
            square.values, self.radii[None, :], square.column_errors, points, self.centers
        )

    def hits(self, points: Array) -> Array:
        """Count the balls that contain each point, ``(n,)``, in blocks of bounded memory."""
        xp = namespace(points)
        parts = [
            xp.sum(xp.astype(self.contains(points[rows, :]), xp.float64), axis=1)
            for rows in reported(_blocks(points.shape[0], self.centers.shape[0]), COMPARING)
        ]
        return xp.concat(parts)

    def covered(self, points: Array) -> Array:
        """Return whether each ball contains at least one of the points: booleans ``(r,)``."""
        xp = namespace(points)
        found = xp.zeros_like(self.radii, dtype=xp.bool)
        for rows in reported(_blocks(points.shape[0], self.centers.shape[0]), COMPARING):
            found = found | xp.any(self.contains(points[rows, :]), axis=0)
        return found


def check_neighbors(count: int, k: int, what: str) -> int:
    k = whole(k, "k", 1)
    if count < k + 1:
        raise InputError(
            f"{what} has {count} points, but {k} nearest neighbors need at least {k + 1}; "
            "pass more points or a smaller k."
        )
    return k


def scores_against(real: Balls, samples: Array) -> dict[str, float]:
    """Return precision, recall, density and coverage of ``samples``, given the balls around a reference."""
    xp, k, centers = namespace(samples), real.k, real.centers
    fake = Balls.around(samples, k, "the sample set") if samples.shape[0] > k else None
    hits, is_covered, is_recalled = [], None, None
    for rows in reported(_blocks(samples.shape[0], centers.shape[0]), COMPARING):
        points = samples[rows, :]
        square = real.distances.of(points)
        inside = real.contains_at(points, square)
        hits.append(to_numpy(xp.sum(inside, axis=1)))
        is_covered = _or(is_covered, to_numpy(xp.any(inside, axis=0)))
        if fake is not None:
            radii = fake.radii[rows][:, None]
            around = _is_inside(square.values, radii, square.row_errors, points, centers)
            is_recalled = _or(is_recalled, to_numpy(xp.any(around, axis=0)))
    counts = np.concatenate(hits)
    scores = {"precision": float(np.mean(counts > 0)), "density": float(np.mean(counts)) / k}
    if is_recalled is not None:
        scores["recall"] = float(np.mean(is_recalled))
    scores["coverage"] = float(np.mean(is_covered))  # type: ignore[arg-type]
    return scores


def _or(before: Any, now: Any) -> Any:
    return now if before is None else before | now


def _is_inside(square: Array, radii: Array, errors: Array, points: Array, centers: Array) -> Array:
    """Return whether squared distances ``(n, r)`` are below ``radii``, which has one row or one column.

    ``errors`` has the same shape as ``radii``. Where they could change the result, distances are computed
    from explicit differences.
    """
    xp = namespace(points)
    inside = square < radii - errors
    uncertain = (square <= radii + errors) ^ inside
    if bool(xp.any(uncertain)):
        rows, columns = xp.nonzero(uncertain)
        exact = _pair_distances(points, rows, centers, columns)
        inside[rows, columns] = exact < xp.broadcast_to(radii, square.shape)[rows, columns]
    return inside


def _pair_distances(x: Array, rows: Array, y: Array, columns: Array) -> Array:
    """Compute ``‖x_a − y_b‖²`` for listed pairs from explicit differences, in blocks of bounded memory."""
    xp = namespace(x)
    size = max(1, BLOCK_BYTES // (8 * x.shape[1]))
    parts = []
    for start in range(0, rows.shape[0], size):
        difference = x[rows[start : start + size], :] - y[columns[start : start + size], :]
        parts.append(xp.sum(difference * difference, axis=1))
    return xp.concat(parts)


def _exact_kth(square: SquaredDistances, points: Array, start: int, k: int) -> Array:
    """Compute the k-th smallest squared distance for each row exactly; the point itself counts as the 0th."""
    xp, near, errors = namespace(points), square.values, square.row_errors
    nearest = smallest(near, min(k + 2, near.shape[1]))
    column, values = nearest[:, k], xp.take_along_axis(near, nearest, axis=1)
    own = xp.arange(start, start + near.shape[0], device=near.device)
    exact = _pair_distances(points, own, points, column)
    if bool(xp.any(exact < SMALLEST_SPREAD**2)):  # identical points, or squares that underflow
        check_spread(
            float(xp.max(xp.abs(_close_differences(points, own, column)))), "a neighborhood"
        )
    kth = values[:, k : k + 1]
    # Only the next smaller and the next larger entry can be as close as rounding errors.
    is_close = xp.abs(values[:, k - 1 :] - kth) <= errors
    for i in np.flatnonzero(to_numpy(xp.sum(is_close, axis=1)) > 1).tolist():
        candidate = xp.nonzero(xp.abs(near[i, :] - kth[i, 0]) <= errors[i, 0])[0]
        below = int(xp.sum(xp.astype(near[i, :] < kth[i, 0] - errors[i, 0], xp.int64)))
        distances = _pair_distances(points, xp.full_like(candidate, start + i), points, candidate)
        exact[i] = xp.sort(distances)[k - below]
    return exact


def _close_differences(points: Array, rows: Array, columns: Array) -> Array:
    """Return differences between listed pairs of points; those far apart count as identical."""
    xp = namespace(points)
    difference = points[rows, :] - points[columns, :]
    is_close = xp.all(xp.abs(difference) < SMALLEST_SPREAD, axis=1)
    return xp.where(is_close[:, None], difference, xp.zeros_like(difference))


def _blocks(rows: int, columns: int) -> list[slice]:
    size = max(1, BLOCK_BYTES // (8 * max(1, columns)))
    return [slice(start, min(start + size, rows)) for start in range(0, rows, size)]
