"""Random halves and subsamples of the arms, and the spread of a number over them."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from genmix.core.streams import private_stream
from genmix.diagnosis.thresholds import CHANCE_SIGMAS
from genmix.objectives import Batch


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation (with ``1/(n−1)``) over subsamples or splits."""

    mean: float
    std: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        with np.errstate(invalid="ignore"):  # values can be infinite if an arm cannot be left out
            return cls(float(np.mean(values)), float(np.std(values, ddof=1)))

    @property
    def is_beyond_chance(self) -> bool:
        """Whether the mean is significantly above zero."""
        return self.mean > CHANCE_SIGMAS * self.std

    def __str__(self) -> str:
        return f"{self.mean:.4g} ± {self.std:.2g}"


def half_rows(
    count: int, name: str, seed: int, index: int, least: int = 1
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the row numbers of two random halves of an arm; the first has at least ``least`` rows.

    The split depends on the arm's label but not on the other arms.
    """
    order = shuffled_rows(count, name, seed, index)
    cut = max(count // 2, least)
    return np.sort(order[:cut]), np.sort(order[cut:])


def shuffled_rows(count: int, name: str, seed: int, index: int) -> NDArray[np.int64]:
    path = (index, zlib.crc32(name.encode()))
    return private_stream(seed, "diagnosis", *path).permutation(count)


def random_rows(rows: NDArray[np.int64], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw ``count`` of these rows without replacement, or all of them if there are fewer."""
    return rows[np.sort(rng.permutation(len(rows))[:count])]


def take_rows(batch: Batch, rows: NDArray[np.int64]) -> Batch:
    return Batch(
        batch.embeddings[rows.tolist(), :],
        None if batch.quality is None else batch.quality[rows],
        None if batch.cost is None else batch.cost[rows],
    )
