"""One writer a run folder."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from types import TracebackType

from genmix.errors import InputError

NAME = "lock"
TRIES = 200
PAUSE = 0.01
"""Who only looks whether a folder is in use holds its lock for an instant; that is waited for,
long enough for one that is busy with other things in the meantime."""


class FolderLock:
    """Held until the process ends, however it ends."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME

    def __enter__(self) -> FolderLock:
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        except OSError as error:
            raise InputError(f"{self._path} cannot be written ({error.strerror}).") from error
        try:
            self._take()
        except OSError as error:
            holder = os.read(self._file, 32).decode(errors="replace").strip() or "unknown"
            os.close(self._file)
            raise InputError(
                f"{self._path.parent} is in use by process {holder}: wait for it, or stop it first."
            ) from error
        os.ftruncate(self._file, 0)
        os.write(self._file, f"{os.getpid()}\n".encode())
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
    try:
        file = os.open(folder / NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:  # only now does the file speak of the one that holds it
        return _process(os.read(file, 32).strip())
    except OSError:
        return None
    finally:
        os.close(file)
    return None


def _process(said: bytes) -> int | None:
    is_one = said.isdigit() and int(said) > 1 and _is_alive(int(said))
    return int(said) if is_one else None


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True
