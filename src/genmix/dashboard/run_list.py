"""The list of runs, read in background threads so that a slow journal delays only its own entry."""

from __future__ import annotations

import threading
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from genmix.dashboard.actions import Actions
from genmix.dashboard.page_data import list_entry, unreadable_entry
from genmix.dashboard.runs_folder import RunsFolder

PATIENCE, MAX_WAIT = 2.0, 10.0
"""Seconds to wait for the next readable entry, and for all of them; others appear in a later list."""

SHORT_WAIT = 0.1
"""Seconds to wait for runs that were unreadable before."""

MAX_READERS = 4

Entry = dict[str, Any]


class RunList:
    """The entries of all runs in a folder."""

    def __init__(self, runs: RunsFolder, actions: Actions) -> None:
        self._runs, self._actions = runs, actions
        self._threads = ThreadPoolExecutor(MAX_READERS, thread_name_prefix="genmix-list")
        self._lock = threading.Lock()
        self._reading: dict[str, Future[Entry | None]] = {}
        self._latest: dict[str, Entry] = {}

    def entries(self) -> list[Entry]:
        """Return an entry for every run, newest first. An entry that is not ready may be an older one."""
        reading = self._start(self._runs.names())
        _wait({future for name, future in reading.items() if not self._is_unreadable(name)})
        wait(reading.values(), SHORT_WAIT)
        found = [self._entry(name, future) for name, future in reading.items()]
        return sorted(filter(None, found), key=lambda e: e.get("started") or 0.0, reverse=True)

    def _start(self, names: list[str]) -> dict[str, Future[Entry | None]]:
        """Start reading every run that is not already being read for another request."""
        with self._lock:
            known = set(names)
            self._latest = {name: e for name, e in self._latest.items() if name in known}
            started = {n: f for n, f in self._reading.items() if n in known and not f.done()}
            order = sorted(known - set(started), key=lambda name: (self._is_unreadable(name), name))
            for name in order:  # those that were readable before come first
                started[name] = self._threads.submit(self._read, name)
            self._reading = started
            return dict(started)

    def _is_unreadable(self, name: str) -> bool:
        return name in self._latest and not is_readable(self._latest[name])

    def _read(self, name: str) -> Entry | None:
        run = self._runs.find(name)
        return None if run is None else list_entry(name, run, self._actions)

    def _entry(self, name: str, future: Future[Entry | None]) -> Entry | None:
        """Return the entry; while it is being read, the previous one, or one that says so."""
        if not future.done():
            waiting = unreadable_entry(name, "The journal is being read.", status="reading")
            return self._latest.get(name) or waiting
        entry = future.result()
        if entry is not None:
            self._latest[name] = entry
        return entry


def is_readable(entry: Entry) -> bool:
    return "samples" in entry


def _wait(reading: set[Future[Entry | None]]) -> None:
    """Wait for all entries, but not for long after the last readable one."""
    start = last = time.monotonic()
    while reading and (now := time.monotonic()) < min(last + PATIENCE, start + MAX_WAIT):
        done, reading = wait(reading, min(last + PATIENCE - now, MAX_WAIT), FIRST_COMPLETED)
        if any(entry is not None and is_readable(entry) for entry in (f.result() for f in done)):
            last = time.monotonic()
