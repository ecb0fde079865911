"""Convex losses as functions of the mixture weights: value, tangent plane, Hessian, score.

A loss is a snapshot: a function of the weights ``α`` ``(m,)`` for the samples seen so far. Its
``gradient`` contains the values of a tangent plane at the m vertices: ``gradient·β ≤ loss(β)`` for every
mixture β, with equality at β = α. On the simplex, this equals the gradient up to a constant, and the
certificate is simply ``gap = value − min(gradient)``. Where the slope of a loss is infinite, the plane
lies slightly below the loss, so the inequality and the gap are always valid.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genmix.core.arrays import Vector

EPS = float(np.finfo(float).eps)

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Expansion:
    """Expansion of a loss at one mixture: value, tangent plane ``(m,)`` and Hessian ``(m, m)``."""

    value: float
    gradient: Vector
    compute_hessian: Callable[[], Matrix]
    """Computes the Hessian on demand, because it is often not needed."""
    noise: float
    """Bound on the rounding error of the value minus the plane."""
    magnitude: float
    """The part of the value that depends on the weights; tolerances are relative to it."""
    truncation: float = 0.0
    """Bound on the loss in directions that were set to zero because they are at rounding level."""

    lower_planes: Matrix | None = None
    """Further planes ``(k, m)`` that lie below the loss everywhere but need not touch it at α."""
    gradient_predictor: Callable[[Vector], Vector] | None = None
    """Predicts the gradient after a step ``(m,)``, up to a constant, more accurately than the Hessian."""

    arm_noise: Callable[[], Vector] | None = None
    """Bounds on the rounding errors of the plane at each arm ``(m,)``; None if ``noise`` is one for all."""
    region_bound: float | None = None
    """Lower bound on the loss over a region, from the planes; None for the simplex."""

    compute_hessian_at: Callable[[Matrix], Matrix] | None = None
    """Computes ``points @ hessian @ points.T`` if that is cheaper than the Hessian."""

    @cached_property
    def hessian(self) -> Matrix:
        return self.compute_hessian()

    def hessian_at(self, points: Matrix) -> Matrix:
        """Return ``points @ hessian @ points.T``, the Hessian of mixtures of points ``(k, m)``."""
        if self.compute_hessian_at is not None:
            return self.compute_hessian_at(points)
        found: Matrix = points @ self.hessian @ points.T
        return found

    def predict_gradient(self, step: Vector) -> Vector:
        """Return the best estimate of the gradient after a step, up to a constant."""
        if self.gradient_predictor is not None:
            return self.gradient_predictor(step)
        estimate: Vector = self.gradient + self.hessian @ step
        return estimate

    def noise_of_arms(self) -> Vector:
        """Return bounds on the rounding errors of the plane at each arm."""
        return (
            np.full_like(self.gradient, self.noise) if self.arm_noise is None else self.arm_noise()
        )

    @property
    def planes(self) -> Matrix:
        """All known planes below the loss, ``(k, m)`` or ``(1, m)``."""
        return self.gradient[None, :] if self.lower_planes is None else self.lower_planes

    @cached_property
    def gap(self) -> float:
        """Upper bound on ``loss(α) − min loss``: the Frank–Wolfe gap plus its rounding error."""
        return max(self.value - self.bound, 0.0) + self.noise + self.truncation

    @cached_property
    def bound(self) -> float:
        """Lower bound on the loss of every mixture, up to rounding: the maximum of the planes' minima."""
        if self.region_bound is not None:
            return self.region_bound
        if self.lower_planes is None:
            return float(self.gradient.min())
        return float(np.max(np.min(self.planes, axis=1)))


