"""Mean kernel values between pairs of arms, and between each arm and a reference.

    K_ij = E k(X_i, X_j)^power     b_i = E k(X_i, Y)

A kernel with a feature map needs only moments of the features. For any other kernel, all samples are
kept, and new samples are paired with all others in blocks of bounded memory.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from genmix.core.arrays import Array, Vector, like, namespace, to_numpy
from genmix.errors import InputError
from genmix.kernels.blocks import (
    Grouped,
    sums_between,
    sums_of_newest,
    sums_of_rows,
    sums_within,
)
from genmix.kernels.kernels import Kernel
from genmix.objectives.moments import FeatureMoments
from genmix.objectives.tally import Batch, SummedTally, Tally
from genmix.solvers.loss import Loss, Matrix, QuadraticLoss

FEW_ROWS = 64
"""Up to this number of new rows, their sums are computed and kept by row; a run adds few at a time."""


@dataclass(frozen=True)
class PairSums:
    """Sums of a kernel over pairs of samples."""

    pairs: Matrix
    """Sums over all pairs of samples from two arms, ``(m, m)``."""
    own: Vector
    """Sums over the pairs of each sample with itself, ``(m,)``."""
    cross: Vector
    """Sums over each arm's samples of the mean over the reference, ``(m,)``."""
    counts: NDArray[np.int64]

    def pooled(self) -> PairSums:
        """Return the sums with all arms merged into one."""
        own, cross = np.array([self.own.sum()]), np.array([self.cross.sum()])
        return PairSums(np.array([[self.pairs.sum()]]), own, cross, np.array([self.counts.sum()]))

    def means(self, unbiased: bool) -> Matrix:
        """Return ``E k(X_i, X_j)``; if unbiased, pairs of a sample with itself are excluded."""
        count: Matrix = np.outer(self.counts, self.counts).astype(float)
        total = self.pairs
        if unbiased:
            count, total = count - np.diag(self.counts), total - np.diag(self.own)
        return total / count


def quadratic(sums: PairSums, linear: Vector, constant: float, unbiased: bool) -> QuadraticLoss:
    """Return ``αᵀKα − 2 b·α + c``; an unbiased K is split into its positive and its negative part."""
    matrix = sums.means(unbiased)
    own = None if unbiased else sums.own / sums.counts  # unbiased: no inflation
    values, basis = np.linalg.eigh((matrix + matrix.T) / 2)
    if values[0] >= -1e-13 * abs(values[-1]):
        return QuadraticLoss(matrix, linear, constant, own)
    if not unbiased and values[0] < -1e-7 * abs(values[-1]):
        raise InputError(
            "the kernel is not positive semidefinite on these samples, so the loss is not convex; "
            "use a positive semidefinite kernel."
        )
    convex = (basis * np.maximum(values, 0.0)) @ basis.T
    convex = (convex + convex.T) / 2
    return QuadraticLoss(convex, linear, constant, own, convex - (matrix + matrix.T) / 2)


class PairTally(Tally):
    """Statistics from which pair sums are computed; the objective turns these into a loss."""

    make_loss: Callable[[PairSums], Loss]
    """Set by the objective."""

    @abstractmethod
    def pair_sums(self, arms: Sequence[int]) -> PairSums: ...

    def loss(self, arms: Sequence[int]) -> Loss:
        return self.make_loss(self.pair_sums(arms))

    def pooled(self) -> Loss:
        arms = [i for i, count in enumerate(self.counts) if count]
        return self.make_loss(self.pair_sums(arms).pooled())

    def sample_plane(
        self, loss: Any, arms: Sequence[int], alpha: Vector, batch: Batch, complete: bool = False
    ) -> Vector:
        # Pairs of a sample with itself are counted even if unbiased; one sample has no other pairs.
        probe, added = self.with_samples_as_arms(batch)
        sums = probe.pair_sums([*arms, *added])
        m = len(arms)
        kernels = sums.pairs[:, :m] @ (alpha / sums.counts[:m]) - sums.cross
        slopes: Vector = 2 * kernels / sums.counts
        gradient = loss.expand(alpha).gradient
        return slopes[m:] + float(alpha @ (gradient - slopes[:m]))


