"""Evidence that an arm is needed beyond chance, from random halves of the samples.

More samples of any kind lower the minimum loss, so copies of one generator all look useful on the samples
that the weights were fitted to. Here an arm competes with the same number of samples from the other arms,
its substitutes.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from genmix.core.streams import private_stream
from genmix.diagnosis.resampling import Spread, half_rows, random_rows
from genmix.diagnosis.samples import Rows, Samples, Split, SplitStatistics
from genmix.objectives import Objective
from genmix.objectives.tally import Tally
from genmix.offline.mixture import Mixture
from genmix.solvers.loss import Loss, SliceLoss
from genmix.solvers.newton import Newton
from genmix.solvers.newton_steps import NEGLIGIBLE_WEIGHT
from genmix.solvers.solve import Solution

SPLITS = 6
"""Number of random splits into halves."""

MIN_SAMPLES = 10
"""Arms with fewer samples than this, or with fewer than half this many substitutes, get no evidence."""


@dataclass(frozen=True)
class Evidence:
    """What random halves show about an arm, without optimistic bias on average.

    Substitutes are drawn from the best mixture of the other arms, using their other halves. Their number
    equals the number of the arm's samples in its half. Like any additional samples, they lower the loss. If
    the arm resembles the others, they are as good as its own samples.
    """

    innovation: Spread
    """The innovation gap along the direction found on one half, measured on the other half."""
    leave_one_out: Spread
    """Increase in the minimum loss on one half if substitutes take the arm's share."""
    margin: Spread
    """Increase in the minimum loss on one half if substitutes take all but γ_0 of the arm's share."""
    weight: float
    """The arm's largest weight in the best mixture over all halves."""


class _SplitResult(NamedTuple):
    """What one split into halves shows about an arm."""

    innovation: float
    leave_one_out: float
    margin: float
    weight: float


def gather_evidence(
    samples: Samples, mixture: Mixture, gamma: float, seed: int
) -> dict[str, Evidence]:
    """Return the evidence for each arm that has enough samples."""
    counts, objective = samples.counts, mixture.objective
    if len(counts) == 1:
        return {}
    shares = {name: _shares_without(mixture, name) for name in counts}
    planned = (_split(counts, objective, shares, seed, index) for index in range(SPLITS))
    results = partial(_results, names=list(counts), gamma=gamma)
    # Unlike the variable of a loop, map does not keep the statistics of a split while the next is read.
    splits = list(map(results, samples.splits(objective, planned)))
    enough = [name for name, count in counts.items() if count >= MIN_SAMPLES]
    return {name: _summarize([split[name] for split in splits]) for name in enough}


def _summarize(results: Sequence[_SplitResult]) -> Evidence:
    return Evidence(
        innovation=_spread_of([result.innovation for result in results]),
        leave_one_out=_spread_of([result.leave_one_out for result in results]),
        margin=_spread_of([result.margin for result in results]),
        weight=max(result.weight for result in results),
    )


def _spread_of(values: Sequence[float]) -> Spread:
    """Return the mean and standard deviation; the deviation is 0 if every value is infinite."""
    if all(value == math.inf for value in values):
        return Spread(math.inf, 0.0)
    return Spread.of(values)


def _shares_without(mixture: Mixture, name: str) -> dict[str, float]:
    """Return the best mixture of the other arms, or even shares if no mixture has a finite loss."""
    others = [other for other in mixture.weights if other != name]
    found = mixture.without(name)
    weights = np.ones(len(others)) if found is None else found.weights
    return dict(zip(others, (weights / weights.sum()).tolist(), strict=True))