class Loss(ABC):
    """A convex function of the weights of ``size`` arms."""

    size: int
    scale: float = 1.0
    """Magnitude of the numbers from which the value is computed; rounding errors are relative to it."""
    singular_boundary: bool = False
    """Whether the slope or the curvature is infinite at the boundary of the simplex."""
    smooth: bool = True
    """Whether the loss is differentiable; if not, ``smoothing > 0`` selects a smooth approximation."""
    concave_part: Matrix | None = None
    """A positive semidefinite N if the reported loss is the nonconvex ``L(α) − αᵀNα``; L is this loss."""
    hessian_reuse_ratio: float = 0.0
    """Reuse a Hessian (with a quasi-Newton update) if its step left at most this fraction of the gap.

    It is 0 if computing a new Hessian is cheap.
    """

    @abstractmethod
    def value(self, alpha: Vector, smoothing: float = 0.0) -> float:
        """Return the loss of a mixture."""

    @abstractmethod
    def expand(self, alpha: Vector, smoothing: float = 0.0) -> Expansion:
        """Return the value and the derivatives at a mixture.

        ``smoothing`` affects only the Hessian and the choice of the plane. The value is that of the
        unsmoothed loss, and the plane lies below it.
        """

    def reported(self, alpha: Vector) -> float:
        """Return the loss that is reported, which differs from the value only if it is not convex."""
        value = self.value(alpha)
        return value if self.concave_part is None else value - concave(self.concave_part, alpha)

    @abstractmethod
    def score(self, alpha: Vector) -> float:
        """Return the score of a mixture: the loss in the units of the objective."""

    def score_details(self, alpha: Vector) -> dict[str, Any]:
        """Return further numbers to report with the score."""
        return {}

    def inflation(self, alpha: Vector) -> float:
        """Return n times the expected excess loss of n samples relative to the mixture they come from.

        To first order in 1/n, this is half the trace of the loss's curvature times the covariance of one
        sample. It is 0 if the loss is linear or the value is unknown.
        """
        return 0.0

    def face(self, arms: Sequence[int]) -> Loss:
        """Return the same loss as a function of the weights of these arms only."""
        return FaceLoss(self, arms)

    def tilted(self, bonus: Vector) -> Loss:
        """Return the loss minus ``bonus·α``."""
        return SumLoss([(1.0, self), (1.0, LinearLoss(-bonus))])

    def singles(self) -> Vector:
        """Return the loss of each arm alone."""
        return np.array([self.reported(vertex) for vertex in np.eye(self.size)])


def concave(part: Matrix, alpha: Vector) -> float:
    """Return ``αᵀNα``, the amount by which a nonconvex loss lies below its convex part."""
    return float(alpha @ part @ alpha)


class RestrictedLoss(Loss):
    """A loss restricted to mixtures of some points ``(k, m)`` of the simplex: ``L(α @ points)``."""

    def __init__(self, loss: Loss, points: Matrix) -> None:
        self._loss, self._points = loss, points
        self.size = len(points)
        self.scale, self.smooth = loss.scale, loss.smooth
        self.singular_boundary = loss.singular_boundary
        self.hessian_reuse_ratio = loss.hessian_reuse_ratio
        if loss.concave_part is not None:
            self.concave_part = points @ loss.concave_part @ points.T

    def value(self, alpha: Vector, smoothing: float = 0.0) -> float:
        return self._loss.value(alpha @ self._points, smoothing)

    def score(self, alpha: Vector) -> float:
        return self._loss.score(alpha @ self._points)

    def score_details(self, alpha: Vector) -> dict[str, Any]:
        return self._loss.score_details(alpha @ self._points)

    def inflation(self, alpha: Vector) -> float:
        return self._loss.inflation(alpha @ self._points)

    def expand(self, alpha: Vector, smoothing: float = 0.0) -> Expansion:
        here = self._loss.expand(alpha @ self._points, smoothing)
        return replace(
            here,
            gradient=self._at_points(here.gradient),
            compute_hessian=lambda: self._hessian(here),
            lower_planes=self._at_points(here.planes),
            gradient_predictor=None,
            arm_noise=lambda: self._at_points(here.noise_of_arms()),
            compute_hessian_at=lambda points: self._hessian_at(here, points),
        )

    def _hessian(self, here: Expansion) -> Matrix:
        found: Matrix = self._at_points(self._at_points(here.hessian).T)
        return found

    def _hessian_at(self, here: Expansion, points: Matrix) -> Matrix:
        return here.hessian_at(points @ self._points)

    def _at_points(self, planes: Any) -> Any:
        """Convert values ``(..., m)`` of linear functions at the vertices to values at the points."""
        return planes @ self._points.T


