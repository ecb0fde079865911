"""Usual ways to choose diverse samples: lazy greedy by the Vendi score, and farthest-point selection.

Rows have norm 1. Both start with a random sample.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from genmix.paper import keep_rivals

Rows = NDArray[np.float64]


def lazy_greedy(rows: Rows, k: int) -> Any:
    """Add the sample with the largest gain in the score, re-evaluating stale gains only."""
    return keep_rivals.lazy_greedy(rows, k, np.random.default_rng(0))


def farthest_point(rows: Rows, k: int) -> Any:
    """Add the sample that is farthest from those already chosen."""
    return keep_rivals.farthest_point(rows, k, np.random.default_rng(0))