class ExactPairTally(PairTally):
    """Sums over all pairs of samples, for any kernel; all samples are kept.

    New samples are deferred until the sums are read, so that the batches of all arms share one matrix
    product.
    """

    STATE = ("kept", "arms", "centre", "pairs", "own", "cross")
    TABLES = ("pairs", "own", "cross")

    def __init__(
        self,
        kernel: Kernel,
        power: int,
        block_bytes: int,
        arms: int,
        sample: Array,
        reference: Array | None = None,
    ) -> None:
        super().__init__(arms, sample)
        self.kernel, self.power = kernel, power
        self.blocks, self.block_bytes = kernel.blocks(power), block_bytes
        self.kept: Any = self.rows(self.dimension + self.blocks.extra)
        self.arms: Any = self.rows(1)
        """The arm of each kept row."""
        self.deferred: list[tuple[int, Array]] = []
        """Arms and samples of the deferred batches."""
        self.summed = 0
        """Number of kept rows that the sums include."""
        self.pairs = self.zeros(arms, arms)
        self.own, self.cross = self.zeros(arms), self.zeros(arms)
        self.centre: Array | None = None  # spelled as in saved states
        self._last_sums: tuple[Array, Matrix, Vector] | None = None
        self._newest: tuple[Array, Matrix, Vector] | None = None
        """The rows that were added last, if they were few, and their sums as in ``_sample_sums``."""
        self.given = reference
        self.reference: Grouped | None = None
        self._prepare_reference()

    def _prepare_reference(self) -> None:
        if self.given is not None:
            rows = self._prepared(like(self.given, self.sample))
            ones = namespace(rows).ones_like(rows[:, :1])
            self.reference = Grouped(rows, ones, self.blocks.exponent_error(rows))

    def reference_total(self) -> float:
        """The kernel summed over all pairs of reference samples."""
        assert self.reference is not None
        every = Grouped(self.reference.rows)
        return float(sums_within(self.blocks, every, 0, self.block_bytes)[0, 0])

    def _prepared(self, x: Array) -> Array:
        if self.centre is None:
            self.centre = self.blocks.center(x)
        return self.blocks.rows(x, self.centre)

    def _members(self, arms: Array) -> Array:
        """Return one column per arm, with a 1 in the rows of that arm."""
        xp = namespace(arms)
        every = xp.arange(len(self.counts), device=arms.device)
        return xp.astype(arms == every, xp.float64)

    def _add(self, arm: int, batch: Batch) -> None:
        self.deferred.append((arm, batch.embeddings))

    def fork(self) -> Self:
        fork = super().fork()
        fork.deferred = list(self.deferred)
        return fork

    def _keep(self) -> None:
        """Prepare the deferred samples and append them to the kept rows."""
        x = namespace(self.sample).concat([rows for _, rows in self.deferred], axis=0)
        counts = [len(rows) for _, rows in self.deferred]
        arms = like(np.repeat([arm for arm, _ in self.deferred], counts)[:, None], x)
        own = self._members(arms).mT @ self.kernel.diagonal(x) ** self.power
        self.kept.append(self._prepared(x))
        self.arms.append(arms)
        self.own, self.deferred = self.own + own, []

    def _add_pairs(self) -> None:
        """Add the pairs of new rows with older rows, with each other, and with the reference."""
        if self.deferred:
            self._keep()
        if self.summed == self.kept.count:
            return
        self._forget()
        rows = Grouped(self.kept.array, self._members(self.arms.array))
        if len(rows) - self.summed <= FEW_ROWS:
            pairs, cross = self._few_pairs(rows)
        else:
            pairs = sums_within(self.blocks, rows, self.summed, self.block_bytes)
            cross = self._cross_sums(rows[self.summed :])
        self.pairs, self.cross, self.summed = self.pairs + pairs, self.cross + cross, len(rows)

    def _forget(self) -> None:
        """Forget the sums of rows, which do not include other rows that are being added."""
        self._last_sums = self._newest = None

    def _cross_sums(self, new: Grouped) -> Array:
        if self.reference is None:
            return self.zeros(new.groups)
        total = sums_between(self.blocks, new, self.reference, self.block_bytes)
        return total[:, 0] / len(self.reference)

    def _few_pairs(self, rows: Grouped) -> tuple[Array, Array]:
        """Return the sums of a few new rows by arm, and remember them by row for ``sample_plane``."""
        new = rows[self.summed :]
        assert new.members is not None
        sums, among_new = sums_of_newest(self.blocks, rows, self.summed, self.block_bytes)
        cross = self._reference_means(new.rows)
        self._newest = new.rows, to_numpy(sums), to_numpy(cross)
        half = new.members.mT @ (sums - among_new / 2)  # pairs of new rows are added twice below
        return half + half.mT, new.members.mT @ cross

    def _reference_means(self, rows: Array) -> Array:
        """Return the mean of the kernel over the reference for each row."""
        if self.reference is None:
            return namespace(rows).zeros_like(rows[:, 0])
        total = sums_of_rows(self.blocks, rows, self.reference, self.block_bytes)
        return total[:, 0] / len(self.reference)

    def _merge(self, other: ExactPairTally, arms: Sequence[int]) -> None:
        self._add_pairs()
        other._add_pairs()
        if other.kept.count == 0:
            return
        points = other.blocks.points(other.kept.array, other.centre)
        owners = like(np.array(arms)[to_numpy(other.arms.array).astype(int)], points)
        theirs = Grouped(self._prepared(points), self._members(owners))
        mine = Grouped(self.kept.array, self._members(self.arms.array))
        pairs = sums_between(self.blocks, theirs, mine, self.block_bytes)
        place = like(np.eye(len(self.counts))[:, list(arms)], points)  # columns for their arms
        self.pairs = self.pairs + place @ other.pairs @ place.mT + (pairs + pairs.mT)
        self.own, self.cross = self.own + place @ other.own, self.cross + place @ other.cross
        self._forget()
        self.kept.append(theirs.rows)
        self.arms.append(owners)
        self.summed = self.kept.count

    def _grow(self) -> None:
        self._forget()
        for table in self.TABLES:
            wider = np.pad(to_numpy(getattr(self, table)), (0, 1))
            setattr(self, table, like(wider, self.sample))

    def flush(self) -> None:
        self._add_pairs()

    def state_dict(self) -> dict[str, Any]:
        self.flush()
        return super().state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._forget()
        self.summed = self.kept.count
        self._prepare_reference()  # with the same center as the kept rows

    def sample_plane(
        self, loss: Any, arms: Sequence[int], alpha: Vector, batch: Batch, complete: bool = False
    ) -> Vector:
        sums, cross = self._sample_sums(batch.embeddings)
        shares = alpha / self.counts_of(arms)
        slopes: Vector = 2 * (sums[:, list(arms)] @ shares - cross)
        if complete:
            return _with_gradient(slopes, loss, alpha, self.counts_of(arms))
        every = self.pair_sums(arms)
        mean = 2 * (every.pairs @ shares - every.cross) @ shares
        return slopes + float(alpha @ loss.expand(alpha).gradient - mean)

    def _sample_sums(self, points: Array) -> tuple[Matrix, Vector]:
        """Return the sums of the kernel between each point and each arm, and its mean over the reference.

        The last result is remembered, because it does not depend on the weights.
        """
        self._add_pairs()
        if self._last_sums is None or self._last_sums[0] is not points:
            left = self._prepared(points)
            sums, cross = self._newest_sums(left) or self._sums_of(left)
            self._last_sums = points, sums, cross
        return self._last_sums[1:]

    def _sums_of(self, left: Array) -> tuple[Matrix, Vector]:
        arms = Grouped(self.kept.array, self._members(self.arms.array))
        sums = sums_of_rows(self.blocks, left, arms, self.block_bytes)
        return to_numpy(sums), to_numpy(self._reference_means(left))

    def _newest_sums(self, left: Array) -> tuple[Matrix, Vector] | None:
        """Return the sums of prepared rows if they are all among the newest ones, which are known."""
        if self._newest is None or len(left) > len(self._newest[0]):
            return None
        rows, sums, cross = self._newest
        xp = namespace(left)
        equal = to_numpy(xp.all(left[:, None, :] == rows[None, :, :], axis=2))
        if not equal.any(axis=1).all():
            return None
        found = equal.argmax(axis=1)
        return sums[found], cross[found]

    def pair_sums(self, arms: Sequence[int]) -> PairSums:
        self._add_pairs()
        chosen = np.array(arms)
        pairs, own, cross = (to_numpy(getattr(self, table)) for table in self.TABLES)
        pairs = pairs[np.ix_(chosen, chosen)]
        return PairSums(pairs, own[chosen], cross[chosen], self.counts_of(arms))


