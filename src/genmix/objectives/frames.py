"""The eigenbasis of a mixture's second moment, from the arms' rows or from their moments.

    Z_α = Σ_i α_i T_i              with T_i the second moment of arm i's rows, or, if centred,
    Z_α = Σ_i α_i (Σ_i + y_i y_iᵀ)  with Σ_i its covariance and y_i its mean less the mixture's:

a sum of positive terms, where second moments less a mean would cancel.

Matrices stay in the library and on the device of the samples. Spectra are vectors of numpy: there is
much to do with them that is little work, and on a GPU each bit of it would cost a launch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from genmix.arrays import (
    Array,
    Vector,
    is_on_gpu,
    like,
    namespace,
    symmetric,
    to_numpy,
    triangle_of,
)
from genmix.loss import EPS

TINY = 1e-100
"""The level of rounding of a spectrum that is zero throughout."""

WELL = 1e-10
"""Least eigenvalue over largest from which on a moment's eigenvalues are as good as singular values."""


class Frame(ABC):
    """The eigenbasis of one mixture."""

    values: Vector
    """Eigenvalues ``(r,)``, those at the level of rounding put to zero."""
    noise: float
    """Eigenvalues up to here are rounding."""
    errors: Vector
    """By how much rounding may have moved each eigenvalue."""
    means: Array | None = None
    """``y_i`` in the basis, ``(m, r)``, if centred."""
    dropped: Vector
    """Magnitudes of the eigenvalues that were taken for rounding and put to zero."""

    def rounding(self, arm: int, slope: Vector) -> float:
        """By how much rounding may have moved ``weigh(slope)`` of an arm."""
        return 0.0

    @abstractmethod
    def weigh(self, slope: Vector) -> Vector:
        """``Σ_k slope_k B_i,kk`` for every arm, with ``B_i`` its moment in the basis: ``(m,)``."""

    @abstractmethod
    def diagonals(self) -> NDArray[np.float64]:
        """``B_i,kk``, ``(m, r)``."""

    @abstractmethod
    def blocks(self) -> Array:
        """``B_i``, ``(m, r, r)``."""


class MixtureMoments(ABC):
    """The second moments of m arms, of which a mixture's is the weighted mean."""

    size: int
    on_gpu: bool

    @abstractmethod
    def of(self, arms: Sequence[int]) -> MixtureMoments:
        """The moments of these arms alone."""

    @abstractmethod
    def spectrum(self, alpha: Vector) -> Vector:
        """The mixture's eigenvalues, those at the level of rounding put to zero."""

    @abstractmethod
    def frame(self, alpha: Vector) -> Frame:
        """The mixture's eigenbasis."""


class FactorMoments(MixtureMoments):
    """Moments kept as the samples themselves: exact while there are fewer samples than dimensions.

    Where the moment is ill conditioned its eigenvalues are only good to the square root of rounding;
    singular values of the weighted rows, which are good to rounding, take over there.
    """

    def __init__(self, groups: Sequence[Array], centred: bool, spanned: bool = False) -> None:
        """``spanned``: the rows are known to have as many directions as columns."""
        xp = namespace(groups[0])
        counts = [int(g.shape[0]) for g in groups]
        ends = np.cumsum(counts)
        self.size = len(groups)
        self.centred = centred
        self.counts = np.array(counts)
        self.slices = [slice(int(e) - n, int(e)) for e, n in zip(ends, counts, strict=True)]
        self.on_gpu = is_on_gpu(groups[0])
        rows = xp.concat(list(groups), axis=0)
        self._rows = rows if spanned else self._spanned(rows)
        owners = np.repeat(np.arange(self.size), self.counts)
        shares = (owners == np.arange(self.size)[:, None]) / self.counts[:, None]
        self.averages = like(shares, self._rows)
        """``(m, n)``: times rows, it gives the arms' means."""
        self._means = self.averages @ self._rows

    def _spanned(self, rows: Array) -> Array:
        """The rows in coordinates of the directions that they have; nothing else changes."""
        xp = namespace(rows)
        if self.centred:
            rows = rows - rows[:1, :]
        others = rows[1:, :] if self.centred else rows  # the first is the origin then
        tall = others.shape[0] > others.shape[1]
        if others.shape[0] == 0:
            return rows[:, :0]
        triangle = triangle_of(others if tall else others.mT)
        if _has_no_null_direction(triangle):
            return (
                rows if tall else xp.concat([xp.zeros_like(triangle[: self.centred]), triangle.mT])
            )
        _, roots, basis = xp.linalg.svd(rows, full_matrices=False)
        held = xp.nonzero(roots > max(max(rows.shape) * EPS * float(xp.max(roots)), TINY))[0]
        return rows @ basis[held, :].mT

    def of(self, arms: Sequence[int]) -> FactorMoments:
        return FactorMoments([self._rows[self.slices[i], :] for i in arms], self.centred)

    def _weighted(self, alpha: Vector) -> tuple[Array, Array]:
        xp = namespace(self._rows)
        each = like(np.repeat(np.sqrt(alpha / self.counts), self.counts), self._rows)
        rows = self._rows - like(alpha, self._rows) @ self._means if self.centred else self._rows
        return rows, xp.multiply(each[:, None], rows)

    def spectrum(self, alpha: Vector) -> Vector:
        xp = namespace(self._rows)
        weighted = self._weighted(alpha)[1]
        values: Vector = to_numpy(xp.linalg.eigvalsh(symmetric(weighted.mT @ weighted)))
        if _well_conditioned(values):
            return values
        return _squared(to_numpy(xp.linalg.svdvals(weighted)), len(weighted))[0]

    def frame(self, alpha: Vector) -> Frame:
        return FactorFrame(self, *self._weighted(alpha))


