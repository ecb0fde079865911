"""One writer a run folder, and what it says of itself to those who look."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from genmix.core.atomic import is_alive, place
from genmix.errors import InputError

NAME = "lock"
DEAF = "thread"
"""Said by a process that writes from a thread, where no signal stops it."""
STOPPING = "stopping"
"""Said by a process that was asked to stop: a second signal would end it at once."""
TRIES = 200
PAUSE = 0.01
"""Who only looks whether a folder is in use holds its lock for an instant; that is waited for,
long enough for one that is busy with other things in the meantime."""
LONGEST = 1000

_held: set[int] = set()


def _let_go_in_child() -> None:
    """A forked child does not hold what its parent does, or a killed run would stay locked by it."""
    for file in _held:
        with suppress(OSError):
            os.close(file)
    _held.clear()


os.register_at_fork(after_in_child=_let_go_in_child)


@dataclass(frozen=True)
class Holder:
    """Who writes in a folder now."""

    process: int | None
    """None: one that cannot be seen from here, on another machine or in another container."""
    hears_signals: bool = True
    is_stopping: bool = False


class FolderLock:
    """Held until the process ends, however it ends."""

    def __init__(self, folder: Path, hears_signals: bool = True) -> None:
        self._path, self._hears = folder / NAME, hears_signals

    def __enter__(self) -> FolderLock:
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        except OSError as error:
            raise InputError(f"{self._path} cannot be written ({error.strerror}).") from error
        try:
            self._take()
        except OSError as error:
            found = _understood(os.read(self._file, LONGEST))
            os.close(self._file)
            whose = (
                f"process {found.process}"
                if found.process
                else "a process that cannot be seen from here"
            )
            raise InputError(
                f"{self._path.parent} is in use by {whose}: wait for it, or stop it first."
            ) from error
        self._sign()
        _held.add(self._file)
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

    def _sign(self) -> None:
        words = [str(os.getpid()), place(), *(() if self._hears else (DEAF,))]
        try:
            os.ftruncate(self._file, 0)
            os.write(self._file, f"{' '.join(words)}\n".encode())
        except OSError as error:
            os.close(self._file)
            raise InputError(
                f"{self._path} cannot be written ({error.strerror}): make room first."
            ) from error

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(OSError):
            os.ftruncate(self._file, 0)  # its number may become another process's
        _held.discard(self._file)
        os.close(self._file)


def say_stopping(folder: Path) -> None:
    """Of a run that this process writes; on a full disk it stays unsaid."""
    with suppress(OSError):
        file = os.open(folder / NAME, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
        try:
            os.write(file, f"{STOPPING}\n".encode())
        finally:
            os.close(file)


def holder(folder: Path) -> Holder | None:
    """Who writes in a run folder now, if anybody does."""
    try:
        file = os.open(folder / NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:  # only now does the file speak of the one that holds it
        return _understood(os.read(file, LONGEST))
    except OSError:
        return None
    finally:
        os.close(file)
    return None


def _understood(content: bytes) -> Holder:
    words = content.decode(errors="replace").split()
    number = int(words[0]) if words and words[0].isdecimal() else 0
    is_seen = number > 0 and words[1:2] == [place()] and is_alive(number)
    return Holder(number if is_seen else None, DEAF not in words, STOPPING in words)