def _split(
    counts: Mapping[str, int],
    objective: Objective,
    shares: Mapping[str, Mapping[str, float]],
    seed: int,
    index: int,
) -> Split:
    """Split every arm into halves, and choose substitutes for each arm from the other half of the others.

    With m arms, slot i contains arm i and slot m + i its substitutes. If there are fewer substitutes than
    samples, slot 2m + i contains only that many samples of the arm, so that the comparison is fair.
    """
    size, least = len(counts), max(objective.least_samples, MIN_SAMPLES // 2)
    halves = {
        name: half_rows(count, name, seed, index, objective.least_samples)
        for name, count in counts.items()
    }
    picks = [(i, name, first) for i, (name, (first, _)) in enumerate(halves.items())]
    for i, (name, (own, _)) in enumerate(halves.items()):
        rng = private_stream(seed, "diagnosis", index, zlib.crc32(name.encode()), 1)
        found = _substitutes(halves, shares[name], len(own), rng)
        count = sum(len(rows) for _, rows in found)
        if count >= least:
            picks += [(size + i, other, rows) for other, rows in found]
            if count < len(own):
                picks.append((2 * size + i, name, random_rows(own, count, rng)))
    return Split(halves, picks, 3 * size)


def _substitutes(
    halves: Mapping[str, tuple[Rows, Rows]],
    shares: Mapping[str, float],
    size: int,
    rng: np.random.Generator,
) -> list[tuple[str, Rows]]:
    """Draw up to ``size`` samples in proportion to ``shares``, independently of the order of the arms."""
    names = sorted(shares)
    counts = rng.multinomial(size, [shares[name] for name in names])
    parts = [
        (name, random_rows(halves[name][1], count, rng))
        for name, count in zip(names, counts, strict=True)
    ]
    return [(name, rows) for name, rows in parts if len(rows)]


def _results(found: SplitStatistics, names: Sequence[str], gamma: float) -> dict[str, _SplitResult]:
    """Compare each arm in one half with its substitutes from the other half."""
    half = _HalfStatistics(found.tally, len(names))
    best = half.solve(range(len(names)))
    return {
        name: _SplitResult(
            found.held_out[name], *half.loss_increases(i, best, gamma), float(best.weights[i])
        )
        for i, name in enumerate(names)
    }


class _HalfStatistics:
    """The statistics of one half of the samples, with substitutes for every arm; see ``_split``."""

    def __init__(self, tally: Tally, size: int) -> None:
        self.tally, self.size, self.solver = tally, size, Newton()

    def solve(self, slots: Sequence[int]) -> Solution:
        return self.solver.solve(self.tally.loss(slots), np.full(self.size, 1 / self.size))

    def loss_increases(self, arm: int, best: Solution, gamma: float) -> tuple[float, float]:
        """Return the increase in the minimum loss if substitutes take the arm's share, or all but γ of it."""
        own, substitute, fewer = (arm + k * self.size for k in range(3))
        if not self.tally.counts[substitute]:
            return math.nan, math.nan
        slots = list(range(self.size))
        if self.tally.counts[fewer]:
            slots[arm] = own = fewer
            best = self.solve(slots)
        others = [slot for slot in slots if slot != own]
        loss = self.tally.loss([*others, substitute, own])
        return (
            self._loss_increase(loss, best, arm, 0.0),
            self._loss_increase(loss, best, arm, gamma),
        )

    def _loss_increase(self, loss: Loss, best: Solution, arm: int, kept: float) -> float:
        """Return the increase if the arm keeps the share ``kept``; 0 if it is within the solvers' gaps."""
        taken = (float(best.weights[arm]) - kept) / (1 - kept)
        if taken <= NEGLIGIBLE_WEIGHT:
            return 0.0
        start = np.maximum(np.delete(best.weights, arm), 1e-3)
        fixed = SliceLoss(SliceLoss(loss, self.size, kept), self.size - 1, taken)
        found = self.solver.solve(fixed, start / start.sum())
        if not np.isfinite(found.loss):
            return math.inf if np.isfinite(best.loss) else math.nan
        increase = found.loss - best.loss
        return increase if abs(increase) > found.gap + best.gap else 0.0
