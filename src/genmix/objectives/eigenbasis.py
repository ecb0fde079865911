"""The eigenbasis of a mixture's second moment, computed from the arms' rows or moments.

    Z_α = Σ_i α_i T_i              with T_i the second moment of arm i's rows, or, if centered,
    Z_α = Σ_i α_i (Σ_i + y_i y_iᵀ)  with Σ_i its covariance and y_i its mean minus the mixture's.

The centered form is a sum of positive terms; subtracting a mean from second moments would lose digits.

Matrices use the same library and device as the samples. Spectra are numpy vectors, because they need many
small operations, each of which would cost a kernel launch on a GPU.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

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
"""Number of arms above which means over arms are computed from sums of slices."""

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
    def combined(self, weights: Vector) -> Callable[[int, int], Array]:
        """Return a function of j and k that computes the rows j:k and columns :k of ``Σ_i w_i B_i``."""

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


class Averages:
    """Means of values ``(n, ...)`` over the consecutive rows of each arm."""

    def __init__(self, counts: Sequence[int], sample: Array) -> None:
        self._counts = np.array(counts)
        self._starts = np.cumsum(self._counts) - self._counts
        self._shares: Array | None = None
        """A matrix ``(m, n)`` whose product averages; with many arms, it would be large and slow."""
        if len(counts) <= MANY_ARMS or is_on_gpu(sample):
            owners = np.repeat(np.arange(len(counts)), self._counts)
            shares = (owners == np.arange(len(counts))[:, None]) / self._counts[:, None]
            self._shares = like(shares, sample)

    def __call__(self, values: Array) -> Array:
        if self._shares is not None:
            return self._shares @ values
        sums = np.add.reduceat(to_numpy(values), self._starts, axis=0)
        return like((sums.T / self._counts).T, values)


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
        self.averages = Averages(counts, self._rows)
        self.means = self.averages(self._rows) if centered else None
        """The means of the arms ``(m, r)``, if centered."""

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
        rows = self._rows if self.means is None else self._rows - self.mean(alpha)
        return rows, xp.multiply(each[:, None], rows)

    def mean(self, alpha: Vector) -> Array:
        """Return the mixture's mean ``(r,)``."""
        return like(alpha, self._rows) @ self.means

    def spectrum(self, alpha: Vector) -> Vector:
        xp = namespace(self._rows)
        weighted = self._weighted(alpha)[1]
        values: Vector = to_numpy(xp.linalg.eigvalsh(symmetric(weighted.mT @ weighted)))
        if _well_conditioned(values):
            return values
        return _squares(to_numpy(xp.linalg.svdvals(weighted)), len(weighted))[0]

    def _eigenbasis(self, alpha: Vector) -> Eigenbasis:
        return FactorEigenbasis(self, alpha, *self._weighted(alpha))


class FactorEigenbasis(Eigenbasis):
    """The eigenbasis, computed from weighted rows."""

    def __init__(self, moments: FactorMoments, alpha: Vector, rows: Array, weighted: Array) -> None:
        xp = namespace(rows)
        self._slices, self._averages = moments.slices, moments.averages
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
        if moments.means is not None:
            self.means = (moments.means - moments.mean(alpha)) @ basis

    def weigh(self, slope: Vector) -> Vector:
        weighed: Vector = to_numpy(self._averages(self._turned**2 @ like(slope, self._turned)))
        return weighed

    def diagonals(self) -> Matrix:
        found: Matrix = to_numpy(self._averages(self._turned**2))
        return found

    def blocks(self) -> Array:
        parts = [self._turned[s, :] for s in self._slices]
        return namespace(self._turned).stack([p.mT @ p / p.shape[0] for p in parts])

    def combined(self, weights: Vector) -> Callable[[int, int], Array]:
        used = [(weights[i], self._turned[self._slices[i], :]) for i in np.flatnonzero(weights)]
        parts = [part * float(np.sqrt(weight / part.shape[0])) for weight, part in used]
        rows = namespace(self._turned).concat(parts, axis=0)
        return lambda first, last: rows[:, first:last].mT @ rows[:, :last]

    def squares(self, rows: Array | None) -> Matrix:
        if rows is not None:
            assert self._basis is not None  # the coordinates of other rows are known
            return np.asarray(to_numpy(rows @ self._basis) ** 2)
        squares: Matrix = to_numpy(self._turned) ** 2
        return squares


def _has_no_null_direction(triangle: Array) -> bool:
    """Guess from the diagonal; a wrong guess shows up later as an ill-conditioned spectrum."""
    xp = namespace(triangle)
    diagonal = xp.abs(xp.linalg.diagonal(triangle))
    return float(xp.min(diagonal)) > 1e-10 * float(xp.max(diagonal))


def _well_conditioned(values: Vector) -> bool:
    return len(values) > 0 and float(values.min()) > WELL_CONDITIONED * float(values.max()) > 0


def _squares(roots: Vector, count: int) -> tuple[Vector, float]:
    """Return the eigenvalues that correspond to these singular values, and their rounding level."""
    noise = max(count * EPS * float(roots.max()), TINY) if len(roots) else TINY
    return np.where(roots > noise, roots, 0.0) ** 2, noise**2


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
