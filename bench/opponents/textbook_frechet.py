"""The Fréchet distance of two sets of samples as FID tools compute it, with ``scipy.linalg.sqrtm``."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

Array = NDArray[np.float64]


def distance(rows: Array, mean: Array, covariance: Array) -> float:
    """``‖μ−μ_0‖² + Tr(Σ + Σ_0 − 2 (Σ Σ_0)^½)`` with covariances normalized by 1/n."""
    own_mean, own = rows.mean(axis=0), np.cov(rows, rowvar=False, bias=True)
    root = scipy.linalg.sqrtm(own @ covariance)
    apart = own_mean - mean
    return float(apart @ apart + np.trace(own) + np.trace(covariance) - 2 * np.trace(root).real)
