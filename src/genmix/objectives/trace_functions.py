"""Convex functions of an eigenvalue; spectral losses are sums of them over a spectrum."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from genmix.core.arrays import Array, Vector, namespace


class TraceFunction(ABC):
    """A convex function ``f`` of an eigenvalue with f(0) = 0, and its derivatives."""

    singular = True
    """Whether f' or f'' is infinite at 0."""
    has_slope_near = False
    """Whether :meth:`slope_near` is defined."""

    @abstractmethod
    def total(self, values: Vector) -> float:
        """Return ``Σ_k f(λ_k)``."""

    @abstractmethod
    def slope(self, values: Array) -> Array:
        """Return ``f'`` for an array from any library."""

    @abstractmethod
    def differences(self, values: Array) -> Array:
        """Return the divided differences ``h_kl`` of f', ``(r, r)``."""

    def slope_near(self, values: Array, change: Array) -> Array:
        """Return ``f'(diag(values) + change)`` to second order, using only matrix products."""
        raise NotImplementedError


def divided_differences(values: Array, slope: Array, curvature: Callable[[Array], Array]) -> Array:
    """Return ``(f'(λ_k) − f'(λ_l)) / (λ_k − λ_l)``, or f'' at the midpoint if the two are close."""
    xp = namespace(values)
    apart = values[:, None] - values[None, :]
    middle = (values[:, None] + values[None, :]) / 2
    close = xp.abs(apart) <= 1e-4 * middle
    safe = xp.where(close, xp.ones_like(apart), apart)
    return xp.where(close, curvature(middle), (slope[:, None] - slope[None, :]) / safe)


class Entropy(TraceFunction):
    """The function ``λ log λ``."""

    def total(self, values: Vector) -> float:
        safe = np.where(values > 0, values, 1.0)
        return float(np.sum(safe * np.log(safe)))

    def slope(self, values: Array) -> Array:
        return namespace(values).log(values) + 1

    def differences(self, values: Array) -> Array:
        return divided_differences(values, self.slope(values), lambda middle: 1 / middle)


class Power(TraceFunction):
    """The function ``λ^q / (q−1)``."""

    def __init__(self, order: float) -> None:
        self.order = order
        self.singular = order < 2

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
    """The function ``(λ^q − λ) / (q−1)``, which tends to ``λ log λ`` as q → 1 and stays accurate."""

    def total(self, values: Vector) -> float:
        safe = np.where(values > 0, values, 1.0)
        excess = self.order - 1
        return float(np.sum(safe * np.expm1(excess * np.log(safe)))) / excess

    def slope(self, values: Array) -> Array:
        xp = namespace(values)
        excess = self.order - 1
        return 1 + self.order / excess * xp.expm1(excess * xp.log(values))


class Root(TraceFunction):
    """The function ``−2 c √λ``."""

    has_slope_near = True

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor

    def total(self, values: Vector) -> float:
        return -2 * self.factor * float(np.sum(np.sqrt(values)))

    def slope(self, values: Array) -> Array:
        return -self.factor / namespace(values).sqrt(values)

    def differences(self, values: Array) -> Array:
        roots = namespace(values).sqrt(values)
        return self.factor / (roots[:, None] * roots[None, :] * (roots[:, None] + roots[None, :]))

    def slope_near(self, values: Array, change: Array) -> Array:
        # Solve (R + X)² = R² + change for the root R + X; the series of its inverse is the slope.
        xp = namespace(values)
        roots = xp.sqrt(values)
        sums = roots[:, None] + roots[None, :]
        first = change / sums
        second = first - (first @ first) / sums
        halved = first / roots[:, None]
        corrected = second / (roots[:, None] * roots[None, :])
        found = corrected - (halved @ halved) / roots - xp.diag(1 / roots)
        return self.factor * found
