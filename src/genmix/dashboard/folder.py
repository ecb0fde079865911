"""The folder of runs: what is in it, and nothing that is not."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from genmix.dashboard.follower import Follower
from genmix.runs.journal import NAME

DEPTH = 4
"""How far below the folder runs are looked for."""

FRESH = 1.0
"""Seconds for which a list of the runs is good."""

Identity = tuple[int, int]


class RunsFolder:
    """Every run below one folder, by the path that leads to it. Links are not followed."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._lock = threading.Lock()
        self._found: dict[str, Identity] = {}
        self._found_at = -FRESH
        self._followers: dict[str, tuple[Identity, Follower]] = {}

    def names(self) -> list[str]:
        with self._lock:
            self._scan()
            return sorted(self._found)

    def find(self, name: str) -> Follower | None:
        """The run of that name; only names that were found here lead anywhere."""
        with self._lock:
            self._scan()
            if name not in self._found:
                self._scan(again=True)
            identity = self._found.get(name)
            if identity is None:
                return None
            known = self._followers.get(name)
            if known is None or known[0] != identity:
                known = identity, Follower(self.root / name)
                self._followers[name] = known
            return known[1]

    def _scan(self, again: bool = False) -> None:
        if again or time.monotonic() - self._found_at >= FRESH:
            self._found = dict(_runs(self.root, "", DEPTH))
            self._found_at = time.monotonic()
            for name in set(self._followers) - set(self._found):
                del self._followers[name]


def _runs(folder: Path, name: str, depth: int) -> Iterator[tuple[str, Identity]]:
    """Names and identities; a run's own folders are not looked into."""
    try:
        journal = os.stat(folder / NAME, follow_symlinks=False)
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


def read_inside(folder: Path, *parts: str, most: int) -> bytes | None:
    """A regular file of a run, or None; no part of the way to it may be a link."""
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
        if not stat.S_ISREG(status.st_mode) or status.st_size > most:
            return None
        with os.fdopen(opened.pop(), "rb") as file:
            return file.read(most)
    except OSError:
        return None
    finally:
        for each_open in opened:
            os.close(each_open)
