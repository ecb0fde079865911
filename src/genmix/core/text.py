"""Text formatting for people: numbers, lists, tables, and text quoted from other programs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence

from genmix.core.masking import mask

LONG_NUMBER = r"(?<![\w.])\d+\.\d{4,}(?:e[+-]?\d+)?(?![\w.])"
JOINERS = "\u200c\u200d"
"""Python considers these unprintable, but Persian words and many emoji need them."""


def printable(text: str) -> str:
    """Replace control characters and other unprintable characters with �."""
    return "".join(c if c.isprintable() or c in JOINERS else "\ufffd" for c in text)


def quotable(text: object, secrets: Iterable[str] = (), most: int = 200) -> str:
    """Collapse the text to one line of at most ``most`` characters; mask known secrets and these."""
    line = printable(" ".join(mask(str(text), secrets).split()))
    return line if len(line) <= most else line[: most - 1] + "…"


def describe_error(error: BaseException, secrets: Iterable[str] = ()) -> str:
    """Describe an exception in a short phrase: its type and message."""
    said = quotable(error, secrets)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def first_sentence(text: object, secrets: Iterable[str] = ()) -> str:
    """Return the first sentence of another library's error message, for quoting in a message."""
    return re.split(r"(?<=\S)[.!?;] ", quotable(text, secrets) + " ")[0].strip(" .:")


def number(value: float | None, digits: int = 4) -> str:
    """Format a number with a few significant digits and thousands separators; None as a dash."""
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    if 10 ** (digits - 1) <= abs(value) < 1e7:
        return f"{value:,.0f}".replace("-", "−")
    return f"{value:.{digits}g}".replace("-", "−")


def rounded(text: str) -> str:
    """Shorten the long decimal numbers in a text to four significant digits."""
    return re.sub(LONG_NUMBER, lambda found: _four_digits(float(found[0])), text)


def _four_digits(value: float) -> str:
    return f"{value:.0f}" if 1e4 <= value < 1e7 else f"{value:.4g}"


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, e.g. ``1 sample`` or ``1,200 samples``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def percent(share: float) -> str:
    """Format a share as a percentage; a positive share never shows as 0%."""
    return "<1%" if 0 < share < 0.01 else f"{100 * share:.0f}%"


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def ago(seconds: float) -> str:
    """Say how long ago something happened, in one unit."""
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit} ago"
    return f"{max(seconds, 0):.0f} s ago"


def listed(names: Iterable[object], last: str = "and") -> str:
    """Join names into a phrase such as ``a, b and c``."""
    *others, final = map(str, names)
    return f"{', '.join(others)} {last} {final}" if others else final


def listed_few(names: Iterable[object], most: int = 8) -> str:
    """Join names like ``listed``; of many, name only the first ones, e.g. ``a, b and 12 others``."""
    found = list(names)
    if len(found) <= most + 1:
        return listed(found)
    return listed([*found[:most], f"{len(found) - most:,} others"])


def shortened(text: str, most: int = 90) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def one_line(row: Mapping[str, object]) -> str:
    """Return JSON on one line, even for readers that break lines at Unicode separators."""
    text = json.dumps(row, ensure_ascii=False)
    for character in ("\x85", "\u2028", "\u2029"):
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def interval_text(interval: tuple[float, float], kind: str = "f") -> str:
    """Format an interval of weights, e.g. ``0.12 to 0.31``; use kind ``g`` for scores.

    Both ends get more digits if they would look the same.
    """
    for digits in range(2 if kind == "f" else 4, 7):
        low, high = (f"{end:.{digits}{kind}}" for end in interval)
        if low != high or interval[0] == interval[1]:
            break
    return f"{low} to {high}"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Format rows as lines; left-align the first column, right-align the others, two spaces apart."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if k else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def visible(text: str) -> str:
    """Replace control characters with �, including those that reorder text."""
    return "".join(c if c.isprintable() or c in JOINERS or c in "\n\t" else "\ufffd" for c in text)
