"""The constants of the paper's log-Vendi theorem, as printed. In high dimensions they are vacuous.

The lemma with the −1 covers log-Vendi alone. With an additional linear term of weight w, the paper states a
single floor, without the −1 and with + w.
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
class TheoremInputs:
    """Inputs to the theorem: m arms in d dimensions, ν_0 and ε_0, T rounds, probability 1 − δ."""

    arms: int
    dimension: int
    nu: float
    epsilon: float
    horizon: int
    confidence: float
    fidelity: float = 0.0
    """The weight w of a linear term added to log-Vendi."""

    @property
    def log_events(self) -> float:
        return math.log(self.arms * (self.horizon + 1) / self.confidence)

    def radius(self, samples: float) -> float:
        """Return η, which bounds the error of each arm's second moment with probability 1 − δ.

        ``samples`` is the number of samples per arm.
        """
        return 2 * (1 + math.sqrt(2 * self.log_events)) / math.sqrt(samples)

    def floor(self, eta: float, minus_one: bool) -> float:
        """Return γ_min, a lower bound on every weight; 0 if the lemma does not apply."""
        if not 0 < eta <= self.nu / 4:
            return 0.0
        depth = self.dimension / math.e + math.log(self.arms) + self.fidelity
        least = math.exp(-float(minus_one) - depth / (self.nu - eta))
        return max(least - self.epsilon - (self.arms - 1) * eta, 0.0)

    def warm_start(self) -> float:
        """Return the smallest M that makes the floor without the −1 positive; ∞ if no M does."""
        eta = _largest(lambda eta: self.floor(eta, minus_one=False) > 0, self.nu / 4)
        if eta == 0:
            return math.inf
        needed = (self.radius(1) / eta) * (self.radius(1) / eta)
        return float(math.ceil(needed)) if math.isfinite(needed) else math.inf

    def bound_shape(self) -> float:
        """Return the regret bound without its constant."""
        growth = math.sqrt(self.horizon) * (1 + math.log(self.horizon))
        return (1 + math.sqrt(self.log_events)) * growth


@dataclass(frozen=True)
class Theory:
    """The theorem's constants for the given samples."""

    horizon: int
    confidence: float
    nu: float
    """ν_0: the smallest second moment of an arm along its own direction."""
    epsilon: float
    """ε_0: the largest sum of the other arms' second moments along such a direction."""
    radius: float
    """η for the sample size of the smallest arm."""
    floor: float | None
    """The lemma's lower bound on every weight; 0 is vacuous, None if there is a linear term."""
    floor_without_one: float
    """The bound without the −1, which includes the linear term."""
    warm_start: float
    """Samples per arm that make ``floor_without_one`` positive; ∞ if no number does."""
    bound_shape: float
    """The regret bound without its constant, which the paper does not state."""

    @classmethod
    def of(cls, inputs: TheoremInputs, samples: int) -> Theory:
        eta = inputs.radius(samples)
        return cls(
            horizon=inputs.horizon,
            confidence=inputs.confidence,
            nu=inputs.nu,
            epsilon=inputs.epsilon,
            radius=eta,
            floor=None if inputs.fidelity > 0 else inputs.floor(eta, minus_one=True),
            floor_without_one=inputs.floor(eta, minus_one=False),
            warm_start=inputs.warm_start(),
            bound_shape=inputs.bound_shape(),
        )

    def __str__(self) -> str:
        vacuous = " (vacuous)" if self.floor_without_one == 0 else ""
        printed = "" if self.floor is None else f"{self.floor:.3g}, without the −1 "
        needed = (
            "no warm start makes this bound positive"
            if math.isinf(self.warm_start)
            else f"a warm start of {self.warm_start:.4g} samples per arm makes this bound positive"
        )
        return (
            f"Theory, as printed in the paper, at T = {self.horizon} and δ = {self.confidence:g}: "
            f"ν_0 = {self.nu:.4g}, ε_0 = {self.epsilon:.4g}, concentration radius {self.radius:.4g}\n"
            f"Theory, as printed in the paper: every weight is at least {printed}"
            f"{self.floor_without_one:.3g}{vacuous}; {needed}\n"
            f"Theory, as printed in the paper: the regret is at most C × {self.bound_shape:.4g}; "
            "the paper does not state C"
        )


def fidelity_weight(objective: Objective) -> float | None:
    """Return the weight w in log-Vendi (cosine kernel) plus w × precision; None for other objectives."""
    terms = objective.terms if isinstance(objective, Sum) else ((1.0, objective),)
    precision = sum(abs(w) for w, term in terms if isinstance(term, Precision))
    rest = [(w, term) for w, term in terms if not isinstance(term, Precision)]
    if len(rest) != 1:
        return None
    weight, term = rest[0]
    fits = isinstance(term, Vendi) and term.order == 1 and isinstance(term.kernel, Cosine)
    return precision if fits and weight == 1 else None


def _largest(holds: Callable[[float], bool], most: float) -> float:
    """Find the largest number up to ``most`` for which ``holds`` is true, by bisection; 0 if there is none.

    If ``holds`` is true for a number, it must be true for all smaller ones.
    """
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
