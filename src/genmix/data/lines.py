"""Other people's files: lines of text, objects in them, and links."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from genmix.errors import InputError


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 text that are not empty, with their numbers, from 1."""
    try:
        with path.open(encoding="utf-8-sig") as lines:
            yield from ((n, line.rstrip("\n")) for n, line in enumerate(lines, 1) if line.strip())
    except (OSError, UnicodeDecodeError):
        raise InputError(f"{path} cannot be read as UTF-8 text: write it anew.") from None


def json_object(line: str) -> dict[str, Any] | None:
    """The object in a line of JSON; None if there is something else."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def leads_out(path: Path, folder: Path) -> bool:
    """Whether links take a path in a folder to somewhere else."""
    return not path.resolve().is_relative_to(folder.resolve())