class FaceLoss(RestrictedLoss):
    """A loss restricted to mixtures in which some arms have weight 0."""

    def __init__(self, loss: Loss, arms: Sequence[int]) -> None:
        super().__init__(loss, np.eye(loss.size)[list(arms)])
        self._arms = list(arms)

    def _at_points(self, planes: Any) -> Any:
        return planes[
            ..., self._arms
        ]  # a product would turn infinite slopes of other arms into NaN


class SliceLoss(RestrictedLoss):
    """A loss restricted to mixtures in which one arm has a fixed weight."""

    def __init__(self, loss: Loss, arm: int, weight: float) -> None:
        points = (1 - weight) * np.delete(np.eye(loss.size), arm, 0)
        points[:, arm] = weight
        super().__init__(loss, points)


class LinearLoss(Loss):
    """The linear loss ``slopes·α``."""

    def __init__(self, slopes: Vector) -> None:
        self.slopes = slopes
        self.size = len(slopes)
        self.scale = float(np.max(np.abs(slopes)))

    def value(self, alpha: Vector, smoothing: float = 0.0) -> float:
        return float(self.slopes @ alpha)

    def score(self, alpha: Vector) -> float:
        return self.value(alpha)

    def expand(self, alpha: Vector, smoothing: float = 0.0) -> Expansion:
        sizes = np.abs(self.slopes)
        noise = 4 * EPS * float(sizes @ alpha + sizes[np.argmin(self.slopes)])
        zeros = np.zeros((self.size, self.size))
        return Expansion(
            self.value(alpha),
            self.slopes,
            lambda: zeros,
            noise,
            float(np.ptp(self.slopes)),
            arm_noise=lambda: 4 * EPS * sizes,
        )


class MeanLoss(LinearLoss):
    """The linear loss ``sign · θ·α``, whose score is the mean ``θ·α``."""

    def __init__(self, means: Vector, sign: float) -> None:
        super().__init__(sign * means)
        self.means = means

    def score(self, alpha: Vector) -> float:
        return float(self.means @ alpha)


class QuadraticLoss(Loss):
    """The quadratic loss ``αᵀKα − 2 b·α + c`` with K positive semidefinite.

    If K contains mean kernel values, ``own`` ``(m,)`` is the mean of k(x, x) over each arm's samples.
    ``concave_part`` is N if the loss to report is ``αᵀ(K−N)α − 2 b·α + c``, which is not convex.
    """

    def __init__(
        self,
        matrix: Matrix,
        linear: Vector,
        constant: float,
        own: Vector | None = None,
        concave_part: Matrix | None = None,
    ) -> None:
        self.own, self.concave_part = own, concave_part
        self.matrix = (matrix + matrix.T) / 2
        self.linear = linear
        self.constant = constant
        self.size = len(linear)
        self.scale = float(max(np.max(np.abs(matrix)), abs(constant)))

    def value(self, alpha: Vector, smoothing: float = 0.0) -> float:
        return self._value(alpha, self.matrix @ alpha)

    def _value(self, alpha: Vector, product: Vector) -> float:
        """Return the loss, with the product Kα known."""
        return float(alpha @ product - 2 * (self.linear @ alpha)) + self.constant

    def score(self, alpha: Vector) -> float:
        return self.reported(alpha)

    def tilted(self, bonus: Vector) -> QuadraticLoss:
        linear = self.linear + bonus / 2
        return QuadraticLoss(self.matrix, linear, self.constant, self.own, self.concave_part)

    def inflation(self, alpha: Vector) -> float:
        if self.own is None:
            return 0.0
        return max(float(self.own @ alpha - alpha @ self.matrix @ alpha), 0.0)

    def expand(self, alpha: Vector, smoothing: float = 0.0) -> Expansion:
        product = self.matrix @ alpha
        plane = 2 * (product - self.linear) - float(alpha @ product) + self.constant
        sizes = np.abs(self.matrix) @ alpha + np.abs(self.linear)
        noise = 16 * EPS * (float(sizes @ alpha + sizes[np.argmin(plane)]) + abs(self.constant))
        value = self._value(alpha, product)
        return Expansion(
            value,
            plane,
            lambda: 2 * self.matrix,
            noise,
            abs(value),
            arm_noise=lambda: 16 * EPS * sizes,
        )


