"""The eigenbasis of a mixture's second moment, computed from the arms' rows or moments.

    Z_α = Σ_i α_i T_i              with T_i the second moment of arm i's rows, or, if centered,
    Z_α = Σ_i α_i (Σ_i + y_i y_iᵀ)  with Σ_i its covariance and y_i its mean minus the mixture's.

The centered form is a sum of positive terms; subtracting a mean from second moments would lose digits.

Matrices use the same library and device as the samples. Spectra are numpy vectors, because they need many
small operations, each of which would cost a kernel launch on a GPU.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from genmix.core.arrays import (
    Array,
    Vector,
    is_on_gpu,
    like,
    namespace,
    symmetric,
    to_numpy,
    triangle_of,
)
from genmix.solvers.loss import EPS, Matrix

TINY = 1e-100
"""Rounding level of a spectrum that is all zeros."""

MANY_ROWS = 4
"""Number of rows per column above which their full rank is tested on their products, which is faster."""

MANY_ARMS = 64
"""Number of arms above which averages over arms are computed as sums of slices."""

WELL_CONDITIONED = 1e-10
"""Ratio of the smallest to the largest eigenvalue above which eigenvalues are accurate enough."""


class Eigenbasis(ABC):
    """The eigenbasis of one mixture."""

    values: Vector
    """Eigenvalues ``(r,)``; those at rounding level are zero."""
    noise: float
    """Rounding level: eigenvalues up to this value are treated as zero."""
    errors: Vector
    """Bound on the rounding error of each eigenvalue."""
    means: Array | None = None
    """``y_i`` in the eigenbasis, ``(m, r)``, if centered."""
    dropped: Vector
    """Bounds on the eigenvalues that were set to zero because they are at rounding level."""
    moment_error: float = 0.0
    """Bound on the error of each eigenvalue that is due to errors of the moments themselves."""

    def rounding(self, arm: int, slope: Vector) -> float:
        """Return a bound on the rounding error of ``weigh(slope)`` for an arm."""
        return 0.0

    @abstractmethod
    def weigh(self, slope: Vector) -> Vector:
        """Return ``Σ_k slope_k B_i,kk`` ``(m,)``, with ``B_i`` the moment of arm i in the eigenbasis."""

    @abstractmethod
    def diagonals(self) -> Matrix:
        """Return ``B_i,kk``, ``(m, r)``."""

    @abstractmethod
    def blocks(self) -> Array:
        """Return ``B_i``, ``(m, r, r)``."""

    @abstractmethod
    def squares(self, rows: Array | None) -> Matrix:
        """Return the squared coordinates of rows in the eigenbasis, ``(n, r)``.

        If the moments are stored as rows, pass None for these rows; if not, pass any rows.
        """


class MixtureMoments(ABC):
    """The second moments of m arms. A mixture's moment is their weighted mean."""

    size: int
    on_gpu: bool

    @abstractmethod
    def of(self, arms: Sequence[int]) -> MixtureMoments:
        """Return the moments of these arms only."""

    @abstractmethod
    def spectrum(self, alpha: Vector) -> Vector:
        """Return the mixture's eigenvalues; those at rounding level are zero."""

    _last: tuple[bytes, Eigenbasis] | None = None
    """The last mixture and its eigenbasis."""

    def eigenbasis(self, alpha: Vector) -> Eigenbasis:
        """Return the mixture's eigenbasis; the last one is remembered."""
        key = alpha.tobytes()
        if self._last is None or self._last[0] != key:
            self._last = key, self._eigenbasis(alpha)
        return self._last[1]

    @abstractmethod
    def _eigenbasis(self, alpha: Vector) -> Eigenbasis: ...


@dataclass(frozen=True)
class Omitted:
    """What a factor leaves out of the moments that it represents."""

    error: float = 0.0
    """Bound on the change of each eigenvalue of a mixture."""
    values: Vector = field(default_factory=lambda: np.empty(0))
    """Eigenvalues whose sum bounds, for every mixture, the sum of those in the omitted directions."""

    def and_directions(self, count: int, total: float) -> Omitted:
        """Add ``count`` directions whose eigenvalues sum to at most ``total`` for every mixture."""
        return Omitted(self.error, np.append(self.values, np.full(count, total / max(count, 1))))


