"""Read text files written by users."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from genmix.errors import InputError


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the nonblank lines of a UTF-8 file with their line numbers."""
    try:
        with path.open(encoding="utf-8-sig") as lines:
            yield from ((n, line.rstrip("\n")) for n, line in enumerate(lines, 1) if line.strip())
    except (OSError, UnicodeDecodeError):
        raise InputError(f"{path} cannot be read as UTF-8 text; save it as UTF-8.") from None


def json_object(line: str) -> dict[str, Any] | None:
    """Parse a line that contains a JSON object; return None for anything else."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def is_outside(path: Path, folder: Path) -> bool:
    """Return whether a path leads outside a folder, e.g. through a symbolic link."""
    return not path.resolve().is_relative_to(folder.resolve())
