"""All runs under a folder, kept between requests."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from genmix.monitoring.finding import FileId, find_runs
from genmix.monitoring.monitor import RunMonitor

SCAN_INTERVAL = 1.0
"""Minimum number of seconds between searches of the folder."""


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
            self._found = dict(find_runs(self.root))
            self._scanned_at = time.monotonic()
            for name in set(self._monitors) - set(self._found):
                del self._monitors[name]
