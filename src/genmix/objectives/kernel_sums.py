"""Mean kernel values between every two arms, and between each arm and a reference.

    K_ij = E k(X_i, X_j)^power     b_i = E k(X_i, Y)

A kernel with a feature map needs only moments of the features; any other keeps the samples and adds
the block of new against old pairs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genmix.arrays import Array, Vector, namespace, to_numpy
from genmix.errors import InputError
from genmix.kernels import Kernel, kernel_sum
from genmix.loss import Loss, QuadraticLoss
from genmix.objectives.base import Batch, Tally
from genmix.objectives.moments import MomentTally

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class PairSums:
    """Sums of a kernel over all pairs of each two arms, over samples with themselves, and over pairs
    with the reference (mean over the reference)."""

    pairs: Matrix
    own: Vector
    cross: Vector
    counts: NDArray[np.int64]

    def pooled(self) -> PairSums:
        """The sums with all arms taken as one."""
        own, cross = np.array([self.own.sum()]), np.array([self.cross.sum()])
        return PairSums(np.array([[self.pairs.sum()]]), own, cross, np.array([self.counts.sum()]))

    def means(self, unbiased: bool) -> Matrix:
        """``E k(X_i, X_j)``: a sample's pair with itself counts once, or not at all if unbiased."""
        count: Matrix = np.outer(self.counts, self.counts).astype(float)
        total = self.pairs
        if unbiased:
            count, total = count - np.diag(self.counts), total - np.diag(self.own)
        return total / count


def quadratic(matrix: Matrix, linear: Vector, constant: float, unbiased: bool) -> QuadraticLoss:
    """``αᵀKα − 2 b·α + c``, with K projected to be positive semidefinite if it is unbiased."""
    values, basis = np.linalg.eigh((matrix + matrix.T) / 2)
    if values[0] >= -1e-13 * abs(values[-1]):
        return QuadraticLoss(matrix, linear, constant)
    if not unbiased and values[0] < -1e-7 * abs(values[-1]):
        raise InputError(
            "the kernel is not positive semidefinite on these samples, so the loss is not convex: "
            "use a positive semidefinite kernel."
        )
    return ProjectedLoss((basis * np.maximum(values, 0.0)) @ basis.T, matrix, linear, constant)


class ProjectedLoss(QuadraticLoss):
    """A quadratic made convex; its score is that of the form as it was measured."""

    def __init__(self, convex: Matrix, measured: Matrix, linear: Vector, constant: float) -> None:
        super().__init__(convex, linear, constant)
        self._measured = QuadraticLoss(measured, linear, constant)

    def score(self, alpha: Vector) -> float:
        return self._measured.value(alpha)


class PairTally(Tally):
    """Statistics that end in pair sums; the objective says which loss those make."""

    make_loss: Callable[[PairSums], Loss]

    @abstractmethod
    def pair_sums(self, arms: Sequence[int]) -> PairSums: ...

    def loss(self, arms: Sequence[int]) -> Loss:
        return self.make_loss(self.pair_sums(arms))

    def pooled(self) -> Loss:
        arms = [i for i, count in enumerate(self.counts) if count]
        return self.make_loss(self.pair_sums(arms).pooled())

    def counts_of(self, arms: Sequence[int]) -> NDArray[np.int64]:
        return np.array([self.counts[arm] for arm in arms], dtype=np.int64)


