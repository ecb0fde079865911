"""Convex trace functions of a mixture's second moment: the common form of Vendi and Fréchet.

    L(α) = linear·α + constant + Σ_k f(λ_k(Z_α)),    Z_α = Σ_i α_i T_i − [centred] ȳ_α ȳ_αᵀ

with ``T_i`` the second moment of arm i's rows and ``ȳ_α = Σ α_i ȳ_i``. In the eigenbasis of ``Z_α``,
with ``B_i`` the (centred) moment of arm i there,

    plane_i = linear_i + constant + Σ_k [f(λ_k) − λ_k f'(λ_k)] + Σ_k f'(λ_k) B_i,kk
    H_ij    = Σ_kl h_kl B_i,kl B_j,kl  (− 2 y_iᵀ f'(Z) y_j if centred),   h_kl = (f'(λ_k)−f'(λ_l))/(λ_k−λ_l)

The plane lies below L at *every* mixture for any positive λ, not only for the eigenvalues themselves:
``f`` is convex, and a centred moment is at most the moment about ``ȳ_α``. Eigenvalues at the level of
rounding are therefore lifted to that level, and the certificate still holds where f' is infinite.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from genmix.arrays import Array, Vector, like, namespace, symmetric, to_numpy
from genmix.loss import EPS, Expansion, Loss

TINY = 1e-100  # the level of rounding of a spectrum that is zero throughout


@dataclass(frozen=True)
class Frame:
    """The eigenbasis of one mixture: eigenvalues ``(r,)``, arms' moments and centred means in it."""

    values: Array
    noise: float
    """Eigenvalues up to here are rounding."""
    errors: Array
    """By how much rounding may have moved each eigenvalue."""
    diagonals: Array
    """``B_i,kk``, ``(m, r)``."""
    blocks: Array | None
    """``B_i``, ``(m, r, r)``, if asked for."""
    means: Array | None
    """``y_i = ȳ_i − ȳ_α``, ``(m, r)``, if centred."""


class MixtureMoments(ABC):
    """The second moments of m arms, of which a mixture is the weighted mean."""

    size: int

    @abstractmethod
    def of(self, arms: Sequence[int]) -> MixtureMoments:
        """The moments of these arms alone."""

    @abstractmethod
    def spectrum(self, alpha: Vector) -> tuple[Array, float]:
        """Eigenvalues of the mixture's moment, those at the level of rounding put to zero; the level."""

    @abstractmethod
    def frame(self, alpha: Vector, blocks: bool) -> Frame:
        """The mixture's eigenbasis."""


