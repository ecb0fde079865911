"""Lock a run folder, so that it has one writer at a time; the lock file identifies the writer."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from genmix.core.atomic import is_alive, place
from genmix.errors import InputError, StorageError
from genmix.journal.file_systems import file_system_of

LOCK = "lock"
NO_SIGNALS = "thread"
"""Written by a process that runs the study in a thread, where SIGINT does not stop it."""
STOPPING = "stopping"
"""Written by a process that was asked to stop; a second signal would kill it."""
ATTEMPTS = 200
PAUSE = 0.01
"""Seconds between attempts. ``holder`` briefly acquires the lock, so a writer may have to wait."""
MAX_BYTES = 1000
RECENT = 600.0
"""Seconds after the last write for which a run on another machine counts as running, if its lock is not
visible here."""

_held: set[int] = set()


def _release_in_child() -> None:
    """Close the lock files in a forked child, where they would keep a killed run locked."""
    for file in _held:
        with suppress(OSError):
            os.close(file)
    _held.clear()


os.register_at_fork(after_in_child=_release_in_child)


@dataclass(frozen=True)
class Holder:
    """The process that is writing to a run folder."""

    process: int | None
    """The process id; None if it runs on another machine or in another container."""
    hears_signals: bool = True
    is_stopping: bool = False
    locked_at: int = field(default=0, compare=False)
    """When the lock file last changed before it was read, in nanoseconds."""


class FolderLock:
    """An exclusive lock on a run folder; the operating system releases it when the process dies."""

    def __init__(self, folder: Path, hears_signals: bool = True) -> None:
        self._path, self._hears_signals = folder / LOCK, hears_signals

    def __enter__(self) -> FolderLock:
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        except OSError as error:
            raise self._write_error(error) from error
        try:
            self._acquire()
            self._check_other_machines()
        except BaseException:
            os.close(self._file)
            raise
        try:
            self._write_owner()
        except OSError as error:
            os.close(self._file)
            raise self._write_error(error) from error
        _held.add(self._file)
        return self

    def _acquire(self) -> None:
        for left in reversed(range(ATTEMPTS)):
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError as error:
                if not left:
                    raise self._in_use() from error
                time.sleep(PAUSE)
            except OSError as error:
                raise StorageError(
                    f"could not lock {self._path} ({error.strerror}); choose a folder on a local disk, "
                    "or a file system with locks."
                ) from error

    def _in_use(self) -> InputError:
        process = _parsed(os.read(self._file, MAX_BYTES)).process
        elsewhere = "a process on another machine or in another container"
        owner = f"process {process}" if process else elsewhere
        return InputError(
            f"{self._path.parent} is in use by {owner}; wait for it to finish, or stop it."
        )

    def _check_other_machines(self) -> None:
        """Refuse a lock file that another machine has left, if its lock would not be visible here."""
        found = file_system_of(self._path.parent)
        if not found.shares_locks and _is_elsewhere(os.pread(self._file, MAX_BYTES, 0)):
            raise InputError(
                f"{self._path.parent} may be in use by a process on another machine, whose locks are not "
                f"visible on this file system ({found.kind}); if it has ended, delete {self._path} and try "
                "again."
            )

    def _write_owner(self) -> None:
        words = [str(os.getpid()), place(), *(() if self._hears_signals else (NO_SIGNALS,))]
        os.ftruncate(self._file, 0)
        os.write(self._file, f"{' '.join(words)}\n".encode())

    def _write_error(self, error: OSError) -> StorageError:
        return StorageError(
            f"could not write {self._path} ({error.strerror}); "
            "check the folder's permissions and free space."
        )

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            os.ftruncate(self._file, 0)  # another process may get the same id later
        _held.discard(self._file)
        os.close(self._file)


def mark_stopping(folder: Path) -> None:
    """Record in the lock file that this process is stopping, unless the disk is full."""
    with suppress(OSError):
        file = os.open(folder / LOCK, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
        try:
            os.write(file, f"{STOPPING}\n".encode())
        finally:
            os.close(file)


def holder(folder: Path) -> Holder | None:
    """Return the process that is writing to a run folder, if any."""
    try:
        file = os.open(folder / LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:  # the content describes the current holder only while it is locked
        return _current(file)
    except OSError:
        return None
    else:
        return _holder_elsewhere(folder, os.read(file, MAX_BYTES))
    finally:
        os.close(file)


def _current(file: int) -> Holder:
    """Return the content together with the time when it was written."""
    while True:
        changed = os.fstat(file).st_mtime_ns
        found = _parsed(os.pread(file, MAX_BYTES, 0))
        if os.fstat(file).st_mtime_ns == changed:
            return replace(found, locked_at=changed)


def _holder_elsewhere(folder: Path, content: bytes) -> Holder | None:
    """Return a holder on another machine whose lock is not visible here, if it was active recently."""
    if not _is_elsewhere(content) or file_system_of(folder).shares_locks:
        return None
    times = [path.stat().st_mtime for path in folder.glob("journal.sqlite*")]
    return _parsed(content) if time.time() - max(times, default=0.0) < RECENT else None


def locked_at(folder: Path) -> int:
    """Return when the lock was last acquired or released, in nanoseconds; 0 if never."""
    try:
        return os.stat(folder / LOCK, follow_symlinks=False).st_mtime_ns
    except OSError:
        return 0


def _is_elsewhere(content: bytes) -> bool:
    """Return whether a lock file names a process on another machine; it is empty after a normal end."""
    words = content.decode(errors="replace").split()
    return len(words) > 1 and words[1] != place()


def _parsed(content: bytes) -> Holder:
    words = content.decode(errors="replace").split()
    number = int(words[0]) if words and words[0].isdecimal() else 0
    is_visible = number > 0 and words[1:2] == [place()] and is_alive(number)
    return Holder(number if is_visible else None, NO_SIGNALS not in words, STOPPING in words)
