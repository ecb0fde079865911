"""Refuse files that would expand to far more memory than their size on disk suggests."""

from __future__ import annotations

import os
from pathlib import Path

from genmix.errors import InputError

VARIABLE = "GENMIX_MAX_BYTES"
DEFAULT = 1 << 30
EXPANSION = 16
"""A file can always expand to this many times its own size: a large file is not suspicious."""


def max_bytes() -> int:
    """Return how much memory the content of one file may take: ``$GENMIX_MAX_BYTES``, or 1 GiB."""
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return DEFAULT
    try:
        found = int(float(text))
    except (ValueError, OverflowError):
        found = 0
    if found < 1:
        raise InputError(f"{VARIABLE} is {text!r}; set it to a number of bytes, e.g. {4 << 30}.")
    return found


def check_size(needed: int, on_disk: int, where: str) -> None:
    """Raise InputError if content that takes ``needed`` bytes in memory is too large for its file."""
    if needed > max(max_bytes(), EXPANSION * on_disk):
        raise InputError(
            f"{where} takes {needed} bytes in memory but only {on_disk} on disk; if you trust the "
            f"file, set {VARIABLE}={needed} to read it."
        )


def size_of(path: Path) -> int:
    """Return the size of a file on disk; raise InputError if it cannot be read."""
    try:
        return path.stat().st_size
    except OSError as error:
        raise InputError(
            f"{path} cannot be read ({error.strerror or error}); check the path."
        ) from error
