"""Keep the best k of N samples: time to a gap, on the CPU or on a CUDA device.

The samples are clustered, with a few large clusters and many small ones, as generated data is. Opponents run
at the sizes that they can do: greedy selection by the score, farthest-point selection, and the facility
location of ``apricot-select``, if it is installed. That one stores all N × N similarities.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from time import perf_counter
from typing import Any

import numpy as np

import genmix as gx
from bench.clouds import Rows
from bench.opponents import greedy_vendi
from bench.table import Claim, Report, Row, Size, Table
from genmix.paper import keep_rivals

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
            f"a random set of the same size scores {_score(rows[: at.k]):.6g}",
            f"memory beside the samples: about three copies, {3 * 8 * at.n * at.d / 2**30:.3g} GiB, and a "
            f"few matrices of {at.d} × {at.d}",
            *_missing(),
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


def _score(rows: Rows) -> float:
    return float(gx.score({"rows": rows}, gx.Vendi()).pooled["vendi"])


def _moved(rows: Rows, device: str) -> Any:
    import torch

    return torch.as_tensor(rows, device=device)


def _opponents(at: Parameters) -> Table:
    n, d, k = at.small
    rows = clustered(n, d, seed=1)
    ways: dict[str, Callable[[], Any]] = {
        "keep": lambda: gx.keep(rows, k, gx.Vendi()).indices,
        "lazy greedy": lambda: greedy_vendi.lazy_greedy(rows, k),
        "farthest point": lambda: greedy_vendi.farthest_point(rows, k),
    }
    if _has_apricot():
        apricot = keep_rivals.apricot_facility_location
        apricot(rows[:20], 5, "lazy")  # importing it takes longer than using it
        ways["apricot, facility location"] = lambda: apricot(rows, k, "lazy")
    found = []
    for who, choose in ways.items():
        begin = perf_counter()
        chosen = choose()
        taken = perf_counter() - begin
        found.append(Row(who, taken, _score(rows[chosen])))
    return Table(f"{k} of {n} samples, {d} dimensions", "s", found, reached="Vendi")


def _has_apricot() -> bool:
    return find_spec("apricot") is not None


def _missing() -> list[str]:
    if _has_apricot():
        return ["the time of apricot includes its compilation, which it repeats in every call"]
    return ["apricot's facility location is left out; pip install apricot-select to include it"]
