"""Find the runs below a folder, and read their files without following links out of it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from genmix.journal.schema import JOURNAL

MAX_DEPTH = 4
"""Number of levels below the folder that are searched for runs."""

FileId = tuple[int, int]


def find_runs(folder: Path, name: str = "", depth: int = MAX_DEPTH) -> Iterator[tuple[str, FileId]]:
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
            yield from find_runs(folder / each, f"{name}/{each}" if name else each, depth - 1)


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
