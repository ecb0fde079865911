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
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genmix.core.arrays import Array, Vector, like, namespace, symmetric, to_numpy
from genmix.objectives.frames import TINY, Frame, MixtureMoments
from genmix.solvers.loss import EPS, Expansion, Loss


class TraceFunction(ABC):
    """A convex ``f`` of an eigenvalue and its derivatives; f(0) = 0."""

    steep = True
    """Whether f' or f'' is infinite at 0."""

    @abstractmethod
    def total(self, values: Vector) -> float:
        """``Σ_k f(λ_k)``."""

    @abstractmethod
    def slope(self, values: Array) -> Array:
        """``f'``, of an array of any library."""

    @abstractmethod
    def differences(self, values: Array) -> Array:
        """Divided differences ``h_kl`` of f', ``(r, r)``."""

    def slope_near(self, values: Array, change: Array) -> Array | None:
        """``f'(diag(values) + change)`` to second order, if products of matrices give it."""
        return None


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

    def total(self, values: Vector) -> float:
        safe = np.where(values > 0, values, 1.0)
        return float(np.sum(safe * np.log(safe)))

    def slope(self, values: Array) -> Array:
        return namespace(values).log(values) + 1

    def differences(self, values: Array) -> Array:
        return divided_differences(values, self.slope(values), lambda middle: 1 / middle)


class Power(TraceFunction):
    """``λ^q / (q−1)``."""

    def __init__(self, order: float) -> None:
        self.order = order
        self.steep = order < 2

    def total(self, values: Vector) -> float:
        safe = np.where(values > 0, values, 1.0)
        powers = np.where(values > 0, safe**self.order, 0.0)
        return float(np.sum(powers)) / (self.order - 1)

    def slope(self, values: Array) -> Array:
        return self.order / (self.order - 1) * values ** (self.order - 1)

    def differences(self, values: Array) -> Array:
        order = self.order
        return divided_differences(
            values, self.slope(values), lambda middle: order * middle ** (order - 2)
        )


class NearEntropy(Power):
    """``(λ^q − λ) / (q−1)``, which tends to ``λ log λ`` and keeps its digits when q is near 1."""

    def total(self, values: Vector) -> float:
        safe = np.where(values > 0, values, 1.0)
        beyond = self.order - 1
        return float(np.sum(safe * np.expm1(beyond * np.log(safe)))) / beyond

    def slope(self, values: Array) -> Array:
        xp = namespace(values)
        beyond = self.order - 1
        return 1 + self.order / beyond * xp.expm1(beyond * xp.log(values))


class Root(TraceFunction):
    """``−2 √λ``."""

    def total(self, values: Vector) -> float:
        return -2 * float(np.sum(np.sqrt(values)))

    def slope(self, values: Array) -> Array:
        return -1 / namespace(values).sqrt(values)

    def differences(self, values: Array) -> Array:
        roots = namespace(values).sqrt(values)
        return 1 / (roots[:, None] * roots[None, :] * (roots[:, None] + roots[None, :]))

    def slope_near(self, values: Array, change: Array) -> Array:
        # (R + X)² = R² + change gives the root, and the series of its inverse the slope.
        xp = namespace(values)
        roots = xp.sqrt(values)
        sums = roots[:, None] + roots[None, :]
        first = change / sums
        second = first - (first @ first) / sums
        halved = first / roots[:, None]
        bent = second / (roots[:, None] * roots[None, :])
        return bent - (halved @ halved) / roots - xp.diag(1 / roots)


PATIENCE = 0.3
"""Share of the gap that a step may leave before m rotations for a new Hessian are worth their time."""

CHEAP_ROTATIONS = 32
"""Rotations that cost less than one eigendecomposition on a GPU, where products are far cheaper."""

LIFTS = (1e-22, 1e-20, 1e-18, 1e-16, 1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9)
"""Levels, relative to the largest eigenvalue, to which small ones are lifted for further planes."""


