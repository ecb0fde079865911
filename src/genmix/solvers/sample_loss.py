"""Convex losses of weighted samples, for choosing a subset: every sample is an arm of its own.

A loss is a function of a *moment*, a statistic that is linear in the weights, e.g. the second moment of
features. A moment is an array, a number, or a list of moments. The loss of a subset S of k samples is that
of the weights ``1/k`` on S.

As for ``Loss``, gradients are given as the values ``(N,)`` of a *plane* at the samples, with ``plane·w ≤
loss(w)`` for all weights w on the simplex. The mean of the plane over its k smallest values is therefore
a lower bound on the loss of every subset of k samples.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from genmix.core.arrays import Vector
from genmix.solvers.loss import EPS
from genmix.solvers.subsets import Indices

Moment = Any


def combine(a: float, x: Moment, b: float, y: Moment) -> Moment:
    """Return ``a x + b y`` for two moments."""
    if isinstance(x, list):
        return [combine(a, one, b, other) for one, other in zip(x, y, strict=True)]
    return a * x + b * y


@dataclass(frozen=True)
class SampleExpansion:
    """A loss at one moment: value, plane ``(N,)``, and curvature."""

    value: float
    """The loss, smoothed if the loss is not differentiable."""
    plane: Vector
    curvature: Callable[[Moment], float]
    """Computes the second derivative in the direction of a moment."""
    noise: float = 0.0
    """Bound on the rounding error of the plane."""


class SampleLoss(ABC):
    """A convex function of the weights of ``size`` samples."""

    size: int
    evaluates_quickly: bool = True
    """Whether :meth:`after_adding` costs much less than one evaluation per candidate."""
    work: float = 1.0
    """Approximate number of floating-point operations of :meth:`expand`."""
    evaluation_work: float = 1.0
    """Approximate number of floating-point operations of :meth:`value`."""
    lowest: float = -math.inf
    """A number that is known to be below the loss of every feasible subset."""
    highest: float = math.inf
    """A number that is known to be above the loss of every feasible subset."""
    directions: int = 1
    """Number of directions in which the samples vary noticeably."""

    @property
    def limits(self) -> tuple[float, float]:
        """Numbers known to be below and above the loss of any k samples, even ones not in this set."""
        return self.lowest, self.highest

    @abstractmethod
    def moment(self, weights: Vector, rows: Indices | None = None) -> Moment:
        """Return the moment of some rows, or of all of them, with one weight per row."""

    @abstractmethod
    def value(self, at: Moment) -> float:
        """Return the loss at a moment."""

    @abstractmethod
    def expand(self, at: Moment, smoothing: float = 0.0, floor: float = 0.0) -> SampleExpansion:
        """Return the value and the derivatives at a moment.

        ``smoothing`` is the error that smoothing may cause, if the loss is not differentiable. ``floor``
        lifts small eigenvalues, relative to their mean, so that the plane ranks samples outside a small set;
        the plane is valid in any case.
        """

    def after_adding(self, at: Moment, weight: float, candidates: Indices) -> Vector:
        """Return the loss after adding each candidate, with a weight, to a moment."""
        one = np.array([weight])
        values = [
            self.value(combine(1.0, at, 1.0, self.moment(one, candidates[i : i + 1])))
            for i in range(len(candidates))
        ]
        return np.array(values)

    def subset(self, indices: Indices) -> Moment:
        """Return the moment of a subset."""
        return self.moment(np.full(len(indices), 1 / len(indices)), indices)


class LinearSamples(SampleLoss):
    """The loss ``slopes·w``; ``limits`` allow for any slopes."""

    limits = (-math.inf, math.inf)

    def __init__(self, slopes: Vector) -> None:
        self.slopes, self.size = slopes, len(slopes)

    def moment(self, weights: Vector, rows: Indices | None = None) -> Moment:
        return float(weights @ (self.slopes if rows is None else self.slopes[rows]))

    def value(self, at: Moment) -> float:
        return float(at)

    def expand(self, at: Moment, smoothing: float = 0.0, floor: float = 0.0) -> SampleExpansion:
        noise = 8 * EPS * float(np.max(np.abs(self.slopes)))
        return SampleExpansion(float(at), self.slopes, lambda direction: 0.0, noise)

    def after_adding(self, at: Moment, weight: float, candidates: Indices) -> Vector:
        values: Vector = at + weight * self.slopes[candidates]
        return values


class LogMeanSamples(LinearSamples):
    """The loss ``−log(q·w)`` for ``q ≥ 0``, or 0 if every q is 0."""

    def __init__(self, means: Vector) -> None:
        super().__init__(means)
        self._top = float(np.max(means))

    def value(self, at: Moment) -> float:
        if self._top == 0:
            return 0.0
        return -math.log(at) if at > 0 else math.inf

    def expand(self, at: Moment, smoothing: float = 0.0, floor: float = 0.0) -> SampleExpansion:
        if self._top == 0:
            return SampleExpansion(0.0, np.zeros(self.size), lambda direction: 0.0)
        mean = max(float(at), 1e-6 * self._top)
        plane = 1 - math.log(mean) - self.slopes / mean
        noise = 16 * EPS * float(np.max(np.abs(plane)))
        return SampleExpansion(
            self.value(at), plane, lambda direction: (direction / mean) ** 2, noise
        )

    def after_adding(self, at: Moment, weight: float, candidates: Indices) -> Vector:
        if self._top == 0:
            return np.zeros(len(candidates))
        with np.errstate(divide="ignore"):
            values: Vector = -np.log(at + weight * self.slopes[candidates])
        return values


class SumSamples(SampleLoss):
    """The weighted sum ``Σ_k c_k loss_k``."""

    def __init__(self, terms: Sequence[tuple[float, SampleLoss]]) -> None:
        self.terms = tuple(terms)
        self.size = terms[0][1].size
        self.evaluates_quickly = all(term.evaluates_quickly for _, term in terms)
        self.work = sum(term.work for _, term in terms)
        self.evaluation_work = sum(term.evaluation_work for _, term in terms)
        self.directions = max(term.directions for _, term in terms)
        lowest = [c * (term.lowest if c > 0 else term.highest) for c, term in terms if c != 0]
        self.lowest = -math.inf if any(math.isinf(low) for low in lowest) else sum(lowest)

    @property
    def limits(self) -> tuple[float, float]:
        terms = [(c, term.limits) for c, term in self.terms if c != 0]
        low = sum(c * (limits[0] if c > 0 else limits[1]) for c, limits in terms)
        return low, math.inf

    def moment(self, weights: Vector, rows: Indices | None = None) -> Moment:
        return [term.moment(weights, rows) for _, term in self.terms]

    def value(self, at: Moment) -> float:
        return sum(c * term.value(part) for (c, term), part in zip(self.terms, at, strict=True))

    def expand(self, at: Moment, smoothing: float = 0.0, floor: float = 0.0) -> SampleExpansion:
        parts = [
            (c, term.expand(part, smoothing, floor))
            for (c, term), part in zip(self.terms, at, strict=True)
        ]

        def curvature(direction: Moment) -> float:
            return sum(c * x.curvature(d) for (c, x), d in zip(parts, direction, strict=True))

        return SampleExpansion(
            value=sum(c * part.value for c, part in parts),
            plane=np.sum([c * part.plane for c, part in parts], axis=0),
            curvature=curvature,
            noise=sum(abs(c) * part.noise for c, part in parts),
        )

    def after_adding(self, at: Moment, weight: float, candidates: Indices) -> Vector:
        parts = [
            c * term.after_adding(part, weight, candidates)
            for (c, term), part in zip(self.terms, at, strict=True)
        ]
        return np.asarray(np.sum(parts, axis=0))