class FactorMoments(MixtureMoments):
    """Moments kept as the samples themselves: exact while there are fewer samples than dimensions.

    Singular values of the weighted rows are accurate to rounding; eigenvalues of their moment would
    only be so to its square root.
    """

    def __init__(self, groups: Sequence[Array], centred: bool) -> None:
        xp = namespace(groups[0])
        counts = [int(g.shape[0]) for g in groups]
        ends = np.cumsum(counts)
        self.size = len(groups)
        self._centred = centred
        self._counts = np.array(counts)
        self._slices = [slice(int(e) - n, int(e)) for e, n in zip(ends, counts, strict=True)]
        self._rows = self._spanned(xp.concat(list(groups), axis=0))
        self._means = xp.stack([xp.mean(self._rows[s, :], axis=0) for s in self._slices])

    def _spanned(self, rows: Array) -> Array:
        """The rows in coordinates of the directions that they have; nothing else changes."""
        xp = namespace(rows)
        each = like(np.repeat(1 / (self.size * self._counts), self._counts), rows)
        if self._centred:
            rows = rows - each @ rows
        _, roots, basis = xp.linalg.svd(xp.sqrt(each)[:, None] * rows, full_matrices=False)
        held = xp.nonzero(roots > max(max(rows.shape) * EPS * float(xp.max(roots)), TINY))[0]
        return rows @ basis[held, :].mT

    def of(self, arms: Sequence[int]) -> FactorMoments:
        return FactorMoments([self._rows[self._slices[i], :] for i in arms], self._centred)

    def _weighted(self, alpha: Vector) -> tuple[Array, Array]:
        xp = namespace(self._rows)
        each = like(np.repeat(np.sqrt(alpha / self._counts), self._counts), self._rows)
        rows = self._rows - like(alpha, self._rows) @ self._means if self._centred else self._rows
        return rows, xp.multiply(each[:, None], rows)

    def spectrum(self, alpha: Vector) -> tuple[Array, float]:
        xp = namespace(self._rows)
        return self._squared(xp.linalg.svdvals(self._weighted(alpha)[1]))

    def _squared(self, roots: Array) -> tuple[Array, float]:
        xp = namespace(roots)
        noise = max(len(self._rows) * EPS * float(xp.max(roots)), TINY) if len(roots) else TINY
        return xp.where(roots > noise, roots, xp.zeros_like(roots)) ** 2, noise**2

    def frame(self, alpha: Vector, blocks: bool) -> Frame:
        xp = namespace(self._rows)
        rows, weighted = self._weighted(alpha)
        _, roots, basis = xp.linalg.svd(weighted, full_matrices=False)
        values, noise = self._squared(roots)
        turned = [rows[s, :] @ basis.mT for s in self._slices]
        diagonals = xp.stack([xp.mean(part * part, axis=0) for part in turned])
        means = xp.stack([xp.mean(part, axis=0) for part in turned]) if self._centred else None
        full = xp.stack([p.mT @ p / p.shape[0] for p in turned]) if blocks else None
        errors = 4 * EPS * float(xp.max(roots)) * roots if len(roots) else roots
        return Frame(values, noise, errors, diagonals, full, means)


class DenseMoments(MixtureMoments):
    """Moments kept as matrices ``(m, d, d)``, with the directions that no arm has taken out.

    If centred they are covariances, and ``Z_α = Σ α_i (Σ_i + y_i y_iᵀ)`` with ``y_i = ȳ_i − ȳ_α``: a sum
    of positive terms, where second moments less a mean would cancel.
    """

    def __init__(self, moments: Array, means: Array | None) -> None:
        xp = namespace(moments)
        self.size = int(moments.shape[0])
        self._moments, self._means = moments, means
        values, basis = xp.linalg.eigh(self._mixture(np.full(self.size, 1 / self.size))[0])
        held = values > max(moments.shape[1] * EPS * float(xp.max(values)), TINY)
        if not bool(xp.all(held)):
            basis = basis[:, xp.nonzero(held)[0]]
            self._moments = basis.mT @ moments @ basis
            self._means = None if means is None else means @ basis

    def of(self, arms: Sequence[int]) -> DenseMoments:
        xp = namespace(self._moments)
        means = None if self._means is None else xp.stack([self._means[i, :] for i in arms])
        return DenseMoments(xp.stack([self._moments[i, :, :] for i in arms]), means)

    def _mixture(self, alpha: Vector) -> tuple[Array, Array | None]:
        """The mixture's moment and, if centred, the arms' means about its mean."""
        xp = namespace(self._moments)
        weights = like(alpha, self._moments)
        flat = xp.reshape(self._moments, (self.size, -1))
        mixed = xp.reshape(weights @ flat, self._moments.shape[1:])
        if self._means is None:
            return symmetric(mixed), None
        offsets = self._means - weights @ self._means
        return symmetric(mixed + (weights[:, None] * offsets).mT @ offsets), offsets

    def _cleaned(self, values: Array) -> tuple[Array, float]:
        xp = namespace(values)
        noise = max(values.shape[0] * EPS * float(xp.max(values)), TINY) if len(values) else TINY
        return xp.where(values > noise, values, xp.zeros_like(values)), noise

    def spectrum(self, alpha: Vector) -> tuple[Array, float]:
        xp = namespace(self._moments)
        return self._cleaned(xp.linalg.eigvalsh(self._mixture(alpha)[0]))

    def frame(self, alpha: Vector, blocks: bool) -> Frame:
        xp = namespace(self._moments)
        mixed, offsets = self._mixture(alpha)
        raw, basis = xp.linalg.eigh(mixed)
        values, noise = self._cleaned(raw)
        half = self._moments @ basis
        full = basis.mT @ half if blocks else None
        diagonals = xp.sum(basis * half, axis=1)
        diagonals = xp.where(diagonals > 0, diagonals, xp.zeros_like(diagonals))
        errors = xp.full_like(values, 4 * EPS * float(xp.max(values)) if len(values) else 0.0)
        if offsets is None:
            return Frame(values, noise, errors, diagonals, full, None)
        means = offsets @ basis
        if full is not None:
            full = full + means[:, :, None] * means[:, None, :]
        return Frame(values, noise, errors, diagonals + means**2, full, means)