class FactorMoments(MixtureMoments):
    """Moments stored as the samples themselves, for fewer samples than dimensions.

    The eigenvalues of an ill-conditioned moment are accurate only to the square root of machine
    precision. In that case, the more accurate singular values of the weighted rows are used.
    """

    def __init__(
        self,
        groups: Sequence[Array],
        centered: bool,
        omitted: Omitted | None = None,
        spanned: bool = False,
    ) -> None:
        """Set ``spanned`` if the rows are known to span all columns."""
        xp = namespace(groups[0])
        counts = [int(g.shape[0]) for g in groups]
        ends = np.cumsum(counts)
        self.size = len(groups)
        self.centered = centered
        self.counts = np.array(counts)
        self.slices = [slice(int(e) - n, int(e)) for e, n in zip(ends, counts, strict=True)]
        self.on_gpu = is_on_gpu(groups[0])
        self.omitted = Omitted() if omitted is None else omitted
        rows = xp.concat(list(groups), axis=0)
        self._rows = rows if spanned else self._spanned(rows)
        self.keeps_coordinates = self._rows is rows and not centered
        """Whether the coordinates are those of the given rows, so that others can be compared."""
        owners = np.repeat(np.arange(self.size), self.counts)
        shares = (owners == np.arange(self.size)[:, None]) / self.counts[:, None]
        self.averages = like(shares, self._rows)
        """``(m, n)``; its product with the rows yields the means of the arms."""
        self._means = self.averages @ self._rows if centered else None

    def _spanned(self, rows: Array) -> Array:
        """Return the rows in coordinates of the subspace that they span."""
        xp = namespace(rows)
        if self.centered:
            rows = rows - rows[:1, :]
        others = rows[1:, :] if self.centered else rows  # if centered, the first row is the origin
        tall = others.shape[0] > others.shape[1]
        if 0 in others.shape:
            return rows[:, :0]
        if others.shape[0] > MANY_ROWS * others.shape[1] and is_full_rank(others.mT @ others):
            return rows
        triangle = triangle_of(others if tall else others.mT)
        if _has_no_null_direction(triangle):
            return (
                rows if tall else xp.concat([xp.zeros_like(triangle[: self.centered]), triangle.mT])
            )
        _, roots, basis = xp.linalg.svd(rows, full_matrices=False)
        noise = max(max(rows.shape) * EPS * float(xp.max(roots)), TINY)
        held = xp.nonzero(roots > noise)[0]
        lost = max(min(others.shape) - int(held.shape[0]), 0)
        self.omitted = self.omitted.and_directions(lost, (2 * noise) ** 2)
        return rows @ basis[held, :].mT

    def of(self, arms: Sequence[int]) -> FactorMoments:
        groups = [self._rows[self.slices[i], :] for i in arms]
        return FactorMoments(groups, self.centered, self.omitted)

    def _weighted(self, alpha: Vector) -> tuple[Array, Array]:
        xp = namespace(self._rows)
        each = like(np.repeat(np.sqrt(alpha / self.counts), self.counts), self._rows)
        rows = self._rows
        if self._means is not None:
            rows = rows - like(alpha, rows) @ self._means
        return rows, xp.multiply(each[:, None], rows)

    def spectrum(self, alpha: Vector) -> Vector:
        xp = namespace(self._rows)
        weighted = self._weighted(alpha)[1]
        values: Vector = to_numpy(xp.linalg.eigvalsh(symmetric(weighted.mT @ weighted)))
        if _well_conditioned(values):
            return values
        return _squares(to_numpy(xp.linalg.svdvals(weighted)), len(weighted))[0]

    def _eigenbasis(self, alpha: Vector) -> Eigenbasis:
        return FactorEigenbasis(self, *self._weighted(alpha))


