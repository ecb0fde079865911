"""The loss of weighted samples for each objective, and how it converts to the objective's score."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from genmix.core.arrays import Array, Vector, like, namespace, symmetric, to_numpy
from genmix.data.streamed_rows import StreamedRows, blocks_of, per_row
from genmix.errors import InputError
from genmix.kernels.balls import Balls
from genmix.kernels.blocks import kernel_sum
from genmix.kernels.kernels import Kernel
from genmix.objectives import (
    RKE,
    Batch,
    Coverage,
    FrechetDistance,
    InceptionScore,
    KernelDistance,
    MeanObjective,
    Objective,
    QualityVendi,
    Sum,
    Vendi,
)
from genmix.objectives.coverage import BLOCK_ROWS
from genmix.objectives.kernel_sums import feature_mean
from genmix.objectives.trace_functions import Power, Root
from genmix.objectives.vendi import gram_factor, trace_function, vendi_score
from genmix.offline.quadratic_samples import (
    DENSE_LIMIT,
    BlockQuadraticSamples,
    DenseQuadraticSamples,
    FeatureQuadraticSamples,
    weighted_kernel,
)
from genmix.offline.spectral_samples import (
    EntropySamples,
    LargestEigenvalueSamples,
    SpectralSamples,
    noticeable,
)
from genmix.offline.trivial_bounds import lowest_vendi_loss
from genmix.solvers.loss import EPS
from genmix.solvers.sample_loss import (
    LinearSamples,
    LogMeanSamples,
    Moment,
    SampleExpansion,
    SampleLoss,
    SumSamples,
)
from genmix.solvers.subsets import Indices, Subsets

TALLY_LIMIT = 1000
"""Largest number of samples for objectives that have no loss of weighted samples of their own."""


@dataclass(frozen=True)
class Converted:
    """The loss of weighted samples, and the score that belongs to a lower bound on the loss."""

    loss: SampleLoss
    score: Callable[[float], float] | None = None
    """The best score that the bound allows; None for a sum of objectives."""


def sample_loss(objective: Objective, batch: Batch, subsets: Subsets) -> Converted:
    """Return the loss of weighted samples for an objective with fixed bandwidths."""
    k = subsets.count
    match objective:
        case Sum():
            terms = [(c, sample_loss(term, batch, subsets).loss) for c, term in objective.terms]
            return Converted(SumSamples(terms))
        case MeanObjective():
            return _mean(objective, batch, subsets)
        case Vendi():
            loss = _vendi(objective.kernel, objective.order, batch, k)
            return Converted(loss, lambda value: vendi_score(objective.order, value))
        case QualityVendi():
            assert batch.quality is not None
            quality = LogMeanSamples(batch.quality)
            diversity = _vendi(objective.kernel, 1.0, batch, k)
            score = _exp_minus if np.any(batch.quality) else lambda value: 0.0
            return Converted(SumSamples([(1.0, diversity), (1.0, quality)]), score)
        case InceptionScore():
            return Converted(InceptionSamples(batch.embeddings), _exp_minus)
        case RKE():
            return Converted(_rke(objective, batch, k), lambda v: 1 / v if v > 0 else math.inf)
        case KernelDistance():
            return Converted(_kernel_distance(objective, batch, k), float)
        case FrechetDistance():
            return _frechet(objective, batch, subsets)
        case Coverage():
            balls = objective.balls(batch.embeddings)
            return Converted(CoverageSamples(balls, batch.embeddings, k), lambda value: -value)
    return Converted(TallySamples(objective, batch))


def step_work(objective: Objective, size: int, dimension: int) -> float:
    """Return the approximate number of floating-point operations of one step of a search.

    Setting up the loss takes a similar number.
    """
    match objective:
        case Sum():
            return sum(step_work(term, size, dimension) for _, term in objective.terms)
        case FrechetDistance():
            width = dimension
        case Vendi() | QualityVendi() | RKE() | KernelDistance():
            columns = objective.kernel.columns(dimension)
            if columns is None and isinstance(objective, RKE | KernelDistance):
                return 2.0 * size**2 * dimension + 2.0 * min(size, DENSE_LIMIT) ** 3
            width = columns or size
        case _:
            return 0.0
    width = min(width, size)
    return 2.0 * size * width**2 + 15.0 * width**3


def _exp_minus(value: float) -> float:
    return math.exp(-value)


def _mean(objective: MeanObjective, batch: Batch, subsets: Subsets) -> Converted:
    sign = -1.0 if objective.maximise else 1.0
    measure = objective.measure(batch.embeddings[:0, :])
    measured = np.empty(len(batch))
    for part, block in blocks_of(batch.embeddings):
        numbers = (v if v is None else v[part] for v in (batch.quality, batch.cost))
        measured[part] = measure(Batch(block, *numbers))
    loss = LinearSamples(sign * measured)
    ends = sorted([sign * objective.least, sign * objective.most])
    loss.limits = ends[0], ends[1]
    loss.lowest = subsets.minimum(loss.slopes)
    loss.highest = -subsets.minimum(-loss.slopes)
    return Converted(loss, lambda value: sign * value)


def _features(kernel: Kernel, batch: Batch) -> Array:
    """Return rows whose products are the kernel values."""
    points = batch.embeddings
    columns = kernel.columns(points.shape[1])
    if columns is not None and isinstance(points, StreamedRows):
        return points.mapped(kernel.feature_map, columns)
    if columns is not None:
        return kernel.feature_map(points)
    return gram_factor(symmetric(kernel(points, points)), kernel.rounding(points))[0]


def _vendi(kernel: Kernel, order: float, batch: Batch, k: int) -> SampleLoss:
    count = min(k, kernel.columns(batch.embeddings.shape[1]) or k)
    if order == 2 and _is_small(batch):
        loss: SampleLoss = _dense(kernel, 2, batch, np.zeros(len(batch)), -1.0, 1.0, k)
        loss.lowest = 1 / count - 1 - 1e-12
        return loss
    rows = _features(kernel, batch)
    if order == math.inf:
        loss = LargestEigenvalueSamples(rows, k)
    elif order == 1:
        loss = EntropySamples(rows, k)
    else:
        function, constant = trace_function(order)
        loss = SpectralSamples(rows, function, k, constant=constant)
    lowest = lowest_vendi_loss(order, count)
    loss.lowest = lowest - 1e-12 * max(1.0, abs(lowest))  # no more than k equal eigenvalues
    return loss


def _is_small(batch: Batch) -> bool:
    """Return whether the kernel matrix is stored."""
    return len(batch) <= DENSE_LIMIT and not isinstance(batch.embeddings, StreamedRows)


def _dense(
    kernel: Kernel,
    power: int,
    batch: Batch,
    linear: Vector,
    constant: float,
    factor: float,
    k: int,
) -> DenseQuadraticSamples:
    matrix = kernel(batch.embeddings, batch.embeddings) ** power
    return DenseQuadraticSamples(matrix, linear, constant, factor, k)


def _unbiased(own: Vector, linear: Vector, k: int) -> tuple[float, Vector]:
    """Return the factor of the quadratic term and the linear term without pairs of equal samples."""
    return k / (k - 1), linear - own / (k - 1)


def _rke(objective: RKE, batch: Batch, k: int) -> SampleLoss:
    kernel, points = objective.kernel, batch.embeddings
    factor, linear = 1.0, np.zeros(len(batch))
    if objective.unbiased:
        factor, linear = _unbiased(np.ones(len(batch)), linear, k)
    if _is_small(batch):
        loss: SampleLoss = _dense(kernel, 2, batch, linear, 0.0, factor, k)
    elif kernel.columns(points.shape[1]) is not None:
        rows = _features(kernel, batch)
        constant = float(linear[0])
        loss = SpectralSamples(rows, Power(2.0), k, constant=constant / factor)
        loss = loss if factor == 1 else SumSamples([(factor, loss)])
    else:
        loss = BlockQuadraticSamples(kernel, 2, points, linear, 0.0, factor)
    loss.lowest = 0.0 if objective.unbiased else 1 / k - 1e-12
    return loss


def _kernel_distance(objective: KernelDistance, batch: Batch, k: int) -> SampleLoss:
    kernel, points = objective.kernel, batch.embeddings
    reference = like(objective.reference.points, points)
    has_features = kernel.columns(points.shape[1]) is not None
    pairs = kernel_sum(kernel, reference, reference, 1, int(objective.block_mb * 2**20))
    constant = objective.constant_from(pairs, reference)
    if has_features:
        features, mean = _features(kernel, batch), feature_mean(kernel, reference)
        cross = per_row(features, lambda block: block @ mean)
    else:
        shares = np.full(int(reference.shape[0]), 1 / int(reference.shape[0]))
        cross = weighted_kernel(kernel.blocks(1), points, reference, shares)
    factor, linear = 1.0, -2.0 * np.asarray(cross)
    if objective.unbiased:
        factor, linear = _unbiased(per_row(points, kernel.diagonal), linear, k)
    if _is_small(batch):
        loss: SampleLoss = _dense(kernel, 1, batch, linear, constant, factor, k)
    elif has_features:
        loss = FeatureQuadraticSamples(features, linear, constant, factor)
    else:
        loss = BlockQuadraticSamples(kernel, 1, points, linear, constant, factor)
    loss.lowest = -math.inf if objective.unbiased else -1e-12 * abs(constant)
    return loss


def _frechet(objective: FrechetDistance, batch: Batch, subsets: Subsets) -> Converted:
    tally = objective.tally(1, batch.embeddings)
    points, turn = batch.embeddings, tally.basis[:, tally.held] * tally.roots
    turn = turn / tally.unit / tally.unit
    squares = per_row(points, lambda block: _row_squares(block - tally.center))
    if isinstance(points, StreamedRows):
        rows = points.mapped(lambda block: (block - tally.center) @ turn, turn.shape[1])
    else:
        rows = (points - tally.center) @ turn
    function, k = Root(tally.unit**2), subsets.count
    loss = SpectralSamples(rows, function, k, squares, tally.trace, centered=True)
    loss.lowest = -1e-9 * tally.trace
    n = objective.moments.n
    if objective.ddof == 0:
        return Converted(loss, float)
    # The score has c·Σ and c0·Σ_0 with c = k/(k−1) and c0 = n/(n−1). With r = √(c c0), it exceeds the
    # loss by at least (c−r) Tr Σ + (c0−r) Tr Σ_0, because 2 Tr(Σ_0^½ Σ Σ_0^½)^½ ≤ Tr Σ + Tr Σ_0.
    mine, theirs = k / (k - 1), 1.0 if n is None else n / (n - 1)
    root = math.sqrt(mine * theirs)
    largest = -subsets.minimum(-squares) if mine < root else 0.0
    slack = (mine - root) * largest + (theirs - root) * tally.trace
    return Converted(loss, lambda value: value + slack)


def _row_squares(rows: Array) -> Array:
    return namespace(rows).sum(rows * rows, axis=1)


class InceptionSamples(SampleLoss):
    """The loss ``Σ p̄ log p̄ + h·w`` of rows of class probabilities."""

    def __init__(self, rows: Array) -> None:
        probabilities: Any = np.asarray(to_numpy(rows), dtype=float)
        self.rows = probabilities[:, probabilities.max(axis=0) > 0]
        self.size = len(self.rows)
        safe = np.where(self.rows > 0, self.rows, 1.0)
        self.entropies = -np.sum(safe * np.log(safe), axis=1)
        self.directions = noticeable(np.linalg.eigvalsh(self.rows.T @ self.rows))
        self.work = self.evaluation_work = 4.0 * self.rows.size + 1e4

    def moment(self, weights: Vector, rows: Indices | None = None) -> Moment:
        if rows is None:
            return [weights @ self.rows, float(weights @ self.entropies)]
        return [weights @ self.rows[rows], float(weights @ self.entropies[rows])]

    def value(self, at: Moment) -> float:
        return _negative_entropy(at[0]) + float(at[1])

    def expand(self, at: Moment, smoothing: float = 0.0, floor: float = 0.0) -> SampleExpansion:
        mixed = np.maximum(at[0], max(floor, 1e-15))
        plane = self.entropies + self.rows @ (np.log(mixed) + 1) - mixed.sum()
        noise = 64 * EPS * float(np.max(np.abs(plane)) + np.max(np.abs(np.log(mixed))))
        return SampleExpansion(
            self.value(at), plane, lambda direction: float(direction[0] ** 2 @ (1 / mixed)), noise
        )

    def after_adding(self, at: Moment, weight: float, candidates: Indices) -> Vector:
        mixed = at[0] + weight * self.rows[candidates]
        safe = np.where(mixed > 0, mixed, 1.0)
        return np.asarray(
            np.sum(safe * np.log(safe), axis=1) + at[1] + weight * self.entropies[candidates]
        )


def _negative_entropy(shares: Vector) -> float:
    positive = shares[shares > 0]
    return float(positive @ np.log(positive))


class CoverageSamples(SampleLoss):
    """The loss ``−mean_j min(1, k Σ_i w_i b_ij)``, with ``b_ij`` whether ball j contains sample i.

    For subsets, it is minus the coverage. For any ``y`` in [0, 1], ``min(1, u) ≤ y u + 1 − y``, which
    yields a plane. Smoothed, ``min(1, u)`` is ``−s log(exp(−1/s) + exp(−u/s))``.
    """

    lowest = -1.0

    def __init__(self, balls: Balls, points: Array, k: int) -> None:
        xp = namespace(points)
        owners, hits = [], []
        for start in range(0, int(points.shape[0]), BLOCK_ROWS):
            inside = balls.contains(points[start : start + BLOCK_ROWS, :])
            rows, columns = xp.nonzero(inside)
            owners.append(to_numpy(rows) + start)
            hits.append(to_numpy(columns))
        self.owners, self.hits = np.concatenate(owners), np.concatenate(hits)
        """Sample and ball of each pair in which the ball contains the sample."""
        self.size, self.balls, self.k = int(points.shape[0]), int(balls.centers.shape[0]), k
        self.directions = max(1, len(np.unique(self.hits)))
        self.starts = np.searchsorted(self.owners, np.arange(self.size + 1))
        self.work = self.evaluation_work = 8.0 * len(self.owners) + 1e4

    def moment(self, weights: Vector, rows: Indices | None = None) -> Moment:
        if rows is None:
            pairs, each = self.hits, weights[self.owners]
        else:
            counts = self.starts[rows + 1] - self.starts[rows]
            first = np.repeat(self.starts[rows] - np.cumsum(counts) + counts, counts)
            pairs, each = self.hits[first + np.arange(len(first))], np.repeat(weights, counts)
        return self.k * np.bincount(pairs, weights=each, minlength=self.balls)

    def value(self, at: Moment) -> float:
        return -float(np.mean(np.minimum(at, 1.0)))

    def expand(self, at: Moment, smoothing: float = 0.0, floor: float = 0.0) -> SampleExpansion:
        scale = max(smoothing / math.log(2), 1e-9)
        ratio = (1 - at) / scale
        active = 1 / (1 + np.exp(-np.clip(ratio, -700, 700)))
        gains = np.bincount(self.owners, weights=active[self.hits], minlength=self.size)
        plane = -(self.k * gains + float(np.sum(1 - active))) / self.balls
        value = -float(np.mean(1 - scale * np.logaddexp(0.0, ratio)))
        bent = active * (1 - active) / (scale * self.balls)
        return SampleExpansion(value, plane, lambda change: float(change**2 @ bent), 1e-13 * self.k)

    def after_adding(self, at: Moment, weight: float, candidates: Indices) -> Vector:
        rise = np.minimum(at + self.k * weight, 1.0) - np.minimum(at, 1.0)
        gains = np.bincount(self.owners, weights=rise[self.hits], minlength=self.size)
        return np.asarray(self.value(at) - gains[candidates] / self.balls)


class TallySamples(SampleLoss):
    """The loss of any objective, from its own statistics with every sample as an arm."""

    evaluates_quickly = False

    def __init__(self, objective: Objective, batch: Batch) -> None:
        if len(batch) > TALLY_LIMIT or objective.least_samples > 1:
            raise InputError(
                f"keep treats every sample as an arm of {objective.name}, which is possible for at most "
                f"{TALLY_LIMIT} samples and if one sample per arm is enough; pass fewer samples."
            )
        tally = objective.tally(len(batch), batch.embeddings)
        for j in range(len(batch)):
            tally.add(j, batch[j : j + 1])
        self.arms = tally.loss(range(len(batch)))
        self.size = self.directions = len(batch)
        self.evaluation_work = self.work = 1e6

    def moment(self, weights: Vector, rows: Indices | None = None) -> Moment:
        every = np.zeros(self.size)
        np.add.at(every, np.arange(self.size) if rows is None else rows, weights)
        return every

    def value(self, at: Moment) -> float:
        return self.arms.value(_on_simplex(at))

    def expand(self, at: Moment, smoothing: float = 0.0, floor: float = 0.0) -> SampleExpansion:
        here = self.arms.expand(_on_simplex(at), max(smoothing, 1e-12))
        return SampleExpansion(
            here.value,
            here.gradient,
            lambda direction: float(direction @ here.hessian @ direction),
            here.noise + here.truncation,
        )


def _on_simplex(weights: Vector) -> Vector:
    weights = np.maximum(weights, 0.0)  # differences of moments can be negative at rounding level
    return np.asarray(weights / weights.sum())