class TraceFunction(ABC):
    """A convex ``f`` of an eigenvalue and its derivatives; f(0) = 0."""

    steep = True
    """Whether f' or f'' is infinite at 0."""

    @abstractmethod
    def total(self, values: Array) -> float:
        """``Σ_k f(λ_k)``."""

    @abstractmethod
    def slope(self, values: Array) -> Array:
        """``f'``."""

    @abstractmethod
    def differences(self, values: Array) -> Array:
        """Divided differences ``h_kl`` of f', ``(r, r)``."""


def divided_differences(values: Array, slope: Array, curvature: Callable[[Array], Array]) -> Array:
    """``(f'(λ_k) − f'(λ_l)) / (λ_k − λ_l)``, or f'' at the midpoint where two are too close for that."""
    xp = namespace(values)
    apart = values[:, None] - values[None, :]
    middle = (values[:, None] + values[None, :]) / 2
    close = xp.abs(apart) <= 1e-4 * middle
    safe = xp.where(close, xp.ones_like(apart), apart)
    return xp.where(close, curvature(middle), (slope[:, None] - slope[None, :]) / safe)


class Entropy(TraceFunction):
    """``λ log λ``."""

    def total(self, values: Array) -> float:
        xp = namespace(values)
        safe = xp.where(values > 0, values, xp.ones_like(values))
        return float(xp.sum(safe * xp.log(safe)))

    def slope(self, values: Array) -> Array:
        return namespace(values).log(values) + 1

    def differences(self, values: Array) -> Array:
        return divided_differences(values, self.slope(values), lambda middle: 1 / middle)


class Power(TraceFunction):
    """``λ^q / (q−1)``."""

    def __init__(self, order: float) -> None:
        self.order = order
        self.steep = order < 2

    def total(self, values: Array) -> float:
        xp = namespace(values)
        safe = xp.where(values > 0, values, xp.ones_like(values))
        powers = xp.where(values > 0, safe**self.order, xp.zeros_like(values))
        return float(xp.sum(powers)) / (self.order - 1)

    def slope(self, values: Array) -> Array:
        return self.order / (self.order - 1) * values ** (self.order - 1)

    def differences(self, values: Array) -> Array:
        order = self.order
        return divided_differences(
            values, self.slope(values), lambda middle: order * middle ** (order - 2)
        )


class Root(TraceFunction):
    """``−2 √λ``."""

    def total(self, values: Array) -> float:
        xp = namespace(values)
        return -2 * float(xp.sum(xp.sqrt(values)))

    def slope(self, values: Array) -> Array:
        return -1 / namespace(values).sqrt(values)

    def differences(self, values: Array) -> Array:
        roots = namespace(values).sqrt(values)
        return 1 / (roots[:, None] * roots[None, :] * (roots[:, None] + roots[None, :]))


