"""The mixture against what one would draw without it, in sets of equal size.

Few samples make a score worse than many: a mixture scored on all samples in hand would beat an arm scored on
its own even if both were the same. So each side is a set of as many samples, half of what there is for
both; how much their difference varies from one random half to the next is about how far it can be trusted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from genmix.core.plain import finite
from genmix.objectives import Objective
from genmix.offline.mixture import Pool, proportional
from genmix.report.sampling import Chosen
from genmix.runs.timeline import plain_values

Values = dict[str, float | None]
Weights = Mapping[str, float]

DRAWS = 8
LEAST, MOST = 5, 1500
"""Samples of a set: with fewer it says nothing, with more it takes long."""


@dataclass(frozen=True)
class Rival:
    """Both sides' scores, and the standard deviation of their difference."""

    size: int
    """Samples of a set."""
    mixture: Values
    other: Values
    spread: Values


def against(chosen: Chosen, objective: Objective, mixture: Weights, other: Weights) -> Rival | None:
    """Means over random halves; None where there are too few samples."""
    places = {arm: np.flatnonzero(chosen.arms == arm) for arm in {**mixture, **other}}
    size = min(_largest(places, mixture) // 2, _largest(places, other) // 2, MOST)
    if size < max(LEAST, objective.least_samples):
        return None
    rng = np.random.default_rng(0)
    draws: list[list[Values]] = [[], []]
    for _ in range(DRAWS):
        for scores, side in zip(draws, (mixture, other), strict=True):
            scores.append(_scores(chosen, objective, _drawn(places, side, size, rng)))
    names = draws[0][0]
    mine, theirs = ({name: _column(scores, name) for name in names} for scores in draws)
    return Rival(
        size,
        {name: finite(mine[name].mean()) for name in names},
        {name: finite(theirs[name].mean()) for name in names},
        {name: finite((mine[name] - theirs[name]).std(ddof=1)) for name in names},
    )


def _column(scores: list[Values], name: str) -> NDArray[np.float64]:
    return np.array([each[name] for each in scores], dtype=np.float64)  # None becomes nan


def _largest(places: Mapping[str, NDArray[np.int64]], weights: Weights) -> int:
    """The most samples that can be had in these shares."""
    total = sum(weights.values())
    sizes = [len(places[arm]) * total / share for arm, share in weights.items() if share > 0]
    return int(min(sizes, default=0))


def _drawn(
    places: Mapping[str, NDArray[np.int64]], weights: Weights, size: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Different samples of every arm in its share, by largest remainders."""
    shares = np.array(list(weights.values())) / sum(weights.values())
    parts = [
        rng.permutation(places[arm])[:count]
        for arm, count in zip(weights, proportional(shares, size), strict=True)
    ]
    return np.concatenate(parts)


def _scores(chosen: Chosen, objective: Objective, places: NDArray[np.int64]) -> Values:
    quality, cost = (_known(chosen, places, key) for key in ("quality", "cost"))
    pool = Pool.of({"set": chosen.embeddings[places]}, objective, quality, cost)
    return plain_values(pool.pooled_score()) or {}


def _known(
    chosen: Chosen, places: NDArray[np.int64], key: str
) -> dict[str, NDArray[np.float64]] | None:
    values = [chosen.rows[place][key] for place in places]
    return None if None in values else {"set": np.array(values, dtype=np.float64)}
