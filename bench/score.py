"""Scores of existing samples against the packages and formulas that others use for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import genmix as gx
from bench.clouds import Rows
from bench.opponents import distance_formulas, vendi_package
from bench.table import Claim, Report, Row, Size, Table
from bench.timing import timed
from genmix.kernels.balls import Balls, scores_against
from genmix.objectives.pool import Pool


@dataclass(frozen=True)
class Parameters:
    d: int
    counts: tuple[int, ...]
    """Number of samples, and of reference samples."""
    exact: int
    """Most samples for the Vendi score with an exact kernel, whose cost grows with their cube."""
    pairs: int
    """Most samples for peers that store a matrix of all pairs."""
    subsets: int
    repeats: int


SIZES: dict[Size, Parameters] = {
    "full": Parameters(512, (2000, 10_000, 50_000), 2000, 10_000, 100, 3),
    "quick": Parameters(64, (200, 1000), 200, 1000, 10, 3),
    "tiny": Parameters(8, (40,), 40, 40, 2, 1),
}

Contestant = tuple[str, Callable[[], float]]


def run(size: Size = "full") -> Report:
    at = SIZES[size]
    tables = [table for n in at.counts for table in _tables(n, at)]
    slowest = min(_lead(table) for table in tables)
    apart = max(_apart(table) for table in tables)
    return Report(
        "scores of existing samples",
        size,
        asdict(at),
        tables,
        [
            Claim("time of the fastest peer, relative to genmix, in its worst table", slowest, 1.0),
            Claim("relative difference from exact peers", apart, 1e-6, at_least=False),
        ],
        [
            "all contestants start from samples and from what the reference needs once: its mean and "
            "covariance, its neighborhoods, or its samples",
            "the eigenvalues of the samples' covariance decay like those of image embeddings (k^−1.5)",
            "clean-fid estimates the kernel distance from random subsets; the others are exact",
        ],
    )


def _samples(n: int, d: int) -> tuple[Rows, Rows]:
    """Samples and reference with a spectrum like that of embeddings."""
    rng = np.random.default_rng(0)
    factor = np.linalg.qr(rng.normal(size=(d, d)))[0] * np.arange(1, d + 1)[:, None] ** -0.75
    shift = 0.05 * rng.normal(size=d)
    return rng.normal(size=(n, d)) @ factor + shift, rng.normal(size=(n, d)) @ factor


def _tables(n: int, at: Parameters) -> list[Table]:
    rows, real = _samples(n, at.d)
    found = [_compare(f"Vendi, cosine, {n:,} samples", *_vendi(rows), at=at)]
    if n <= at.exact:
        found.append(_compare(f"Vendi, exact Gaussian, {n:,} samples", *_gaussian(rows), at=at))
    found.append(_compare(f"FD, {n:,} samples", *_frechet(rows, real), at=at))
    found.append(_compare(f"KD (KID), {n:,} samples", *_kernel_distance(rows, real, at), at=at))
    if n <= at.pairs:
        title = f"precision, recall, density, coverage, {n:,} samples"
        found.append(_compare(title, *_neighbors(rows, real), at=at))
    return found


def _ours(rows: Rows, objective: gx.Objective) -> Contestant:
    def score() -> float:
        found: Any = Pool.of({"all": rows}, objective).pooled_score()
        return float(found)

    return "genmix", score


def _vendi(rows: Rows) -> list[Contestant]:
    return [_ours(rows, gx.Vendi()), ("vendi-score", lambda: vendi_package.score(rows))]


def _gaussian(rows: Rows) -> list[Contestant]:
    kernel = gx.Gaussian().fix_bandwidths([rows])

    def theirs() -> float:
        squares, sigma = np.sum(rows * rows, axis=1), float(kernel.bandwidth)
        apart = squares[:, None] + squares - 2 * rows @ rows.T
        return vendi_package.score_of_kernel(np.exp(-np.maximum(apart, 0.0) / (2 * sigma**2)))

    return [_ours(rows, gx.Vendi(kernel=kernel)), ("vendi-score", theirs)]


def _frechet(rows: Rows, real: Rows) -> list[Contestant]:
    mean, covariance = real.mean(axis=0), np.cov(real, rowvar=False)
    formulas = {
        "clean-fid's formula": distance_formulas.clean_fid,
        "torch-fidelity's formula": distance_formulas.torch_fidelity,
        "POT": distance_formulas.optimal_transport,
    }
    peers: list[Contestant] = [
        (name, lambda formula=formula: formula(rows, mean, covariance))  # type: ignore[misc]
        for name, formula in formulas.items()
    ]
    return [_ours(rows, gx.FrechetDistance(real, ddof=1)), *peers]


def _kernel_distance(rows: Rows, real: Rows, at: Parameters) -> list[Contestant]:
    objective = gx.KernelDistance(real, gx.Polynomial(), unbiased=True)
    peers: list[Contestant] = []
    if len(rows) <= at.pairs:
        peers.append(
            ("torch-fidelity's formula", lambda: distance_formulas.kernel_distance(rows, real))
        )
    name = f"clean-fid's {at.subsets} subsets (estimate)"
    peers.append((name, lambda: distance_formulas.subset_distance(rows, real, at.subsets)))
    return [_ours(rows, objective), *peers]


def _neighbors(rows: Rows, real: Rows) -> list[Contestant]:
    from prdc import compute_prdc

    return [
        ("genmix", lambda: sum(scores_against(Balls.around(real, 5), rows).values())),
        ("prdc", lambda: float(sum(compute_prdc(real, rows, 5).values()))),
    ]


def _compare(title: str, *contestants: Contestant, at: Parameters) -> Table:
    rows = []
    for name, action in contestants:
        value, seconds = timed(at.repeats, action)
        rows.append(Row(name, seconds, value))
    return Table(title, "s", rows, reached="score")


def _lead(table: Table) -> float:
    """How much longer the fastest peer takes; an estimate from subsets is not a peer of an exact score."""
    exact = [row for row in table.rows[1:] if "estimate" not in row.who]
    return min((table.ratio(row) for row in exact), default=np.inf)


def _apart(table: Table) -> float:
    """The largest relative difference between our score and an exact peer's."""
    ours = table.rows[0].loss or np.nan
    exact = [row.loss or np.nan for row in table.rows[1:] if "estimate" not in row.who]
    return max((abs(ours / theirs - 1) for theirs in exact), default=0.0)
