"""A whole online run with the Fréchet distance or log-Vendi, against the paper's procedure.

The paper's costs are measured in a few rounds, on the samples that our run drew, and summed over all
rounds. Mixtures are compared on the statistics of the last round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

import genmix as gx
from bench.child import fresh_peak_mebibytes, in_child, peak_mebibytes
from bench.clouds import Cloud, Rows, clouds, reference
from bench.online import WARM_START, Run, accepted_gap, drive
from bench.opponents import paper, slsqp
from bench.opponents.recompute import Recompute
from bench.table import Claim, Report, Row, Size, Table
from bench.timing import median_seconds, over_rounds, seconds, timed

MakeProblem = Callable[[Rows, int, int, paper.Eigh], paper.Statistics]
"""Makes the paper's statistics from reference, arms, number of samples and eigendecomposition."""

OBJECTIVES: dict[str, Callable[[Rows], gx.Objective]] = {
    "frechet": lambda real: gx.FrechetDistance(real),
    "vendi": lambda real: gx.Vendi(),
}


@dataclass(frozen=True)
class Parameters:
    d: int
    rounds: int
    reference: int
    timed_steps: int
    """Steps of the paper's procedure that are timed in each measured round."""
    tuning_steps: int
    factors: tuple[float, ...]
    """Step sizes to try."""
    final_steps: int
    arms: int = 5


SIZES: dict[Size, Parameters] = {
    "full": Parameters(1024, 5000, 5000, 20, 100, paper.FACTORS, paper.STEPS),
    "quick": Parameters(160, 800, 800, 20, 30, paper.FACTORS[1:5], 300),
    "tiny": Parameters(12, 90, 60, 3, 10, paper.FACTORS[2:4], 50, arms=3),
}


def measure(name: str, title: str, make_problem: MakeProblem, size: Size) -> Report:
    contest = Contest(name, size, make_problem)
    at, run, theirs = contest.at, contest.run, contest.theirs
    memory = in_child("bench.spectral_run:memory", name, size).value
    return Report(
        title,
        size,
        asdict(at) | {"warm_start": WARM_START},
        [contest.whole_run, contest.one_solve],
        contest.claims(),
        [
            f"{run.seconds:.4g} s in ask and tell over {at.rounds} rounds, {len(run.resolves)} "
            "re-solves; drawing samples is not timed",
            f"memory: {memory['extra']:.0f} MiB above the {memory['before']:.0f} MiB before the run "
            "(peak resident memory of a repetition in its own process)",
            f"paper: {paper.STEPS} steps per round; median of {at.timed_steps} steps after rounds "
            f"{', '.join(map(str, theirs.at))}, times {paper.STEPS}, interpolated linearly; with the "
            f"fastest eigendecomposition on this machine, {theirs.eigh}",
            f"paper's mixture: {at.final_steps} steps from uniform weights on the last statistics; step size "
            f"{theirs.step:.3g}, the best of {len(at.factors)} after {at.tuning_steps} steps each",
        ],
        {
            "run_seconds": run.seconds,
            "resolves": len(run.resolves),
            "last_gap_of_the_run": run.selector.gap,
            "memory_mib": memory,
            **theirs.figures(),
        },
    )


def memory(name: str, size: Size) -> dict[str, float]:
    """Runs in its own process: memory before the run, and what the run adds to the peak, in MiB."""
    world, _, objective = world_of(name, size)
    before = fresh_peak_mebibytes()
    run = drive(world, objective, SIZES[size].rounds, keep=False)
    return {"before": before, "extra": peak_mebibytes() - before, "seconds": run.seconds}


def world_of(name: str, size: Size) -> tuple[list[Cloud], Rows, gx.Objective]:
    world = clouds(SIZES[size].arms, SIZES[size].d)
    real = reference(world, SIZES[size].reference)
    return world, real, OBJECTIVES[name](real)


