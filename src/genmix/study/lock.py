"""One writer a run folder."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from types import TracebackType

from genmix.disk import is_alive
from genmix.errors import InputError

NAME = "lock"
DEAF = "thread"
"""Stands behind the number of a process that writes from a thread, where no signal stops it."""
TRIES = 200
PAUSE = 0.01
"""Who only looks whether a folder is in use holds its lock for an instant; that is waited for,
long enough for one that is busy with other things in the meantime."""


class FolderLock:
    """Held until the process ends, however it ends."""

    def __init__(self, folder: Path, hears_signals: bool = True) -> None:
        self._path, self._mark = folder / NAME, "" if hears_signals else f" {DEAF}"

    def __enter__(self) -> FolderLock:
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        except OSError as error:
            raise InputError(f"{self._path} cannot be written ({error.strerror}).") from error
        try:
            self._take()
        except OSError as error:
            said = os.read(self._file, 32).decode(errors="replace").split()
            holder = said[0] if said else "unknown"
            os.close(self._file)
            raise InputError(
                f"{self._path.parent} is in use by process {holder}: wait for it, or stop it first."
            ) from error
        os.ftruncate(self._file, 0)
        os.write(self._file, f"{os.getpid()}{self._mark}\n".encode())
        return self

    def _take(self) -> None:
        for left in reversed(range(TRIES)):
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError:
                if not left:
                    raise
                time.sleep(PAUSE)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.ftruncate(self._file, 0)  # its number may become another process's
        os.close(self._file)


def holder(folder: Path) -> int | None:
    """The process that writes in a run folder now, if one does."""
    number = _said(folder).split()[:1]
    is_one = number and number[0].isdigit() and int(number[0]) > 1 and is_alive(int(number[0]))
    return int(number[0]) if is_one else None


def hears_signals(folder: Path) -> bool:
    """Whether a signal to the holder stops what it does in the folder."""
    return DEAF.encode() not in _said(folder).split()


def _said(folder: Path) -> bytes:
    """What the one that holds the lock now has written into it."""
    try:
        file = os.open(folder / NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:  # only now does the file speak of the one that holds it
        return os.read(file, 32)
    except OSError:
        return b""
    finally:
        os.close(file)
    return b""
