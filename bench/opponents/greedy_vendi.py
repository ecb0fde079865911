"""Usual ways to choose diverse samples: lazy greedy by the Vendi score, and farthest-point selection."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float64]


def lazy_greedy(rows: Rows, k: int) -> Any:
    """Add the sample with the largest gain in the logarithm of the score, re-evaluating stale gains only.

    Rows have norm 1. The first sample is the first row: every single sample has the same score.
    """
    chosen, now = [0], 0.0
    gains = np.full(len(rows), np.inf)
    while len(chosen) < k:
        gains[chosen] = -np.inf
        fresh = np.zeros(len(rows), dtype=bool)
        while not fresh[best := int(np.argmax(gains))]:
            gains[best] = log_vendi(rows[[*chosen, best]]) - now
            fresh[best] = True
        chosen.append(best)
        now = log_vendi(rows[chosen])
    return np.sort(chosen)


def log_vendi(rows: Rows) -> float:
    """Return the logarithm of the Vendi score of order 1 with the cosine kernel."""
    matrix = rows @ rows.T if len(rows) < rows.shape[1] else rows.T @ rows
    values = np.linalg.eigvalsh(matrix) / len(rows)
    values = values[values > 1e-14]
    return -float(values @ np.log(values))


def farthest_point(rows: Rows, k: int) -> Any:
    """Add the sample that is farthest from those already chosen."""
    chosen = [0]
    nearest = rows @ rows[0]
    while len(chosen) < k:
        nearest[chosen] = np.inf
        chosen.append(int(np.argmin(nearest)))
        nearest = np.maximum(nearest, rows @ rows[chosen[-1]])
    return np.sort(chosen)
