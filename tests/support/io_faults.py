"""Make the k-th write, sync, rename or similar operation fail, in Python's files and inside SQLite.

with Faults(fail_at=7, in_folder=folder, lasting=False) as faults:
    ...                     # the 7th operation fails; with ``lasting``, all later ones as well
faults.count                # how many operations there were
"""

from __future__ import annotations

import builtins
import ctypes
import ctypes.util
import errno
import io
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

WRITING = set("wax+")
FULL, WRITE_ERROR, SYNC_ERROR, TRUNCATE_ERROR, DELETE_ERROR = 13, 778, 1034, 1546, 2570
"""Result codes of SQLite."""


class Faults:
    """A context manager that counts operations on a folder and lets one of them fail."""

    def __init__(self, fail_at: int, in_folder: Path, lasting: bool = False) -> None:
        self._fail_at, self._folder, self._lasting = fail_at, str(in_folder), lasting
        self.count = 0
        self.kinds: Counter[str] = Counter()
        self._undo: list[Callable[[], None]] = []

    @property
    def has_failed(self) -> bool:
        return self.count >= self._fail_at

    def fails(self, kind: str) -> bool:
        """Count an operation, and return whether it must fail."""
        self.count += 1
        self.kinds[kind] += 1
        return self.count >= self._fail_at if self._lasting else self.count == self._fail_at

    def is_inside(self, path: Any) -> bool:
        try:
            return os.path.abspath(os.fsdecode(path)).startswith(self._folder)
        except TypeError:  # a file descriptor
            return False

    def __enter__(self) -> Self:
        self._patch_files()
        self._undo.append(_SQLITE.install(self))
        return self

    def __exit__(self, *_: object) -> None:
        for undo in reversed(self._undo):
            undo()

    # -- files -----------------------------------------------------------------------------------

    def _patch_files(self) -> None:
        for name in ("replace", "rename", "mkdir"):
            self._patch(os, name, self._guarded(name, getattr(os, name)))
        self._patch(os, "fsync", self._guarded("fsync", os.fsync, always=True))
        self._patch(os, "write", self._guarded("write", os.write, always=True))
        opened, opened_low = io.open, os.open

        def open_file(file: Any, mode: str = "r", *args: Any, **more: Any) -> Any:
            if not WRITING & set(mode) or not self.is_inside(file):
                return opened(file, mode, *args, **more)
            if self.fails("open"):
                raise _full()
            return _File(opened(file, mode, *args, **more), self)

        def open_low(path: Any, flags: int, *args: Any, **more: Any) -> int:
            writes = flags & (os.O_WRONLY | os.O_RDWR)
            if writes and self.is_inside(path) and self.fails("open"):
                raise _full()
            return opened_low(path, flags, *args, **more)

        self._patch(io, "open", open_file)
        self._patch(builtins, "open", open_file)
        self._patch(os, "open", open_low)

    def _guarded(self, kind: str, real: Any, always: bool = False) -> Any:
        def guarded(first: Any, *args: Any, **more: Any) -> Any:
            if (always or self.is_inside(first)) and self.fails(kind):
                raise _full()
            return real(first, *args, **more)

        return guarded

    def _patch(self, module: Any, name: str, replacement: Any) -> None:
        real = getattr(module, name)
        setattr(module, name, replacement)
        self._undo.append(lambda: setattr(module, name, real))


