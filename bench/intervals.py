"""Seconds for the bootstrap intervals of a mixture, against computing every replicate in full."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from time import perf_counter

import numpy as np

import genmix as gx
from bench.table import Claim, Report, Row, Size, Table
from genmix.objectives import Batch


@dataclass(frozen=True)
class Parameters:
    dimension: int
    arms: int
    samples: int
    """Samples of all arms together."""
    replicates: int
    in_full: int
    """Number of replicates that the opponent computes; its time is scaled."""


SIZES: dict[Size, Parameters] = {
    "full": Parameters(384, 6, 3000, 200, 10),
    "quick": Parameters(64, 6, 1200, 200, 5),
    "tiny": Parameters(4, 2, 40, 20, 2),
}

LIMIT = 30.0
"""Seconds within which the intervals should be known."""


def run(size: Size = "full") -> Report:
    at = SIZES[size]
    rng = np.random.default_rng(0)
    scales = [rng.uniform(0.2, 1.5, at.dimension) for _ in range(at.arms)]
    shape = (at.samples // at.arms, at.dimension)
    arms = {f"{i}": rng.normal(size=shape) * scale for i, scale in enumerate(scales)}
    reference = rng.normal(size=(at.samples, at.dimension))
    tables, slowest = [], 0.0
    for objective in (gx.Vendi(), gx.FrechetDistance(reference), gx.KernelDistance(reference)):
        mix = gx.optimal_mixture(arms, objective)
        begin = perf_counter()
        mix.intervals(at.replicates)
        taken = perf_counter() - begin
        opponent = solve_in_full(mix, at.in_full) * at.replicates / at.in_full
        title = f"{objective.name}, {at.replicates} replicates"
        rows = [Row("genmix", taken), Row("a warm re-solve of every resample, scaled", opponent)]
        tables.append(Table(title, "s", rows))
        slowest = max(slowest, taken)
    return Report(
        "intervals",
        size,
        asdict(at),
        tables,
        [Claim("seconds of the slowest objective", slowest, LIMIT, at_least=False)],
        [f"the opponent computes {at.in_full} replicates"],
        {},
    )


def solve_in_full(mix: gx.Mixture, replicates: int) -> float:
    """Return the seconds to resample, compute the statistics and solve again from the best mixture."""
    rng, alpha = np.random.default_rng(1), np.array(list(mix.weights.values()))
    samples = mix.pool.samples or ()
    begin = perf_counter()
    for _ in range(replicates):
        tally = mix.objective.tally(len(samples), samples[0].embeddings)
        for arm, batch in enumerate(samples):
            rows = rng.integers(0, len(batch), len(batch))
            tally.add(arm, Batch(batch.embeddings[rows]))
        mix.solver.solve(tally.loss(range(len(samples))), alpha)
    return perf_counter() - begin
