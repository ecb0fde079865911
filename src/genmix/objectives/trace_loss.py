"""Convex trace functions of a mixture's second moment, the common form of Vendi and Fréchet losses.

    L(α) = linear·α + constant + Σ_k f(λ_k(Z_α)),    Z_α = Σ_i α_i T_i − [centered] ȳ_α ȳ_αᵀ

with ``T_i`` the second moment of arm i's rows and ``ȳ_α = Σ α_i ȳ_i``. In the eigenbasis of ``Z_α``,
with ``B_i`` the (centered) moment of arm i there,

    plane_i = linear_i + constant + Σ_k [f(λ_k) − λ_k f'(λ_k)] + Σ_k f'(λ_k) B_i,kk
    H_ij    = Σ_kl h_kl B_i,kl B_j,kl  (− 2 y_iᵀ f'(Z) y_j if centered),   h_kl = (f'(λ_k)−f'(λ_l))/(λ_k−λ_l)

The plane lies below L at *every* mixture for any positive λ, not only for the eigenvalues themselves,
because ``f`` is convex and a centered moment is at most the moment around ``ȳ_α``. Eigenvalues below the
rounding level can therefore be lifted to it, and the certificate is valid even where f' is infinite.
"""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Self

import numpy as np

from genmix.core.arrays import Array, Vector, like, namespace, symmetric, to_numpy
from genmix.objectives.eigenbasis import MANY_ARMS, TINY, Eigenbasis, MixtureMoments
from genmix.objectives.trace_functions import TraceFunction
from genmix.solvers.loss import EPS, Expansion, Loss, Matrix
from genmix.solvers.solve import FINAL_SMOOTHING

HESSIAN_REUSE_RATIO = 0.3
"""Fraction of the gap that a step may leave before a new Hessian is worth computing."""

MANY_ARMS_REUSE_RATIO = 0.8
"""The same with many arms, where a Hessian costs as much as many steps."""

CHEAP_ROTATIONS = 32
"""Number of rotations that cost less than one eigendecomposition on a GPU."""

SLICE = 4_000_000
"""Number of entries of a slice of the blocks of all arms."""

LIFTS = (1e-22, 1e-20, 1e-18, 1e-16, 1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9)
"""Levels, relative to the largest eigenvalue, to which small eigenvalues are lifted."""


