"""The samples in the plane: their two principal components, the same picture every time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MOST_POINTS = 2000


@dataclass(frozen=True)
class Map:
    """Points ``(n, 2)``, and the share of the variance that each axis shows."""

    points: NDArray[np.float64]
    shares: tuple[float, float]


def project(rows: NDArray[np.float64]) -> Map:
    """Rows ``(n, d)`` along the two directions in which they vary most.

    Each direction is turned so that its largest entry is positive: signs do not depend on the library.
    """
    count, dimension = rows.shape
    if count < 2 or dimension == 0:
        return Map(np.zeros((count, 2)), (0.0, 0.0))
    centred = rows - rows.mean(axis=0)
    directions = _directions(centred)
    points = np.zeros((count, 2))
    points[:, : directions.shape[1]] = centred @ directions
    total = float(np.sum(centred**2))
    along = np.sum(points**2, axis=0) / total if total > 0 else np.zeros(2)
    return Map(points, (float(along[0]), float(along[1])))


def _directions(centred: NDArray[np.float64]) -> NDArray[np.float64]:
    """The first two eigenvectors of the covariance ``(d, 2)``, by the smaller of the two Gram matrices."""
    count, dimension = centred.shape
    if dimension <= count:
        vectors = np.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :2]
    else:
        left = np.linalg.eigh(centred @ centred.T)[1][:, ::-1][:, :2]
        vectors = centred.T @ left
        lengths = np.linalg.norm(vectors, axis=0)
        vectors = vectors / np.where(lengths > 0, lengths, 1.0)
    largest = vectors[np.argmax(np.abs(vectors), axis=0), np.arange(vectors.shape[1])]
    turned: NDArray[np.float64] = vectors * np.where(largest < 0, -1.0, 1.0)
    return turned
