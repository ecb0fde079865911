"""Computing a score: pooled Vendi against the vendi-score package, FD against textbook sqrtm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import genmix as gx
from bench.clouds import Rows, clouds, reference, samples
from bench.opponents import textbook_frechet, vendi_package
from bench.table import Claim, Report, Row, Size, Table
from bench.timing import timed
from genmix.objectives.pool import Pool


@dataclass(frozen=True)
class Parameters:
    d: int
    few: int
    """Total samples, fewer than dimensions."""
    many: int
    gram: int
    """Total samples with an exact Gaussian kernel."""
    repeats: int
    arms: int = 5


SIZES: dict[Size, Parameters] = {
    "full": Parameters(1024, 500, 5000, 2000, 5),
    "quick": Parameters(128, 60, 600, 200, 5),
    "tiny": Parameters(8, 6, 30, 12, 1, arms=3),
}


def run(size: Size = "full") -> Report:
    at = SIZES[size]
    world = clouds(at.arms, at.d)
    real = reference(world, 2 * at.d)
    mean, covariance = real.mean(axis=0), np.cov(real, rowvar=False, bias=True)
    drawn = {n: samples(world, n // at.arms) for n in (at.few, at.many, at.gram)}
    kernel = gx.Gaussian().fix_bandwidths(list(drawn[at.gram].values()))
    tables = [
        _compare(f"Vendi, {n} samples, cosine", gx.Vendi(), drawn[n], vendi_package.score, at)
        for n in (at.few, at.many)
    ]
    tables.append(
        _compare(
            f"Vendi, {at.gram} samples, exact Gaussian",
            gx.Vendi(kernel=kernel),
            drawn[at.gram],
            lambda rows: vendi_package.score_of_kernel(_gaussian(rows, float(kernel.bandwidth))),
            at,
        )
    )
    tables.append(
        _compare(
            f"FD, {at.many} samples",
            gx.FrechetDistance(real),
            drawn[at.many],
            lambda rows: textbook_frechet.distance(rows, mean, covariance),
            at,
        )
    )
    apart = max(_apart(table) for table in tables)
    return Report(
        "scores of existing samples",
        size,
        asdict(at),
        tables,
        [Claim("relative difference of the scores", apart, 1e-6, at_least=False)],
        [
            "from samples: statistics and score; from statistics: only the score, as in a run",
            "every arm has the same number of samples; a pooled score is that of all samples as one set",
        ],
    )


def _apart(table: Table) -> float:
    """The relative difference between the scores of the first and the last row."""
    ours, theirs = (table.rows[i].loss or np.nan for i in (0, -1))
    return abs(ours / theirs - 1)


def _compare(
    title: str,
    objective: gx.Objective,
    arms: dict[str, Rows],
    theirs: Callable[[Rows], float],
    at: Parameters,
) -> Table:
    pool = Pool.of(arms, objective)
    everything = np.concatenate(list(arms.values()))

    def from_samples() -> Any:
        return Pool.of({"all": everything}, objective).pooled_score()

    ours, taken = timed(at.repeats, from_samples)
    read: Any
    read, read_taken = timed(at.repeats, pool.pooled_score)
    other, other_taken = timed(at.repeats, theirs, everything)
    who = "textbook, sqrtm" if isinstance(objective, gx.FrechetDistance) else "vendi-score"
    return Table(
        title,
        "s",
        [
            Row("genmix, from samples", taken, float(ours)),
            Row("genmix, from statistics", read_taken, float(read)),
            Row(who, other_taken, other),
        ],
        reached="score",
    )


def _gaussian(rows: Rows, sigma: float) -> Rows:
    """The kernel matrix by one matrix product; the package expects it as input."""
    squares = np.sum(rows * rows, axis=1)
    apart = squares[:, None] + squares - 2 * rows @ rows.T
    kernel: Rows = np.exp(-np.maximum(apart, 0.0) / (2 * sigma**2))
    return kernel
