"""Bounds on the loss and the score of k samples that hold whatever the samples are."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from genmix.objectives import (
    RKE,
    Batch,
    Coverage,
    FrechetDistance,
    InceptionScore,
    KernelDistance,
    MeanObjective,
    Objective,
    Quality,
    QualityVendi,
    Sum,
    Vendi,
)
from genmix.objectives.vendi import trace_function


class Bounds(NamedTuple):
    """No set of samples has a smaller loss or a better score."""

    loss: float = -math.inf
    score: float | None = None
    """None if no bound is known, and for a sum of objectives, which has no single score."""


def trivial_bounds(objective: Objective, batch: Batch, k: int) -> Bounds:
    """Return bounds for k of these samples that take no time to compute."""
    dimension = int(batch.embeddings.shape[1])
    match objective:
        case Sum():
            return _of_sum(objective, batch, k)
        case Quality():
            assert batch.quality is not None
            best = float(np.max(batch.quality))
            return Bounds(-best, best)
        case MeanObjective():
            low, high = objective.least, objective.most
            return _finite(-high, high) if objective.maximise else _finite(low, low)
        case Vendi():
            count = min(k, objective.kernel.columns(dimension) or k)
            return Bounds(lowest_vendi_loss(objective.order, count), float(count))
        case QualityVendi():
            assert batch.quality is not None
            best = float(np.max(batch.quality)) * min(k, objective.kernel.columns(dimension) or k)
            return Bounds(-math.log(best) if best > 0 else -math.inf, best)
        case InceptionScore():
            return Bounds(-math.log(dimension), float(dimension))
        case RKE():
            return Bounds(0.0) if objective.unbiased else Bounds(1 / k, float(k))
        case KernelDistance():
            return Bounds() if objective.unbiased else Bounds(0.0, 0.0)
        case FrechetDistance():
            return Bounds(0.0, 0.0)
        case Coverage():
            return Bounds(-1.0, 1.0)
    return Bounds()


def lowest_vendi_loss(order: float, count: int) -> float:
    """Return the loss of ``count`` equal eigenvalues."""
    if order == math.inf:
        return 1 / count
    function, constant = trace_function(order)
    return function.total(np.full(count, 1 / count)) + constant


def _finite(loss: float, score: float) -> Bounds:
    return Bounds(loss, score) if math.isfinite(loss) else Bounds()


def _of_sum(objective: Sum, batch: Batch, k: int) -> Bounds:
    losses = [
        weight * (trivial_bounds(term, batch, k).loss if weight > 0 else _highest(term))
        for weight, term in objective.terms
        if weight != 0
    ]
    return Bounds(sum(losses))


def _highest(term: Objective) -> float:
    """Return an upper bound on the loss of a term."""
    if not isinstance(term, MeanObjective):
        return math.inf
    return -term.least if term.maximise else term.most
