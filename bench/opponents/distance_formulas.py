"""Fréchet and kernel distances as FID tools compute them, in float64."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

Array = NDArray[np.float64]


def clean_fid(rows: Array, mean: Array, covariance: Array) -> float:
    """With ``scipy.linalg.sqrtm``, as in pytorch-fid and clean-fid."""
    own_mean, own = rows.mean(axis=0), np.cov(rows, rowvar=False)
    root = np.trace(scipy.linalg.sqrtm(own @ covariance)).real
    return _distance(own_mean - mean, own, covariance, float(root))


def torch_fidelity(rows: Array, mean: Array, covariance: Array) -> float:
    """With the eigenvalues of the product, as in torch-fidelity."""
    own_mean, own = rows.mean(axis=0), np.cov(rows, rowvar=False)
    values = np.linalg.eigvals(own @ covariance)
    root = float(np.sum(np.sqrt(values.astype(complex)).real))
    return _distance(own_mean - mean, own, covariance, root)


def optimal_transport(rows: Array, mean: Array, covariance: Array) -> float:
    """The squared Bures–Wasserstein distance of POT."""
    from ot.gaussian import bures_wasserstein_distance

    own_mean, own = rows.mean(axis=0), np.cov(rows, rowvar=False)
    return float(bures_wasserstein_distance(own_mean, mean, own, covariance)) ** 2


def _distance(apart: Array, own: Array, covariance: Array, root: float) -> float:
    return float(apart @ apart + np.trace(own) + np.trace(covariance) - 2 * root)


def kernel_distance(rows: Array, real: Array) -> float:
    """The unbiased kernel distance of all samples with the cubic kernel of KID."""
    n, m, d = len(rows), len(real), rows.shape[1]
    own, theirs, cross = (
        (x @ y.T / d + 1) ** 3 for x, y in ((rows, rows), (real, real), (rows, real))
    )
    within = (own.sum() - np.trace(own)) / (n * (n - 1))
    within += (theirs.sum() - np.trace(theirs)) / (m * (m - 1))
    return float(within - 2 * cross.sum() / (n * m))


def subset_distance(rows: Array, real: Array, subsets: int, size: int = 1000) -> float:
    """The mean over random subsets, as in clean-fid."""
    rng = np.random.default_rng(0)
    size = min(size, len(rows), len(real))
    found = [
        kernel_distance(
            rows[rng.choice(len(rows), size, replace=False)],
            real[rng.choice(len(real), size, replace=False)],
        )
        for _ in range(subsets)
    ]
    return float(np.mean(found))