class FactorFrame(Frame):
    """The eigenbasis from weighted rows."""

    def __init__(self, moments: FactorMoments, rows: Array, weighted: Array) -> None:
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
            self.values, self.noise = _squared(roots, len(weighted))
            self.errors = 4 * EPS * float(roots.max()) * roots if len(roots) else roots
        self._turned = rows @ basis
        self.dropped = values[:0]
        if moments.centred:
            self.means = self._averages @ self._turned

    def weigh(self, slope: Vector) -> Vector:
        weighed: Vector = self.diagonals() @ slope
        return weighed

    def diagonals(self) -> NDArray[np.float64]:
        found: NDArray[np.float64] = to_numpy(self._averages @ self._turned**2)
        return found

    def blocks(self) -> Array:
        parts = [self._turned[s, :] for s in self._slices]
        return namespace(self._turned).stack([p.mT @ p / p.shape[0] for p in parts])


class DenseMoments(MixtureMoments):
    """Moments kept as matrices ``(m, d, d)``, with the directions that no arm has taken out.

    They are covariances if the arms' ``means`` ``(m, d)`` are given.
    """

    def __init__(self, moments: Array, means: Array | None) -> None:
        self.size = int(moments.shape[0])
        self.on_gpu = is_on_gpu(moments)
        self.moments, self.means = moments, means
        self.dropped: Vector = np.empty(0)
        middle = self.mixture(np.full(self.size, 1 / self.size))[0]
        if not is_full_rank(middle):
            self._reduce(middle)
        xp = namespace(moments)
        self.traces: Vector = to_numpy(xp.sum(xp.linalg.diagonal(self.moments), axis=1))

    def _reduce(self, middle: Array) -> None:
        xp = namespace(middle)
        values, basis = xp.linalg.eigh(middle)
        held = values > max(middle.shape[0] * EPS * float(xp.max(values)), TINY)
        self.dropped = to_numpy(xp.abs(values[xp.nonzero(~held)[0]]))
        basis = basis[:, xp.nonzero(held)[0]]
        self.moments = basis.mT @ self.moments @ basis
        self.means = None if self.means is None else self.means @ basis

    def of(self, arms: Sequence[int]) -> DenseMoments:
        xp = namespace(self.moments)
        means = None if self.means is None else xp.stack([self.means[i, :] for i in arms])
        return DenseMoments(xp.stack([self.moments[i, :, :] for i in arms]), means)

    def mixture(self, alpha: Vector) -> tuple[Array, Array | None]:
        """The mixture's moment and, if centred, the arms' means about its mean."""
        xp = namespace(self.moments)
        weights = like(alpha, self.moments)
        flat = xp.reshape(self.moments, (self.size, -1))
        mixed = xp.reshape(weights @ flat, self.moments.shape[1:])
        if self.means is None:
            return symmetric(mixed), None
        offsets = self.means - weights @ self.means
        return symmetric(mixed + (weights[:, None] * offsets).mT @ offsets), offsets

    def spectrum(self, alpha: Vector) -> Vector:
        mixed = self.mixture(alpha)[0]
        return _cleaned(to_numpy(namespace(mixed).linalg.eigvalsh(mixed)))[0]

    def frame(self, alpha: Vector) -> Frame:
        return DenseFrame(self, *self.mixture(alpha))