class MeanFeatureTally(SummedTally, PairTally):
    """Pair sums of a kernel with a feature map, in fixed memory: ``Σ_ab k(x_a, y_b) = Σφ(x_a)·Σφ(y_b)``."""

    STATE = ("first", "own")

    def __init__(self, kernel: Kernel, arms: int, sample: Array, reference: Array) -> None:
        super().__init__(arms, sample)
        self.kernel = kernel
        self.reference_mean = feature_mean(kernel, reference)
        self.reference_size = int(reference.shape[0])
        columns = kernel.columns(self.dimension) or 0
        self.first: list[Any] = [self.zeros(columns) for _ in range(arms)]
        self.own: list[float] = [0.0] * arms

    def reference_total(self) -> float:
        """The kernel summed over all pairs of reference samples."""
        squared = float(namespace(self.sample).sum(self.reference_mean**2))
        return squared * self.reference_size**2

    def _add(self, arm: int, batch: Batch) -> None:
        xp = namespace(batch.embeddings)
        features = self.kernel.feature_map(batch.embeddings)
        self.first[arm] = self.first[arm] + xp.sum(features, axis=0)
        self.own[arm] += float(xp.sum(features * features))

    def sample_plane(
        self, loss: Any, arms: Sequence[int], alpha: Vector, batch: Batch, complete: bool = False
    ) -> Vector:
        if not complete:
            return super().sample_plane(loss, arms, alpha, batch)
        features = self.kernel.feature_map(batch.embeddings)
        shares = zip(arms, (alpha / self.counts_of(arms)).tolist(), strict=True)
        mixed = sum(share * self.first[arm] for arm, share in shares)
        slopes: Vector = 2 * to_numpy(features @ (mixed - self.reference_mean))
        return _with_gradient(slopes, loss, alpha, self.counts_of(arms))

    def pair_sums(self, arms: Sequence[int]) -> PairSums:
        first = namespace(self.sample).stack([self.first[arm] for arm in arms])
        own = np.array([self.own[arm] for arm in arms])
        cross = to_numpy(first @ self.reference_mean)
        return PairSums(to_numpy(first @ first.mT), own, cross, self.counts_of(arms))


