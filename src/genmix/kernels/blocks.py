"""Sums of a kernel over all pairs of rows, in blocks of bounded memory.

Every kernel has :class:`Blocks` that say how a block of its values is made with least work: what is
worked out once for each row, and what then remains to do for each pair.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from genmix.core.arrays import Array, is_torch, namespace

LOST = 1e-15
"""Relative error of an exponent that is the sum of a product and two squares."""

LEAST_EXPONENT = -750.0
"""The exponential of anything below is zero."""

PAIR_VALUES = 2**20
"""Differences that are taken at a time."""


class Blocks:
    """Blocks of ``k(x, y)^power`` for a kernel of which nothing but the function is known."""

    extra = 0
    """How many columns a prepared row has beside the sample."""

    def __init__(self, kernel: Any, power: int) -> None:
        self.kernel, self.power = kernel, power

    def centre(self, x: Array) -> Array | None:
        """What is best taken off all samples, if the kernel does not change by that."""
        return None

    def rows(self, x: Array, centre: Array | None) -> Array:
        """The samples prepared, ``(n, d + extra)``."""
        return x

    def points(self, rows: Array, centre: Array | None) -> Array:
        """The samples that :meth:`rows` was given."""
        return rows

    def left(self, rows: Array) -> Any:
        """Prepared rows made ready for the left side of blocks."""
        return rows

    def block(self, left: Any, right: Array) -> Array:
        """``k(x, y)^power`` for all pairs of a left side and prepared rows."""
        return _raised(self.kernel(left, right), self.power)

    def loses_digits(self, x: Array, y: Array) -> bool:
        """Whether prepared rows are so large that products of them cancel."""
        return False

    def careful_block(self, left: Any, right: Array) -> Array:
        """A block of rows that lose digits otherwise."""
        return self.block(left, right)

    def matrix(self, x: Array, y: Array) -> Array:
        """``k(x, y)^power`` for all pairs of two batches, as one block."""
        centre = self.centre(y)
        mine, theirs = self.rows(x, centre), self.rows(y, centre)
        make = self.careful_block if self.loses_digits(mine, theirs) else self.block
        return make(self.left(mine), theirs)


class GaussianBlocks(Blocks):
    """``(x, 1, −‖x‖²/2)·power/σ²`` times ``(y, −‖y‖²/2, 1)`` is the whole exponent."""

    extra = 2

    def __init__(self, sigma: float, power: int) -> None:
        self.scale = power / sigma / sigma

    def centre(self, x: Array) -> Array:
        return namespace(x).mean(x, axis=0)  # distances do not change, their cancellation does

    def rows(self, x: Array, centre: Array | None) -> Array:
        xp = namespace(x)
        shape = (x.shape[0], x.shape[1] + 2)
        rows = xp.empty(shape, dtype=xp.float64, device=x.device)
        points = rows[:, :-2]
        points[...] = x
        points -= centre
        rows[:, -2] = xp.vecdot(points, points) / -2
        rows[:, -1] = 1.0
        return rows

    def points(self, rows: Array, centre: Array | None) -> Array:
        return rows[:, :-2] + centre

    def left(self, rows: Array) -> Array:
        parts = [rows[:, :-2], rows[:, -1:], rows[:, -2:-1]]
        turned = namespace(rows).concat(parts, axis=1)
        turned *= self.scale
        return turned

    def block(self, left: Array, right: Array) -> Array:
        return _exp_below_zero(left @ right.mT)

    def loses_digits(self, x: Array, y: Array) -> bool:
        if 0 in (x.shape[0], y.shape[0]):
            return False
        xp = namespace(x)
        largest = max(-float(xp.min(side[:, -2])) for side in (x, y))
        return LOST * largest * self.scale > 1e-9

    def careful_block(self, left: Array, right: Array) -> Array:
        """By differences, wherever the kernel is not certainly zero."""
        xp = namespace(left)
        block = left @ right.mT
        error = -LOST * (left[:, -1:] + self.scale * right[:, -2])
        doubtful = block + error > LEAST_EXPONENT
        points, pairs = left[:, :-2] / self.scale, max(1, PAIR_VALUES // left.shape[1])
        for row in range(block.shape[0]):
            columns = xp.nonzero(doubtful[row, :])[0]
            for part in _slices(0, columns.shape[0], pairs):
                chosen = columns[part]
                apart = right[chosen, :-2] - points[row, :]
                block[row, chosen] = xp.vecdot(apart, apart) * (-self.scale / 2)
        return _exp_below_zero(block)


class PolynomialBlocks(Blocks):
    """``(γx, c)`` times ``(y, 1)``, to the exponent."""

    extra = 1

    def __init__(self, gamma: float | None, coef0: float, exponent: int) -> None:
        self.gamma, self.coef0, self.exponent = gamma, coef0, exponent

    def rows(self, x: Array, centre: Array | None) -> Array:
        xp = namespace(x)
        return xp.concat([x, xp.ones_like(x[:, :1])], axis=1)

    def points(self, rows: Array, centre: Array | None) -> Array:
        return rows[:, :-1]

    def left(self, rows: Array) -> Array:
        gamma = 1 / (rows.shape[1] - 1) if self.gamma is None else self.gamma
        parts = [gamma * rows[:, :-1], self.coef0 * rows[:, -1:]]
        return namespace(rows).concat(parts, axis=1)

    def block(self, left: Array, right: Array) -> Array:
        return _raised(left @ right.mT, self.exponent)


class NormalisedBlocks(Blocks):
    """``k(x, y) / √(k(x, x) k(y, y))``, the roots worked out once."""

    extra = 1

    def rows(self, x: Array, centre: Array | None) -> Array:
        xp = namespace(x)
        return xp.concat([x, xp.sqrt(self.kernel.diagonal(x))[:, None]], axis=1)

    def points(self, rows: Array, centre: Array | None) -> Array:
        # A copy without gaps between the rows, because the kernel may be anybody's function.
        return namespace(rows).asarray(rows[:, :-1], copy=True)

    def left(self, rows: Array) -> tuple[Array, Array]:
        return self.points(rows, None), rows[:, -1:]

    def block(self, left: tuple[Array, Array], right: Array) -> Array:
        points, root = left
        block = self.kernel(points, self.points(right, None)) / root
        block /= right[:, -1]
        return _raised(block, self.power)


@dataclass(frozen=True)
class Grouped:
    """Prepared rows ``(n, c)``, and the group of each as a 1 in its column of ``members`` ``(n, g)``.

    Without ``members`` they are all one group.
    """

    rows: Array
    members: Array | None = None

    def __len__(self) -> int:
        return int(self.rows.shape[0])

    def __getitem__(self, part: slice) -> Grouped:
        members = None if self.members is None else self.members[part, :]
        return Grouped(self.rows[part, :], members)

    @property
    def groups(self) -> int:
        return 1 if self.members is None else int(self.members.shape[1])


def sums_between(blocks: Blocks, x: Grouped, y: Grouped, block_bytes: int) -> Array:
    """``Σ k^power`` over the pairs of every group of x with every group of y."""
    total = _zeros(x, y)
    height, width = _block_shape(len(x), len(y), block_bytes)
    make = blocks.careful_block if blocks.loses_digits(x.rows, y.rows) else blocks.block
    for rows in _slices(0, len(x), height):
        mine = x[rows]
        left = blocks.left(mine.rows)
        for columns in _slices(0, len(y), width):
            theirs = y[columns]
            # Without a name the block is gone before the next one comes.
            total = total + _by_group(make(left, theirs.rows), mine.members, theirs.members)
    return total


def sums_within(blocks: Blocks, x: Grouped, start: int, block_bytes: int) -> Array:
    """``Σ k^power`` over the pairs of every two groups, for pairs that have a row from ``start`` on.

    By symmetry each row is only compared with those before it and those of its own block.
    """
    total = _zeros(x, x)
    # Within its own block a row meets all the others, so that few large blocks would save little.
    height = min(_side(block_bytes), max(256, (len(x) - start) // 16))
    for rows in _slices(start, len(x), height):
        new = x[rows]
        half = sums_between(blocks, new, x[: rows.start], block_bytes)
        half = half + sums_between(blocks, new, new, block_bytes) / 2
        total = total + (half + half.mT)
    return total


def _zeros(x: Grouped, y: Grouped) -> Array:
    xp = namespace(x.rows)
    return xp.zeros((x.groups, y.groups), dtype=xp.float64, device=x.rows.device)


def _by_group(block: Array, left: Array | None, right: Array | None) -> Array:
    """The block summed over the rows and columns of each group."""
    xp = namespace(block)
    sums = xp.sum(block, axis=1)[:, None] if right is None else block @ right
    return xp.sum(sums, axis=0)[None, :] if left is None else left.mT @ sums


def _side(block_bytes: int) -> int:
    """Side of the largest square block that fits."""
    side = math.isqrt(max(1, block_bytes // 8))
    return side - side % 128 if side > 128 else side  # a GPU is far slower at odd sizes


def _block_shape(rows: int, columns: int, block_bytes: int) -> tuple[int, int]:
    """Height and width of a block that fits: a square where both sides are long."""
    values = max(1, block_bytes // 8)
    height = max(1, min(rows, max(_side(block_bytes), values // max(1, columns))))
    return height, values // height


def _slices(start: int, stop: int, size: int) -> Iterator[slice]:
    for first in range(start, stop, size):
        yield slice(first, min(first + size, stop))


def _exp_below_zero(block: Array) -> Array:
    """``exp(min(block, 0))`` in place; what is above zero is rounding."""
    if is_torch(block):
        return block.clamp_(max=0.0).exp_()
    np.minimum(block, 0.0, out=block)
    return np.exp(block, out=block)


def _raised(block: Array, exponent: int) -> Array:
    """``block^exponent`` by multiplication, which is quicker than a power; ``block`` stays."""
    result = block
    for bit in f"{exponent:b}"[1:]:
        result = result * result
        if bit == "1":
            result *= block
    return result
