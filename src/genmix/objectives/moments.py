"""First and second moments of each arm's rows, stored as the rows themselves while there are few.

While all arms together have fewer rows than columns, storing the rows takes less memory and is more
accurate. After that, sums of ``x`` and ``x xᵀ`` take fixed memory. With many arms that have few
rows each, storing the rows remains smaller and faster for longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, reduce
from typing import Any, ClassVar

import numpy as np

from genmix.core.arrays import Array, Vector, is_on_gpu, is_torch, like, namespace, to_numpy
from genmix.kernels.kernels import Kernel
from genmix.objectives.eigenbasis import TINY, Eigenbasis, FactorMoments, MixtureMoments
from genmix.objectives.tally import Batch, Tally
from genmix.solvers.loss import EPS, Matrix

MANY_ARMS = 32
"""Number of arms above which one matrix per arm can cost more than the rows."""

ROWS_PER_ARM = 32
"""Number of rows per arm up to which multiplying the rows is cheaper than reading a matrix."""

BLOCK_BYTES = 16 * 2**20
"""Memory of a block of rows whose sums are computed at once."""

WIDE_BLOCK_BYTES = 64 * 2**20
"""The same in many dimensions, where adding the sums of small blocks takes longer than computing them."""

GPU_BLOCK_BYTES = 128 * 2**20
"""The same on a GPU, where launching small blocks would take longer than computing them."""

Change = Callable[[Array, Array | None], Array]
"""Turns rows into those whose moments are computed, in a buffer of the same shape or in new memory."""

Sums = tuple[int, Array, Array]
"""The number of rows, their sum, and their second-order sum."""


def _copied(rows: Array, buffer: Array | None) -> Array:
    if buffer is None:
        return namespace(rows).asarray(rows, copy=True)
    buffer[...] = rows
    return buffer


class MomentTally(Tally):
    """First and second moments of the rows of ``transform(embeddings)``.

    The second moment is ``Σ x xᵀ``. If ``centered``, each arm's mean is subtracted first, so that a mean
    far from 0 does not cost precision.
    """

    STATE: ClassVar[tuple[str, ...]] = ("kept", "first", "second")
    centered: ClassVar[bool] = False

    def __init__(self, arms: int, sample: Array, columns: int) -> None:
        super().__init__(arms, sample)
        self.columns = columns
        self.kept: list[Any] = [self.rows(columns) for _ in range(arms)]
        self.first: list[Any] = []
        self.second: list[Any] = []

    @property
    def keeps_rows(self) -> bool:
        return not self.second

    @property
    def _max_rows(self) -> int:
        many = ROWS_PER_ARM * len(self.counts) if len(self.counts) > MANY_ARMS else 0
        return max(self.columns, many)

    def transform(self, embeddings: Array) -> Array:
        """Return the rows whose moments are computed."""
        return embeddings

    def _transform(self, embeddings: Array, buffer: Array | None) -> Array:
        """Do the same in memory that may be overwritten, possibly in the buffer."""
        rows = self.transform(embeddings)
        return _copied(rows, buffer) if rows is embeddings else rows

    @property
    def in_place(self) -> bool:
        """Whether ``_transform`` works in the buffer, so that a block needs no other memory."""
        return True

    def _add(self, arm: int, batch: Batch) -> None:
        self._take(arm, self.counts[arm], batch.embeddings, self._transform)

    def _take(self, arm: int, have: int, rows: Array, change: Change) -> None:
        """Add ``change(rows)`` to an arm that has ``have`` rows: store them if there is room, else sum."""
        if self.keeps_rows:
            stored = sum(kept.count for kept in self.kept)
            if stored + rows.shape[0] < self._max_rows:
                self.kept[arm].append(change(rows, None))
                return
            self._fold(self._blocks(rows, change))
        self._absorb(arm, have, self._moments(rows, change))

    def _moments(self, rows: Array, change: Change) -> Sums:
        """Return the sums of ``change(rows)``."""
        return reduce(self._added, map(self._sums, self._blocks(rows, change)))

    def _blocks(self, rows: Array, change: Change) -> Iterator[Array]:
        """Yield ``change(rows)`` in blocks of bounded memory; each one overwrites the last."""
        count, width = int(rows.shape[0]), max(int(rows.shape[1]), self.columns)
        most = (GPU_BLOCK_BYTES if is_on_gpu(rows) else BLOCK_BYTES) // (8 * width)
        if self.in_place:
            most = max(most, min(2 * width, WIDE_BLOCK_BYTES // (8 * width)))
        # In few dimensions, a block would have so many rows that their sum loses digits.
        size = max(1, min(most, 16 * max(width, 64), count))
        # One buffer for all blocks, because the first use of new memory takes longer than the sums. Torch
        # reuses memory itself.
        buffer = None if is_torch(rows) else np.empty((size, rows.shape[1]))
        for start in range(0, count, size):
            block = rows[start : start + size, :]
            yield change(block, None if buffer is None else buffer[: block.shape[0], :])

    def _sums(self, rows: Array) -> Sums:
        """Return the sums of rows, which are overwritten."""
        first = namespace(rows).sum(rows, axis=0)
        if self.centered:
            rows -= first / rows.shape[0]
        return int(rows.shape[0]), first, rows.mT @ rows

    def _added(self, mine: Sums, theirs: Sums) -> Sums:
        """Return the sums of both sets of rows (Chan's rule)."""
        (have, first, second), (more, new_first, new_second) = mine, theirs
        if self.centered and have and more:
            apart = new_first / more - first / have
            new_second = (
                new_second + (have * more / (have + more)) * apart[:, None] * apart[None, :]
            )
        return have + more, first + new_first, second + new_second

    def _absorb(self, arm: int, have: int, sums: Sums) -> None:
        """Add sums to those of an arm with ``have`` rows."""
        mine = have, self.first[arm], self.second[arm]
        _, self.first[arm], self.second[arm] = self._added(mine, sums)

    def _fold(self, new: Iterable[Array] = ()) -> None:
        """Replace the kept rows with sums; a subclass can look at the new rows that caused it."""
        kept, self.kept = self.kept, []
        self.first = [self.zeros(self.columns) for _ in kept]
        self.second = [self.zeros(self.columns, self.columns) for _ in kept]
        for arm, rows in enumerate(kept):
            if rows.count:
                self._absorb(arm, 0, self._moments(rows.array, _copied))

    def _merge(self, other: MomentTally, arms: Sequence[int]) -> None:
        if other.keeps_rows:
            for arm, rows in zip(arms, other.kept, strict=True):
                if rows.count:
                    self._take(arm, self.counts[arm], rows.array, _copied)
            return
        if self.keeps_rows:
            self._fold()
        sums = zip(arms, other.counts, other.first, other.second, strict=True)
        for arm, more, first, second in sums:
            self._absorb(arm, self.counts[arm], (more, first, second))

    def _grow(self) -> None:
        if self.keeps_rows:
            self.kept.append(self.rows(self.columns))
        else:
            self.first.append(self.zeros(self.columns))
            self.second.append(self.zeros(self.columns, self.columns))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if not state["kept"]:
            self._fold()
        super().load_state_dict(state)
        size = self.columns
        for arrays, shape in ((self.first, (size,)), (self.second, (size, size))):
            if any(tuple(array.shape) != shape for array in arrays):
                raise ValueError(f"an array of the statistics does not have the shape {shape}")

    def mean(self, arm: int) -> Array:
        if self.keeps_rows:
            return namespace(self.sample).mean(self.kept[arm].array, axis=0)
        return self.first[arm] / self.counts[arm]

    def second_moment(self, arm: int) -> Array:
        """Return ``E x xᵀ``, or the 1/n covariance if centered."""
        if self.keeps_rows:
            return self._moments(self.kept[arm].array, _copied)[2] / self.counts[arm]
        return self.second[arm] / self.counts[arm]

    def mixture_moments(self, arms: Sequence[int]) -> MixtureMoments:
        """Return the moments of these arms."""
        if self.keeps_rows:
            return FactorMoments([self.kept[arm].array for arm in arms], self.centered)
        xp = namespace(self.sample)
        sums = xp.stack([self.second[arm] for arm in arms])
        return DenseMoments(sums, self.counts_of(arms), self.means_of(arms))

    def sample_plane(
        self, loss: Any, arms: Sequence[int], alpha: Vector, batch: Batch, complete: bool = False
    ) -> Vector:
        probes = self.keeps_rows and not complete
        if probes and not (len(arms) > MANY_ARMS and loss.moments.keeps_coordinates):
            return super().sample_plane(loss, arms, alpha, batch)
        rows = self.transform(batch.embeddings) if probes or not self.keeps_rows else None
        plane: Vector = loss.sample_plane(alpha, rows)
        return plane

    def means_of(self, arms: Sequence[int]) -> Array | None:
        """Return the means ``(m, d)`` of these arms if centered, else None."""
        if not self.centered:
            return None
        return namespace(self.sample).stack([self.mean(arm) for arm in arms])


class FeatureMoments(MomentTally):
    """Moments of the features of a kernel."""

    def __init__(self, kernel: Kernel, arms: int, sample: Array) -> None:
        super().__init__(arms, sample, kernel.columns(sample.shape[1]) or 0)
        self.kernel = kernel

    def transform(self, embeddings: Array) -> Array:
        return self.kernel.feature_map(embeddings)

    def _transform(self, embeddings: Array, buffer: Array | None) -> Array:
        return self.kernel.feature_map_into(buffer, embeddings)

    @property
    def in_place(self) -> bool:
        return self.kernel.maps_in_place


class DenseMoments(MixtureMoments):
    """Moments stored as matrices; null directions common to all arms are removed when needed.

    ``sums`` ``(m, d, d)`` are second-order sums over ``counts`` samples, centered at the arms' ``means``
    ``(m, d)`` if present. ``roots`` ``(d,)`` scale the coordinates of ``sums``; ``means`` are already scaled.
    """

    def __init__(
        self, sums: Array, counts: Vector, means: Array | None = None, roots: Array | None = None
    ) -> None:
        self.size = int(sums.shape[0])
        self.on_gpu = is_on_gpu(sums)
        self.sums, self.counts, self.means, self.roots = sums, counts, means, roots
        self.dropped: Vector = np.empty(0)
        self._is_reduced = False
        self.reduction: Array | None = None
        """Maps rows to the coordinates of ``sums``, once null directions are removed."""

    @cached_property
    def traces(self) -> Vector:
        """The trace of each arm's moment."""
        xp = namespace(self.sums)
        diagonals = xp.linalg.diagonal(self.sums)
        if self.roots is not None:
            diagonals = diagonals * self.roots**2
        traces: Vector = to_numpy(xp.sum(diagonals, axis=1)) / self.counts
        return traces

    def _reduce(self) -> None:
        """Remove the directions in which no arm varies."""
        self._is_reduced = True
        if 0 in self.sums.shape:
            return
        xp = namespace(self.sums)
        middle = self.mixture(np.full(self.size, 1 / self.size))[0]
        values, basis = xp.linalg.eigh(middle)
        held = values > max(middle.shape[0] * EPS * float(xp.max(values)), TINY)
        lost: Vector = to_numpy(xp.abs(values[xp.nonzero(~held)[0]]))
        self.dropped = np.append(self.dropped, lost)
        basis = basis[:, xp.nonzero(held)[0]]
        scaled = self.scaled(basis)
        self.sums = scaled.mT @ self.sums @ scaled
        self.means = None if self.means is None else self.means @ basis
        self.roots = None
        self.reduction = scaled if self.reduction is None else self.reduction @ scaled

    def scaled(self, basis: Array) -> Array:
        """Convert vectors in scaled coordinates to the coordinates of the sums."""
        return basis if self.roots is None else self.roots[:, None] * basis

    def of(self, arms: Sequence[int]) -> DenseMoments:
        xp = namespace(self.sums)
        means = None if self.means is None else xp.stack([self.means[i, :] for i in arms])
        sums = xp.stack([self.sums[i, :, :] for i in arms])
        face = DenseMoments(sums, self.counts[list(arms)], means, self.roots)
        face.dropped, face.reduction = self.dropped, self.reduction
        return face

    def mixture(self, alpha: Vector) -> tuple[Array, Array | None]:
        """Return the mixture's moment (only the lower triangle is valid) and the arms' mean offsets."""
        xp = namespace(self.sums)
        flat = xp.reshape(self.sums, (self.size, -1))
        mixed = xp.reshape(like(alpha / self.counts, flat) @ flat, self.sums.shape[1:])
        if self.roots is not None:
            mixed *= self.roots
            mixed *= self.roots[:, None]
        if self.means is None:
            return mixed, None
        weights = like(alpha, flat)
        offsets = self.means - weights @ self.means
        mixed += (weights[:, None] * offsets).mT @ offsets
        return mixed, offsets

    def spectrum(self, alpha: Vector) -> Vector:
        mixed = self.mixture(alpha)[0]
        values: Vector = to_numpy(namespace(mixed).linalg.eigvalsh(mixed))
        if self._is_reduced or _is_clear_of_rounding(values):
            return _without_rounding(values)[0]
        self._reduce()
        return self.spectrum(alpha)

    def _eigenbasis(self, alpha: Vector) -> Eigenbasis:
        mixed, offsets = self.mixture(alpha)
        found, basis = namespace(mixed).linalg.eigh(mixed)
        values: Vector = to_numpy(found)
        if self._is_reduced or _is_clear_of_rounding(values):
            return DenseEigenbasis(self, values, basis, offsets)
        self._reduce()
        return self._eigenbasis(alpha)


class DenseEigenbasis(Eigenbasis):
    """The eigenbasis, computed from moments."""

    def __init__(
        self, moments: DenseMoments, values: Vector, basis: Array, offsets: Array | None
    ) -> None:
        self.values, self.noise = _without_rounding(values)
        self.errors = np.full_like(values, 4 * EPS * float(values.max()) if len(values) else 0.0)
        self.dropped = np.concatenate([moments.dropped, np.abs(values[values <= self.noise])])
        self._sums, self._counts, self._traces = moments.sums, moments.counts, moments.traces
        self._basis = moments.scaled(basis)
        """Maps the sums to the eigenbasis."""
        self._reduction, self._origin = moments.reduction, None
        if offsets is not None:
            self.means = offsets @ basis
            self._origin = (moments.means - offsets)[:1, :] @ basis

    def weigh(self, slope: Vector) -> Vector:
        # Computes Tr(f'(Z) T_i) from one f'(Z), which takes one matrix product instead of one per arm.
        xp = namespace(self._basis)
        flat = xp.reshape(self._sums, (len(self._counts), -1))
        weighed: Vector = to_numpy(flat @ xp.reshape(self._function(slope), (-1,))) / self._counts
        if self.means is not None:
            weighed = weighed + to_numpy(self.means) ** 2 @ slope
        return weighed

    def _function(self, values: Vector) -> Array:
        """Return the matrix with these eigenvalues, in the coordinates of the sums."""
        if np.all(values <= 0):  # a symmetric product takes half the work
            half = self._basis * like(np.sqrt(-values), self._basis)
            function = half @ half.mT
            function *= -1.0
            return function
        return (self._basis * like(values, self._basis)) @ self._basis.mT

    def squares(self, rows: Array | None) -> Matrix:
        assert rows is not None  # the samples are not kept
        turned = (rows if self._reduction is None else rows @ self._reduction) @ self._basis
        squares: Matrix = to_numpy(turned if self._origin is None else turned - self._origin) ** 2
        return squares

    def rounding(self, arm: int, slope: Vector) -> float:
        if len(slope) == 0:
            return 0.0
        return 4 * EPS * float(self._traces[arm]) * float(np.max(np.abs(slope)))

    def diagonals(self) -> Matrix:
        xp = namespace(self._basis)
        found = to_numpy(xp.sum(self._basis * (self._sums @ self._basis), axis=1))
        diagonals: Matrix = np.maximum(found / self._counts[:, None], 0.0)
        return diagonals if self.means is None else diagonals + to_numpy(self.means) ** 2

    def blocks(self) -> Array:
        full = self._basis.mT @ self._sums @ self._basis
        full /= like(self._counts, full)[:, None, None]
        if self.means is None:
            return full
        return full + self.means[:, :, None] * self.means[:, None, :]

    def combined(self, weights: Vector) -> Callable[[int, int], Array]:
        basis, used = self._basis, np.flatnonzero(weights).tolist()
        shares = (weights / self._counts).tolist()
        mixed = self._sums[used[0], :, :]  # a view: one arm needs no memory
        if len(used) > 1:
            mixed = sum((shares[i] / shares[used[0]]) * self._sums[i, :, :] for i in used)
        scaled = basis * shares[used[0]]

        def rows_and_columns(first: int, last: int) -> Array:
            found = scaled[:, first:last].mT @ mixed @ basis[:, :last]
            if self.means is None:
                return found
            roots = like(np.sqrt(weights[used])[:, None], basis)
            means = self.means[used, :] * roots
            return found + means[:, first:last].mT @ means[:, :last]

        return rows_and_columns


def _is_clear_of_rounding(values: Vector) -> bool:
    return len(values) > 0 and bool(values.min() > len(values) * EPS * np.sum(np.abs(values)))


def _without_rounding(values: Vector) -> tuple[Vector, float]:
    noise = max(len(values) * EPS * float(values.max()), TINY) if len(values) else TINY
    return np.where(values > noise, values, 0.0), noise
