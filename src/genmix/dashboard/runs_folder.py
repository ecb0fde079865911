"""Find the runs under a folder, and read their files without following links out of it."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from genmix.dashboard.monitor import RunMonitor
from genmix.journal.schema import JOURNAL

MAX_DEPTH = 4
"""Number of levels below the folder that are searched for runs."""

SCAN_INTERVAL = 1.0
"""Minimum number of seconds between searches of the folder."""

FileId = tuple[int, int]


class RunsFolder:
    """All runs under a folder, named by their relative paths. Symbolic links are not followed."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._lock = threading.Lock()
        self._found: dict[str, FileId] = {}
        self._scanned_at = -SCAN_INTERVAL
        self._monitors: dict[str, tuple[FileId, RunMonitor]] = {}

    def names(self) -> list[str]:
        with self._lock:
            self._scan()
            return sorted(self._found)

    def find(self, name: str) -> RunMonitor | None:
        """Return the run with that name, or None. Only names that a scan found are opened."""
        with self._lock:
            self._scan()
            if name not in self._found:
                self._scan(force=True)
            file_id = self._found.get(name)
            if file_id is None:
                return None
            known = self._monitors.get(name)
            if known is None or known[0] != file_id:
                known = file_id, RunMonitor(self.root / name)
                self._monitors[name] = known
            return known[1]

    def _scan(self, force: bool = False) -> None:
        if force or time.monotonic() - self._scanned_at >= SCAN_INTERVAL:
            self._found = dict(_runs(self.root, "", MAX_DEPTH))
            self._scanned_at = time.monotonic()
            for name in set(self._monitors) - set(self._found):
                del self._monitors[name]


def _runs(folder: Path, name: str, depth: int) -> Iterator[tuple[str, FileId]]:
    """Find runs: each name with the device and inode of its journal. Do not search inside runs."""
    try:
        journal = os.stat(folder / JOURNAL, follow_symlinks=False)
        if stat.S_ISREG(journal.st_mode):
            yield name or ".", (journal.st_dev, journal.st_ino)
            return
    except OSError:
        pass
    if not depth:
        return
    try:
        inside = [e.name for e in os.scandir(folder) if e.is_dir(follow_symlinks=False)]
    except OSError:
        return
    for each in inside:
        if not each.startswith("."):
            yield from _runs(folder / each, f"{name}/{each}" if name else each, depth - 1)


def read_inside(folder: Path, *parts: str, max_bytes: int) -> bytes | None:
    """Read a regular file inside ``folder``; return None if any part of its path is a link."""
    if any(part in ("", ".", "..") or "/" in part or "\0" in part for part in parts):
        return None
    *folders, name = parts
    opened = []
    try:
        opened.append(os.open(folder, os.O_RDONLY | os.O_DIRECTORY))
        for each in folders:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
            opened.append(os.open(each, flags, dir_fd=opened[-1]))
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        opened.append(os.open(name, flags, dir_fd=opened[-1]))
        status = os.fstat(opened[-1])
        if not stat.S_ISREG(status.st_mode) or status.st_size > max_bytes:
            return None
        with os.fdopen(opened.pop(), "rb") as file:
            return file.read(max_bytes)
    except OSError:
        return None
    finally:
        for descriptor in opened:
            os.close(descriptor)
