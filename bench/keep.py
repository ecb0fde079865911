"""Keep the best k of N samples: time to a gap, on the CPU or on a CUDA device.

The samples are clustered, with a few large clusters and many small ones, as generated data is. Opponents run
at the sizes that they can do: greedy selection by the score, and farthest-point selection.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

import numpy as np

import genmix as gx
from bench.clouds import Rows
from bench.opponents import greedy_vendi
from bench.table import Claim, Report, Row, Size, Table

TITLE = "keep the best k of N samples"


@dataclass(frozen=True)
class Parameters:
    """A large set for the time to a gap, and a small one for the opponents."""

    n: int
    d: int
    k: int
    seconds: float
    gap: float
    """Target gap of the logarithm of the score."""
    small: tuple[int, int, int] = (2000, 64, 200)


SIZES: dict[Size, Parameters] = {
    "full": Parameters(50_000, 384, 5_000, 90.0, 1e-3),
    "quick": Parameters(5_000, 128, 1_000, 20.0, 1e-3, (500, 64, 100)),
    "tiny": Parameters(200, 8, 40, 20.0, 1e-2, (60, 8, 12)),
}

CUDA = Parameters(200_000, 1024, 50_000, 15.0, 5e-4)
"""The full size on a CUDA device."""


def run(size: Size = "full", device: str | None = None) -> Report:
    """Run on ``device``, by default on the CPU with numpy."""
    at = CUDA if size == "full" and device not in (None, "cpu") else SIZES[size]
    rows = clustered(at.n, at.d)
    samples = rows if device is None else _moved(rows, device)
    begin = perf_counter()
    found = gx.keep(samples, at.k, gx.Vendi(), tolerance=at.gap)
    taken = perf_counter() - begin
    where = device or "numpy"
    large = Table(
        f"{at.k:,} of {at.n:,} samples, {at.d} dimensions, {where}",
        "s",
        [Row("keep", taken, float(found.score), found.gap)],
        reached="Vendi",
    )
    return Report(
        TITLE,
        size,
        asdict(at) | {"device": where},
        [large, _opponents(at)],
        [
            Claim("seconds", taken, at.seconds, at_least=False),
            Claim("gap of the logarithm of the score", found.gap, at.gap, at_least=False),
        ],
        [
            f"a random set of the same size scores {_random_score(rows, at.k):.6g}",
            f"memory: two copies of the samples, {2 * 8 * at.n * at.d / 2**30:.3g} GiB, and a few matrices "
            f"of {at.d} × {at.d}",
        ],
    )


def clustered(n: int, d: int, seed: int = 0) -> Rows:
    """Draw unit vectors from clusters whose sizes follow a power law, with a decaying spectrum."""
    rng = np.random.default_rng(seed)
    scales = np.arange(1.0, d + 1) ** -0.5
    clusters = max(10, n // 100)
    shares = np.arange(1.0, clusters + 1) ** -1.0
    owners = rng.choice(clusters, n, p=shares / shares.sum())
    centers = rng.standard_normal((clusters, d)) * scales
    rows = centers[owners] + 0.5 * rng.standard_normal((n, d)) * scales
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def _random_score(rows: Rows, k: int) -> float:
    return float(gx.score({"random": rows[:k]}, gx.Vendi()).pooled["vendi"])


def _moved(rows: Rows, device: str) -> Any:
    import torch

    return torch.as_tensor(rows, device=device)


def _opponents(at: Parameters) -> Table:
    n, d, k = at.small
    rows = clustered(n, d, seed=1)
    found = []
    for who, choose in (
        ("keep", lambda: gx.keep(rows, k, gx.Vendi()).indices),
        ("lazy greedy", lambda: greedy_vendi.lazy_greedy(rows, k)),
        ("farthest point", lambda: greedy_vendi.farthest_point(rows, k)),
    ):
        begin = perf_counter()
        chosen = choose()
        taken = perf_counter() - begin
        found.append(Row(who, taken, _random_score(rows[chosen], k)))
    return Table(f"{k} of {n} samples, {d} dimensions", "s", found, reached="Vendi")
