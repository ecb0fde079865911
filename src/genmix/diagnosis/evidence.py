"""Is an arm needed, beyond chance? What random halves of the samples show.

The least loss falls with more samples of anything, so that on the samples in hand copies of one generator all
look useful. Here as many samples of the others stand in for an arm.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from genmix.core.arrays import like
from genmix.diagnosis.halves import Spread, half_rows, rows_of, some_of
from genmix.diagnosis.innovation import held_out_innovation
from genmix.objectives import Batch, Objective
from genmix.offline.mixture import Mixture
from genmix.solvers.loss import Loss, SliceLoss
from genmix.solvers.solve import Solution
from genmix.solvers.newton import NEGLIGIBLE_WEIGHT, Newton

SPLITS = 6
"""Random splits of the samples into halves that the evidence comes from."""

FEWEST = 10
"""With fewer samples nothing is said of an arm, nor with fewer than half as many stand-ins for it."""


@dataclass(frozen=True)
class Evidence:
    """What an arm shows on random halves, compared so that chance has no part in it on average.

    Stand-ins are as many samples as the arm has in the half, but of the best mixture of the other arms, from
    their other halves. They lower the loss as more samples of anything do, and stand in for an arm that is
    like the others as well as its own samples.
    """

    innovation: Spread
    """The gap along the direction that one half gives, on the other half."""
    leave_one_out: Spread
    """How much the least loss of a half rises if stand-ins take the arm's share."""
    margin: Spread
    """How much it rises if they take all but γ_0 of it."""
    weight: float
    """The largest weight in the best mixture of a half."""


class _Shown(NamedTuple):
    """What one split into halves shows of an arm."""

    innovation: float
    leave_one_out: float
    margin: float
    weight: float


def evidence_of(
    arms: Mapping[str, Batch], mixture: Mixture, gamma: float, seed: int
) -> dict[str, Evidence]:
    """Of the arms with samples enough to say something."""
    if len(arms) == 1:
        return {}
    sample = next(iter(arms.values())).embeddings
    alike = {name: replace(b, embeddings=like(b.embeddings, sample)) for name, b in arms.items()}
    shares = {name: _others_shares(mixture, name) for name in arms}
    sides = [_split(alike, mixture.objective, shares, gamma, seed, i) for i in range(SPLITS)]
    enough = [name for name, batch in arms.items() if len(batch) >= FEWEST]
    return {name: _gathered([side[name] for side in sides]) for name in enough}


def _gathered(shown: Sequence[_Shown]) -> Evidence:
    return Evidence(
        innovation=_spread_of([one.innovation for one in shown]),
        leave_one_out=_spread_of([one.leave_one_out for one in shown]),
        margin=_spread_of([one.margin for one in shown]),
        weight=max(one.weight for one in shown),
    )


def _spread_of(values: Sequence[float]) -> Spread:
    """Nothing varies where every half is worth nothing without the arm."""
    endless = all(value == math.inf for value in values)
    return Spread(math.inf, 0.0) if endless else Spread.of(values)


def _others_shares(mixture: Mixture, name: str) -> dict[str, float]:
    """The best mixture of the other arms; even shares where they make none."""
    others = [other for other in mixture.weights if other != name]
    found = mixture.without(name)
    weights = np.ones(len(others)) if found is None else found.weights
    return dict(zip(others, (weights / weights.sum()).tolist(), strict=True))


def _split(
    arms: Mapping[str, Batch],
    objective: Objective,
    shares: Mapping[str, Mapping[str, float]],
    gamma: float,
    seed: int,
    index: int,
) -> dict[str, _Shown]:
    """One half of every arm, and what it shows of each beside stand-ins from the other halves."""
    first, second = {}, {}
    for name, batch in arms.items():
        parts = half_rows(len(batch), name, seed, index, objective.least_samples)
        first[name], second[name] = (rows_of(batch, rows) for rows in parts)
    novel = held_out_innovation(first, second)
    half = _Half(first, objective)
    for i, (name, batch) in enumerate(first.items()):
        rng = np.random.default_rng([seed, index, zlib.crc32(name.encode()), 1])
        half.set_beside(i, batch, _stand_ins(second, shares[name], len(batch), rng), rng)
    best = half.best(range(len(arms)))
    return {
        name: _Shown(novel[name].held_out, *half.rises(i, best, gamma), float(best.weights[i]))
        for i, name in enumerate(first)
    }


def _stand_ins(
    arms: Mapping[str, Batch], shares: Mapping[str, float], size: int, rng: np.random.Generator
) -> list[Batch]:
    """Up to ``size`` samples of the arms in these shares; the order of the arms does not matter."""
    names = sorted(shares)
    counts = rng.multinomial(size, [shares[name] for name in names])
    parts = [some_of(arms[name], count, rng) for name, count in zip(names, counts, strict=True)]
    return [part for part in parts if len(part)]


class _Half:
    """The statistics of half the samples, with stand-ins for every arm.

    Of m arms the i-th has place i and its stand-ins m + i; where these are fewer than its samples, 2m + i has
    as few of them, so that numbers decide nothing.
    """

    def __init__(self, arms: Mapping[str, Batch], objective: Objective) -> None:
        self.size, self.least = len(arms), max(objective.least_samples, FEWEST // 2)
        self.tally = objective.tally(3 * len(arms), next(iter(arms.values())).embeddings)
        self.solver = Newton()
        for i, batch in enumerate(arms.values()):
            self.tally.add(i, batch)

    def set_beside(
        self, arm: int, own: Batch, stand_ins: Sequence[Batch], rng: np.random.Generator
    ) -> None:
        count = sum(map(len, stand_ins))
        if count < self.least:
            return
        for part in stand_ins:
            self.tally.add(self.size + arm, part)
        if count < len(own):
            self.tally.add(2 * self.size + arm, some_of(own, count, rng))

    def best(self, places: Sequence[int]) -> Solution:
        return self.solver.solve(self.tally.loss(places), np.full(self.size, 1 / self.size))

    def rises(self, arm: int, best: Solution, gamma: float) -> tuple[float, float]:
        """How much the least loss rises if stand-ins take the arm's share, and all but γ of it."""
        own, stand_in, fewer = (arm + k * self.size for k in range(3))
        if not self.tally.counts[stand_in]:
            return math.nan, math.nan
        places = list(range(self.size))
        if self.tally.counts[fewer]:
            places[arm] = own = fewer
            best = self.best(places)
        others = [place for place in places if place != own]
        loss = self.tally.loss([*others, stand_in, own])
        return self._rise(loss, best, arm, 0.0), self._rise(loss, best, arm, gamma)

    def _rise(self, loss: Loss, best: Solution, arm: int, kept: float) -> float:
        """If stand-ins take all but ``kept`` of the arm's share; 0 where rounding could be all of it."""
        taken = (float(best.weights[arm]) - kept) / (1 - kept)
        if taken <= NEGLIGIBLE_WEIGHT:
            return 0.0
        start = np.maximum(np.delete(best.weights, arm), 1e-3)
        fixed = SliceLoss(SliceLoss(loss, self.size, kept), self.size - 1, taken)
        found = self.solver.solve(fixed, start / start.sum())
        if not np.isfinite(found.loss):
            return math.inf if np.isfinite(best.loss) else math.nan
        rise = found.loss - best.loss
        return rise if abs(rise) > found.gap + best.gap else 0.0
