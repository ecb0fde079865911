"""Sums of a kernel over all pairs of rows, computed in blocks of bounded memory.

Each kernel has a :class:`Blocks` object that computes a block of its values efficiently: some of the work
is done once per row, the rest once per pair.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from genmix.core.arrays import Array, is_torch, namespace
from genmix.errors import InputError

EPS = float(np.finfo(float).eps)

BLOCK_BYTES = 32 * 2**20
"""Default memory for one block of a kernel matrix. It fits in the cache of a large GPU."""

PRODUCT_ERROR = 1e-15
"""Relative error of an exponent that is computed as the sum of a product and two squares."""

MAX_ERROR = 1e-9
"""Error of an exponent above which it is computed from explicit differences."""

MIN_EXPONENT = -750.0
"""The exponential of any smaller number is zero."""

DIFFERENCE_VALUES = 2**20
"""Number of values in one block of explicit differences."""

FEW_ROWS = 6
"""Up to this number of rows on the left, BLAS spends most of its time copying a large right side."""

PART_VALUES = 2**19
"""Number of values in one part of a large right side; all rows are multiplied with it while it is cached.

BLAS uses only one thread for smaller parts.
"""

WIDE = 256
"""Number of columns from which on multiplying row by row is faster than that copy."""


class Blocks:
    """Blocks of ``k(x, y)^power`` for a kernel that is available only as a function."""

    extra = 0
    """Number of columns that a prepared row has in addition to those of the sample."""

    def __init__(self, kernel: Any, power: int) -> None:
        self.kernel, self.power = kernel, power

    def center(self, x: Array) -> Array | None:
        """Return a vector to subtract from all samples for accuracy if the kernel is shift-invariant."""
        return None

    def rows(self, x: Array, center: Array | None) -> Array:
        """Return the prepared samples, ``(n, d + extra)``."""
        return x

    def points(self, rows: Array, center: Array | None) -> Array:
        """Return the samples from which :meth:`rows` prepared these rows."""
        return rows

    def left(self, rows: Array) -> Any:
        """Convert prepared rows to the form that :meth:`block` expects on the left."""
        return rows

    def block(self, left: Any, right: Array) -> Array:
        """Compute ``k(x, y)^power`` for all pairs of a row from :meth:`left` and a prepared row."""
        return _integer_power(self.kernel(left, right), self.power)

    def exponent_error(self, rows: Array) -> float:
        """Bound the error of an exponent that is computed from products of prepared rows."""
        return 0.0

    def accurate_block(self, left: Any, right: Array) -> Array:
        """Compute the block without cancellation."""
        return self.block(left, right)

    def fastest(self, *errors: float) -> Callable[[Any, Array], Array]:
        """Return :meth:`block`, or :meth:`accurate_block` if the errors of some rows are too large."""
        return self.accurate_block if max(errors) > MAX_ERROR else self.block

    def matrix(self, x: Array, y: Array) -> Array:
        """Compute ``k(x, y)^power`` for all pairs across two batches, as one block."""
        center = self.center(y)
        mine, theirs = self.rows(x, center), self.rows(y, center)
        make = self.fastest(self.exponent_error(mine), self.exponent_error(theirs))
        return make(self.left(mine), theirs)


class GaussianBlocks(Blocks):
    """The exponent is ``power/σ² · (x, 1, −‖x‖²/2)·(y, −‖y‖²/2, 1)``, one matrix product."""

    extra = 2

    def __init__(self, sigma: float, power: int) -> None:
        self.scale = power / sigma / sigma

    def center(self, x: Array) -> Array:
        if x.shape[0] == 0:
            return namespace(x).zeros(x.shape[1], dtype=x.dtype, device=x.device)
        return namespace(x).mean(x, axis=0)  # leaves distances unchanged but reduces cancellation

    def rows(self, x: Array, center: Array | None) -> Array:
        xp = namespace(x)
        shape = (x.shape[0], x.shape[1] + 2)
        rows = xp.empty(shape, dtype=xp.float64, device=x.device)
        points = rows[:, :-2]
        points[...] = x
        points -= center
        rows[:, -2] = xp.vecdot(points, points) / -2
        rows[:, -1] = 1.0
        return rows

    def points(self, rows: Array, center: Array | None) -> Array:
        return rows[:, :-2] + center

    def left(self, rows: Array) -> Array:
        parts = [rows[:, :-2], rows[:, -1:], rows[:, -2:-1]]
        turned = namespace(rows).concat(parts, axis=1)
        turned *= self.scale
        return turned

    def block(self, left: Array, right: Array) -> Array:
        return _exp_below_zero(_products(left, right))

    def exponent_error(self, rows: Array) -> float:
        if rows.shape[0] == 0:
            return 0.0
        error = -float(namespace(rows).min(rows[:, -2])) * PRODUCT_ERROR * self.scale
        if not math.isfinite(error):
            raise InputError(
                "the bandwidth is too small for samples this far apart, so the kernel overflows; "
                "pass a larger bandwidth."
            )
        return error

    def rounding(self, x: Array) -> float:
        """Bound the error of the kernel's values that is due to the rounding of exponents."""
        error = self.exponent_error(self.rows(x, self.center(x)))
        return 2 * error if error <= MAX_ERROR else 4 * EPS

    def accurate_block(self, left: Array, right: Array) -> Array:
        """Compute the block from explicit differences, wherever the kernel is not provably zero."""
        xp = namespace(left)
        block = left @ right.mT
        error = -PRODUCT_ERROR * (left[:, -1:] + self.scale * right[:, -2])
        uncertain = block + error > MIN_EXPONENT
        points, pairs = left[:, :-2] / self.scale, max(1, DIFFERENCE_VALUES // left.shape[1])
        for row in range(block.shape[0]):
            columns = xp.nonzero(uncertain[row, :])[0]
            for part in _slices(0, columns.shape[0], pairs):
                chosen = columns[part]
                apart = right[chosen, :-2] - points[row, :]
                block[row, chosen] = xp.vecdot(apart, apart) * (-self.scale / 2)
        return _exp_below_zero(block)


class PolynomialBlocks(Blocks):
    """``(γx, c)·(y, 1)`` to the power of the exponent."""

    extra = 1

    def __init__(self, gamma: float | None, coef0: float, exponent: int) -> None:
        self.gamma, self.coef0, self.exponent = gamma, coef0, exponent

    def rows(self, x: Array, center: Array | None) -> Array:
        xp = namespace(x)
        return xp.concat([x, xp.ones_like(x[:, :1])], axis=1)

    def points(self, rows: Array, center: Array | None) -> Array:
        return rows[:, :-1]

    def left(self, rows: Array) -> Array:
        gamma = 1 / (rows.shape[1] - 1) if self.gamma is None else self.gamma
        parts = [gamma * rows[:, :-1], self.coef0 * rows[:, -1:]]
        return namespace(rows).concat(parts, axis=1)

    def block(self, left: Array, right: Array) -> Array:
        return _integer_power(_products(left, right), self.exponent)


class NormalizedBlocks(Blocks):
    """``k(x, y) / √(k(x, x) k(y, y))``, with each square root computed once."""

    extra = 1

    def rows(self, x: Array, center: Array | None) -> Array:
        xp = namespace(x)
        return xp.concat([x, xp.sqrt(self.kernel.diagonal(x))[:, None]], axis=1)

    def points(self, rows: Array, center: Array | None) -> Array:
        # Make a contiguous copy, because the kernel can be a custom function.
        return namespace(rows).asarray(rows[:, :-1], copy=True)

    def left(self, rows: Array) -> tuple[Array, Array]:
        return self.points(rows, None), rows[:, -1:]

    def block(self, left: tuple[Array, Array], right: Array) -> Array:
        points, root = left
        block = self.kernel(points, self.points(right, None)) / root
        block /= right[:, -1]
        return _integer_power(block, self.power)


@dataclass(frozen=True)
class Grouped:
    """Prepared rows ``(n, c)``, with one-hot group membership ``members`` ``(n, g)``.

    Without ``members``, all rows form one group.
    """

    rows: Array
    members: Array | None = None
    error: float | None = None
    """The kernel's :meth:`Blocks.exponent_error` for these rows, if it is known."""

    def __len__(self) -> int:
        return int(self.rows.shape[0])

    def __getitem__(self, part: slice) -> Grouped:
        members = None if self.members is None else self.members[part, :]
        return Grouped(self.rows[part, :], members)

    @property
    def groups(self) -> int:
        return 1 if self.members is None else int(self.members.shape[1])


def sums_between(blocks: Blocks, x: Grouped, y: Grouped, block_bytes: int) -> Array:
    """Compute ``Σ k^power`` over all pairs, for each group of x and each group of y."""
    total = _zeros(x, y)
    height, width = _block_shape(len(x), len(y), block_bytes)
    make = _fastest(blocks, x, y)
    for rows in _slices(0, len(x), height):
        mine = x[rows]
        left = blocks.left(mine.rows)
        for columns in _slices(0, len(y), width):
            theirs = y[columns]
            # The block is not assigned to a name, so its memory is freed before the next one is computed.
            total = total + _by_group(make(left, theirs.rows), mine.members, theirs.members)
    return total


def sums_within(blocks: Blocks, x: Grouped, start: int, block_bytes: int) -> Array:
    """Compute ``Σ k^power`` for each pair of groups, over pairs with a row at index ``start`` or later.

    By symmetry, each row is compared only with earlier rows and with those of its own block.
    """
    total = _zeros(x, x)
    # Within its own block, each row is compared with all others, so large blocks would save little.
    height = min(_side(block_bytes), max(256, (len(x) - start) // 16))
    for rows in _slices(start, len(x), height):
        new = x[rows]
        half = sums_between(blocks, new, x[: rows.start], block_bytes)
        half = half + sums_between(blocks, new, new, block_bytes) / 2
        total = total + (half + half.mT)
    return total


def sums_of_rows(blocks: Blocks, rows: Array, y: Grouped, block_bytes: int) -> Array:
    """Compute ``Σ k^power`` between each row and each group of y."""
    if len(y) == 0:
        xp = namespace(rows)
        return xp.zeros((rows.shape[0], y.groups), dtype=xp.float64, device=rows.device)
    height = max(1, block_bytes // 8 // max(1, len(y)))
    make = _fastest(blocks, Grouped(rows), y)
    parts = [
        make(blocks.left(rows[part, :]), y.rows) @ y.members
        for part in _slices(0, rows.shape[0], height)
    ]
    return namespace(rows).concat(parts, axis=0)


def sums_of_newest(blocks: Blocks, x: Grouped, start: int, block_bytes: int) -> tuple[Array, Array]:
    """Compute ``Σ k^power`` between each row at index ``start`` or later and each group of x.

    Also return the sums that include only the rows of each group at index ``start`` or later; both use the
    same kernel values.
    """
    new = x[start:]
    height = max(1, block_bytes // 8 // max(1, len(x)))
    make = _fastest(blocks, x)

    def sums(part: slice) -> tuple[Array, Array]:
        block = make(blocks.left(new.rows[part, :]), x.rows)
        return block @ x.members, block[:, start:] @ new.members

    parts = [sums(part) for part in _slices(0, len(new), height)]
    concat = namespace(x.rows).concat
    return concat([every for every, _ in parts], axis=0), concat([own for _, own in parts], axis=0)


def _fastest(blocks: Blocks, *sides: Grouped) -> Callable[[Any, Array], Array]:
    errors = [blocks.exponent_error(s.rows) if s.error is None else s.error for s in sides]
    return blocks.fastest(*errors)


def _zeros(x: Grouped, y: Grouped) -> Array:
    xp = namespace(x.rows)
    return xp.zeros((x.groups, y.groups), dtype=xp.float64, device=x.rows.device)


def _by_group(block: Array, left: Array | None, right: Array | None) -> Array:
    """Sum the block over the rows and columns of each group."""
    xp = namespace(block)
    sums = xp.sum(block, axis=1)[:, None] if right is None else block @ right
    return xp.sum(sums, axis=0)[None, :] if left is None else left.mT @ sums


def _side(block_bytes: int) -> int:
    """Return the side of the largest square block that fits in memory."""
    side = math.isqrt(max(1, block_bytes // 8))
    return side - side % 128 if side > 128 else side  # GPUs are much slower at other sizes


def _block_shape(rows: int, columns: int, block_bytes: int) -> tuple[int, int]:
    """Return the height and width of a block that fits in memory; square if both sides are long."""
    values = max(1, block_bytes // 8)
    height = max(1, min(rows, max(_side(block_bytes), values // max(1, columns))))
    return height, values // height


def _products(left: Array, right: Array) -> Array:
    """Compute ``left @ rightᵀ``, if possible without the copy that BLAS makes of a large right side."""
    count, width = left.shape
    few, large = 2 <= count <= FEW_ROWS, width >= WIDE and right.shape[0] * width >= PART_VALUES
    if is_torch(left) or not (few and large):
        return left @ right.mT
    found = np.empty((count, len(right)))
    for part in _slices(0, len(right), max(1, PART_VALUES // width)):
        for row, products in zip(left, found, strict=True):
            np.matmul(right[part], row, out=products[part])
    return found


def _slices(start: int, stop: int, size: int) -> Iterator[slice]:
    for first in range(start, stop, size):
        yield slice(first, min(first + size, stop))


def _exp_below_zero(block: Array) -> Array:
    """Compute ``exp(min(block, 0))`` in place; positive exponents are rounding errors."""
    if is_torch(block):
        return block.clamp_(max=0.0).exp_()
    np.minimum(block, 0.0, out=block)
    return np.exp(block, out=block)


def _integer_power(block: Array, exponent: int) -> Array:
    """Compute ``block^exponent`` by repeated multiplication, which is faster; ``block`` is not modified."""
    result = block
    for bit in f"{exponent:b}"[1:]:
        result = result * result
        if bit == "1":
            result *= block
    return result


def kernel_sum(
    kernel: Any, x: Array, y: Array, power: int = 1, block_bytes: int = BLOCK_BYTES
) -> float:
    """Compute ``Σ_ab k(x_a, y_b)^power`` in blocks of bounded memory, with half the work if y is x."""
    blocks = kernel.blocks(power)
    center = blocks.center(y)
    right = Grouped(blocks.rows(y, center))
    if x is y:
        return float(sums_within(blocks, right, 0, block_bytes)[0, 0])
    left = Grouped(blocks.rows(x, center))
    return float(sums_between(blocks, left, right, block_bytes)[0, 0])
