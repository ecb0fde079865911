"""Detect whether a journal has been written to since it was last read."""

from __future__ import annotations

import os
import time
from pathlib import Path

from genmix.journal.schema import JOURNAL

MTIME_RESOLUTION = 50_000_000
"""Nanoseconds; two writes this close together may leave the same modification time."""


def journal_version(folder: Path) -> tuple[int, ...]:
    """Return a value that changes with every write to the journal; if it is unchanged, nothing is new.

    The value for a file that was written a moment ago is never reused, because the next write may
    leave the same modification time.
    """
    found = []
    for name in (JOURNAL, f"{JOURNAL}-wal"):
        try:
            status = os.stat(folder / name, follow_symlinks=False)
        except FileNotFoundError:
            status = None
        if status is None or status.st_size == 0:  # readers create an empty log
            found += [0, 0]
            continue
        found += [status.st_mtime_ns, status.st_size]
        now = time.time_ns()
        if abs(now - status.st_mtime_ns) < MTIME_RESOLUTION:
            found.append(now)
    return tuple(found)