class DenseFrame(Frame):
    """The eigenbasis from moments."""

    def __init__(self, moments: DenseMoments, mixed: Array, offsets: Array | None) -> None:
        found, self._basis = namespace(mixed).linalg.eigh(mixed)
        values = to_numpy(found)
        self.values, self.noise = _cleaned(values)
        self.errors = np.full_like(values, 4 * EPS * float(values.max()) if len(values) else 0.0)
        cut = np.abs(values[values <= self.noise])
        self.dropped = np.concatenate([moments.dropped, cut])
        self._moments, self._traces = moments.moments, moments.traces
        if offsets is not None:
            self.means = offsets @ self._basis

    def weigh(self, slope: Vector) -> Vector:
        # Tr(f'(Z) T_i) with f'(Z) formed once: one product of matrices instead of one an arm.
        xp = namespace(self._basis)
        size = self._moments.shape[0]
        weighed = xp.reshape(self._moments, (size, -1)) @ xp.reshape(self._function(slope), (-1,))
        if self.means is not None:
            weighed = weighed + self.means**2 @ like(slope, self._basis)
        found: Vector = to_numpy(weighed)
        return found

    def _function(self, values: Vector) -> Array:
        """The matrix that has these eigenvalues in the basis."""
        if np.all(values <= 0):  # then half of the product is enough, by symmetry
            half = self._basis * like(np.sqrt(-values), self._basis)
            return -(half @ half.mT)
        return (self._basis * like(values, self._basis)) @ self._basis.mT

    def rounding(self, arm: int, slope: Vector) -> float:
        if len(slope) == 0:
            return 0.0
        return 4 * EPS * float(self._traces[arm]) * float(np.max(np.abs(slope)))

    def diagonals(self) -> NDArray[np.float64]:
        xp = namespace(self._basis)
        found = to_numpy(xp.sum(self._basis * (self._moments @ self._basis), axis=1))
        diagonals: NDArray[np.float64] = np.maximum(found, 0.0)
        return diagonals if self.means is None else diagonals + to_numpy(self.means) ** 2

    def blocks(self) -> Array:
        full = self._basis.mT @ self._moments @ self._basis
        if self.means is None:
            return full
        return full + self.means[:, :, None] * self.means[:, None, :]


def _has_no_null_direction(triangle: Array) -> bool:
    """A hint, not a bound: where it errs, the frames see an ill-conditioned spectrum and take care."""
    xp = namespace(triangle)
    diagonal = xp.abs(xp.linalg.diagonal(triangle))
    return float(xp.min(diagonal)) > 1e-10 * float(xp.max(diagonal))


def _well_conditioned(values: Vector) -> bool:
    return len(values) > 0 and float(values.min()) > WELL * float(values.max()) > 0


def _squared(roots: Vector, count: int) -> tuple[Vector, float]:
    """Eigenvalues from singular values, and the level of their rounding."""
    noise = max(count * EPS * float(roots.max()), TINY) if len(roots) else TINY
    return np.where(roots > noise, roots, 0.0) ** 2, noise**2


def _cleaned(values: Vector) -> tuple[Vector, float]:
    noise = max(len(values) * EPS * float(values.max()), TINY) if len(values) else TINY
    return np.where(values > noise, values, 0.0), noise


def is_full_rank(matrix: Array) -> bool:
    """Whether every eigenvalue is clearly above rounding, by a Cholesky factorisation."""
    xp = namespace(matrix)
    trace = float(xp.sum(xp.linalg.diagonal(matrix)))
    shift = matrix.shape[0] * EPS * trace
    try:
        factor = xp.linalg.cholesky(matrix - shift * xp.eye(matrix.shape[0], device=matrix.device))
    except (np.linalg.LinAlgError, RuntimeError):
        return False
    return trace > 0 and bool(xp.all(xp.isfinite(xp.linalg.diagonal(factor))))
