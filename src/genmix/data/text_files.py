"""Read text files written by users."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from genmix.core.limits import VARIABLE, max_bytes
from genmix.errors import InputError

LINE_SHARE = 32
"""Parsed JSON can take this many times as much memory as its text."""


def numbered_lines(path: Path, *, keep: bool = False) -> Iterator[tuple[int, str]]:
    """Yield the nonblank lines of a UTF-8 file with their line numbers.

    With ``keep``, yield all lines unchanged, including their ends.
    """
    if not os.path.isfile(path):  # opening a named pipe would wait forever
        raise InputError(f"{path} is not a file; check the path.")
    longest = max_bytes() // LINE_SHARE
    try:
        with path.open(encoding="utf-8-sig", newline="" if keep else None) as file:
            for number, line in enumerate(iter(lambda: file.readline(longest + 1), ""), 1):
                if len(line) > longest:
                    raise InputError(
                        f"{path}, line {number} has more than {longest} characters; write one object "
                        f"or text per line, or increase {VARIABLE}."
                    )
                if keep:
                    yield number, line
                elif line.strip():
                    yield number, line.rstrip("\n")
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
    return not resolved(path).is_relative_to(resolved(folder))


def resolved(name: str | Path, folder: Path | None = None) -> Path:
    """Follow links and expand ``~``; ``name`` is relative to ``folder``.

    Unlike ``Path.resolve`` and ``Path.expanduser``, this raises no error for a link to itself or for an
    unknown user, so that the path can be reported as missing.
    """
    expanded = os.path.expanduser(name)
    return Path(os.path.realpath(expanded if folder is None else folder / expanded))