class TraceLoss(Loss):
    """``linear·α + constant + Σ f(λ(Z_α))``."""

    def __init__(
        self,
        moments: MixtureMoments,
        function: TraceFunction,
        linear: Vector | None = None,
        constant: float = 0.0,
        scale: float = 1.0,
    ) -> None:
        self.moments = moments
        self.function = function
        self.size = moments.size
        self.linear = np.zeros(self.size) if linear is None else linear
        self.constant = constant
        self.scale = scale
        self.steep = function.steep

    def face(self, arms: Sequence[int]) -> TraceLoss:
        kept = self.moments.of(arms)
        return TraceLoss(kept, self.function, self.linear[list(arms)], self.constant, self.scale)

    def value(self, alpha: Vector, blur: float = 0.0) -> float:
        return self._value(alpha, self.moments.spectrum(alpha)[0])

    def _value(self, alpha: Vector, values: Array) -> float:
        return float(self.linear @ alpha) + self.constant + self.function.total(values)

    def expand(self, alpha: Vector, blur: float = 0.0, hessian: bool = True) -> Expansion:
        frame = self.moments.frame(alpha, hessian)
        xp = namespace(frame.values)
        lifted = xp.where(frame.values > frame.noise, frame.values, frame.noise)
        slope = self.function.slope(lifted)
        touch = self.function.total(lifted) - float(xp.sum(slope * lifted))
        plane = self.linear + self.constant + touch + to_numpy(frame.diagonals @ slope)
        bend = self._hessian(frame, lifted, slope) if hessian else None
        moved = float(xp.sum(xp.abs(slope) * frame.errors))
        noise = moved + 16 * EPS * max(self.scale, abs(touch))
        return Expansion(self._value(alpha, frame.values), plane, bend, noise)

    def _hessian(self, frame: Frame, lifted: Array, slope: Array) -> Array:
        xp = namespace(lifted)
        weighted = frame.blocks * xp.sqrt(self.function.differences(lifted))[None, :, :]
        flat = xp.reshape(weighted, (self.size, -1))
        bend = flat @ flat.mT
        if frame.means is not None:
            bend = bend - 2 * (frame.means * slope[None, :]) @ frame.means.mT
        return to_numpy(symmetric(bend))


class LargestLoss(Loss):
    """``λ_max(C_α)``, not differentiable; its smooth neighbour is ``blur · log Σ exp(λ/blur)``.

    Its plane is ``Tr(W C_i)`` with W the unit-trace softmax of the spectrum, which lies below the
    largest eigenvalue of every mixture.
    """

    smooth = False

    def __init__(self, moments: MixtureMoments) -> None:
        self.moments = moments
        self.size = moments.size

    def face(self, arms: Sequence[int]) -> LargestLoss:
        return LargestLoss(self.moments.of(arms))

    def value(self, alpha: Vector, blur: float = 0.0) -> float:
        values = to_numpy(self.moments.spectrum(alpha)[0])
        top = float(values.max())
        return top + (blur * math.log(np.exp((values - top) / blur).sum()) if blur else 0.0)

    def expand(self, alpha: Vector, blur: float = 0.0, hessian: bool = True) -> Expansion:
        frame = self.moments.frame(alpha, hessian)
        xp = namespace(frame.values)
        top = float(xp.max(frame.values))
        shares = xp.exp((frame.values - top) / max(blur, 1e-15))
        shares = shares / xp.sum(shares)
        plane = to_numpy(frame.diagonals @ shares)
        bend = self._hessian(frame, shares, blur) if hessian else None
        return Expansion(top, plane, bend, 16 * EPS * top)

    def _hessian(self, frame: Frame, shares: Array, blur: float) -> Array:
        xp = namespace(shares)
        means = (frame.diagonals @ shares)[:, None, None]
        blocks = frame.blocks - means * xp.eye(shares.shape[0], device=shares.device)[None, :, :]
        apart = frame.values[:, None] - frame.values[None, :]
        close = xp.abs(apart) <= 1e-3 * blur
        both = (shares[:, None] + shares[None, :]) / (2 * max(blur, 1e-15))
        safe = xp.where(close, xp.ones_like(apart), apart)
        bend = xp.where(close, both, (shares[:, None] - shares[None, :]) / safe)
        flat = xp.reshape(blocks * xp.sqrt(bend)[None, :, :], (self.size, -1))
        return to_numpy(symmetric(flat @ flat.mT))
