"""Balls around points, each out to its k-th nearest neighbour: precision, recall, density, coverage.

The ball is strict (``distance < radius``), as in the ``prdc`` package. Distances come from matrix
products; whatever lies too close to a radius for those to decide is decided on exact differences.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genmix.core.arrays import Array, kth_smallest, namespace, to_numpy
from genmix.errors import InputError, whole
from genmix.kernels.kernels import BLOCK_BYTES, squared_distances

DOUBT = 1e-11
"""Relative error that a squared distance from a matrix product may have."""


@dataclass(frozen=True)
class Balls:
    """Balls around ``centres`` ``(r, d)`` with squared ``radii`` ``(r,)``."""

    centres: Array
    radii: Array
    k: int

    @classmethod
    def around(cls, points: Array, k: int, what: str = "the reference") -> Balls:
        check_neighbours(points.shape[0], k, what)
        xp = namespace(points)
        radii = []
        for rows in _blocks(points.shape[0], points.shape[0]):
            near = squared_distances(points[rows, :], points)
            radii.append(_exact_kth(near, points, rows.start, k))
        return cls(points, xp.concat(radii), k)

    def holding(self, points: Array) -> Array:
        """Which balls hold which points: booleans ``(n, r)``."""
        xp = namespace(points)
        square = squared_distances(points, self.centres)
        inside = square < self.radii[None, :]
        doubtful = xp.abs(square - self.radii[None, :]) <= _margin(points, self.centres)
        if bool(xp.any(doubtful)):
            rows, columns = xp.nonzero(doubtful)
            exact = _pair_distances(points, rows, self.centres, columns)
            inside[rows, columns] = exact < self.radii[columns]
        return inside

    def hits(self, points: Array) -> Array:
        """How many balls hold each point, in blocks of bounded memory: ``(n,)``."""
        xp = namespace(points)
        parts = [
            xp.sum(xp.astype(self.holding(points[rows, :]), xp.float64), axis=1)
            for rows in _blocks(points.shape[0], self.centres.shape[0])
        ]
        return xp.concat(parts)

    def covered(self, points: Array) -> Array:
        """Which balls hold at least one of the points: booleans ``(r,)``."""
        xp = namespace(points)
        found = xp.zeros_like(self.radii, dtype=xp.bool)
        for rows in _blocks(points.shape[0], self.centres.shape[0]):
            found = found | xp.any(self.holding(points[rows, :]), axis=0)
        return found


def check_neighbours(count: int, k: int, what: str) -> int:
    k = whole(k, "k", 1)
    if count < k + 1:
        raise InputError(
            f"{what} has {count} points, and {k} nearest neighbours need at least {k + 1}: "
            "give more points or a smaller k."
        )
    return k


def scores_against(real: Balls, samples: Array) -> dict[str, float]:
    """Precision, recall, density and coverage of ``samples``, from the balls around a reference."""
    hits, k = to_numpy(real.hits(samples)), real.k
    scores = {"precision": float(np.mean(hits > 0)), "density": float(np.mean(hits)) / k}
    if samples.shape[0] > k:
        fake = Balls.around(samples, k, "the sample set")
        scores["recall"] = float(np.mean(to_numpy(fake.hits(real.centres)) > 0))
    scores["coverage"] = float(np.mean(to_numpy(real.covered(samples))))
    return scores


def _margin(x: Array, y: Array) -> Array:
    """How far the squared distance of each pair may be off, ``(n, k)``."""
    xp = namespace(x)
    centre = xp.mean(y, axis=0)
    left, right = (xp.sum((z - centre) ** 2, axis=1) for z in (x, y))
    return DOUBT * (left[:, None] + right[None, :])


def _pair_distances(x: Array, rows: Array, y: Array, columns: Array) -> Array:
    """``‖x_a − y_b‖²`` of listed pairs by exact differences, in blocks of bounded memory."""
    xp = namespace(x)
    size = max(1, BLOCK_BYTES // (8 * x.shape[1]))
    parts = []
    for start in range(0, rows.shape[0], size):
        difference = x[rows[start : start + size], :] - y[columns[start : start + size], :]
        parts.append(xp.sum(difference * difference, axis=1))
    return xp.concat(parts)


def _exact_kth(near: Array, points: Array, start: int, k: int) -> Array:
    """The k-th smallest squared distance of each row (itself is the 0th), by exact differences."""
    xp = namespace(points)
    column = kth_smallest(near, k)
    own = xp.arange(start, start + near.shape[0], device=near.device)
    exact = _pair_distances(points, own, points, column)
    kth = xp.take_along_axis(near, column[:, None], axis=1)
    margin = _margin(points[start : start + near.shape[0], :], points)
    rivals = to_numpy(xp.sum(xp.astype(xp.abs(near - kth) <= margin, xp.int64), axis=1))
    for i in np.flatnonzero(rivals > 1).tolist():
        rival = xp.nonzero(xp.abs(near[i, :] - kth[i, 0]) <= margin[i, :])[0]
        below = int(xp.sum(xp.astype(near[i, :] < kth[i, 0] - margin[i, :], xp.int64)))
        distances = _pair_distances(points, xp.full_like(rival, start + i), points, rival)
        exact[i] = xp.sort(distances)[k - below]
    return exact


def _blocks(rows: int, columns: int) -> list[slice]:
    size = max(1, BLOCK_BYTES // (8 * max(1, columns)))
    return [slice(start, min(start + size, rows)) for start in range(0, rows, size)]
