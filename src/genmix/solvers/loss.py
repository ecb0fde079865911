"""Convex functions on the simplex of mixtures: value, tangent plane, Hessian, score.

A loss is a snapshot: a function of the weights ``α`` ``(m,)`` given the samples seen so far. Its
gradient is written as the values of a tangent plane at the m vertices: ``gradient·β ≤ loss(β)`` for
every mixture β, with equality at β = α. On the simplex that is the gradient up to a constant, and it
makes the certificate one line: ``gap = value − min(gradient)``. Where a loss has infinite slope the
plane touches a little below it, so that the inequality, and with it the gap, always holds.
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


@dataclass(frozen=True)
class Expansion:
    """A loss around one mixture: value, tangent plane at the vertices ``(m,)``, Hessian ``(m, m)``."""

    value: float
    gradient: Vector
    bend: Callable[[], NDArray[np.float64]]
    """Computes the Hessian, which often is not needed."""
    noise: float
    """How far rounding may have put the value and the plane apart."""
    unit: float
    """The magnitude that a tolerance is relative to: what of the value the weights can change."""
    lost: float = 0.0
    """What directions at the level of rounding, taken as zero, may have added to the loss."""

    lower: NDArray[np.float64] | None = None
    """Other planes ``(k, m)`` below the loss everywhere; they need not touch it at α."""
    foresee: Callable[[Vector], Vector] | None = None
    """Estimates the gradient after a step ``(m,)``, up to a constant, better than the Hessian does."""

    @cached_property
    def hessian(self) -> NDArray[np.float64]:
        return self.bend()

    def ahead(self, moved: Vector) -> Vector:
        """The best estimate of the gradient after a step, up to a constant."""
        if self.foresee is not None:
            return self.foresee(moved)
        estimate: Vector = self.gradient + self.hessian @ moved
        return estimate

    @property
    def planes(self) -> NDArray[np.float64]:
        """All planes below the loss, ``(k, m)`` or ``(1, m)``."""
        return self.gradient[None, :] if self.lower is None else self.lower

    @property
    def gap(self) -> float:
        """Upper bound of ``loss(α) − min loss``: the Frank–Wolfe gap, and the rounding in it."""
        return max(self.value - self.bound, 0.0) + self.noise + self.lost

    @property
    def bound(self) -> float:
        """What no mixture's loss is below, up to rounding: the highest of the planes' minima."""
        return float(np.max(np.min(self.planes, axis=1)))


class Loss(ABC):
    """A convex function of the weights of ``size`` arms."""

    size: int
    scale: float = 1.0
    """Magnitude of the numbers that go into the value, to which its rounding is relative."""
    steep: bool = False
    """Whether slope or curvature is infinite at the boundary of the simplex."""
    smooth: bool = True
    """Whether it is differentiable; if not, ``blur > 0`` asks for a smooth neighbour of it."""
    patience: float = 0.0
    """A Hessian is used again, mended by the steps seen, if the step it gave left at most this share
    of the gap; 0 where a new one costs next to nothing."""

    @abstractmethod
    def value(self, alpha: Vector, blur: float = 0.0) -> float:
        """The loss of a mixture."""

    @abstractmethod
    def expand(self, alpha: Vector, blur: float = 0.0) -> Expansion:
        """Value and derivatives; the value and the plane are those of the loss itself, not blurred."""

    def score(self, alpha: Vector) -> float:
        """What people read: the loss in the units of the objective."""
        return self.value(alpha)

    def inflation(self, alpha: Vector) -> float:
        """n times by how much n samples of a mixture have a larger loss than the mixture itself.

        To first order in 1/n: half of what the curvature makes of one sample's deviation from the
        mixture. 0 where the loss is linear, or where this is not known.
        """
        return 0.0

    def face(self, arms: Sequence[int]) -> Loss:
        """The same loss with weight on these arms only."""
        return FaceLoss(self, arms)

    def singles(self) -> Vector:
        """The loss of every single arm."""
        return np.array([self.value(vertex) for vertex in np.eye(self.size)])


class FaceLoss(Loss):
    """A loss on the mixtures that give no weight to some arms."""

    def __init__(self, loss: Loss, arms: Sequence[int]) -> None:
        self._loss, self._arms = loss, list(arms)
        self.size = len(self._arms)
        self.scale, self.steep, self.smooth = loss.scale, loss.steep, loss.smooth
        self.patience = loss.patience

    def _padded(self, alpha: Vector) -> Vector:
        whole = np.zeros(self._loss.size)
        whole[self._arms] = alpha
        return whole

    def value(self, alpha: Vector, blur: float = 0.0) -> float:
        return self._loss.value(self._padded(alpha), blur)

    def inflation(self, alpha: Vector) -> float:
        return self._loss.inflation(self._padded(alpha))

    def expand(self, alpha: Vector, blur: float = 0.0) -> Expansion:
        here = self._loss.expand(self._padded(alpha), blur)
        grid = np.ix_(self._arms, self._arms)
        plane, lower = here.gradient[self._arms], here.planes[:, self._arms]
        return replace(
            here, gradient=plane, bend=lambda: here.hessian[grid], lower=lower, foresee=None
        )


class LinearLoss(Loss):
    """``slopes·α``."""

    def __init__(self, slopes: Vector) -> None:
        self.slopes = slopes
        self.size = len(slopes)
        self.scale = float(np.max(np.abs(slopes)))

    def value(self, alpha: Vector, blur: float = 0.0) -> float:
        return float(self.slopes @ alpha)

    def expand(self, alpha: Vector, blur: float = 0.0) -> Expansion:
        sizes = np.abs(self.slopes)
        noise = 4 * EPS * float(sizes @ alpha + sizes[np.argmin(self.slopes)])
        return Expansion(self.value(alpha), self.slopes, self._flat, noise, np.ptp(self.slopes))

    def _flat(self) -> NDArray[np.float64]:
        return np.zeros((self.size, self.size))


class MeanLoss(LinearLoss):
    """``sign · θ·α``: the mean of a number over the mixture, which is also its score."""

    def __init__(self, means: Vector, sign: float) -> None:
        super().__init__(sign * means)
        self.means = means

    def score(self, alpha: Vector) -> float:
        return float(self.means @ alpha)


class QuadraticLoss(Loss):
    """``αᵀKα − 2 b·α + c`` with K positive semidefinite.

    ``own``: where K is of mean kernel values, the mean of a sample's value with itself, by arm.
    """

    def __init__(
        self,
        matrix: NDArray[np.float64],
        linear: Vector,
        constant: float,
        own: Vector | None = None,
    ) -> None:
        self.own = own
        self.matrix = (matrix + matrix.T) / 2
        self.linear = linear
        self.constant = constant
        self.size = len(linear)
        self.scale = float(max(np.max(np.abs(matrix)), abs(constant)))

    def value(self, alpha: Vector, blur: float = 0.0) -> float:
        return float(alpha @ self.matrix @ alpha - 2 * self.linear @ alpha) + self.constant

    def inflation(self, alpha: Vector) -> float:
        if self.own is None:
            return 0.0
        return max(float(self.own @ alpha - alpha @ self.matrix @ alpha), 0.0)

    def expand(self, alpha: Vector, blur: float = 0.0) -> Expansion:
        half = self.matrix @ alpha
        plane = 2 * (half - self.linear) - float(alpha @ half) + self.constant
        sizes = np.abs(self.matrix) @ alpha + np.abs(self.linear)
        noise = 16 * EPS * (float(sizes @ alpha + sizes[np.argmin(plane)]) + abs(self.constant))
        value = self.value(alpha)
        return Expansion(value, plane, lambda: 2 * self.matrix, noise, abs(value))


class LogMeanLoss(Loss):
    """``−log(q·α)`` for ``q ≥ 0``; if every q is 0, the constant ``worthless``: no arm is preferred."""

    steep = True

    def __init__(self, means: Vector, worthless: float = 0.0) -> None:
        self.means = means
        self.size = len(means)
        self._worthless = worthless

    def value(self, alpha: Vector, blur: float = 0.0) -> float:
        if not self.means.any():
            return self._worthless
        with np.errstate(divide="ignore"):
            return float(-np.log(self.means @ alpha))

    def expand(self, alpha: Vector, blur: float = 0.0) -> Expansion:
        if not self.means.any():
            flat = np.zeros((self.size, self.size))
            return Expansion(self._worthless, flat[0], lambda: flat, 0.0, 0.0)
        # Where every arm in use has quality 0 the value is infinite; the plane is taken just inside.
        mean = max(float(self.means @ alpha), 1e-12 * float(self.means.max()))
        slope = self.means / mean
        plane = 1 - np.log(mean) - slope
        unit = max(1.0, abs(float(np.log(mean))))
        bend = np.outer(slope, slope)
        return Expansion(self.value(alpha), plane, lambda: bend, 16 * EPS * unit, unit)

    def face(self, arms: Sequence[int]) -> LogMeanLoss:
        return LogMeanLoss(self.means[list(arms)], np.inf if self.means.any() else self._worthless)


class PooledLoss(Loss):
    """One mixture of another loss, seen as a single arm."""

    size = 1

    def __init__(self, loss: Loss, shares: Vector) -> None:
        self._loss, self._shares = loss, shares
        self.scale = loss.scale

    def value(self, alpha: Vector, blur: float = 0.0) -> float:
        return self._loss.value(self._shares, blur)

    def expand(self, alpha: Vector, blur: float = 0.0) -> Expansion:
        value = self.value(alpha)
        return Expansion(value, np.array([value]), lambda: np.zeros((1, 1)), 0.0, abs(value))

    def score(self, alpha: Vector) -> float:
        return self._loss.score(self._shares)


class SumLoss(Loss):
    """``Σ_k w_k loss_k`` with weights that keep it convex."""

    def __init__(self, terms: Sequence[tuple[float, Loss]]) -> None:
        self.terms = tuple(terms)
        self.size = terms[0][1].size
        self.scale = sum(abs(w) * term.scale for w, term in terms)
        self.steep = any(term.steep for _, term in terms)
        self.smooth = all(term.smooth for _, term in terms)
        self.patience = max(term.patience for _, term in terms)

    def value(self, alpha: Vector, blur: float = 0.0) -> float:
        return sum(w * term.value(alpha, blur) for w, term in self.terms)

    def inflation(self, alpha: Vector) -> float:
        return sum(w * term.inflation(alpha) for w, term in self.terms)

    def expand(self, alpha: Vector, blur: float = 0.0) -> Expansion:
        parts = [(w, term.expand(alpha, blur)) for w, term in self.terms]
        value = sum(w * part.value for w, part in parts)
        plane: Any = sum(w * part.gradient for w, part in parts)
        noise = sum(abs(w) * part.noise for w, part in parts)

        def bend() -> Any:
            return sum(w * part.hessian for w, part in parts)

        unit = sum(abs(w) * part.unit for w, part in parts)
        lost = sum(abs(w) * part.lost for w, part in parts)
        lower: Any = sum(w * part.planes for w, part in parts)

        def foresee(moved: Vector) -> Any:
            return sum(w * part.ahead(moved) for w, part in parts)

        known = any(part.foresee is not None for _, part in parts)
        return Expansion(value, plane, bend, noise, unit, lost, lower, foresee if known else None)

    def face(self, arms: Sequence[int]) -> SumLoss:
        return SumLoss([(w, term.face(arms)) for w, term in self.terms])


class SliceLoss(Loss):
    """A loss on the mixtures that give one arm a fixed weight: a function of the others' shares."""

    def __init__(self, loss: Loss, arm: int, weight: float) -> None:
        self._loss = loss
        self._corners: NDArray[np.float64] = (1 - weight) * np.delete(np.eye(loss.size), arm, 0)
        self._corners[:, arm] = weight
        self.size = loss.size - 1
        self.scale, self.steep, self.smooth = loss.scale, loss.steep, loss.smooth
        self.patience = loss.patience

    def value(self, alpha: Vector, blur: float = 0.0) -> float:
        return self._loss.value(alpha @ self._corners, blur)

    def expand(self, alpha: Vector, blur: float = 0.0) -> Expansion:
        here, corners = self._loss.expand(alpha @ self._corners, blur), self._corners
        return replace(
            here,
            gradient=corners @ here.gradient,
            bend=lambda: corners @ here.hessian @ corners.T,
            lower=here.planes @ corners.T,
            foresee=None,
        )