class TraceLoss(Loss):
    """``linear·α + constant + Σ f(λ(Z_α))``."""

    squares: float = 0.0
    """The variance of a squared coordinate, in units of λ²: 0 for features of unit length in one direction
    each, as modes are, and 2 for Gaussians."""

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
        self.movable = 0.0
        """The part of the constant that belongs to the loss's size."""
        self.scale = scale
        self.steep = function.steep
        cheap = moments.on_gpu and self.size <= CHEAP_ROTATIONS
        self.patience = 0.0 if cheap else PATIENCE

    def face(self, arms: Sequence[int]) -> TraceLoss:
        kept = self.moments.of(arms)
        face = TraceLoss(kept, self.function, self.linear[list(arms)], self.constant, self.scale)
        face.movable = self.movable
        return face

    def value(self, alpha: Vector, blur: float = 0.0) -> float:
        total = self.function.total(self.moments.spectrum(alpha))
        return float(self.linear @ alpha) + self.constant + total

    def inflation(self, alpha: Vector) -> float:
        # ½ Σ_kl h_kl Var(φ_k φ_l), as if coordinates in the eigenbasis were independent, with
        # Var(φ_k φ_l) = λ_k λ_l off the diagonal: fourth moments are not kept.
        values = self.moments.spectrum(alpha)
        lifted = np.maximum(values, EPS * float(np.max(values, initial=TINY)))
        bend: NDArray[np.float64] = self.function.differences(lifted)
        diagonal = float(np.diag(bend) @ values**2)
        return (float(values @ bend @ values) + (self.squares - 1) * diagonal) / 2

    def expand(self, alpha: Vector, blur: float = 0.0) -> Expansion:
        frame = self.moments.frame(alpha)
        blocks = cache(frame.blocks)
        lifted = np.maximum(frame.values, frame.noise)
        slope: Vector = self.function.slope(lifted)
        touch = self.function.total(lifted) - float(slope @ lifted)
        plane = self.linear + self.constant + touch + frame.weigh(slope)
        total = self.function.total(frame.values)
        noise = float(np.abs(slope) @ frame.errors)
        noise += frame.rounding(int(np.argmin(plane)), slope)
        noise += 16 * EPS * (float(np.abs(self.linear) @ alpha) + abs(self.constant) + abs(touch))
        return Expansion(
            value=float(self.linear @ alpha) + self.constant + total,
            gradient=plane,
            bend=lambda: self._hessian(frame, blocks(), lifted, slope),
            noise=noise,
            unit=abs(float(self.linear @ alpha) + self.movable + total),
            lost=abs(self.function.total(frame.dropped)),
            lower=self._lifted_planes(frame, plane),
            foresee=self._foresight(frame, blocks, lifted) if self.patience == 0 else None,
        )

    def _foresight(
        self, frame: Frame, blocks: Callable[[], Array], lifted: Vector
    ) -> Callable[[Vector], Vector] | None:
        """The gradient nearby in the eigenbasis of here, where products are cheaper than another basis."""
        if type(self.function).slope_near is TraceFunction.slope_near:
            return None

        def foresee(moved: Vector) -> Vector:
            arms = blocks()
            xp = namespace(arms)
            step = like(moved, arms)
            flat = xp.reshape(arms, (self.size, -1))
            change = xp.reshape(step @ flat, arms.shape[1:])
            if frame.means is not None:
                drift = step @ frame.means
                change = change - drift[:, None] * drift[None, :]
            slope = self.function.slope_near(like(lifted, arms), change)
            found = flat @ xp.reshape(slope, (-1,))
            if frame.means is not None:
                found = found - 2 * frame.means @ (slope @ drift)
            gradient: Vector = self.linear + to_numpy(found)
            return gradient

        return foresee

    def _lifted_planes(self, frame: Frame, plane: Vector) -> Any:
        """Planes that touch where the small eigenvalues are lifted further.

        An arm whose best weight is exp(−50) has a slope that no float gets right and a part in the loss
        that none can see; a plane lifted to 1e-12, say, gives away 1e-12 and has a slope of 28.
        """
        if len(frame.values) == 0:
            return None
        top, low = float(frame.values.max()), float(frame.values.min())
        levels = [top * lift for lift in LIFTS]
        if low > levels[-1]:
            return None
        diagonals = frame.diagonals()
        planes = [plane]
        for level in levels:
            lifted = np.where(frame.values > level, frame.values, max(level, frame.noise))
            slope = self.function.slope(lifted)
            touch = self.function.total(lifted) - float(slope @ lifted)
            planes.append(self.linear + self.constant + touch + diagonals @ slope)
        return np.stack(planes)

    def _hessian(
        self, frame: Frame, blocks: Array, lifted: Vector, slope: Vector
    ) -> NDArray[np.float64]:
        xp = namespace(blocks)
        weighted = blocks * xp.sqrt(self.function.differences(like(lifted, blocks)))
        flat = xp.reshape(weighted, (self.size, -1))
        bend = flat @ flat.mT
        if frame.means is not None:
            bend = bend - 2 * (frame.means * like(slope, blocks)) @ frame.means.mT
        hessian: NDArray[np.float64] = to_numpy(symmetric(bend))
        return hessian


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
        values = self.moments.spectrum(alpha)
        top = float(values.max())
        return top + (blur * math.log(np.exp((values - top) / blur).sum()) if blur else 0.0)

    def expand(self, alpha: Vector, blur: float = 0.0) -> Expansion:
        frame = self.moments.frame(alpha)
        top = float(frame.values.max())
        sharp = max(blur, 1e-15)
        shares = np.exp((frame.values - top) / sharp)
        shares = shares / shares.sum()
        plane = frame.weigh(shares)
        noise = 16 * EPS * top + frame.rounding(int(np.argmin(plane)), shares)
        return Expansion(top, plane, lambda: self._hessian(frame, shares, plane, sharp), noise, top)

    def _hessian(
        self, frame: Frame, shares: Vector, plane: Vector, blur: float
    ) -> NDArray[np.float64]:
        blocks = frame.blocks()
        xp = namespace(blocks)
        blocks = blocks - like(plane, blocks)[:, None, None] * like(np.eye(len(shares)), blocks)
        values = frame.values
        apart = values[:, None] - values[None, :]
        close = np.abs(apart) <= 1e-3 * blur
        both = (shares[:, None] + shares[None, :]) / (2 * blur)
        safe = np.where(close, 1.0, apart)
        bend = np.where(close, both, (shares[:, None] - shares[None, :]) / safe)
        flat = xp.reshape(blocks * like(np.sqrt(bend), blocks), (self.size, -1))
        hessian: NDArray[np.float64] = to_numpy(symmetric(flat @ flat.mT))
        return hessian
