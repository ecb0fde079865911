"""A whole online run with RKE or the kernel distance and an exact Gaussian kernel.

The opponent is the published loop: in every round, the kernel values of the new sample by pairwise
differences, then one CVXPY solve. It runs as in the published script, and in the fastest optimized form
that we found. Both are measured in a few rounds at several lengths of the run, on the samples and sums
that our run had there, and summed over all rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

import genmix as gx
from bench.clouds import Rows, clouds, reference, samples
from bench.online import WARM_START, Run, drive
from bench.opponents import cvxpy_loop, naive_kernels
from bench.opponents.published_loop import BLOCK, PublishedLoop, kernel_total
from bench.opponents.recompute import Recompute
from bench.table import Claim, Report, Row, Size, Table
from bench.timing import median_seconds, over_rounds, seconds, timed

SIMULATIONS = 10
"""Number of runs for which the published script computes the sum over all pairs of the reference once."""


@dataclass(frozen=True)
class Parameters:
    d: int
    rounds: int
    reference: int
    lengths: int
    """Number of lengths of the run at which the opponents are measured."""
    measured: int
    """Measured rounds of the opponents at each length."""
    repeats: int = 3
    """Number of our runs, of which the median counts."""
    arms: int = 5


SIZES: dict[Size, Parameters] = {
    "full": Parameters(1024, 3000, 3000, 5, 12),
    "quick": Parameters(512, 800, 800, 3, 8),
    "tiny": Parameters(8, 60, 40, 2, 2, repeats=1, arms=3),
}


@dataclass(frozen=True)
class Kind:
    """An objective of this family: its constructor, the power of its kernel, its target."""

    title: str
    objective: Callable[[Rows, gx.Gaussian], gx.Objective]
    power: int
    has_reference: bool
    target: float


def measure(kind: Kind, size: Size, part: float = 1.0) -> Report:
    """Measure a run, or the first part of its rounds, which is then measured more often."""
    at = SIZES[size]
    rounds, repeats, measured = part * at.rounds, at.repeats / part, at.measured / part
    at = replace(at, rounds=round(rounds), repeats=round(repeats), measured=round(measured))
    world = clouds(at.arms, at.d)
    real = reference(world, at.reference)
    kernel = gx.Gaussian().fix_bandwidths([*samples(world, 50).values(), real[:50]])
    runs = [drive(world, kind.objective(real, kernel), at.rounds) for _ in range(at.repeats)]
    run = sorted(runs, key=lambda each: each.seconds)[at.repeats // 2]
    final: Any = run.loss(at.rounds)
    ours = gx.solve(final, run.weights)
    theirs = TheirRun(kind, run, real if kind.has_reference else None, float(kernel.bandwidth), at)
    published, tuned = (final.expand(mixture) for mixture in theirs.mixtures)
    once = _seconds_of_reference_sum(run.selector.objective, real) if kind.has_reference else 0.0
    ours_alone = run.per_round - once / at.rounds
    without_sum, with_sum, notes = [], [], []
    if kind.has_reference:
        without_sum, with_sum, notes = _reference_rows(theirs, ours_alone, once, at.rounds)
    table = Table(
        "the whole run, with loss and gap of a final solve on all samples",
        "s/round",
        [
            Row("genmix, default selector", run.per_round, ours.loss, ours.gap),
            *without_sum,
            Row("published loop", theirs.published, published.value, published.gap, "scaled"),
            *with_sum,
            Row("published loop, float32 samples", theirs.single, how="scaled"),
            Row("published loop, optimized", theirs.tuned, tuned.value, tuned.gap, "scaled"),
            Row("  kernel rows only", theirs.rows, how=f"scaled, {theirs.differences}"),
            Row("  CVXPY only", theirs.solves, how=f"scaled, {theirs.solver}"),
            Row("statistics from scratch, Newton", _anew(run, theirs.at) / at.rounds, how="scaled"),
        ],
    )
    claim = "rounds per second over those of the published loop"
    if kind.has_reference:
        claim += ", both without the sum over the reference"
    return Report(
        kind.title,
        size,
        asdict(at) | {"warm_start": WARM_START, "bandwidth": kernel.bandwidth},
        [table],
        [Claim(claim, theirs.published / ours_alone, kind.target)],
        [
            f"{run.seconds:.4g} s in ask and tell over {at.rounds} rounds, {len(run.resolves)} "
            f"re-solves, median of {at.repeats} runs; drawing samples is not timed",
            f"opponents: median of {at.measured} rounds after rounds "
            f"{', '.join(map(str, theirs.at))}, interpolated linearly",
            "published loop: converts the samples to float32 in every round, or gets float32 samples; "
            "evaluates the reference once per arm, and builds the CVXPY problem in every round",
            *notes,
            "optimized: float64 like ours, the reference once, reused buffers, one CVXPY problem with "
            "parameters; the fastest of its libraries, block shapes and solvers",
        ],
        {"run_seconds": run.seconds, "resolves": len(run.resolves), **theirs.figures},
    )


def _reference_rows(
    theirs: TheirRun, ours_alone: float, once: float, rounds: int
) -> tuple[list[Row], list[Row], list[str]]:
    """Our run without the sum over the reference, theirs with it, and a note about both."""
    every, tenth = (theirs.published + theirs.once / runs for runs in (1, SIMULATIONS))
    with_sum = [
        Row("  with its sum over the reference", every, how="scaled"),
        Row(f"  with that sum in one of {SIMULATIONS} runs", tenth, how="scaled"),
    ]
    note = (
        f"the sum over all pairs of the reference is computed once per run in genmix ({once:.3g} s); the "
        f"published script computes it once for {SIMULATIONS} simulations and uses it only in the "
        f"score ({theirs.once * rounds:.3g} s)"
    )
    return [Row("  without its sum over the reference", ours_alone)], with_sum, [note]


def _seconds_of_reference_sum(objective: Any, real: Rows) -> float:
    """Seconds of our sum over all pairs of the reference."""
    return median_seconds(3, objective.tally(1, real[:1]).reference_total)


class TheirRun:
    """Seconds per round of the published loop and of its optimized form, and their last mixtures."""

    def __init__(
        self, kind: Kind, run: Run, real: Rows | None, sigma: float, at: Parameters
    ) -> None:
        self._run, self._real, self._measured = run, real, at.measured
        self._kernel = (sigma, kind.power)
        begin = WARM_START * at.arms
        last = at.rounds - at.measured
        self.at = [int(count) for count in np.linspace(begin, last, at.lengths)]
        loss: Any = run.loss(at.rounds)
        self.solver, solvers, self._solve = cvxpy_loop.fastest(loss.matrix, loss.linear, 5)
        pool = np.concatenate(list(run.first(at.rounds // 2).values())) if real is None else real
        self.differences, shapes, self._sum = naive_kernels.fastest(
            pool[:1], pool, sigma, kind.power, 5
        )
        medians = np.array([self._rounds(count) for count in self.at])
        solved = range(begin, at.rounds)
        self.published, self.single, self.rows, self.solves = (
            over_rounds(self.at, list(part), solved) / at.rounds for part in medians.T
        )
        self.tuned = self.rows + self.solves
        self.once = self._reference_sum() / at.rounds
        """Seconds per round for the sum over all pairs of the reference, which is computed once."""
        self.figures = {
            "published_single_row_solve_seconds_at": dict(
                zip(self.at, medians.tolist(), strict=True)
            ),
            "cvxpy_seconds": solvers,
            "row_seconds_by_block": shapes,
        }

    def _reference_sum(self) -> float:
        if self._real is None:
            return 0.0
        block = self._real[:BLOCK]
        taken = median_seconds(3, kernel_total, block, block, *self._kernel)
        return taken * (len(self._real) / len(block)) ** 2

    def _rounds(self, count: int) -> list[float]:
        """Median seconds of a published round with float64 and float32 samples, and of the kernel
        rows and the solve of the optimized form."""
        double, single, tuned = self._loops(count)
        later = list(self._run.first(count + self._measured).values())
        taken = []
        for arm in self._run.order[count : count + self._measured]:
            row = later[arm][tuned.counts[arm]]
            whole = seconds(double.round, arm, row)
            in_single = seconds(single.round, arm, row.astype(np.float32))
            added = seconds(tuned.add, arm, row)
            mixture, solved = timed(1, lambda: self._solve(*tuned.means()))
            taken.append((whole, in_single, added, solved))
        self.mixtures = (double.solve(), mixture)
        return [float(median) for median in np.median(np.array(taken), axis=0)]

    def _loops(self, count: int) -> tuple[PublishedLoop, PublishedLoop, naive_kernels.PairSums]:
        """The loops with the samples and sums after ``count`` rounds."""
        loss: Any = self._run.loss(count)
        arms = list(self._run.first(count).values())
        counts = np.array([len(rows) for rows in arms])
        cross = loss.linear * counts * (0 if self._real is None else len(self._real))
        pairs = loss.matrix * np.outer(counts, counts)
        single = [rows.astype(np.float32) for rows in arms]
        real = None if self._real is None else self._real.astype(np.float32)
        return (
            PublishedLoop(arms, pairs, cross, self._real, *self._kernel),
            PublishedLoop(single, pairs, cross, real, *self._kernel),
            naive_kernels.PairSums(arms, self._measured, pairs, cross, self._real, self._sum),
        )


def _anew(run: Run, at: list[int]) -> float:
    """Seconds of all rounds with statistics from scratch and our own solver."""
    arms = len(run.drawn)
    engine = Recompute(run.selector.objective, arms, len(run.drawn[0][0]))
    taken = []
    for count in at:
        last = gx.solve(run.loss(count - 1))
        held = list(run.first(count).values())
        taken.append(seconds(engine.round, held, last))
    return over_rounds(at, taken, range(WARM_START * arms, len(run.order)))
