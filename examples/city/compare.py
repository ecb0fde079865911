"""What a learned mixture is worth: scores of data sets of equal size, composed in several ways."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import genmix as gx

CHOICES = 100
"""Number of random choices behind each number with ±."""

Pools = dict[str, NDArray[np.float64]]
"""Embeddings by arm, the same number for each."""


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation over the choices."""

    mean: float
    deviation: float

    @property
    def cells(self) -> tuple[str, str]:
        return f"{self.mean:.1f}", f"± {self.deviation:.1f}"


@dataclass(frozen=True)
class Comparison:
    """Vendi scores of data sets of equal size: each arm alone, the mixture, all arms in equal shares."""

    size: int
    alone: dict[str, float]
    mixture: Spread
    evenly: Spread

    @property
    def best(self) -> str:
        return max(self.alone, key=self.alone.__getitem__)


def compare(pools: Pools, weights: Mapping[str, float], seed: int = 0) -> Comparison:
    rng = np.random.default_rng(seed)
    (size,) = {len(pool) for pool in pools.values()}
    return Comparison(
        size,
        alone={arm: vendi(pool) for arm, pool in pools.items()},
        mixture=mixed(pools, [weights.get(arm, 0.0) for arm in pools], size, rng),
        evenly=mixed(pools, [1.0] * len(pools), size, rng),
    )


def mixed(pools: Pools, shares: list[float], size: int, rng: np.random.Generator) -> Spread:
    """The score of ``size`` samples in these shares, chosen from the pools without replacement."""
    counts = dict(zip(pools, apportion(np.array(shares), size), strict=True))

    def choose() -> NDArray[np.float64]:
        chosen = [rng.choice(pools[arm], n, replace=False) for arm, n in counts.items()]
        return np.concatenate(chosen)

    scores = [vendi(choose()) for _ in range(CHOICES)]
    return Spread(float(np.mean(scores)), float(np.std(scores, ddof=1)))


def apportion(shares: NDArray[np.float64], size: int) -> NDArray[np.int64]:
    """Whole numbers proportional to the shares that sum to ``size``, by largest remainders."""
    exact = shares / shares.sum() * size
    counts = np.floor(exact).astype(int)
    most_left = np.argsort(counts - exact, kind="stable")
    counts[most_left[: size - counts.sum()]] += 1
    return counts


def vendi(rows: NDArray[np.float64]) -> float:
    return float(gx.score({"rows": rows}, gx.Vendi()).pooled["vendi"])
