"""Random parts of recorded samples: halves, as in the paper's tables, and draws from a mixture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genmix.diagnosis.resampling import half_rows
from genmix.paper.items import Settings, in_parallel

SUBSAMPLES, QUICK_SUBSAMPLES = 50, 10

Arms = Mapping[str, Any]


def over_subsamples(settings: Settings, title: str, function: Any, shared: Any) -> list[Any]:
    """Return ``function(shared, index)`` for every subsample."""
    count = QUICK_SUBSAMPLES if settings.quick else SUBSAMPLES
    return in_parallel(settings, title, function, shared, range(count))


def halves(arms: Arms, seed: int, index: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split every arm into two random halves; the first is the subsample that ``diagnose`` uses."""
    first, second = {}, {}
    for name, rows in arms.items():
        mine, others = half_rows(len(rows), name, seed, index)
        first[name], second[name] = rows[mine], rows[others]
    return first, second


def draw_from(
    sizes: Sequence[int], weights: Sequence[float], n: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw n different rows from pools of these sizes, in random order, as indices of the stacked pools.

    The number of rows of each pool is multinomial.
    """
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    counts = rng.multinomial(n, np.asarray(weights) / np.sum(weights))
    drawn = [
        start + rng.choice(size, count, replace=False)
        for start, size, count in zip(starts, sizes, counts, strict=True)
    ]
    return rng.permutation(np.concatenate(drawn))
