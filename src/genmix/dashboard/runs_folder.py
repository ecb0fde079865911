"""All runs under one or several folders, kept between requests."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from genmix.errors import InputError
from genmix.monitoring.finding import FileId, find_runs
from genmix.monitoring.monitor import RunMonitor

SCAN_INTERVAL = 1.0
"""Minimum number of seconds between searches of the folders."""


def named_folders(arguments: Sequence[str]) -> dict[str, Path]:
    """Return folders by name. Each argument is a folder or ``NAME=FOLDER``.

    A single folder without a name gets an empty one: its runs are named by their relative paths. Otherwise,
    a folder is named after itself, with as many of its parents as distinguish it from the others.
    """
    parts = [_split(argument) for argument in arguments]
    for _, folder in parts:
        if not folder.is_dir():
            raise InputError(f"{folder} is not a folder; pass the folder that contains the runs.")
    if len(parts) == 1 and parts[0][0] is None:
        return {"": parts[0][1]}
    unnamed = list(dict.fromkeys(folder.resolve() for name, folder in parts if name is None))
    names = dict(zip(unnamed, _distinct([folder.parts[1:] for folder in unnamed]), strict=True))
    found: dict[str, Path] = {}
    for name, folder in parts:
        shown = names[folder.resolve()] if name is None else name
        if found.setdefault(shown, folder.resolve()) != folder.resolve():
            raise InputError(f"two folders are named {shown!r}; pass NAME=FOLDER with other names.")
    return found


def _split(argument: str) -> tuple[str | None, Path]:
    name, equals, folder = argument.partition("=")
    if not equals or Path(argument).is_dir():
        return None, Path(argument)
    if not name or name.strip("/") != name or name in (".", ".."):
        raise InputError(
            f"{argument!r} has no valid name; pass NAME=FOLDER, e.g. cluster=/mnt/runs."
        )
    return name, Path(folder)


def _distinct(paths: Sequence[tuple[str, ...]]) -> list[str]:
    """Name each path by its last parts, as few as make the names differ."""
    length = 1
    while True:
        names = ["/".join(parts[-length:]) for parts in paths]
        if max(Counter(names).values(), default=1) == 1:
            return names
        length += 1


class RunsFolder:
    """All runs under some folders, named by their relative paths. Symbolic links are not followed."""

    def __init__(self, root: Path | Mapping[str, Path]) -> None:
        roots = {"": root} if isinstance(root, Path) else root
        self.roots = {name: folder.resolve() for name, folder in roots.items()}
        self._lock = threading.Lock()
        self._found: dict[str, tuple[Path, FileId]] = {}
        self._scanned_at = -SCAN_INTERVAL
        self._monitors: dict[str, tuple[tuple[Path, FileId], RunMonitor]] = {}

    @property
    def title(self) -> str:
        """The folders, for the list of runs."""
        return ", ".join(f"{n}: {f}" if n else str(f) for n, f in self.roots.items())

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
            place = self._found.get(name)
            if place is None:
                return None
            known = self._monitors.get(name)
            if known is None or known[0] != place:
                known = place, RunMonitor(place[0])
                self._monitors[name] = known
            return known[1]

    def _scan(self, force: bool = False) -> None:
        if force or time.monotonic() - self._scanned_at >= SCAN_INTERVAL:
            self._found = dict(self._runs())
            self._scanned_at = time.monotonic()
            for name in set(self._monitors) - set(self._found):
                del self._monitors[name]

    def _runs(self) -> Iterator[tuple[str, tuple[Path, FileId]]]:
        for root, folder in self.roots.items():
            for name, file_id in find_runs(folder):
                shown = (root if name == "." else f"{root}/{name}") if root else name
                yield shown, (folder / name, file_id)
