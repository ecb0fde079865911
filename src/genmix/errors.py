"""Exceptions that users see, and checks for individual parameters."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any


class GenmixError(Exception):
    """Base class for all errors that genmix raises. The message is one sentence."""


class InputError(GenmixError, ValueError):
    """An argument or an input file is invalid. Raised before anything changes."""


class StorageError(GenmixError):
    """A file could not be read or written, e.g. because the disk is full or the journal is corrupt."""


def number(value: Any, what: str, least: float = -math.inf, most: float = math.inf) -> float:
    """Return ``value`` as a finite float in ``[least, most]``, or raise InputError."""
    found = _as_float(value)
    if found is None or not math.isfinite(found) or not least <= found <= most:
        raise InputError(f"{what} is {_shown(value)}; pass a number{_between(least, most)}.")
    return found


def positive(value: Any, what: str, infinite: bool = False) -> float:
    """Return ``value`` as a float above 0, or raise InputError."""
    found = _as_float(value)
    if found is None or not found > 0 or (math.isinf(found) and not infinite):
        raise InputError(f"{what} is {_shown(value)}; pass a positive number.")
    return found


def whole(value: Any, what: str, least: int) -> int:
    """Return ``value`` as an int of at least ``least``, or raise InputError."""
    try:
        found = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        found = None
    if found is None or found < least:
        raise InputError(f"{what} is {_shown(value)}; pass a whole number of at least {least}.")
    return found


def unique_names(names: Sequence[Any], what: str) -> None:
    """Raise InputError unless ``names`` are distinct non-empty strings."""
    for name in names:
        if not isinstance(name, str) or not name:
            raise InputError(f"the {what} {name!r} is not a string; pass non-empty strings.")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"the {what} {twice!r} is listed twice; give every {what} a unique name.")


def _as_float(value: Any) -> float | None:
    if isinstance(value, bool | str | bytes):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _shown(value: Any) -> str:
    """Format a value on one line; it can be anything, e.g. a matrix or an integer of 10,000 digits."""
    try:
        line = " ".join(repr(value).split())
    except ValueError:
        return "too large"
    return line if len(line) <= 100 else f"{line[:99]}…"


def _between(least: float, most: float) -> str:
    if math.isinf(least):
        return ""
    return f" of at least {least:g}" if math.isinf(most) else f" between {least:g} and {most:g}"