class LogMeanLoss(Loss):
    """The loss ``−log(q·α)`` for ``q ≥ 0``.

    If every q is 0, the loss is the constant ``value_if_zero``, so no arm is preferred. The score is
    ``q·α``.
    """

    singular_boundary = True

    def __init__(self, means: Vector, value_if_zero: float = 0.0) -> None:
        self.means = means
        self.size = len(means)
        self._value_if_zero = value_if_zero

    def value(self, alpha: Vector, smoothing: float = 0.0) -> float:
        if not self.means.any():
            return self._value_if_zero
        with np.errstate(divide="ignore"):
            return float(-np.log(self.means @ alpha))

    def score(self, alpha: Vector) -> float:
        return float(self.means @ alpha)

    def expand(self, alpha: Vector, smoothing: float = 0.0) -> Expansion:
        if not self.means.any():
            zeros = np.zeros((self.size, self.size))
            return Expansion(self._value_if_zero, zeros[0], lambda: zeros, 0.0, 0.0)
        # If every arm with positive weight has quality 0, the value is infinite; use a plane nearby.
        mean = max(float(self.means @ alpha), 1e-12 * float(self.means.max()))
        slope = self.means / mean
        plane = 1 - np.log(mean) - slope
        magnitude = max(1.0, abs(float(np.log(mean))))
        hessian = np.outer(slope, slope)
        return Expansion(self.value(alpha), plane, lambda: hessian, 16 * EPS * magnitude, magnitude)

    def face(self, arms: Sequence[int]) -> LogMeanLoss:
        value_if_zero = np.inf if self.means.any() else self._value_if_zero
        return LogMeanLoss(self.means[list(arms)], value_if_zero)


class SumLoss(Loss):
    """The weighted sum ``Σ_k w_k loss_k``, with weights that keep it convex.

    A sum has no natural units, so its score equals its value.
    """

    def __init__(self, terms: Sequence[tuple[float, Loss]]) -> None:
        self.terms = tuple(terms)
        self.size = terms[0][1].size
        self.scale = sum(abs(w) * term.scale for w, term in terms)
        self.singular_boundary = any(term.singular_boundary for _, term in terms)
        self.smooth = all(term.smooth for _, term in terms)
        self.hessian_reuse_ratio = max(term.hessian_reuse_ratio for _, term in terms)
        parts = [w * term.concave_part for w, term in terms if term.concave_part is not None]
        if parts:
            self.concave_part = np.sum(parts, axis=0)

    def value(self, alpha: Vector, smoothing: float = 0.0) -> float:
        return sum(w * term.value(alpha, smoothing) for w, term in self.terms)

    def score(self, alpha: Vector) -> float:
        return self.reported(alpha)

    def inflation(self, alpha: Vector) -> float:
        return sum(w * term.inflation(alpha) for w, term in self.terms)

    def expand(self, alpha: Vector, smoothing: float = 0.0) -> Expansion:
        parts = [(w, term.expand(alpha, smoothing)) for w, term in self.terms]

        def predict(step: Vector) -> Any:
            return sum(w * part.predict_gradient(step) for w, part in parts)

        has_predictor = any(part.gradient_predictor is not None for _, part in parts)
        gradient: Any = sum(w * part.gradient for w, part in parts)
        lower: Any = sum(w * part.planes for w, part in parts)
        return Expansion(
            value=sum(w * part.value for w, part in parts),
            gradient=gradient,
            compute_hessian=lambda: sum(w * part.hessian for w, part in parts),  # type: ignore[arg-type, return-value]
            noise=sum(abs(w) * part.noise for w, part in parts),
            magnitude=sum(abs(w) * part.magnitude for w, part in parts),
            truncation=sum(abs(w) * part.truncation for w, part in parts),
            lower_planes=lower,
            gradient_predictor=predict if has_predictor else None,
            arm_noise=lambda: sum(abs(w) * part.noise_of_arms() for w, part in parts),  # type: ignore[arg-type, return-value]
            compute_hessian_at=lambda points: sum(w * part.hessian_at(points) for w, part in parts),  # type: ignore[arg-type, return-value]
        )

    def face(self, arms: Sequence[int]) -> SumLoss:
        return self.mapped(lambda term: term.face(arms))

    def mapped(self, change: Callable[[Loss], Loss]) -> SumLoss:
        """Return the sum with every term changed."""
        return SumLoss([(w, change(term)) for w, term in self.terms])
