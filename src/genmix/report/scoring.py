"""Scores and losses of arms and mixtures on all samples of a run, each computed on first use."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from genmix.charts.axes import short_name
from genmix.core.arrays import Vector
from genmix.core.plain import finite
from genmix.objectives import Objective, Sum
from genmix.objectives.pool import Pool
from genmix.offline.mixture import Mixture, best_mixture
from genmix.report.run_pool import is_heavy
from genmix.runs.timeline import plain_values
from genmix.selector.limits import Limits, Spent
from genmix.solvers.loss import LinearLoss, SumLoss
from genmix.solvers.solve import region_argument

Values = dict[str, float | None]
"""Scores by name."""

MAX_SOLVES, MAX_HEAVY_SOLVES = 30, 8
"""Maximum number of arms to leave out one by one, largest weights first; fewer if a solve takes seconds."""

MANY_ARMS = 200
"""With more arms than this, every solve takes seconds and no single arm matters much. None is left out."""

DOUBT = 2.0
"""How much a small sample could inflate the loss, as a multiple of the average inflation."""

FEW_SAMPLES = 30
"""If the inflation of the loss is unknown, an arm with fewer samples than this may be underestimated."""


@dataclass(frozen=True)
class Term:
    """One term of the objective."""

    name: str
    maximise: bool

    @property
    def arrow(self) -> str:
        return "↑" if self.maximise else "↓"

    @property
    def label(self) -> str:
        return f"{short_name(self.name)} {self.arrow}"


@dataclass(frozen=True)
class MixtureScore:
    """The scores and the loss of a mixture on all samples."""

    scores: Values
    loss: float


class Scoring:
    """Scores the arms and mixtures of a run.

    ``arms`` are the arms of the run's mixture; arms with too few samples are left out. ``limits`` are those
    that the mixture respects, and ``spent`` are the costs of the samples.
    """

    def __init__(
        self,
        pool: Pool,
        arms: Mapping[str, float],
        limits: Limits | None = None,
        spent: Spent | None = None,
    ) -> None:
        self.pool, self._limits, self._spent = pool, limits or Limits(), spent or {}
        self.is_heavy = is_heavy(pool)
        least = pool.objective.least_samples
        self.counts = dict(zip(pool.arms, pool.tally.counts, strict=True))
        self.scorable = [arm for arm, count in self.counts.items() if count >= least]
        self.usable = [arm for arm in arms if arm in self.scorable]

    @cached_property
    def best(self) -> Mixture:
        """The best mixture of the usable arms within the limits, whatever the policy chose."""
        region = self._limits.region(self.usable, self._spent)
        return best_mixture(self.pool, arms=self.usable, region=region)

    def is_over_budget(self, weights: Mapping[str, float]) -> bool:
        """Return whether a mixture costs more on average than the run's mixture may cost."""
        alpha, region = self._alpha(weights), self.best.region
        if alpha is None or region is None:
            return False
        return bool(np.any(region.rows @ alpha > region.limits * (1 + 1e-6)))

    def measure(self, weights: Mapping[str, float]) -> MixtureScore | None:
        """Score a mixture; return None if it contains an arm that is not usable."""
        alpha = self._alpha(weights)
        if alpha is None:
            return None
        loss = self.best.function.reported(alpha)
        return MixtureScore(self._scores(alpha), loss) if math.isfinite(loss) else None

    def gap(self, mixture: MixtureScore) -> float | None:
        """Return an upper bound on how far the mixture's loss is above the minimum within its limits."""
        excess = max(mixture.loss - self.best.loss, 0.0)
        bound: float | None = finite(excess + self.best.gap)
        return bound

    def single(self, arm: str) -> tuple[Values, float | None]:
        """Return the scores and the loss of one arm alone."""
        if arm not in self.scorable:
            return {}, None
        if arm in self.best.single_scores:
            return values(self.best.single_scores[arm]), finite(self.best.single_losses[arm])
        index = self.pool.arms.index(arm)
        loss = float(self.pool.tally.loss([index]).singles()[0])
        return values(self.pool.score(np.eye(len(self.pool.arms))[index])), finite(loss)

    @property
    def max_solves(self) -> int:
        if len(self.usable) > MANY_ARMS:
            return 0
        return MAX_HEAVY_SOLVES if self.is_heavy else MAX_SOLVES

    @cached_property
    def left_out(self) -> dict[str, tuple[float, Values]]:
        """For each arm, the increase in the minimum loss and the best scores without it."""
        weights = self.best.weights
        ranked = sorted(weights, key=lambda arm: -weights[arm])
        unused = [arm for arm in ranked if weights[arm] == 0.0] if not self.max_solves else []
        found = {arm: self._without(arm) for arm in (*ranked[: self.max_solves], *unused)}
        return {arm: pair for arm, pair in found.items() if pair is not None}

    def _without(self, arm: str) -> tuple[float, Values] | None:
        if self.best.weights[arm] == 0.0:
            return 0.0, values(self.best.score)
        found = self.best.without(arm)
        if found is None:
            return None
        alpha = np.zeros(len(self.usable))
        alpha[[i for i, other in enumerate(self.usable) if other != arm]] = found.weights
        return max(found.loss - self.best.loss, 0.0), self._scores(alpha)

    @cached_property
    def maybe_needed(self) -> set[str]:
        """Arms that would receive weight if their small samples overstated their loss."""
        counts = np.array([self.counts[arm] for arm in self.usable], dtype=np.float64)
        shares = counts / counts.sum()
        doubt = DOUBT * self.best.function.inflation(shares)
        if not doubt:
            return {arm for arm in self.usable if self.counts[arm] < FEW_SAMPLES}
        loss = SumLoss([(1.0, self.best.function), (1.0, LinearLoss(-doubt / counts))])
        within = region_argument(self.best.solver, self.best.region)
        found = self.best.solver.solve(loss, shares, **within)
        return {arm for arm, w in zip(self.usable, found.weights, strict=True) if w > 0}

    def _alpha(self, weights: Mapping[str, float]) -> Vector | None:
        alpha = np.array([weights.get(arm, 0.0) for arm in self.usable])
        total = sum(weights.values())
        is_covered = total > 0 and abs(alpha.sum() - total) <= 1e-6 * total
        return alpha / alpha.sum() if is_covered else None

    def can_measure(self, weights: Mapping[str, float]) -> bool:
        return self._alpha(weights) is not None

    def _scores(self, alpha: Vector) -> Values:
        weights = np.zeros(len(self.pool.arms))
        weights[[self.pool.arms.index(arm) for arm in self.usable]] = alpha
        return values(self.pool.score(weights))


def values(scores: Any) -> Values:
    return plain_values(scores) or {}


def terms_of(objective: Objective) -> tuple[Term, ...]:
    if isinstance(objective, Sum):
        pairs = zip(objective.names, objective.terms, strict=True)
        return tuple(Term(name, term.maximise) for name, (_, term) in pairs)
    return (Term(objective.name, objective.maximise),)


def improvement(term: Term, ours: Values, other: Values) -> float | None:
    """Return the relative improvement of our score over another; negative if ours is worse."""
    a, b = ours.get(term.name), other.get(term.name)
    if a is None or b is None or b == 0:
        return None
    return (a - b) / abs(b) * (1 if term.maximise else -1)
