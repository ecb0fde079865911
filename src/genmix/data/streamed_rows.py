"""A matrix whose rows are read from shards when they are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

from genmix.core.arrays import Array, Vector, namespace, to_numpy
from genmix.data.shards import Shards
from genmix.errors import InputError

Map = Callable[[Any], Any]
"""A function from rows to rows, e.g. a feature map."""


class StreamedRows:
    """Rows ``(N, d)`` of shards, or functions of them, in the order of the files.

    It can be sliced like an array, and yields its rows in blocks of bounded memory.

    Parameters
    ----------
    shards : Shards
        The files.
    index : array of int, optional
        The rows of the files that are rows of this matrix, in ascending order; all of them by default.
    maps : tuple of callable
        What is applied to the rows after they are read.
    columns : int, optional
        Number of columns after that.
    """

    device = "cpu"
    ndim = 2
    dtype = np.dtype(float)

    def __init__(
        self,
        shards: Shards,
        index: Any = None,
        maps: tuple[Map, ...] = (),
        columns: int | None = None,
    ) -> None:
        self._shards, self._index, self._maps = shards, index, maps
        count = len(shards) if index is None else len(index)
        self.shape = count, shards.shape[1] if columns is None else columns

    def __len__(self) -> int:
        return self.shape[0]

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        return namespace(np.empty(0))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        raise InputError(
            f"the {len(self):,} samples are read in blocks, but this needs all of them in memory, where they "
            "do not fit; use fewer samples."
        )

    def mapped(self, function: Map, columns: int) -> StreamedRows:
        """Return the rows ``function(rows)``, which have this many columns."""
        return StreamedRows(self._shards, self._index, (*self._maps, function), columns)

    def subset(self, rows: Any) -> StreamedRows:
        """Return only these rows, in ascending order."""
        if len(rows) == len(self):
            return self
        rows = np.sort(rows)
        index = rows if self._index is None else self._index[rows]
        return StreamedRows(self._shards, index, self._maps, self.shape[1])

    def __getitem__(self, key: Any) -> Any:
        rows, columns = key if isinstance(key, tuple) else (key, slice(None))
        if isinstance(rows, slice) and rows == slice(None):
            width = len(range(*columns.indices(self.shape[1])))
            return self if width == self.shape[1] else self.mapped(lambda x: x[:, columns], width)
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(len(self)))
        if len(rows) == 0:
            return np.empty((0, self.shape[1]))[:, columns]
        return self._read(np.asarray(rows))[:, columns]

    def _read(self, rows: Any) -> Any:
        return self._map(self._shards.take(rows if self._index is None else self._index[rows]))

    def _map(self, rows: Any) -> Any:
        for function in self._maps:
            rows = function(rows)
        return rows

    def blocks(self, rows: Any = None) -> Iterator[tuple[Any, Any]]:
        """Yield positions and rows: all rows, or those of some indices, ordered by their place on disk."""
        if rows is None and self._index is None:
            for each, (begin, _) in zip(self._shards.files, self._shards.bounds(), strict=True):
                for first, block in each.blocks():
                    start = begin + first
                    yield slice(start, start + len(block)), self._map(block)
            return
        rows = np.arange(len(self)) if rows is None else np.asarray(rows)
        order = np.argsort(rows, kind="stable")
        height = self._shards.files[0].height
        for start in range(0, len(order), height):
            part = order[start : start + height]
            yield part, self._read(rows[part])


def blocks_of(rows: Array | StreamedRows, indices: Any = None) -> Iterator[tuple[Any, Any]]:
    """Yield positions and rows; an array is one block."""
    if isinstance(rows, StreamedRows):
        yield from rows.blocks(indices)
    elif indices is None:
        yield slice(None), rows
    else:
        xp = namespace(rows)
        yield slice(None), xp.take(rows, xp.asarray(indices, device=rows.device), axis=0)


def per_row(rows: Array | StreamedRows, function: Callable[[Any], Any]) -> Vector:
    """Return one number per row, where ``function`` computes those of a block."""
    parts = [to_numpy(function(block)) for _, block in blocks_of(rows)]
    return np.asarray(parts[0] if len(parts) == 1 else np.concatenate(parts))


def sum_of_blocks(
    rows: Array | StreamedRows, function: Callable[[Any, Any], Any], indices: Any = None
) -> Any:
    """Return the sum of ``function(positions, block)``."""
    total: Any = None
    for part, block in blocks_of(rows, indices):
        found = function(part, block)
        total = found if total is None else total + found
    return total
