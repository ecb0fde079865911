"""What the samples cannot tell: intervals of the weights and of the score, and interchangeable arms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from genmix.core.arrays import Vector
from genmix.core.plain import by_name
from genmix.core.text import aligned, counted, interval_text, listed
from genmix.diagnosis.bootstrap import Progress, Replicates, bootstrap
from genmix.diagnosis.interchangeable import interchangeable
from genmix.diagnosis.thresholds import UNUSED_WEIGHT
from genmix.errors import InputError, number, whole
from genmix.objectives import Batch
from genmix.offline.mixture import Mixture
from genmix.solvers.simplex import SIMPLEX, Simplex, vertex

LEAST_SAMPLES = 5
"""Number of samples that every arm needs; fewer do not show how much they vary."""

LEAST_REPLICATES = 20
"""Number of replicates below which there are no quantiles worth the name."""

Interval = tuple[float, float]


@dataclass(frozen=True)
class Uncertainty:
    """How much the weights and the score of the best mixture could change with other samples.

    The gap says how close a mixture is to the best one *of the samples at hand*. Other samples of the same
    arms have another best mixture. The intervals say how far away it can be.

    Attributes
    ----------
    weights : dict of str to (float, float)
        For each arm, an interval for its weight in the best mixture of infinitely many samples. That of an
        interchangeable arm goes from 0 to the sum of its group, as far as the limits allow.
    score : (float, float) or dict of str to (float, float)
        Interval for the score of the mixture on other samples of the same number; one per term for a
        sum of objectives.
    interchangeable : tuple of tuple of str
        Groups of arms that the samples cannot tell apart: within a group, weight can be moved from one arm
        to another at no measurable loss, and only the sum is determined.
    together : tuple of (float, float)
        For each of these groups, an interval for the sum of its weights.
    replicates : int
        Number of bootstrap replicates.
    level : float
        Probability with which an interval should contain the true value.

    See Also
    --------
    Mixture.intervals : Creates this object.

    Examples
    --------
    Arms ``a`` and ``b`` are two sets of samples from one generator, so only the sum of their weights is
    determined:

    >>> import numpy as np
    >>> import genmix as gx
    >>> rng = np.random.default_rng(1)
    >>> draw = lambda shares: np.eye(4)[rng.choice(4, 300, p=shares)]
    >>> arms = {"a": draw([0.7, 0.3, 0, 0]), "b": draw([0.7, 0.3, 0, 0]), "c": draw([0, 0, 0.5, 0.5])}
    >>> found = gx.optimal_mixture(arms, gx.Vendi()).intervals()
    >>> found.interchangeable
    (('a', 'b'),)
    >>> low, high = found.weights["c"]
    >>> 0.4 < low < high < 0.6
    True
    """

    weights: dict[str, Interval]
    score: Interval | dict[str, Interval]
    interchangeable: tuple[tuple[str, ...], ...]
    together: tuple[Interval, ...]
    replicates: int
    level: float

    @property
    def sentences(self) -> tuple[str, ...]:
        """What to know about interchangeable arms, one sentence per group."""
        return tuple(
            f"{listed(group)} are interchangeable: the samples cannot tell them apart and determine "
            f"only the sum of their weights, {interval_text(together)}."
            for group, together in zip(self.interchangeable, self.together, strict=True)
        )

    @property
    def scores(self) -> dict[str, Interval]:
        """The intervals of the scores by name; a single score is named ``score``."""
        return self.score if isinstance(self.score, dict) else {"score": self.score}

    def as_dict(self) -> dict[str, Any]:
        """Return the intervals as JSON values.

        Returns
        -------
        dict
        """
        return asdict(self)

    def __str__(self) -> str:
        rows = [["arm", f"weight, {self.level:.0%}"]]
        rows += [[name, interval_text(interval)] for name, interval in self.weights.items()]
        rows += [[name, interval_text(interval, "g")] for name, interval in self.scores.items()]
        return "\n".join([*aligned(rows), *self.sentences])


def intervals_of(
    mixture: Mixture,
    batches: Sequence[Batch],
    replicates: int = 200,
    level: float = 0.9,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Uncertainty:
    """Return the intervals of a mixture, given the samples of its arms; see :meth:`Mixture.intervals`."""
    replicates = whole(replicates, "replicates", LEAST_REPLICATES)
    level, seed = number(level, "level", 0.01, 0.99), whole(seed, "seed", 0)
    _check(mixture, batches)
    report: Progress = (lambda done, total: None) if progress is None else progress
    alpha = np.array(list(mixture.weights.values()))
    region = SIMPLEX if mixture.region is None else mixture.region
    found = bootstrap(batches, mixture.objective, alpha, replicates, seed, region, report)
    tails = [(1 - level) / 2, (1 + level) / 2]
    names = tuple(mixture.weights)
    groups = [
        group
        for group in interchangeable(found, alpha, float(mixture.loss), mixture.region)
        if _together(found, alpha, group, tails)[0] > UNUSED_WEIGHT
    ]
    scores = {
        name: _quantiles(values, tails, float(score))
        for values, (name, score) in zip(found.scores, by_name(mixture.score).items(), strict=True)
    }
    together = [_together(found, alpha, group, tails) for group in groups]
    weights = [_quantiles(found.weights[:, i], tails, alpha[i]) for i in range(len(names))]
    for group, (_, most) in zip(groups, together, strict=True):
        for i in group:  # any of them can replace the others
            weights[i] = _widened(weights[i], most, region, alpha, i)
    return Uncertainty(
        weights=dict(zip(names, weights, strict=True)),
        score=scores if isinstance(mixture.score, dict) else next(iter(scores.values())),
        interchangeable=tuple(tuple(names[i] for i in group) for group in groups),
        together=tuple(together),
        replicates=replicates,
        level=level,
    )


def _check(mixture: Mixture, batches: Sequence[Batch]) -> None:
    if not mixture.function.smooth:
        raise InputError(
            "intervals need a differentiable loss, and that of order infinity is not; use a finite order."
        )
    for name, batch in zip(mixture.weights, batches, strict=True):
        if len(batch) < LEAST_SAMPLES:
            raise InputError(
                f"arm {name!r} has {counted(len(batch), 'sample')}; intervals need at least {LEAST_SAMPLES} "
                "of each arm."
            )
    if not np.isfinite(mixture.loss):
        raise InputError("the mixture has an infinite loss, so there are no intervals.")


def _quantiles(values: Vector, tails: Sequence[float], estimate: float) -> Interval:
    """Return the quantiles, widened to contain the estimate, from which the bias was not removed."""
    low, high = np.quantile(values, tails).tolist()
    return min(low, float(estimate)), max(high, float(estimate))


def _widened(interval: Interval, most: float, region: Simplex, alpha: Vector, arm: int) -> Interval:
    """Widen the interval of an interchangeable arm to all weights up to the sum that the region allows."""
    unit, floor = vertex(len(alpha), arm), np.zeros(len(alpha))
    low = float(region.lowest(unit, alpha, floor)[arm])
    high = float(region.lowest(-unit, alpha, floor)[arm])
    return min(interval[0], low), max(interval[1], min(most, high))


def _together(
    found: Replicates, alpha: Vector, group: Sequence[int], tails: Sequence[float]
) -> Interval:
    members = list(group)
    sums = found.weights[:, members].sum(axis=1)
    return _quantiles(np.minimum(sums, 1.0), tails, min(float(alpha[members].sum()), 1.0))
