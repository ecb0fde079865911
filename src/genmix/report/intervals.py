"""Intervals of the weights of a run, from the samples in its journal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from genmix.core.arrays import Vector, like
from genmix.diagnosis.uncertainty import Uncertainty, intervals_of
from genmix.errors import InputError
from genmix.objectives import Batch
from genmix.report.convergence import NOT_LEARNING
from genmix.report.run_pool import matrix_size

if TYPE_CHECKING:
    from genmix.report.facts import Facts

MAX_SAMPLES, MAX_DIMENSION, MAX_ARMS = 5_000, 512, 50
"""Size of a run up to which its intervals take only a few seconds."""


def run_intervals(facts: Facts) -> Uncertainty | None:
    """Return the intervals of the best mixture of a run's samples; None if unknown, or if it takes long."""
    if facts.scoring is None or facts.policy in NOT_LEARNING or facts.samples > MAX_SAMPLES:
        return None
    if not 2 <= len(facts.scoring.usable) <= MAX_ARMS:  # a single arm has weight 1
        return None
    # With few samples, many dimensions take little time, unless a matrix has that size anyway.
    size = max(min(facts.samples, facts.dimension), matrix_size(facts.scoring.pool))
    is_large = min(size, facts.dimension) > MAX_DIMENSION
    if is_large or facts.scoring.is_heavy:
        return None
    if not facts.subset.is_complete:
        return None
    best = facts.scoring.best
    sample = best.pool.tally.sample
    batches = [_batch(facts, arm) for arm in best.weights]
    moved = [Batch(like(b.embeddings, sample), b.quality, b.cost) for b in batches]
    try:
        return intervals_of(best, moved)
    except InputError:  # an arm has too few samples, or the loss is not differentiable
        return None


def _batch(facts: Facts, arm: str) -> Batch:
    """Return the samples of an arm."""
    embeddings = facts.subset.embeddings[facts.subset.arms == arm]
    told = [(quality, cost) for _, label, quality, cost in facts.told if label == arm]
    return Batch(embeddings, _column([q for q, _ in told]), _column([c for _, c in told]))


def _column(values: list[float | None]) -> Vector | None:
    return None if None in values else np.array(values, dtype=np.float64)
