"""A whole run of a selector on clouds, in which only ask and tell are timed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

import genmix as gx
from bench.clouds import Cloud, Rows, Stream, names
from genmix.objectives import Tally
from genmix.objectives.pool import Pool
from genmix.solvers.loss import Loss

WARM_START = 10


@dataclass(frozen=True)
class Run:
    """The times and samples of a run."""

    seconds: float
    """Time in ask and tell, without drawing samples."""
    certifying: float
    """Seconds for the gap of every re-solve, which is computed when it is read."""
    order: list[int]
    """The arm of every round."""
    resolves: list[int]
    """The sample counts at which the mixture was re-solved."""
    drawn: list[list[Rows]]
    selector: gx.Selector

    @property
    def per_round(self) -> float:
        return self.seconds / len(self.order)

    @property
    def certified(self) -> float:
        """Seconds of the run if the gap is read after every re-solve."""
        return self.seconds + self.certifying

    def first(self, count: int) -> dict[str, Rows]:
        """The samples of the first ``count`` rounds, by arm."""
        counts = np.bincount(self.order[:count], minlength=len(self.drawn))
        pairs = zip(self.selector.arms, self.drawn, counts, strict=True)
        return {arm: np.stack(rows[:n]) for arm, rows, n in pairs}

    def tally(self, count: int) -> Tally:
        """The statistics of the samples of the first ``count`` rounds."""
        return Pool.of(self.first(count), self.selector.objective).tally

    def loss(self, count: int) -> Loss:
        return self.tally(count).loss(range(len(self.drawn)))

    @property
    def weights(self) -> Rows:
        return np.array(list(self.selector.weights.values()))


def accepted_gap(found: gx.Solution) -> float:
    """The gap at which our solver stops: its tolerance, or the gap it reached if that is larger."""
    return max(found.gap, gx.Newton().tolerance * abs(found.loss))


def drive(
    world: list[Cloud],
    objective: gx.Objective,
    rounds: int,
    seed: int = 0,
    place: Callable[[Rows], Any] = lambda row: row,
    keep: bool = True,
) -> Run:
    """Run a selector with default options for ``rounds`` samples, including the warm start.

    ``place`` moves a sample to the device of the run; the samples are stored if ``keep``.
    """
    selector = gx.Selector(names(world), objective, warm_start=WARM_START, seed=seed)
    streams = [Stream(cloud, seed, i) for i, cloud in enumerate(world)]
    index = {name: i for i, name in enumerate(selector.arms)}
    run = Run(0.0, 0.0, [], [], [[] for _ in world], selector)
    spent, certifying, gap = 0.0, 0.0, selector.gap
    for count in range(1, rounds + 1):
        begin = perf_counter()
        (ticket,) = selector.ask()
        spent += perf_counter() - begin
        arm = index[ticket.arm]
        row = streams[arm].next()
        told = place(row)
        begin = perf_counter()
        selector.tell(ticket, told)
        spent += perf_counter() - begin
        run.order.append(arm)
        if keep:
            run.drawn[arm].append(row)
        begin = perf_counter()
        changed = selector.gap != gap  # every solve has a different gap
        certifying += perf_counter() - begin
        if changed:
            run.resolves.append(count)
            gap = selector.gap
    return Run(spent, certifying, run.order, run.resolves, run.drawn, selector)
