"""Random parts of the samples in hand, and how much what they say varies."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from genmix.objectives import Batch

BEYOND = 3.0
"""What is this many standard deviations over the splits above zero is called more than chance."""


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation (1/(n−1)) over subsamples."""

    mean: float
    std: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        with np.errstate(invalid="ignore"):  # infinite where an arm cannot be left out
            return cls(float(np.mean(values)), float(np.std(values, ddof=1)))

    @property
    def is_beyond_chance(self) -> bool:
        return self.mean > BEYOND * self.std

    def __str__(self) -> str:
        return f"{self.mean:.4g} ± {self.std:.2g}"


def half_rows(
    count: int, name: str, seed: int, index: int, least: int = 1
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows of two random halves of an arm; they depend on its label, not on the other arms."""
    order = shuffled(count, name, seed, index)
    cut = max(count // 2, least)
    return np.sort(order[:cut]), np.sort(order[cut:])


def shuffled(count: int, name: str, seed: int, index: int) -> NDArray[np.int64]:
    return np.random.default_rng([seed, index, zlib.crc32(name.encode())]).permutation(count)


def some_of(batch: Batch, count: int, rng: np.random.Generator) -> Batch:
    """So many random samples, or all where there are fewer."""
    return rows_of(batch, np.sort(rng.permutation(len(batch))[:count]))


def rows_of(batch: Batch, rows: NDArray[np.int64]) -> Batch:
    return Batch(
        batch.embeddings[rows.tolist(), :],
        None if batch.quality is None else batch.quality[rows],
        None if batch.cost is None else batch.cost[rows],
    )
