"""Text for people: numbers, lists and tables, and what other programs said, safe to quote."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

SHORTEST_SECRET = 6
"""Shorter values, such as a number of threads, are not secrets and would match everywhere."""

JOINERS = "\u200c\u200d"
"""Python calls these unprintable, but Persian words and many emoji need them."""


def printable(text: str) -> str:
    """The text with � in place of control and other unprintable characters."""
    return "".join(c if c.isprintable() or c in JOINERS else "\ufffd" for c in text)


def quotable(text: object, secrets: Iterable[str] = (), most: int = 200) -> str:
    """The text on one line of at most ``most`` characters, with secrets masked."""
    found = str(text)
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= SHORTEST_SECRET:
            found = found.replace(secret, "***")
    line = printable(" ".join(found.split()))
    return line if len(line) <= most else line[: most - 1] + "…"


def describe_error(error: BaseException, secrets: Iterable[str] = ()) -> str:
    """An exception as a short phrase: its type and message."""
    said = quotable(error, secrets)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def first_sentence(text: object, secrets: Iterable[str] = ()) -> str:
    """The first sentence of another library's error message, to embed in one of ours."""
    return re.split(r"(?<=\S)[.!?;] ", quotable(text, secrets) + " ")[0].strip(" .:")


def number(value: float | None, digits: int = 4) -> str:
    """The value to a few significant digits, with thousands separators; a dash if there is none."""
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    if 10 ** (digits - 1) <= abs(value) < 1e7:
        return f"{value:,.0f}".replace("-", "−")
    return f"{value:.{digits}g}".replace("-", "−")


def percent(share: float) -> str:
    """A share in percent; a positive share never shows as 0%."""
    return "<1%" if 0 < share < 0.01 else f"{100 * share:.0f}%"


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def listed(names: Iterable[object], last: str = "and") -> str:
    """``a, b and c``."""
    *others, final = map(str, names)
    return f"{', '.join(others)} {last} {final}" if others else final


def shortened(text: str, most: int = 90) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """One line per row: columns two spaces apart, the first left-aligned, the others right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if k else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
