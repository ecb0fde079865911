"""Partial statistics on disk, so that an interrupted computation continues after the last finished shard."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from genmix.core.atomic import sweep
from genmix.core.state import load, save
from genmix.errors import GenmixError, InputError

SAVE_SECONDS = 10.0
"""Time after which partial statistics are saved again. What takes less time in all is not saved."""

MAX_BYTES = 4 << 30
"""Size of the folder above which the oldest statistics are removed."""

SUFFIX = ".genmix-progress"
"""Not ``.npz``, although the files are: the folder can be one of shards."""

FORMAT = 2
DIGEST = 16
"""Number of bytes of a digest."""


class SavedProgress:
    """The statistics of the first shards of a list.

    The file is named after a digest of everything that the statistics depend on. ``description`` contains
    nested lists, JSON values and arrays. Without a folder, nothing is saved.
    """

    def __init__(self, folder: Path | None, description: Any) -> None:
        self.file = None if folder is None else folder / f"{digest(description)}{SUFFIX}"
        self._begin = self._saved_at = monotonic()

    def read(self) -> tuple[int, Any]:
        """Return the number of finished shards and their statistics; 0 if there are none."""
        if self.file is None or not self.file.exists():
            return 0, None
        try:
            found = load(self.file)
            return int(found["done"]), found["statistics"]
        except (InputError, KeyError, TypeError):
            return 0, None  # damaged: compute it again

    def offer(self, done: int, statistics: Any) -> None:
        """Save the statistics that ``statistics()`` returns, if the last time was long ago."""
        if monotonic() - self._saved_at >= SAVE_SECONDS:
            self.write(done, statistics())

    def finish(self, done: int, statistics: Any) -> None:
        """Save the final statistics for other commands, if computing them took long."""
        if monotonic() - self._begin >= SAVE_SECONDS:
            self.write(done, statistics())

    def write(self, done: int, statistics: Any) -> bool:
        """Save the statistics; return whether that was possible. A full disk does not end the work."""
        self._saved_at = monotonic()
        if self.file is None:
            return False
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            save(self.file, {"done": done, "statistics": statistics})
            _remove_old(self.file)
            sweep(self.file.parent)
        except (OSError, GenmixError):
            return False
        return True


def _remove_old(newest: Path) -> None:
    names = f"{'[0-9a-f]' * 2 * DIGEST}{SUFFIX}"
    files = sorted(newest.parent.glob(names), key=lambda file: file.stat().st_mtime)
    total = sum(file.stat().st_size for file in files)
    for file in files:
        if total <= MAX_BYTES or file == newest:
            return
        total -= file.stat().st_size
        file.unlink(missing_ok=True)


def digest(description: Any) -> str:
    """Return a name for nested lists, dicts, JSON values and arrays."""
    from genmix import __version__

    found = blake2b(digest_size=DIGEST)
    _update(found, [FORMAT, __version__, description])
    return found.hexdigest()


def _update(found: Any, value: Any) -> None:
    if isinstance(value, np.ndarray):
        found.update(f"{value.dtype.str} {value.shape}:".encode())
        found.update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, dict):
        found.update(b"{")
        _update(found, [[key, item] for key, item in value.items()])
    elif isinstance(value, Sequence) and not isinstance(value, str):
        found.update(f"[{len(value)}:".encode())
        for item in value:
            _update(found, item)
    else:
        found.update(f"{json.dumps(value)},".encode())
