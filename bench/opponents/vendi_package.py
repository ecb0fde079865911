"""The ``vendi-score`` package, in the form that suits the shape of the samples."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from vendi_score import vendi

Array = NDArray[np.float64]


def score(rows: Array) -> float:
    """The Vendi score with the cosine kernel, by ``score_dual`` if there are more rows than columns."""
    form = vendi.score_dual if rows.shape[0] > rows.shape[1] else vendi.score_X
    return float(form(rows))


def score_of_kernel(kernel: Array) -> float:
    """The Vendi score of samples with this kernel matrix."""
    return float(vendi.score_K(kernel))
