"""Read one file of embeddings in blocks of rows, without loading all of it.

The numbers of ``.npy`` files and of uncompressed ``.npz`` files are read at any position. Compressed ``.npz``
files and Parquet are read from their beginning.
"""

from __future__ import annotations

import copy
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np

from genmix.core.arrays import as_matrix
from genmix.core.numpy_files import Layout, NumpyArchive, array_layout, is_archive
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
MAX_WHOLE = 1 << 28
"""Number of bytes up to which an array that cannot be read in blocks is loaded."""


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
    stamp: tuple[int, ...] = ()
    """What changes with the content of the file, as it was when the file was opened; see ``stamp_of``."""

    @abstractmethod
    def _stored(self, height: int) -> Iterator[Any]:
        """Yield the numbers as they are stored, in blocks of ``height`` rows."""

    def stored(self, height: int) -> Iterator[Any]:
        """Yield the numbers as they are stored, in blocks of ``height`` rows."""
        with self.reading():
            yield from self._stored(height)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Raise InputError if the file cannot be read, or is no longer the one that was opened."""
        self.check_unchanged()
        try:
            yield
        except OSError as error:
            raise _unreadable(self.path, error) from error
        except InputError:
            self.check_unchanged()  # the better message
            raise
        self.check_unchanged()

    def check_unchanged(self) -> None:
        """Raise InputError if the file is no longer the one that was opened."""
        if self.stamp and stamp_of(self.path)[: len(self.stamp)] != self.stamp:
            raise InputError(
                f"{self.path} changed while it was being read; run the command again, or create the "
                "Shards again."
            )

    def elsewhere(self) -> Self:
        """Return the same file for other machines, where its times can differ."""
        other = copy.copy(self)
        other.path, other.stamp = Path(os.path.abspath(self.path)), self.stamp[:1]
        return other

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
        with self.reading():
            for first, block in self.blocks():
                end = int(np.searchsorted(rows, first + len(block)))
                parts.append(block[rows[done:end] - first])
                done = end
                if done == len(rows):
                    break
        return np.concatenate(parts)

    def identity(self) -> list[Any]:
        """Return what changes if the content of the file changes."""
        shape = [self.rows, self.dimension, self.dtype.str]
        return [str(self.path.resolve()), self.where, *self.stamp, *shape]


def stamp_of(path: Path) -> tuple[int, int, int]:
    """Return the size of a file and the times of its last changes.

    The time of the last change of the inode notices a file that was replaced by one of the same size and
    modification time. The number of the inode itself is not stable on some network file systems.
    """
    try:
        found = path.stat()
    except OSError as error:
        raise _unreadable(path, error) from error
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _unreadable(path: Path, error: OSError) -> InputError:
    return InputError(f"{path} cannot be read ({error.strerror or error}); check the path.")


def shifted(message: str, first: int) -> str:
    """Correct the number of a sample in a message about a block whose first row is ``first``."""
    before, sign, after = message.partition(", sample ")
    digits = len(after) - len(after.lstrip("0123456789"))
    if not sign or not digits:
        return message
    return f"{before}{sign}{int(after[:digits]) + first}{after[digits:]}"


def open_shard(path: Path, key: str | None = None) -> ShardFile:
    """Read the size of a file of embeddings; the rows themselves are not read yet."""
    stamp, is_parquet = stamp_of(path), path.suffix.lower() in PARQUET
    found = ParquetShard(path, key) if is_parquet else NumpyShard(path, key)
    found.stamp = stamp
    found.check_unchanged()  # so that the stamp belongs to what was read so far
    return found


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
        is_compressed, self.by_columns = self.layout.offset is None, self.layout.is_fortran
        self.is_packed = is_compressed or self.by_columns
        if is_compressed and self.by_columns and self._row_bytes * self.rows > MAX_WHOLE:
            raise InputError(
                f"{self.where} is compressed and in Fortran order, so it cannot be read in blocks; save "
                "np.ascontiguousarray of the array."
            )

    @property
    def _row_bytes(self) -> int:
        return int(self.dimension * self.dtype.itemsize)

    def identity(self) -> list[Any]:
        return [*super().identity(), self.layout.offset, self.by_columns]

    def _stored(self, height: int) -> Iterator[Any]:
        counts = [min(height, self.rows - first) for first in range(0, self.rows, height)]
        if self.by_columns:
            yield from self._across_columns(counts)
        elif self.name is not None:  # zipfile compares the checksum at the end
            with NumpyArchive(self.path) as content, content.stream(self.name) as file:
                yield from (self._from(file, count) for count in counts)
        else:
            with self.path.open("rb", buffering=0) as raw:
                raw.seek(self.layout.offset or 0)
                yield from (self._from(raw, count) for count in counts)

    def _across_columns(self, counts: list[int]) -> Iterator[Any]:
        """Yield blocks of rows of an array whose columns are stored one after another."""
        if self.layout.offset is None:
            with NumpyArchive(self.path) as content:
                whole = content[self.name or ""]
            yield from np.split(whole, np.cumsum(counts)[:-1])
            return
        if self.name is not None:
            with NumpyArchive(self.path) as content:
                content.check(self.name)
        first, size = 0, self.dtype.itemsize
        with self.path.open("rb", buffering=0) as raw:
            for count in counts:
                block = np.empty((count, self.dimension), self.dtype)
                for column in range(self.dimension):
                    raw.seek(self.layout.offset + size * (column * self.rows + first))
                    block[:, column] = np.frombuffer(self._bytes(raw, size * count), self.dtype)
                yield block
                first += count

    def _from(self, file: Any, count: int) -> Any:
        data = self._bytes(file, count * self._row_bytes)
        return np.frombuffer(data, self.dtype).reshape(count, self.dimension)

    def _bytes(self, file: Any, size: int) -> bytes:
        parts = []
        while size > 0:
            part = file.read(size)
            if not part:
                raise InputError(f"{self.where} ends too early; write it again.")
            parts.append(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def take(self, rows: Any) -> Any:
        if self.is_packed:
            return super().take(rows)
        found = np.empty((len(rows), self.dimension))
        with self.reading(), self.path.open("rb", buffering=0) as file:
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
        file.seek((self.layout.offset or 0) + first * self._row_bytes)
        return self._from(file, count)

    def column(self, name: str) -> list[Any] | None:
        if self.name is None:
            return None
        with self.reading(), NumpyArchive(self.path) as content:
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

    def _stored(self, height: int) -> Iterator[Any]:
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
        with self.reading(), self._file() as file:
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
