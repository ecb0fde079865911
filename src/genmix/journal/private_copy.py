"""Read a journal without locks and without writing next to it, by means of a consistent copy."""

from __future__ import annotations

import errno
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from genmix.journal.file_systems import file_system_of

ATTEMPTS = 20
PAUSE = 0.05
"""Seconds between attempts. The log is restarted only every thousand pages."""

HEADER = 32
"""Size of the header of a write-ahead log. Its salts change whenever the log is restarted."""

CHUNK = 1 << 22

GONE = (errno.ENOENT, errno.ESTALE)
"""Errors about a file that was removed; the second one if another machine removed it while it was open."""


def has_log(path: Path) -> bool:
    """Return whether a write-ahead log with content, or a rollback journal, is beside the file."""
    return any(_size(path.with_name(f"{path.name}-{ending}")) for ending in ("wal", "journal"))


def is_read_in_place(path: Path) -> bool:
    """Return whether a journal is read without locks although a writer may appear.

    This happens on a network file system if there is no write-ahead log: a run that is writing has one.
    """
    return file_system_of(path.parent).is_network and not has_log(path)


def file_state(path: Path) -> tuple[object, ...]:
    """Return a value that changes when a run begins to write: it creates a log first, then a checkpoint
    changes the journal, and finally the log is removed."""
    status = path.stat()
    return status.st_ino, status.st_mtime_ns, status.st_size, has_log(path)


@contextmanager
def private_copy(path: Path, check_time: Callable[[], None] = lambda: None) -> Iterator[Path]:
    """Copy a journal and its log to a temporary folder while another process may be writing them.

    The main file may be copied in the middle of a checkpoint. All pages that a checkpoint writes are in the
    log, which is copied afterwards, unless the log was restarted or removed in between. In that case, its
    header has changed, and the copy is made again. A frame of the log that was copied in part fails its
    checksum, and SQLite ignores it.

    ``check_time`` is called after every few megabytes.
    """
    with tempfile.TemporaryDirectory(prefix="genmix-") as folder:
        target = Path(folder) / path.name
        for left in reversed(range(ATTEMPTS)):
            before = _header(path)
            _copy(path, target, check_time)
            is_complete = not before or _copy_log(path, target, check_time)
            if is_complete and _header(path) == before:
                break
            if not left:
                raise OSError(f"{path} changes faster than it can be copied")
            _log(target).unlink(missing_ok=True)
            time.sleep(PAUSE)
        yield target


def _copy(source: Path, target: Path, check_time: Callable[[], None]) -> None:
    with source.open("rb") as reading, target.open("wb") as writing:
        while chunk := reading.read(CHUNK):
            writing.write(chunk)
            check_time()


def _copy_log(path: Path, target: Path, check_time: Callable[[], None]) -> bool:
    """Return whether the log could be copied; it is removed when a run ends."""
    try:
        _copy(_log(path), _log(target), check_time)
    except OSError as error:
        if error.errno not in GONE:
            raise
        return False
    return True


def _log(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _header(path: Path) -> bytes:
    """Return the header of the log; nothing if there is no log."""
    try:
        with _log(path).open("rb") as log:
            return log.read(HEADER)
    except OSError as error:
        if error.errno not in GONE:
            raise
        return b""


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