class FactorEigenbasis(Eigenbasis):
    """The eigenbasis, computed from weighted rows."""

    def __init__(self, moments: FactorMoments, rows: Array, weighted: Array) -> None:
        xp = namespace(rows)
        self._slices, self._averages = moments.slices, moments.averages
        self._is_sliced = moments.size > MANY_ARMS and not moments.on_gpu
        found, basis = xp.linalg.eigh(symmetric(weighted.mT @ weighted))
        values = to_numpy(found)
        if _well_conditioned(values):
            self.values, self.noise = values, len(values) * EPS * float(values.max())
            self.errors = np.full_like(values, 4 * EPS * float(values.max()))
        else:
            _, singular, turn = xp.linalg.svd(weighted, full_matrices=False)
            basis, roots = turn.mT, to_numpy(singular)
            self.values, self.noise = _squares(roots, len(weighted))
            self.errors = 4 * EPS * float(roots.max()) * roots if len(roots) else roots
        self._turned = rows @ basis
        self._basis = basis if moments.keeps_coordinates else None
        self.dropped, self.moment_error = moments.omitted.values, moments.omitted.error
        if moments.centered:
            self.means = self._averages @ self._turned

    def weigh(self, slope: Vector) -> Vector:
        if self._is_sliced:
            squares: Matrix = to_numpy(self._turned) ** 2
            return self._averaged(squares @ slope)
        weighed: Vector = self.diagonals() @ slope
        return weighed

    def diagonals(self) -> Matrix:
        if self._is_sliced:
            return self._averaged(to_numpy(self._turned) ** 2)
        found: Matrix = to_numpy(self._averages @ self._turned**2)
        return found

    def _averaged(self, values: Matrix) -> Matrix:
        """Return the mean of the values ``(n, ...)`` over the rows of each arm."""
        counts = np.array([each.stop - each.start for each in self._slices])
        sums = np.add.reduceat(values, [each.start for each in self._slices], axis=0)
        means: Matrix = (sums.T / counts).T
        return means

    def blocks(self) -> Array:
        parts = [self._turned[s, :] for s in self._slices]
        return namespace(self._turned).stack([p.mT @ p / p.shape[0] for p in parts])

    def squares(self, rows: Array | None) -> Matrix:
        if rows is not None:
            assert self._basis is not None  # the coordinates of other rows are known
            return np.asarray(to_numpy(rows @ self._basis) ** 2)
        squares: Matrix = to_numpy(self._turned) ** 2
        return squares


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


def _has_no_null_direction(triangle: Array) -> bool:
    """Guess from the diagonal; a wrong guess shows up later as an ill-conditioned spectrum."""
    xp = namespace(triangle)
    diagonal = xp.abs(xp.linalg.diagonal(triangle))
    return float(xp.min(diagonal)) > 1e-10 * float(xp.max(diagonal))


def _well_conditioned(values: Vector) -> bool:
    return len(values) > 0 and float(values.min()) > WELL_CONDITIONED * float(values.max()) > 0


def _is_clear_of_rounding(values: Vector) -> bool:
    return len(values) > 0 and bool(values.min() > len(values) * EPS * np.sum(np.abs(values)))


def _squares(roots: Vector, count: int) -> tuple[Vector, float]:
    """Return the eigenvalues that correspond to these singular values, and their rounding level."""
    noise = max(count * EPS * float(roots.max()), TINY) if len(roots) else TINY
    return np.where(roots > noise, roots, 0.0) ** 2, noise**2


def _without_rounding(values: Vector) -> tuple[Vector, float]:
    noise = max(len(values) * EPS * float(values.max()), TINY) if len(values) else TINY
    return np.where(values > noise, values, 0.0), noise


def is_full_rank(matrix: Array) -> bool:
    """Check with a Cholesky factorization that all eigenvalues are clearly above rounding level."""
    xp = namespace(matrix)
    trace = float(xp.sum(xp.linalg.diagonal(matrix)))
    shift = matrix.shape[0] * EPS * trace
    try:
        factor = xp.linalg.cholesky(matrix - shift * xp.eye(matrix.shape[0], device=matrix.device))
    except (np.linalg.LinAlgError, RuntimeError):
        return False
    return trace > 0 and bool(xp.all(xp.isfinite(xp.linalg.diagonal(factor))))
