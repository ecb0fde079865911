"""Read ``.npy`` and ``.npz`` files. Headers and sizes are checked before any array is read.

Nothing is ever unpickled. Anything can be wrong with a damaged file, and numpy, zipfile and zlib raise
many types of exceptions; here, every one of them becomes an InputError.
"""

from __future__ import annotations

import math
import struct
import warnings
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Self
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np

from genmix.core.limits import check_size, size_of
from genmix.core.text import printable
from genmix.errors import InputError

HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
"""Versions of the header; version 3 describes only records with unusual field names."""
FLOAT = 8
"""Bytes per number after reading, because all numbers are converted to float64."""
PICKLE = b"\x80"
"""The first byte of a pickle."""
LOCAL_HEADER = 30
"""Number of bytes before the name of a zip member; the last four are the lengths of what follows."""
CHUNK = 1 << 20
"""Number of bytes that are read at once to compute a checksum."""
ENCRYPTED = 1
"""The bit of a zip member's flags that marks encrypted content."""


@dataclass(frozen=True)
class Layout:
    """The shape of a stored array, and the position of its numbers in the file; None if compressed."""

    shape: tuple[int, ...]
    dtype: Any
    is_fortran: bool
    offset: int | None


class NumpyArchive(Mapping[str, Any]):
    """The arrays in an ``.npz`` file. Each array is checked and read when it is accessed."""

    def __init__(self, path: Path) -> None:
        self._path, self._size = path, size_of(path)
        with _as_sentences(path):
            self._zip = ZipFile(path)
        self._members = {info.filename.removesuffix(".npy"): info for info in self._zip.infolist()}

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __getitem__(self, name: str) -> Any:
        info = self._members[name]
        with _as_sentences(self._path):
            return self._read(info, f"{self._path} ({printable(name)})")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._zip.close()

    def _read(self, info: ZipInfo, where: str) -> Any:
        _check_member(info, where)
        with self._zip.open(info) as file:
            _check_header(file, info.file_size, self._size, where)
        with self._zip.open(info) as file:
            return np.lib.format.read_array(file, allow_pickle=False)

    def layout(self, name: str) -> Layout:
        """Return the shape of an array, and where it is in the file if it is not compressed."""
        info, where = self._members[name], f"{self._path} ({printable(name)})"
        with _as_sentences(self._path):
            _check_member(info, where)
            with self._zip.open(info) as file:
                layout = _check_header(file, info.file_size, self._size, where)
            if info.compress_type != ZIP_STORED:
                return replace(layout, offset=None)
            with self._path.open("rb") as raw:
                raw.seek(info.header_offset + LOCAL_HEADER - 4)
                lengths = raw.read(4)
            before = info.header_offset + LOCAL_HEADER + sum(struct.unpack("<HH", lengths))
            return replace(layout, offset=before + (layout.offset or 0))

    @contextmanager
    def stream(self, name: str) -> Iterator[IO[bytes]]:
        """Open an array for reading its numbers one after another."""
        info = self._members[name]
        with _as_sentences(self._path), self._zip.open(info) as file:
            _check_header(file, info.file_size, self._size, str(self._path))
            yield file

    def check(self, name: str) -> None:
        """Raise InputError if the checksum of an array is wrong."""
        with self.stream(name) as file:
            while file.read(CHUNK):
                pass


def check_archive(path: Path) -> None:
    """Check the sizes of all members of a zip file, whatever they contain."""
    with _as_sentences(path), ZipFile(path) as content:
        for info in content.infolist():
            _check_member(info, str(path))
        check_size(sum(info.file_size for info in content.infolist()), size_of(path), str(path))


def _check_member(info: ZipInfo, where: str) -> None:
    if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED) or info.flag_bits & ENCRYPTED:
        raise InputError(f"{where} uses unsupported compression or encryption; write it again.")


def is_archive(path: Path) -> bool:
    """Return whether a file is an ``.npz`` archive, judging by its first bytes."""
    with _as_sentences(path), path.open("rb") as file:
        return file.read(2) == b"PK"


def read_array(path: Path, mmap: bool = False) -> Any:
    """Read the array in an ``.npy`` file; with ``mmap``, it stays on disk."""
    size = size_of(path)
    with _as_sentences(path):
        with path.open("rb") as file:
            _check_header(file, size, size, str(path))
        return np.load(path, mmap_mode="r" if mmap else None, allow_pickle=False)


def array_layout(path: Path) -> Layout:
    """Return the shape of the array in an ``.npy`` file, and where its numbers begin."""
    size = size_of(path)
    with _as_sentences(path), path.open("rb") as file:
        return _check_header(file, size, size, str(path))


def _check_header(file: IO[bytes], size: int, on_disk: int, where: str) -> Layout:
    """Check the header of an array in a file or zip member of ``size`` bytes, and read past it."""
    first = file.read(1)
    if not first:
        raise InputError(f"{where} is empty; write it again.")
    if first == PICKLE:
        raise _pickled(where)
    file.seek(0)
    version = np.lib.format.read_magic(file)
    if version not in HEADERS:
        raise InputError(f"{where} is not an array of plain numbers; write it again.")
    shape, is_fortran, dtype = HEADERS[version](file)
    if dtype.hasobject:
        raise _pickled(where)
    count, found = math.prod(shape), size - file.tell()
    if min(shape, default=0) < 0 or count * dtype.itemsize != found:
        raise InputError(
            f"{where} is damaged: its header describes shape {shape} and dtype {dtype}, but "
            f"{found} bytes follow; write it again."
        )
    check_size(count * max(dtype.itemsize, FLOAT), on_disk, where)
    return Layout(shape, dtype, is_fortran, file.tell())


def _pickled(where: str) -> InputError:
    return InputError(
        f"{where} contains pickled objects, which can run code when loaded; save plain arrays of "
        "numbers instead."
    )


@contextmanager
def _as_sentences(path: Path) -> Iterator[None]:
    """Replace all exceptions with an InputError, and silence warnings about unusual headers."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except InputError:
        raise
    except PermissionError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); check the path.") from error
    except (BadZipFile, zlib.error, EOFError) as error:  # a wrong checksum, or a truncated file
        raise InputError(f"{path} is damaged; write it again.") from error
    except Exception as error:  # a damaged file can raise anything
        raise InputError(
            f"{path} is not an .npy or .npz file of numbers; write it again."
        ) from error
