"""A matrix whose rows are read from shards when they are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

from genmix.core.arrays import namespace
from genmix.data.shard_files import BLOCK_VALUES
from genmix.data.shards import Shards
from genmix.errors import InputError

Map = Callable[[Any], Any]
"""A function from rows to rows, e.g. a feature map."""


class StreamedRows:
    """Rows ``(N, d)`` of shards, or functions of them, in the order of the files.

    It can be sliced like an array, and yields its rows in blocks of bounded memory.
    """

    device = "cpu"
    ndim = 2

    def __init__(
        self, shards: Shards, columns: int | None = None, maps: tuple[Map, ...] = ()
    ) -> None:
        self._shards, self._maps = shards, maps
        self.shape = len(shards), shards.shape[1] if columns is None else columns
        self.dtype = np.dtype(float)

    def __len__(self) -> int:
        return self.shape[0]

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        return namespace(np.empty(0))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        raise InputError(
            f"{self._shards} is read in blocks, but this needs all samples in memory; load them as an array."
        )

    def mapped(self, function: Map, columns: int) -> StreamedRows:
        """Return the rows ``function(rows)``, which have this many columns."""
        return StreamedRows(self._shards, columns, (*self._maps, function))

    def __getitem__(self, index: Any) -> Any:
        rows, columns = index if isinstance(index, tuple) else (index, slice(None))
        if isinstance(rows, slice) and rows == slice(None):
            width = len(range(*columns.indices(self.shape[1])))
            return self if width == self.shape[1] else self.mapped(lambda x: x[:, columns], width)
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(len(self)))
        return self._map(self._shards.take(np.asarray(rows)))[:, columns]

    def _map(self, rows: Any) -> Any:
        for function in self._maps:
            rows = function(rows)
        return rows

    def blocks(self, rows: Any = None) -> Iterator[tuple[Any, Any]]:
        """Yield positions and rows: all rows, or those of some indices, ordered by their position on disk."""
        if rows is None:
            for each, (begin, _) in zip(self._shards.files, self._shards.bounds(), strict=True):
                for first, block in each.blocks():
                    start = begin + first
                    yield slice(start, start + len(block)), self._map(block)
            return
        order = np.argsort(rows, kind="stable")
        height = max(1, BLOCK_VALUES // max(1, self._shards.shape[1]))
        for start in range(0, len(order), height):
            part = order[start : start + height]
            yield part, self._map(self._shards.take(np.asarray(rows)[part]))
