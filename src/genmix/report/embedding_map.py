"""Map embeddings to two dimensions: their first two principal components, with reproducible signs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MAX_POINTS = 2000


@dataclass(frozen=True)
class Projection:
    """Points ``(n, 2)``, and the share of the variance along each axis."""

    points: NDArray[np.float64]
    shares: tuple[float, float]


def project(rows: NDArray[np.float64]) -> Projection:
    """Project rows ``(n, d)`` onto their first two principal components.

    The largest entry of each component is positive, so that signs do not depend on the library.
    """
    count, dimension = rows.shape
    if count < 2 or dimension == 0:
        return Projection(np.zeros((count, 2)), (0.0, 0.0))
    centered = rows - rows.mean(axis=0)
    components = _components(centered)
    points = np.zeros((count, 2))
    points[:, : components.shape[1]] = centered @ components
    total = float(np.sum(centered**2))
    shares = np.sum(points**2, axis=0) / total if total > 0 else np.zeros(2)
    return Projection(points, (float(shares[0]), float(shares[1])))


def _components(centered: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the first two eigenvectors of the covariance ``(d, 2)``, from the smaller Gram matrix."""
    count, dimension = centered.shape
    if dimension <= count:
        vectors = np.linalg.eigh(centered.T @ centered)[1][:, ::-1][:, :2]
    else:
        left = np.linalg.eigh(centered @ centered.T)[1][:, ::-1][:, :2]
        vectors = centered.T @ left
        norms = np.linalg.norm(vectors, axis=0)
        vectors = vectors / np.where(norms > 0, norms, 1.0)
    largest = vectors[np.argmax(np.abs(vectors), axis=0), np.arange(vectors.shape[1])]
    signed: NDArray[np.float64] = vectors * np.where(largest < 0, -1.0, 1.0)
    return signed
