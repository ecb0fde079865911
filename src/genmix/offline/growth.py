"""Extrapolate how a score grows with the number of samples.

The model is ``s(n) = a − b·n^(−c)`` with ``b ≥ 0``, where ``c → 0`` means ``a + b·log n``. It passes through
the score of all N samples. Scores of random subsets determine b and, roughly, c; the result is averaged
over c.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from genmix.core.arrays import Vector

EXPONENTS = np.linspace(0, 3, 61)

EXPONENT = {"score": (0.2, 0.3), "share": (0.6, 0.3), "distance": (1.5, 0.6)}
"""Mean and standard deviation of c before any score is known.

The score of the best k samples grows slowly, that of the best share of them less so, and distances fall fast.
"""

WIDENING = 1.6
"""Factor on the standard deviation, from predictions that were compared with what happened."""

SEARCH_ERROR = 1e-3
"""Standard deviation of the error of a search, as a fraction of the score."""


@dataclass(frozen=True)
class Growth:
    """Scores of nested random subsets, and of all samples.

    Attributes
    ----------
    sizes : numpy.ndarray of shape (m,)
        Sizes of the subsets.
    scores : numpy.ndarray of shape (orders, m)
        Scores of the subsets; larger is better.
    total : int
        Number of all samples.
    last : float
        Score of all samples.
    kind : {"score", "share", "distance"}
        What is measured: a score of k samples, of a share of the samples, or the negative of a distance.
    """

    sizes: Vector
    scores: Vector
    total: int
    last: float
    kind: Literal["score", "share", "distance"] = "score"

    @property
    def means(self) -> Vector:
        """Mean scores of the subsets, by size."""
        return np.asarray(self.scores.mean(axis=0))

    @property
    def variance(self) -> float:
        """Variance of the score times the number of samples, if the score is like a mean.

        For a mean, the variance over random subsets of size n is ``variance · (1/n − 1/N)``.
        """
        found = np.var(self.scores, axis=0, ddof=1) / (1 / self.sizes - 1 / self.total)
        return float(np.mean(found))

    def gain(self, more: int) -> tuple[float, float]:
        """Return the expected gain of more samples, and its standard deviation.

        The standard deviation contains the uncertainty of b and c, and the luck of the samples to come.
        """
        target = self.total + more
        missing = self.last - self.means
        noise = self.variance * (1 / self.sizes - 1 / self.total) / len(self.scores)
        precision = 1 / (noise + (SEARCH_ERROR * self.last) ** 2 + np.finfo(float).tiny)
        typical, width = EXPONENT[self.kind]
        gains, variances, plausible = [], [], []
        for c in EXPONENTS:
            shape, ahead = _shape(c, self.sizes, self.total), _shape(c, self.total, target)
            information = float(np.sum(precision * shape**2))
            b = max(float(np.sum(precision * shape * missing)) / information, 0.0)
            misfit = float(np.sum(precision * (missing - b * shape) ** 2))
            surprise = ((c - typical) / width) ** 2
            gains.append(b * ahead)
            variances.append(ahead**2 / information)
            plausible.append(-(misfit + surprise) / 2)
        weights = np.exp(np.array(plausible) - max(plausible))
        weights /= weights.sum()
        mean = float(weights @ gains)
        spread = float(weights @ (np.square(np.array(gains) - mean) + variances))
        luck = self.variance * (1 / self.total - 1 / target)
        return mean, WIDENING * float(np.sqrt(spread + luck))


def _shape(c: float, start: Any, end: Any) -> Any:
    """Return ``(start^(−c) − end^(−c)) / c``, the growth from start to end for ``b = 1``."""
    if c == 0:
        return np.log(end / start)
    return (np.asarray(start, dtype=float) ** -c - float(end) ** -c) / c
