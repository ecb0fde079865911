"""The outcome of one policy over all repeats: scores, regret, exploration, cost."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from genmix.comparison.statistics import (
    Exponent,
    Interval,
    cumulative,
    exponent,
    mean_interval,
    settling_time,
)

if TYPE_CHECKING:
    from genmix.comparison.comparison import Comparison

EXPECTED_DRAWS = 10
"""An arm can count as locked out only if the best mixture would draw it at least this often in half a run."""

LEAST_SHARE = 0.05
"""Only arms with at least this weight in the best mixture can count as locked out."""

NEAR = (0.01, 0.05)


@dataclass(frozen=True)
class Outcome:
    """The result of one policy over all repeats."""

    policy: str
    pooled: Interval
    """Final score of all samples."""
    mixture: Interval | None
    """Final population score of the mixture."""
    regret: Interval | None
    exponent: Exponent | None
    """The growth exponent of the regret in T."""
    least_share: Interval
    """``min_i n_i(T)/T``."""
    locked_out: float | None
    """Fraction of repeats in which an arm of the best mixture got no samples in the second half."""
    reached: dict[str, float]
    """Median time after which the population score stays within 1% or 5% of the best score.

    The loss of a sum of objectives has no natural zero, so for sums the tolerance is 1% or 5% of the
    excess loss of uniform weights.
    """
    shares: dict[str, float]
    """Mean share of the samples that came from each arm."""
    cost: Interval | None
    """Mean cost per sample."""


class Evaluation:
    """Computes the outcomes of a comparison."""

    def __init__(self, found: Comparison) -> None:
        self.found, self.plan = found, found.plan

    def outcome(self, policy: str) -> Outcome:
        found, follows = self.found, self.plan.options.population
        regret, before = self.regret(policy) if follows else (None, None)
        warm = self.plan.warm_samples(policy)
        shares = found.counts(policy)[:, -1] / found.times[-1]
        return Outcome(
            policy,
            pooled=mean_interval(found.pooled(policy)[:, -1]),
            mixture=mean_interval(found.mixture(policy)[:, -1]) if follows else None,
            regret=None if regret is None else mean_interval(regret[:, -1]),
            exponent=None if regret is None else exponent(found.times, regret, warm, before),
            least_share=mean_interval(shares.min(axis=1)),
            locked_out=self._locked_out(policy),
            reached=self._reached(policy) if follows else {},
            shares=dict(zip(self.plan.arms, shares.mean(axis=0).tolist(), strict=True)),
            cost=self._cost(shares),
        )

    def regret(self, policy: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the cumulative regret at the recorded times, and at the end of the warm start."""
        excess = self.found.mixture(policy, "loss") - self.plan.best.loss
        certain = excess > self.plan.best.gap  # smaller values can be rounding errors
        warm = self.plan.warm_samples(policy)
        return cumulative(self.found.times, np.where(certain, excess, 0.0), warm)

    def _locked_out(self, policy: str) -> float | None:
        """Return the fraction of repeats that locked out an arm, or None if that cannot be determined.

        The second half starts at the last recorded time at or before the middle of the run.
        """
        if not self.plan.options.population:
            return None
        times = self.found.times
        rounds = int(times[-1])
        best = np.array(list(self.plan.best.weights.values()))
        active = np.array([arm in self.plan.best.active for arm in self.plan.arms])
        expected = active & (best >= LEAST_SHARE) & (best * rounds / 2 >= EXPECTED_DRAWS)
        if not expected.any():
            return None
        half = max(int(np.searchsorted(times, rounds / 2, side="right")) - 1, 0)
        counts = self.found.counts(policy)
        silent = counts[:, -1] == counts[:, half]
        return float(np.mean(np.any(silent & expected, axis=1)))

    def _reached(self, policy: str) -> dict[str, float]:
        found, best = self.found, self.plan.best
        distance = np.abs(found.mixture(policy) - found.best_score)
        at_best = found.mixture(policy, "loss") - best.loss <= best.gap
        return {
            f"{near:.0%}": _upper_median(
                [settling_time(found.times, w) for w in (distance <= near * self._scale) | at_best]
            )
            for near in NEAR
        }

    @cached_property
    def _scale(self) -> float:
        """The scale for distances to the best score.

        It is the best score itself, except for sums, whose loss has no natural zero. For these it is the
        excess loss of uniform weights or, if those are optimal, of the worst arm.
        """
        if self.found.score_name != "loss":
            return abs(self.found.best_score)
        best = self.plan.best
        count = len(best.weights)
        even = self.plan.cell_weights(np.full((self.plan.group_count, count), 1 / count))
        excess = best.function.reported(even) - best.loss
        worst = max(best.single_losses.values()) - best.loss
        return float(excess if excess > best.gap else worst)

    def _cost(self, shares: NDArray[np.float64]) -> Interval | None:
        costs = self.plan.world.costs
        if costs is None:
            return None
        return mean_interval(shares @ np.array([costs[arm] for arm in self.plan.arms]))


def _upper_median(times: list[float]) -> float:
    """Return the median time, or the later of two middle times."""
    return sorted(times)[len(times) // 2]