class SecondFeatureTally(FeatureMoments, PairTally):
    """Pair sums of the square of a kernel with a feature map: ``n_i n_j ⟨C_i, C_j⟩``, ``C = E φφᵀ``."""

    def sample_plane(
        self, loss: Any, arms: Sequence[int], alpha: Vector, batch: Batch, complete: bool = False
    ) -> Vector:
        if self.keeps_rows and not complete:
            return PairTally.sample_plane(self, loss, arms, alpha, batch)
        rows = self.transform(batch.embeddings)
        if self.keeps_rows:
            counts = self.counts_of(arms)
            shares = like(np.repeat(alpha / counts, counts), rows)
            means: Vector = to_numpy((rows @ rows.mT) ** 2 @ shares)
            return 2 * means - float(means @ to_numpy(shares))
        mixed = sum(
            a * self.second_moment(arm) for a, arm in zip(alpha.tolist(), arms, strict=True)
        )
        kernels: Vector = to_numpy(namespace(rows).vecdot(rows @ mixed, rows))
        return 2 * kernels - float(namespace(rows).sum(mixed * mixed))

    def pair_sums(self, arms: Sequence[int]) -> PairSums:
        xp = namespace(self.sample)
        counts = self.counts_of(arms)
        flat = xp.stack([xp.reshape(self.second_moment(arm), (-1,)) for arm in arms])
        pairs = to_numpy(flat @ flat.mT) * np.outer(counts, counts)
        own = counts.astype(float)  # k(x, x) = 1
        return PairSums(pairs, own, np.zeros(len(arms)), counts)


def feature_mean(kernel: Kernel, points: Array) -> Array:
    """Return ``E φ(Y)`` over the rows, computed in blocks."""
    xp = namespace(points)
    total = None
    for start in range(0, points.shape[0], 4096):
        part = xp.sum(kernel.feature_map(points[start : start + 4096, :]), axis=0)
        total = part if total is None else total + part
    return total / points.shape[0]


def _with_gradient(slopes: Vector, loss: Loss, alpha: Vector, counts: NDArray[np.int64]) -> Vector:
    """Add the constant with which the slopes of all samples become values of the tangent plane."""
    mean = np.repeat(alpha / counts, counts) @ slopes
    return slopes + float(alpha @ loss.expand(alpha).gradient - mean)