class _File:
    """A file whose writes can fail."""

    def __init__(self, file: Any, faults: Faults) -> None:
        self._file, self._faults = file, faults

    def write(self, content: Any) -> Any:
        if self._faults.fails("write"):
            self._file.write(content[: len(content) // 2])
            raise _full()
        return self._file.write(content)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __iter__(self) -> Any:
        return iter(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _full() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


# -- SQLite -----------------------------------------------------------------------------------------

_Pointer, _Int, _Long = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
_Write = ctypes.CFUNCTYPE(_Int, _Pointer, _Pointer, _Int, _Long)
_Truncate = ctypes.CFUNCTYPE(_Int, _Pointer, _Long)
_Sync = ctypes.CFUNCTYPE(_Int, _Pointer, _Int)
_Open = ctypes.CFUNCTYPE(_Int, _Pointer, _Pointer, _Pointer, _Int, _Pointer)
_Delete = ctypes.CFUNCTYPE(_Int, _Pointer, ctypes.c_char_p, _Int)


class _Methods(ctypes.Structure):
    """The start of ``sqlite3_io_methods``, and the rest of it unchanged."""

    _fields_ = (
        ("version", _Int),
        ("close", _Pointer),
        ("read", _Pointer),
        ("write", _Pointer),
        ("truncate", _Pointer),
        ("sync", _Pointer),
        ("rest", _Pointer * 13),
    )


class _System(ctypes.Structure):
    """The start of ``sqlite3_vfs``."""

    _fields_ = (
        ("version", _Int),
        ("file_size", _Int),
        ("longest_path", _Int),
        ("next", _Pointer),
        ("name", ctypes.c_char_p),
        ("data", _Pointer),
        ("open", _Pointer),
        ("delete", _Pointer),
    )


class _SQLite:
    """The file functions of the SQLite library that Python uses."""

    def __init__(self) -> None:
        self._library: Any = None

    def find(self) -> Any:
        """Return the library's table of file functions, or None if Python's copy cannot be reached."""
        if self._library is None:
            import sqlite3

            found = ctypes.util.find_library("sqlite3")
            self._library = ctypes.CDLL(found) if found else False
            if self._library:
                self._library.sqlite3_libversion.restype = ctypes.c_char_p
                version = self._library.sqlite3_libversion().decode()
                self._library = version == sqlite3.sqlite_version and self._library
        if not self._library:
            return None
        self._library.sqlite3_vfs_find.restype = ctypes.POINTER(_System)
        return self._library.sqlite3_vfs_find(None).contents

    def install(self, faults: Faults) -> Callable[[], None]:
        system = self.find()
        if system is None:
            return lambda: None
        real_open, real_delete = _Open(system.open), _Delete(system.delete)
        patched: dict[int, _Methods] = {}

        def open_file(vfs: Any, name: Any, file: Any, flags: int, out: Any) -> int:
            code = int(real_open(vfs, name, file, flags, out))  # it keeps the pointer to the name
            methods = ctypes.cast(file, ctypes.POINTER(_Pointer))
            if code == 0 and methods[0] and name and faults.is_inside(ctypes.string_at(name)):
                if methods[0] not in patched:
                    patched[methods[0]] = self._patched(methods[0], faults)
                methods[0] = ctypes.addressof(patched[methods[0]])
            return code

        def delete(vfs: Any, name: Any, sync: int) -> int:
            if faults.is_inside(name) and os.path.exists(name) and faults.fails("SQLite delete"):
                return DELETE_ERROR
            return int(real_delete(vfs, name, sync))

        before = system.open, system.delete
        kept = _Open(open_file), _Delete(delete)
        system.open, system.delete = (ctypes.cast(each, _Pointer).value for each in kept)
        self._alive.append((kept, patched))

        def undo() -> None:
            system.open, system.delete = before

        return undo

    _alive: list[Any] = []  # noqa: RUF012
    """Functions that files which are still open may call."""

    def _patched(self, address: int, faults: Faults) -> _Methods:
        real = _Methods.from_address(address)
        write, truncate, sync = _Write(real.write), _Truncate(real.truncate), _Sync(real.sync)

        def write_file(file: Any, content: Any, size: int, offset: int) -> int:
            if faults.fails("SQLite write"):
                return FULL if faults.count % 2 else WRITE_ERROR
            return int(write(file, content, size, offset))

        def truncate_file(file: Any, size: int) -> int:
            if faults.fails("SQLite truncate"):
                return TRUNCATE_ERROR
            return int(truncate(file, size))

        def sync_file(file: Any, flags: int) -> int:
            return SYNC_ERROR if faults.fails("SQLite sync") else int(sync(file, flags))

        copy = _Methods.from_buffer_copy(real)
        kept = _Write(write_file), _Truncate(truncate_file), _Sync(sync_file)
        copy.write, copy.truncate, copy.sync = (ctypes.cast(each, _Pointer).value for each in kept)
        self._alive.append(kept)
        return copy


_SQLITE = _SQLite()


def reaches_sqlite() -> bool:
    """Whether faults can be injected into SQLite itself."""
    return _SQLITE.find() is not None