class TraceLoss(Loss):
    """A loss of the form ``linear·α + constant + Σ f(λ(Z_α))``."""

    square_variance: float = 0.0
    """Variance of a squared coordinate in units of λ²: 2 for Gaussians, 0 if its magnitude is constant."""

    def __init__(
        self,
        moments: MixtureMoments,
        function: TraceFunction,
        linear: Vector | None = None,
        constant: float = 0.0,
        scale: float = 1.0,
    ) -> None:
        self.function = function
        self.constant = constant
        self.weight_dependent = 0.0
        """The part of the constant that counts toward the magnitude of the loss."""
        self.scale = scale
        self.singular_boundary = function.singular
        self._set_moments(moments, np.zeros(moments.size) if linear is None else linear)

    def _set_moments(self, moments: MixtureMoments, linear: Vector) -> None:
        self.moments, self.linear, self.size = moments, linear, moments.size
        is_cheap = moments.on_gpu and self.size <= CHEAP_ROTATIONS
        self.hessian_reuse_ratio = 0.0 if is_cheap else HESSIAN_REUSE_RATIO
        if self.size > MANY_ARMS:
            self.hessian_reuse_ratio = MANY_ARMS_REUSE_RATIO

    def face(self, arms: Sequence[int]) -> Self:
        face = copy.copy(self)
        face._set_moments(self.moments.of(arms), self.linear[list(arms)])
        return face

    def value(self, alpha: Vector, smoothing: float = 0.0) -> float:
        total = self.function.total(self.moments.spectrum(alpha))
        return float(self.linear @ alpha) + self.constant + total

    @abstractmethod
    def score(self, alpha: Vector) -> float: ...

    def inflation(self, alpha: Vector) -> float:
        # ½ Σ_kl h_kl Var(φ_k φ_l). Fourth moments are not stored, so treat the coordinates in the
        # eigenbasis as independent: Var(φ_k φ_l) = λ_k λ_l off the diagonal.
        values = self.moments.spectrum(alpha)
        lifted = np.maximum(values, EPS * float(np.max(values, initial=TINY)))
        curvature: Matrix = self.function.differences(lifted)
        diagonal = float(np.diag(curvature) @ values**2)
        return (float(values @ curvature @ values) + (self.square_variance - 1) * diagonal) / 2

    def expand(self, alpha: Vector, smoothing: float = 0.0) -> Expansion:
        basis = self.moments.eigenbasis(alpha)
        blocks = cache(basis.blocks)
        lifted = np.maximum(basis.values, basis.noise)
        slope: Vector = self.function.slope(lifted)
        touch = self.function.total(lifted) - float(slope @ lifted)
        plane = self.linear + self.constant + touch + basis.weigh(slope)
        total = self.function.total(basis.values)
        noise = float(np.abs(slope) @ basis.errors)
        noise += basis.rounding(int(np.argmin(plane)), slope)
        noise += 16 * EPS * (float(np.abs(self.linear) @ alpha) + abs(self.constant) + abs(touch))
        return Expansion(
            value=float(self.linear @ alpha) + self.constant + total,
            gradient=plane,
            compute_hessian=lambda: self._hessian(basis, blocks(), lifted, slope),
            noise=noise,
            magnitude=abs(float(self.linear @ alpha) + self.weight_dependent + total),
            truncation=abs(self.function.total(basis.dropped))
            + basis.moment_error * float(np.sum(np.abs(slope))),
            lower_planes=self._lifted_planes(basis, plane),
            gradient_predictor=self._gradient_predictor(basis, blocks, lifted),
            arm_noise=lambda: 16 * EPS * np.abs(self.linear) + roundings(basis, slope, self.size),
            compute_hessian_at=lambda points: self._hessian_at(basis, points, lifted, slope),
        )

    def sample_plane(self, alpha: Vector, rows: Array | None) -> Vector:
        """Return the plane's values for single rows, in the coordinates of the moments; see ``Tally``.

        Pass None for the rows that the moments are stored as.
        """
        basis = self.moments.eigenbasis(alpha)
        lifted = np.maximum(basis.values, basis.noise)
        slope: Vector = self.function.slope(lifted)
        touch = self.function.total(lifted) - float(slope @ lifted)
        plane: Vector = self.constant + touch + basis.squares(rows) @ slope
        return plane

    def _gradient_predictor(
        self, basis: Eigenbasis, blocks: Callable[[], Array], lifted: Vector
    ) -> Callable[[Vector], Vector] | None:
        """Return a predictor of nearby gradients in this eigenbasis, if cheaper than computing a new one."""
        if self.hessian_reuse_ratio or not self.function.has_slope_near:
            return None

        def predict(step: Vector) -> Vector:
            arms = blocks()
            xp = namespace(arms)
            moved = like(step, arms)
            flat = xp.reshape(arms, (self.size, -1))
            change = xp.reshape(moved @ flat, arms.shape[1:])
            if basis.means is not None:
                drift = moved @ basis.means
                change = change - drift[:, None] * drift[None, :]
            slope = self.function.slope_near(like(lifted, arms), change)
            found = flat @ xp.reshape(slope, (-1,))
            if basis.means is not None:
                found = found - 2 * basis.means @ (slope @ drift)
            gradient: Vector = self.linear + to_numpy(found)
            return gradient

        return predict

    def _lifted_planes(self, basis: Eigenbasis, plane: Vector) -> Any:
        """Return further lower planes, with the small eigenvalues lifted to higher levels.

        If the best weight of an arm is about exp(−50), floats cannot represent its slope or its part of the
        loss. A plane lifted to 1e-12 is only about 1e-12 lower and has a slope of 28.
        """
        if len(basis.values) == 0:
            return None
        top, low = float(basis.values.max()), float(basis.values.min())
        levels = [top * lift for lift in LIFTS]
        if low > levels[-1]:
            return None
        diagonals = basis.diagonals()
        planes = [plane]
        for level in levels:
            lifted = np.where(basis.values > level, basis.values, max(level, basis.noise))
            slope = self.function.slope(lifted)
            touch = self.function.total(lifted) - float(slope @ lifted)
            planes.append(self.linear + self.constant + touch + diagonals @ slope)
        return np.stack(planes)

    def _hessian(self, basis: Eigenbasis, blocks: Array, lifted: Vector, slope: Vector) -> Matrix:
        xp = namespace(blocks)
        weighted = blocks * xp.sqrt(self.function.differences(like(lifted, blocks)))
        flat = xp.reshape(weighted, (self.size, -1))
        hessian = flat @ flat.mT
        if basis.means is not None:
            hessian = hessian - 2 * (basis.means * like(slope, blocks)) @ basis.means.mT
        found: Matrix = to_numpy(symmetric(hessian))
        return found

    def _hessian_at(
        self, basis: Eigenbasis, points: Matrix, lifted: Vector, slope: Vector
    ) -> Matrix:
        """Return ``points @ hessian @ points.T`` from slices of the blocks, which takes little memory."""
        roots: Matrix = np.sqrt(self.function.differences(lifted))
        blocks = [basis.combined(point) for point in points]
        count, size = len(points), len(lifted)
        width = max(SLICE // max(count * size, 1), 1)
        found = np.zeros((count, count))
        # One buffer for all slices, because the first use of new memory takes long.
        entry = blocks[0](0, 1)
        xp, entries = namespace(entry), count * min(width, size) * size
        buffer = xp.empty(entries, dtype=xp.float64, device=entry.device)
        for first in range(0, size, width):
            last = min(first + width, size)
            weights = roots[first:last, :last].copy()
            weights[:, :first] *= math.sqrt(2)  # the blocks are symmetric
            flat = buffer[: count * weights.size].reshape(count, *weights.shape)
            scale = like(weights, buffer)
            for point, block in enumerate(blocks):
                flat[point, :, :] = block(first, last) * scale
            flat = flat.reshape(count, -1)
            found += to_numpy(flat @ flat.mT)
        if basis.means is not None:
            means = points @ to_numpy(basis.means)
            found -= 2 * (means * slope) @ means.T
        return found


class LargestEigenvalueLoss(Loss):
    """The loss ``λ_max(C_α)``, which is not differentiable; smoothed, it is ``s log Σ exp(λ/s)``.

    Its plane is ``Tr(W C_i)``, where W is the softmax of the spectrum and has unit trace. The plane lies
    below the largest eigenvalue of every mixture. The score is ``1/λ_max``.
    """

    smooth = False

    def __init__(self, moments: MixtureMoments) -> None:
        self.moments = moments
        self.size = moments.size

    def face(self, arms: Sequence[int]) -> LargestEigenvalueLoss:
        return LargestEigenvalueLoss(self.moments.of(arms))

    def value(self, alpha: Vector, smoothing: float = 0.0) -> float:
        values = self.moments.spectrum(alpha)
        top = float(values.max())
        if not smoothing:
            return top
        return top + smoothing * math.log(np.exp((values - top) / smoothing).sum())

    def score(self, alpha: Vector) -> float:
        return 1 / self.value(alpha)

    def expand(self, alpha: Vector, smoothing: float = 0.0) -> Expansion:
        basis = self.moments.eigenbasis(alpha)
        top = float(basis.values.max())
        smoothing = max(smoothing, 1e-15)
        shares = _softmax(basis.values / smoothing)
        plane = basis.weigh(shares)
        noise = 16 * EPS * top + basis.rounding(int(np.argmin(plane)), shares)
        noise += 2 * basis.moment_error
        return Expansion(
            top,
            plane,
            lambda: self._hessian(basis, shares, plane, smoothing),
            noise,
            top,
            arm_noise=lambda: roundings(basis, shares, self.size),
        )

    def sample_plane(self, alpha: Vector, rows: Array | None) -> Vector:
        """Return the plane's values for single rows; see ``Tally``."""
        basis = self.moments.eigenbasis(alpha)
        plane: Vector = basis.squares(rows) @ _softmax(basis.values / FINAL_SMOOTHING)
        return plane

    def _hessian(
        self, basis: Eigenbasis, shares: Vector, plane: Vector, smoothing: float
    ) -> Matrix:
        blocks = basis.blocks()
        xp = namespace(blocks)
        blocks = blocks - like(plane, blocks)[:, None, None] * like(np.eye(len(shares)), blocks)
        apart = basis.values[:, None] - basis.values[None, :]
        close = np.abs(apart) <= 1e-3 * smoothing
        both = (shares[:, None] + shares[None, :]) / (2 * smoothing)
        safe = np.where(close, 1.0, apart)
        curvature = np.where(close, both, (shares[:, None] - shares[None, :]) / safe)
        flat = xp.reshape(blocks * like(np.sqrt(curvature), blocks), (self.size, -1))
        hessian: Matrix = to_numpy(symmetric(flat @ flat.mT))
        return hessian


def roundings(basis: Eigenbasis, slope: Vector, size: int) -> Vector:
    """Return bounds on the rounding errors of ``weigh(slope)`` for all arms."""
    return np.array([basis.rounding(arm, slope) for arm in range(size)])


def _softmax(values: Vector) -> Vector:
    shares: Vector = np.exp(values - values.max())
    shares /= shares.sum()
    return shares