class PaperRun:
    """The paper's costs along our run, and its mixture at the end."""

    def __init__(self, run: Run, real: Rows, at: Parameters, make_problem: MakeProblem) -> None:
        self.eigh, self._eighs = paper.fastest_eigh(at.d)
        begin = WARM_START * at.arms
        # The paper's Vendi changes its form in round d.
        inside = (at.d // 2, at.d - 1, at.d, (at.d + at.rounds) // 2)
        self.at = sorted({begin, *(t for t in inside if begin < t < at.rounds), at.rounds})
        self._steps: list[float] = []
        self._updates: list[float] = []
        for count in self.at:
            arms = list(run.first(count).values())
            problem = make_problem(real, at.arms, count, paper.EIGHS[self.eigh])
            for arm, rows in enumerate(arms):
                problem.add(arm, rows[:-1] if arm == 0 else rows)
            last = arms[0][-1:]
            self._updates.append(seconds(problem.add, 0, last))
            alpha = paper.uniform(problem)
            self._steps.append(median_seconds(at.timed_steps, problem.expand, alpha))
        self.last_step = self._steps[-1]
        self.step = paper.tuned_step(problem, at.tuning_steps, at.factors)
        start = paper.uniform(problem)
        self.mixture, self.gaps = paper.descend(problem, start, self.step, at.final_steps)

    def seconds_of(self, rounds: Sequence[int]) -> float:
        """Seconds of the rounds that begin with these numbers of samples."""
        each = paper.STEPS * np.array(self._steps) + self._updates
        return over_rounds(self.at, list(each), rounds)

    def figures(self) -> dict[str, Any]:
        return {
            "eigh_seconds": self._eighs,
            "paper_seconds_per_step": dict(zip(self.at, self._steps, strict=True)),
            "paper_seconds_per_update": dict(zip(self.at, self._updates, strict=True)),
            "paper_step_size": self.step,
            "paper_gaps": self.gaps[:: max(1, len(self.gaps) // 100)],
        }


class Contest:
    """Our run, and the costs and mixtures of all opponents on its samples."""

    def __init__(self, name: str, size: Size, make_problem: MakeProblem) -> None:
        self.at = SIZES[size]
        world, real, objective = world_of(name, size)
        self.run = drive(world, objective, self.at.rounds)
        self.theirs = PaperRun(self.run, real, self.at, make_problem)
        self.final = self.run.loss(self.at.rounds)
        self.ours = gx.solve(self.final, self.run.weights)
        self.reached = self.final.expand(self.theirs.mixture)
        self.early = paper.steps_until(self.theirs.gaps, accepted_gap(self.ours))
        """Steps from uniform weights after which the paper reaches the gap at which our solver stops."""

    def claims(self) -> list[Claim]:
        every, schedule = self.whole_run.rows[2:4]
        excess = (self.ours.loss - self.reached.value) / abs(self.reached.value)
        return [
            Claim("paper over genmix, both unchanged", self.whole_run.ratio(every), 5000),
            Claim(
                "paper over genmix, with the same re-solves", self.whole_run.ratio(schedule), 100
            ),
            Claim(
                "relative excess of our last loss over the paper's", excess, 1e-6, at_least=False
            ),
        ]

    @cached_property
    def whole_run(self) -> Table:
        rounds, run, theirs = self.at.rounds, self.run, self.theirs
        solved = range(WARM_START * self.at.arms, rounds)
        every, schedule = (theirs.seconds_of(at) / rounds for at in (solved, run.resolves))
        here, package = self.reached, self.one_solve.rows[-1]
        rows = [
            Row("genmix, default selector", run.per_round, self.ours.loss, self.ours.gap),
            Row("the same, with the gap read after every re-solve", run.certified / rounds),
            Row("paper, in every round", every, here.value, here.gap, "scaled"),
            Row("paper, at our re-solves", schedule, how="scaled"),
        ]
        if self.early is not None:
            how = f"scaled, {self.early} steps instead of {paper.STEPS}"
            cost = schedule * self.early / paper.STEPS
            rows.append(Row("paper, at our re-solves, to our tolerance", cost, how=how))
        solves = over_rounds(theirs.at, self._package_seconds(), run.resolves) / rounds
        rows += [
            Row(
                "statistics from scratch and Newton, in every round",
                self._anew() / rounds,
                how="scaled",
            ),
            Row("SLSQP, at our re-solves", solves, package.loss, package.gap, "scaled"),
        ]
        return Table(
            "the whole run, with loss and gap of a final solve on all samples", "s/round", rows
        )

    @cached_property
    def one_solve(self) -> Table:
        """Forming the loss from the last statistics and solving; the paper does not form such a loss."""
        tally, arms = self.run.tally(self.at.rounds), range(self.at.arms)
        before = gx.solve(self.run.loss(int(self.at.rounds / 1.01)))
        ours, taken = timed(
            3, lambda: gx.Newton().solve(tally.loss(arms), before.weights, before.curvature)
        )
        package, package_taken = timed(1, lambda: slsqp.solve(tally.loss(arms), before.weights))
        there, here = self.final.expand(package), self.reached
        per_step, gaps = self.theirs.last_step, self.theirs.gaps
        rows = [
            Row("genmix, Newton", taken, ours.loss, ours.gap),
            Row("paper", paper.STEPS * per_step, here.value, here.gap, "scaled from its steps"),
        ]
        if self.early is not None:
            how = f"scaled, {self.early} steps from uniform with the tuned step size"
            cost = self.early * per_step
            rows.append(Row("paper, to our tolerance", cost, gap=gaps[self.early], how=how))
        rows.append(Row("SLSQP", package_taken, there.value, there.gap))
        title = "one solve on the last statistics, from the mixture of 1% fewer samples"
        return Table(title, "s/solve", rows)

    def _package_seconds(self) -> list[float]:
        """Seconds of SLSQP on our loss, always from the mixture of 1% fewer samples."""
        taken = []
        for count in self.theirs.at:
            loss, before = self.run.loss(count), gx.solve(self.run.loss(int(count / 1.01)))
            taken.append(seconds(slsqp.solve, loss, before.weights))
        return taken

    def _anew(self) -> float:
        """Seconds of all rounds with statistics from scratch and our own solver."""
        engine = Recompute(self.run.selector.objective, self.at.arms, self.at.d)
        taken = []
        for count in self.theirs.at:
            last = gx.solve(self.run.loss(count - 1))
            arms = list(self.run.first(count).values())
            taken.append(median_seconds(2, engine.round, arms, last))
        solved = range(WARM_START * self.at.arms, self.at.rounds)
        return over_rounds(self.theirs.at, taken, solved)
