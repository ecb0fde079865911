"""The constants of the paper's log-Vendi theorem, as printed; for large dimensions they are vacuous.

The lemma with the −1 is about log-Vendi alone. With a linear term of weight w beside it the paper has one
floor, without the −1 and with + w.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from genmix.kernels.kernels import Cosine
from genmix.objectives import Objective, Sum
from genmix.objectives.precision_density import Precision
from genmix.objectives.vendi import Vendi


@dataclass(frozen=True)
class Situation:
    """What the theorem is about: m arms in d dimensions, ν_0 and ε_0, T rounds, probability 1 − δ."""

    arms: int
    dimension: int
    nu: float
    epsilon: float
    horizon: int
    confidence: float
    fidelity: float = 0.0
    """The weight w of a linear term beside log-Vendi."""

    @property
    def log_events(self) -> float:
        return math.log(self.arms * (self.horizon + 1) / self.confidence)

    def radius(self, samples: float) -> float:
        """η: how far, with probability 1 − δ, any arm's second moment of so many samples may be off."""
        return 2 * (1 + math.sqrt(2 * self.log_events)) / math.sqrt(samples)

    def floor(self, eta: float, minus_one: bool) -> float:
        """γ_min, below which no weight falls; 0 where the lemma says nothing."""
        if not 0 < eta <= self.nu / 4:
            return 0.0
        depth = self.dimension / math.e + math.log(self.arms) + self.fidelity
        least = math.exp(-float(minus_one) - depth / (self.nu - eta))
        return max(least - self.epsilon - (self.arms - 1) * eta, 0.0)

    def warm_start(self) -> float:
        """The least M that makes the floor without the −1 positive; ∞ where none does."""
        eta = _largest(lambda eta: self.floor(eta, minus_one=False) > 0, self.nu / 4)
        if eta == 0:
            return math.inf
        needed = (self.radius(1) / eta) * (self.radius(1) / eta)
        return float(math.ceil(needed)) if math.isfinite(needed) else math.inf

    def bound_shape(self) -> float:
        """The regret bound without its constant."""
        growth = math.sqrt(self.horizon) * (1 + math.log(self.horizon))
        return (1 + math.sqrt(self.log_events)) * growth


@dataclass(frozen=True)
class Theory:
    """The theorem's constants for the samples in hand."""

    horizon: int
    confidence: float
    nu: float
    """ν_0: the least of the arms' own second moments along their directions."""
    epsilon: float
    """ε_0: the largest sum of the others' there."""
    radius: float
    """η at the size of the smallest arm."""
    floor: float | None
    """The lemma's bound on every weight; 0 is vacuous, None beside a linear term, which it leaves out."""
    floor_without_one: float
    """That of its version without the −1, which has the linear term."""
    warm_start: float
    """Samples an arm that make the second floor positive; ∞ where no number does."""
    bound_shape: float
    """The regret bound without its constant, which the paper does not print."""

    @classmethod
    def of(cls, situation: Situation, samples: int) -> Theory:
        eta = situation.radius(samples)
        return cls(
            horizon=situation.horizon,
            confidence=situation.confidence,
            nu=situation.nu,
            epsilon=situation.epsilon,
            radius=eta,
            floor=None if situation.fidelity > 0 else situation.floor(eta, minus_one=True),
            floor_without_one=situation.floor(eta, minus_one=False),
            warm_start=situation.warm_start(),
            bound_shape=situation.bound_shape(),
        )

    def __str__(self) -> str:
        vacuous = " (vacuous)" if self.floor_without_one == 0 else ""
        printed = "" if self.floor is None else f"{self.floor:.3g}, without the −1 "
        needed = (
            "no warm start makes it positive"
            if math.isinf(self.warm_start)
            else f"a warm start of {self.warm_start:.4g} samples an arm makes it positive"
        )
        return (
            f"theory, as printed, at T = {self.horizon} and δ = {self.confidence:g}: "
            f"ν_0 = {self.nu:.4g}, ε_0 = {self.epsilon:.4g}, concentration radius {self.radius:.4g}\n"
            f"theory, as printed: every weight is at least {printed}"
            f"{self.floor_without_one:.3g}{vacuous}; {needed}\n"
            f"theory, as printed: regret at most C × {self.bound_shape:.4g}, and C is not printed"
        )


def fidelity_beside_log_vendi(objective: Objective) -> float | None:
    """The weight of precision beside Vendi of order 1 under the cosine kernel; None for other objectives."""
    terms = objective.terms if isinstance(objective, Sum) else ((1.0, objective),)
    precision = sum(abs(w) for w, term in terms if isinstance(term, Precision))
    rest = [(w, term) for w, term in terms if not isinstance(term, Precision)]
    if len(rest) != 1:
        return None
    weight, term = rest[0]
    fits = isinstance(term, Vendi) and term.order == 1 and isinstance(term.kernel, Cosine)
    return precision if fits and weight == 1 else None


def _largest(holds: Callable[[float], bool], most: float) -> float:
    """The largest number up to ``most`` that ``holds``, as all smaller ones do; 0 if there is none."""
    least = 1e-300
    if most < least or not holds(least):
        return 0.0
    if holds(most):
        return most
    low, high = math.log(least), math.log(most)
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(math.exp(middle)) else (low, middle)
    return math.exp(low)
