"""Read one file of embeddings in blocks of rows, without loading all of it.

The numbers of ``.npy`` files and of uncompressed ``.npz`` files are read at any position. Compressed ``.npz``
files and Parquet are read from their beginning.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from genmix.core.arrays import as_matrix
from genmix.core.numpy_files import Layout, NumpyArchive, array_layout, is_archive, read_array
from genmix.core.optional import require_all
from genmix.core.text import printable, quotable
from genmix.data.features import (
    SCANNED,
    array_with_features,
    list_matrix,
    required_column,
)
from genmix.data.tables import PARQUET
from genmix.errors import InputError

SUFFIXES = (".npy", ".npz", *PARQUET)
BLOCK_VALUES = 2**20
"""Number of values in one block of rows; 8 MiB in float64."""
SPARSE = 16
"""A block is read whole if more than one in this many of its rows is needed."""
BUFFER = 1 << 20
"""Number of bytes of a Parquet column that are read at once."""


class ShardFile(ABC):
    """A file with ``rows`` embeddings of ``dimension`` numbers, stored as ``dtype``."""

    path: Path
    where: str
    """The file, and the array or column in it, for messages."""
    rows: int
    dimension: int
    dtype: Any
    encoder: str | None = None
    is_packed = True
    """Whether reading some rows means reading everything before them."""

    @abstractmethod
    def stored(self, height: int) -> Iterator[Any]:
        """Yield the numbers as they are stored, in blocks of ``height`` rows."""

    @abstractmethod
    def column(self, name: str) -> list[Any] | None:
        """Return what the file says about every sample under a name; None if it has no such column."""

    @property
    def height(self) -> int:
        return max(1, BLOCK_VALUES // max(1, self.dimension))

    def blocks(self) -> Iterator[tuple[int, Any]]:
        """Yield the first row of each block, and its embeddings in float64."""
        first = 0
        for stored in self.stored(self.height):
            yield first, self.checked(stored, first)
            first += len(stored)

    def checked(self, stored: Any, first: int) -> Any:
        """Return stored numbers in float64; raise InputError if one is not finite."""
        try:
            return as_matrix(stored, self.where)
        except InputError as error:
            raise InputError(shifted(str(error), first)) from None

    def take(self, rows: Any) -> Any:
        """Return some rows, given in ascending order, in float64."""
        parts, done = [np.empty((0, self.dimension))], 0
        for first, block in self.blocks():
            end = int(np.searchsorted(rows, first + len(block)))
            parts.append(block[rows[done:end] - first])
            done = end
            if done == len(rows):
                break
        return np.concatenate(parts)

    def identity(self) -> list[Any]:
        """Return what changes if the content of the file changes."""
        found = self.path.stat()
        return [str(self.path.resolve()), self.where, found.st_size, found.st_mtime_ns]


def shifted(message: str, first: int) -> str:
    """Correct the number of a sample in a message about a block whose first row is ``first``."""
    before, sign, after = message.partition(", sample ")
    digits = len(after) - len(after.lstrip("0123456789"))
    if not sign or not digits:
        return message
    return f"{before}{sign}{int(after[:digits]) + first}{after[digits:]}"


def open_shard(path: Path, key: str | None = None) -> ShardFile:
    """Read the size of a file of embeddings; the rows themselves are not read yet."""
    if path.suffix.lower() in PARQUET:
        return ParquetShard(path, key)
    return NumpyShard(path, key)


class NumpyShard(ShardFile):
    """The rows of an ``.npy`` file, or of one array in an ``.npz`` file."""

    def __init__(self, path: Path, key: str | None) -> None:
        self.path, self.name, self.where = path, None, str(path)
        if is_archive(path):
            with NumpyArchive(path) as content:
                self.name = array_with_features(list(content), key, path, "save them as features")
                self.where = f"{path} ({printable(self.name)})"
                self.layout: Layout = content.layout(self.name)
                if "encoder" in content:
                    self.encoder = quotable(content["encoder"])
        else:
            self.layout = array_layout(path)
        if len(self.layout.shape) != 2:
            raise InputError(
                f"{self.where} has shape {self.layout.shape}; save shape (samples, dimensions)."
            )
        self.rows, self.dimension = self.layout.shape
        self.dtype = self.layout.dtype
        # Columns that are stored one after another can only be read all at once.
        self.is_packed = self.layout.offset is None or self.layout.is_fortran

    def stored(self, height: int) -> Iterator[Any]:
        if self.layout.is_fortran:
            whole = self._whole()
            for first in range(0, self.rows, height):
                yield whole[first : first + height]
        elif self.name is not None and self.layout.offset is None:
            with NumpyArchive(self.path) as content, content.stream(self.name) as file:
                for first in range(0, self.rows, height):
                    yield self._from(file, min(height, self.rows - first))
        else:
            with self.path.open("rb", buffering=0) as raw:
                raw.seek(self.layout.offset or 0)
                for first in range(0, self.rows, height):
                    yield self._from(raw, min(height, self.rows - first))

    def _whole(self) -> Any:
        if self.name is None:
            return read_array(self.path)
        with NumpyArchive(self.path) as content:
            return content[self.name]

    def _from(self, file: Any, count: int) -> Any:
        size = count * self.dimension * self.dtype.itemsize
        parts = []
        while size > 0:
            part = file.read(size)
            if not part:
                raise InputError(f"{self.where} ends too early; write it again.")
            parts.append(part)
            size -= len(part)
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        return np.frombuffer(data, self.dtype).reshape(count, self.dimension)

    def take(self, rows: Any) -> Any:
        if self.is_packed:
            return super().take(rows)
        found = np.empty((len(rows), self.dimension))
        with self.path.open("rb", buffering=0) as file:
            for first in range(0, self.rows, self.height):
                begin, end = np.searchsorted(rows, [first, first + self.height]).tolist()
                if begin < end:
                    found[begin:end] = self._some(file, rows[begin:end], first)
        return found

    def _some(self, file: BinaryIO | Any, rows: Any, first: int) -> Any:
        """Read some rows of the block that begins with row ``first``."""
        count = min(self.height, self.rows - first)
        if SPARSE * len(rows) > count:
            return self.checked(self._at(file, first, count), first)[rows - first]
        return np.concatenate([self.checked(self._at(file, int(r), 1), int(r)) for r in rows])

    def _at(self, file: BinaryIO | Any, first: int, count: int) -> Any:
        size = self.dimension * self.dtype.itemsize
        file.seek((self.layout.offset or 0) + first * size)
        return self._from(file, count)

    def column(self, name: str) -> list[Any] | None:
        if self.name is None:
            return None
        with NumpyArchive(self.path) as content:
            if name not in content:
                return None
            values = content[name]
        if values.shape != (self.rows,):
            raise InputError(
                f"{self.path} ({name}) has shape {values.shape}, but the number of samples is "
                f"{self.rows}; save one value per sample."
            )
        found: list[Any] = values.tolist()
        return found


class ParquetShard(ShardFile):
    """The rows of a Parquet column of lists."""

    def __init__(self, path: Path, key: str | None) -> None:
        self.path = path
        with self._file() as file:
            schema = file.schema_arrow
            self.name = required_column(schema, path, key)
            self.rows, self.names = int(file.metadata.num_rows), list(schema.names)
            named = (schema.metadata or {}).get(b"encoder")
            self.encoder = None if not named else quotable(named.decode("utf-8", "replace"))
        self.where = f"{path} ({printable(self.name)})"
        first = next(self._lists(1), np.empty((0, 0)))
        self.dimension, self.dtype = int(first.shape[1]), first.dtype

    def _file(self) -> Any:
        (parquet,) = require_all(("pyarrow.parquet",), extra="export", what="reading Parquet")
        try:
            return parquet.ParquetFile(self.path, buffer_size=BUFFER)
        except Exception as error:  # a damaged file can raise anything
            raise self._damaged() from error

    def _damaged(self) -> InputError:
        return InputError(f"{self.path} is not a readable Parquet file; write it again.")

    def stored(self, height: int) -> Iterator[Any]:
        with self._file() as file:
            leaves = [
                i
                for i in range(len(file.schema.names))
                if f"{file.schema.column(i).path}.".startswith(f"{self.name}.")
            ]
            try:  # Arrow raises an error for damaged content here, but could end the process below
                file.scan_contents(columns=leaves, batch_size=SCANNED)
            except Exception as error:
                raise self._damaged() from error
        yield from self._lists(height)

    def _lists(self, height: int) -> Iterator[Any]:
        first = 0
        with self._file() as file:
            batches = file.iter_batches(height, columns=[self.name])
            while True:
                try:
                    batch = next(batches, None)
                except Exception as error:
                    raise self._damaged() from error
                if batch is None:
                    return
                rows = list_matrix(batch.column(0), self.where, first)
                if first and rows.shape[1] != self.dimension:
                    raise InputError(
                        f"{self.where}, row {first} has {rows.shape[1]} numbers, but earlier rows have "
                        f"{self.dimension}; embed all samples with the same encoder."
                    )
                yield rows
                first += len(rows)

    def column(self, name: str) -> list[Any] | None:
        if name not in self.names:
            return None
        with self._file() as file:
            try:
                found: list[Any] = file.read(columns=[name]).column(0).to_pylist()
            except Exception as error:
                raise self._damaged() from error
        return found


def shard_paths(folder: Path) -> list[Path]:
    """Return the files of embeddings in a folder and its subfolders, sorted by path.

    Names that begin with a dot or an underscore are skipped, because tools keep their own files there.
    """
    found = []
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        found += [
            Path(place, name)
            for name in files
            if name.lower().endswith(SUFFIXES) and not name.startswith((".", "_"))
        ]
    return sorted(found)
