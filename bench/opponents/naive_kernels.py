"""Gaussian kernels by pairwise differences in a three-dimensional block, as in published code.

``(x[:, None, :] − y[None, :, :])²`` is summed over the last axis, in a reused block. The published
code uses torch in float32; this module also has numpy and torch in float64, with the fastest of several
block shapes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.timing import median_seconds

Array = NDArray[np.float64]
Sum = Callable[[Array, Array], float]

SHAPES = ((1, 32), (1, 128), (1, 512), (8, 8), (8, 32), (32, 32), (64, 64))
"""Block shapes: rows of x and rows of y."""


class BlockSum(ABC):
    """``Σ_ab k(x_a, y_b)^power``, one block of pairs at a time."""

    def __init__(self, shape: tuple[int, int], sigma: float, power: int) -> None:
        self._shape, self._rate = shape, -power / (2 * sigma**2)

    def __call__(self, x: Any, y: Any) -> float:
        rows, columns = self._shape
        return sum(
            self._part(x[i : i + rows], y[j : j + columns])
            for i in range(0, len(x), rows)
            for j in range(0, len(y), columns)
        )

    @abstractmethod
    def _part(self, x: Any, y: Any) -> float:
        """The sum over one block."""


class PlainSum(BlockSum):
    """The straightforward formula."""

    def _part(self, x: Any, y: Any) -> float:
        apart = x[:, None, :] - y[None, :, :]
        return float(np.exp(self._rate * (apart**2).sum(axis=-1)).sum())


class NumpySum(BlockSum):
    def __init__(self, d: int, shape: tuple[int, int], sigma: float, power: int) -> None:
        super().__init__(shape, sigma, power)
        self._block = np.empty((*shape, d))

    def _part(self, x: Any, y: Any) -> float:
        block = self._block[: len(x), : len(y)]
        np.subtract(x[:, None, :], y[None, :, :], out=block)
        return float(np.exp(self._rate * np.vecdot(block, block)).sum())


class TorchSum(BlockSum):
    """Uses all cores, unlike numpy's differences, which use one."""

    def __init__(
        self, d: int, shape: tuple[int, int], sigma: float, power: int, dtype: str = "float64"
    ) -> None:
        import torch  # imported here, so that processes that only measure memory do not load it

        super().__init__(shape, sigma, power)
        self._torch: Any = torch
        self._room = torch.empty(shape[0] * shape[1] * d, dtype=getattr(torch, dtype))

    def __call__(self, x: Any, y: Any) -> float:
        """Arrays of the same type are shared, not copied."""
        return super().__call__(self._torch.as_tensor(x), self._torch.as_tensor(y))

    def _part(self, x: Any, y: Any) -> float:
        block = self._room[: len(x) * len(y) * x.shape[1]].view(len(x), len(y), x.shape[1])
        self._torch.sub(x[:, None, :], y[None, :, :], out=block)
        return float(block.mul_(block).sum(dim=-1).mul_(self._rate).exp_().sum())


def plain(x: Array, y: Array, sigma: float, power: int, repeats: int) -> tuple[str, Sum]:
    """The straightforward formula, with the fastest of the block shapes."""
    ways: dict[str, Sum] = {f"{r}×{c}": PlainSum((r, c), sigma, power) for r, c in SHAPES}
    best = min(ways, key=lambda name: median_seconds(repeats, ways[name], x, y))
    return best, ways[best]


MAKERS: dict[str, Callable[..., Sum]] = {"numpy": NumpySum, "torch": TorchSum}


def fastest(
    x: Array, y: Array, sigma: float, power: int, repeats: int
) -> tuple[str, dict[str, float], Sum]:
    """The fastest library and shape for ``x`` against ``y`` in float64, and the seconds of all."""
    ways: dict[str, Sum] = {}
    for rows, columns in SHAPES:
        shape = (min(rows, len(x)), min(columns, len(y)))
        for library, make in MAKERS.items():
            ways[f"{library} {shape[0]}×{shape[1]}"] = make(x.shape[1], shape, sigma, power)
    taken = {name: median_seconds(repeats, way, x, y) for name, way in ways.items()}
    best = min(taken, key=taken.__getitem__)
    return best, taken, ways[best]


class PairSums:
    """Sums over all pairs of samples, by pair of arms, and with a reference; updated row by row."""

    def __init__(
        self,
        arms: Sequence[Array],
        room: int,
        pairs: Array,
        cross: Array,
        reference: Array | None,
        sum_of: Sum,
    ) -> None:
        """Starts from existing samples and sums, with room for some more samples of each arm."""
        self.counts = [len(rows) for rows in arms]
        self._kept = [np.concatenate([rows, np.empty((room, rows.shape[1]))]) for rows in arms]
        self.pairs, self.cross = pairs.copy(), cross.copy()
        self._reference, self._sum = reference, sum_of

    def add(self, arm: int, row: Array) -> None:
        """Adds the pairs of a new sample with all earlier ones, itself (once) and the reference."""
        x = row[None, :]
        for other, count in enumerate(self.counts):
            total = self._sum(x, self._kept[other][:count])
            self.pairs[arm, other] += total
            self.pairs[other, arm] += total
        self.pairs[arm, arm] += 1.0  # k(x, x)
        if self._reference is not None:
            self.cross[arm] += self._sum(x, self._reference)
        self._kept[arm][self.counts[arm]] = row
        self.counts[arm] += 1

    def means(self) -> tuple[Array, Array]:
        """``E k(X_i, X_j)`` and ``E k(X_i, Y)``."""
        counts = np.array(self.counts, dtype=float)
        size = 1 if self._reference is None else len(self._reference)
        return self.pairs / np.outer(counts, counts), self.cross / (counts * size)
