"""Compare the mixture with a baseline in sample sets of equal size.

Small sets score worse than large ones: a mixture scored on all samples would beat an arm scored on its own
samples even if both had the same distribution. Therefore each side here is a random set of the same size,
at most half of the available samples. The standard deviation of the difference over several such sets
shows how reliable it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from genmix.core.plain import finite
from genmix.core.streams import private_stream
from genmix.diagnosis.thresholds import CHANCE_SIGMAS
from genmix.objectives import Objective
from genmix.objectives.pool import Pool
from genmix.offline.mixture import apportion
from genmix.report.sampling import SampleSubset
from genmix.report.scoring import Term, Values, improvement
from genmix.runs.timeline import plain_values

Weights = Mapping[str, float]
Indices = NDArray[np.int64]

DRAWS = 8
MIN_SIZE, MAX_SIZE = 5, 1500
"""Samples per set: fewer are not informative, more take too long."""


@dataclass(frozen=True)
class BaselineComparison:
    """Mean scores of both sides, and the standard deviation of their difference."""

    size: int
    """Samples per set."""
    mixture: Values
    baseline: Values
    std: Values
    limit: tuple[str, int] | None = None
    """The arm whose number of samples limits the size, and that number; None if no arm does."""

    def improvement(self, term: Term) -> float | None:
        """Return the relative improvement of the mixture; 0 if it may be due to chance."""
        ours, theirs, std = (
            scores.get(term.name) for scores in (self.mixture, self.baseline, self.std)
        )
        if ours is None or theirs is None or std is None:
            return None
        if abs(ours - theirs) <= CHANCE_SIGMAS * std:
            return 0.0
        return improvement(term, self.mixture, self.baseline)

    def is_equal(self, term: Term, tolerance: float) -> bool:
        """Return whether the difference and its uncertainty are both at most ``tolerance``."""
        share = improvement(term, self.mixture, self.baseline)
        std, theirs = self.std.get(term.name), self.baseline.get(term.name)
        if share is None or std is None or not theirs:
            return False
        return abs(share) <= tolerance and CHANCE_SIGMAS * std <= tolerance * abs(theirs)


def compare_with_baseline(
    subset: SampleSubset, objective: Objective, mixture: Weights, baseline: Weights
) -> BaselineComparison | None:
    """Compare the scores of random sets of equal size; return None if there are too few samples."""
    indices = {arm: np.flatnonzero(subset.arms == arm) for arm in {**mixture, **baseline}}
    most, limit = min(_available(indices, weights) for weights in (mixture, baseline))
    size = min(most // 2, MAX_SIZE)
    if size < max(MIN_SIZE, objective.least_samples):
        return None
    rng = private_stream(0, "baselines")
    draws: list[list[Values]] = [[], []]
    for _ in range(DRAWS):
        for scores, weights in zip(draws, (mixture, baseline), strict=True):
            scores.append(_scores(subset, objective, _draw(indices, weights, size, rng)))
    names = draws[0][0]
    ours, theirs = ({name: _column(scores, name) for name in names} for scores in draws)
    return BaselineComparison(
        size,
        {name: finite(ours[name].mean()) for name in names},
        {name: finite(theirs[name].mean()) for name in names},
        {name: finite((ours[name] - theirs[name]).std(ddof=1)) for name in names},
        (limit, len(indices[limit])) if size < MAX_SIZE and subset.is_complete else None,
    )


def _column(scores: list[Values], name: str) -> NDArray[np.float64]:
    return np.array([each[name] for each in scores], dtype=np.float64)  # None becomes nan


def _available(indices: Mapping[str, Indices], weights: Weights) -> tuple[int, str]:
    """Return the size of the largest set with these weights, and the arm that limits it."""
    total = sum(weights.values())
    sizes = [
        (int(len(indices[arm]) * total / share), arm) for arm, share in weights.items() if share > 0
    ]
    return min(sizes, default=(0, ""))


def _draw(
    indices: Mapping[str, Indices], weights: Weights, size: int, rng: np.random.Generator
) -> Indices:
    """Draw samples from every arm in proportion to its weight, without replacement."""
    shares = np.array(list(weights.values())) / sum(weights.values())
    parts = [
        rng.permutation(indices[arm])[:count]
        for arm, count in zip(weights, apportion(shares, size), strict=True)
    ]
    return np.concatenate(parts)


def _scores(subset: SampleSubset, objective: Objective, indices: Indices) -> Values:
    quality, cost = (_known(subset, indices, key) for key in ("quality", "cost"))
    pool = Pool.of({"set": subset.embeddings[indices]}, objective, quality, cost)
    return plain_values(pool.pooled_score()) or {}


def _known(
    subset: SampleSubset, indices: Indices, key: str
) -> dict[str, NDArray[np.float64]] | None:
    values = [subset.rows[i][key] for i in indices]
    return None if None in values else {"set": np.array(values, dtype=np.float64)}
