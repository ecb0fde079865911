"""What a learnt mixture is worth: scores at equal numbers of samples, all taken from one run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import genmix as gx

CHOICES = 40
"""How often samples are chosen anew for one figure."""

Pools = dict[str, NDArray[np.float64]]


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation over the choices."""

    mean: float
    deviation: float

    def __str__(self) -> str:
        return f"{self.mean:.1f} ± {self.deviation:.1f}"


@dataclass(frozen=True)
class Row:
    """One arm, and as many samples of the mixture and of all arms evenly; None where they are too few."""

    arm: str
    weight: float
    samples: int
    alone: float
    mixture: Spread | None
    evenly: Spread | None

    @property
    def gain(self) -> float:
        """By which share the mixture is better than this arm."""
        return -np.inf if self.mixture is None else self.mixture.mean / self.alone - 1


def compare(pools: Pools, weights: Mapping[str, float], seed: int = 0) -> list[Row]:
    rng = np.random.default_rng(seed)
    learnt = np.array([weights.get(arm, 0.0) for arm in pools])
    even = np.full(len(pools), 1 / len(pools))
    return [
        Row(
            arm,
            weights.get(arm, 0.0),
            len(pool),
            vendi(pool),
            expected(pools, learnt, len(pool), rng),
            expected(pools, even, len(pool), rng),
        )
        for arm, pool in pools.items()
    ]


def expected(
    pools: Pools, shares: NDArray[np.float64], size: int, rng: np.random.Generator
) -> Spread | None:
    """The Vendi score of ``size`` samples in these shares, chosen without replacement."""
    counts = apportion(shares, size)
    if any(count > len(pool) for count, pool in zip(counts, pools.values(), strict=True)):
        return None
    scores = [
        vendi(
            np.concatenate(
                [
                    rng.choice(pool, count, replace=False)
                    for pool, count in zip(pools.values(), counts, strict=True)
                ]
            )
        )
        for _ in range(CHOICES)
    ]
    return Spread(float(np.mean(scores)), float(np.std(scores, ddof=1)))


def apportion(shares: NDArray[np.float64], size: int) -> NDArray[np.int64]:
    """Whole numbers in these shares that add up to ``size``, by largest remainders."""
    exact = shares / shares.sum() * size
    counts = np.floor(exact).astype(int)
    most_left = np.argsort(counts - exact, kind="stable")
    counts[most_left[: size - counts.sum()]] += 1
    return counts


def vendi(rows: NDArray[np.float64]) -> float:
    return float(gx.score({"rows": rows}, gx.Vendi()).pooled["vendi"])