class ExactPairTally(PairTally):
    """Any kernel: sums over all pairs, the samples kept."""

    STATE = ("kept", "pairs", "own", "cross")
    TABLES = ("pairs", "own", "cross")

    def __init__(
        self,
        make_loss: Callable[[PairSums], Loss],
        kernel: Kernel,
        power: int,
        arms: int,
        sample: Array,
        reference: Array | None = None,
    ) -> None:
        super().__init__(arms, sample)
        self.make_loss = make_loss
        self.kernel, self.power, self.reference = kernel, power, reference
        self.kept: list[Any] = [self.rows() for _ in range(arms)]
        self.pairs = np.zeros((arms, arms))
        self.own = np.zeros(arms)
        self.cross = np.zeros(arms)

    def _sum(self, x: Array, y: Array) -> float:
        return kernel_sum(self.kernel, x, y, self.power)

    def _add(self, arm: int, batch: Batch) -> None:
        for table in self.TABLES:
            setattr(self, table, getattr(self, table).copy())
        fresh = batch.embeddings
        for other, rows in enumerate(self.kept):
            if rows.count:
                self._count(arm, other, self._sum(fresh, rows.array))
        xp = namespace(fresh)
        self.pairs[arm, arm] += self._sum(fresh, fresh)
        self.own[arm] += float(xp.sum(self.kernel.diagonal(fresh) ** self.power))
        if self.reference is not None:
            self.cross[arm] += self._sum(fresh, self.reference) / self.reference.shape[0]
        self.kept[arm].append(fresh)

    def _count(self, one: int, other: int, total: float) -> None:
        self.pairs[one, other] += total
        self.pairs[other, one] += total  # within one arm this counts both orders of a pair

    def _merge(self, other: ExactPairTally) -> None:
        self.pairs = self.pairs.copy()
        for i, theirs in enumerate(other.kept):
            for j, mine in enumerate(self.kept):
                if theirs.count and mine.count:
                    self._count(i, j, self._sum(theirs.array, mine.array))
        for mine, theirs in zip(self.kept, other.kept, strict=True):
            mine.append(theirs.array)
        for table in self.TABLES:
            setattr(self, table, getattr(self, table) + getattr(other, table))

    def _grow(self) -> None:
        self.kept.append(self.rows())
        for table in self.TABLES:
            setattr(self, table, np.pad(getattr(self, table), (0, 1)))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        for table in self.TABLES:
            setattr(self, table, np.array(state[table], dtype=np.float64))

    def pair_sums(self, arms: Sequence[int]) -> PairSums:
        chosen = np.array(arms)
        pairs = self.pairs[np.ix_(chosen, chosen)]
        return PairSums(pairs, self.own[chosen], self.cross[chosen], self.counts_of(arms))


class MeanFeatureTally(PairTally):
    """A kernel with a feature map: ``Σ_ab k(x_a, y_b) = Σφ(x_a) · Σφ(y_b)`` in fixed memory."""

    STATE = ("first", "own")

    def __init__(
        self,
        make_loss: Callable[[PairSums], Loss],
        kernel: Kernel,
        arms: int,
        sample: Array,
        reference: Array,
    ) -> None:
        super().__init__(arms, sample)
        self.make_loss, self.kernel = make_loss, kernel
        self.columns = kernel.columns(self.dimension) or 0
        self.reference_mean = feature_mean(kernel, reference)
        self.first: list[Any] = [self.sums(self.columns) for _ in range(arms)]
        self.own: list[float] = [0.0] * arms

    def _add(self, arm: int, batch: Batch) -> None:
        xp = namespace(batch.embeddings)
        features = self.kernel.feature_map(batch.embeddings)
        self.first[arm] = self.first[arm] + xp.sum(features, axis=0)
        self.own[arm] += float(xp.sum(features * features))

    def _merge(self, other: MeanFeatureTally) -> None:
        self.first = [a + b for a, b in zip(self.first, other.first, strict=True)]
        self.own = [a + b for a, b in zip(self.own, other.own, strict=True)]

    def _grow(self) -> None:
        self.first.append(self.sums(self.columns))
        self.own.append(0.0)

    def pair_sums(self, arms: Sequence[int]) -> PairSums:
        first = namespace(self.sample).stack([self.first[arm] for arm in arms])
        own = np.array([self.own[arm] for arm in arms])
        cross = to_numpy(first @ self.reference_mean)
        return PairSums(to_numpy(first @ first.mT), own, cross, self.counts_of(arms))


class SecondFeatureTally(MomentTally, PairTally):
    """A kernel with a feature map, squared: ``Σ k² = n_i n_j ⟨C_i, C_j⟩`` with ``C = E φφᵀ``."""

    def __init__(
        self, make_loss: Callable[[PairSums], Loss], kernel: Kernel, arms: int, sample: Array
    ) -> None:
        super().__init__(arms, sample, kernel.columns(sample.shape[1]) or 0)
        self.make_loss, self.kernel = make_loss, kernel

    def transform(self, embeddings: Array) -> Array:
        return self.kernel.feature_map(embeddings)

    def pair_sums(self, arms: Sequence[int]) -> PairSums:
        xp = namespace(self.sample)
        counts = self.counts_of(arms)
        flat = xp.stack([xp.reshape(self.second_moment(arm), (-1,)) for arm in arms])
        pairs = to_numpy(flat @ flat.mT) * np.outer(counts, counts)
        own = counts.astype(float)  # k(x, x) = 1
        return PairSums(pairs, own, np.zeros(len(arms)), counts)


def feature_mean(kernel: Kernel, points: Array) -> Array:
    """``E φ(Y)`` over the rows, a few thousand at a time."""
    xp = namespace(points)
    total = None
    for start in range(0, points.shape[0], 4096):
        part = xp.sum(kernel.feature_map(points[start : start + 4096, :]), axis=0)
        total = part if total is None else total + part
    return total / points.shape[0]
