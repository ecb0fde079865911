"""Make axes, ticks and titles that are readable in a narrow column."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from genmix.charts.style import MIDDLE, SMALL

STEPS: tuple[tuple[int, ...], ...] = ((1, 2, 5), (1, 3), (1,))
FEWEST, MOST = 3, 10
LINE_HEIGHT = 14
SHORT_NUMBERS = (
    "abs(datum.value) >= 10000 ? format(datum.value, '~s') : "
    "abs(datum.value) >= 0.001 ? format(datum.value, '~g') : format(datum.value, '~e')"
)
NO_COMMA = "replace(datum.label, regexp(',', 'g'), '')"
SCORE_NAMES = {
    "frechet_distance": "FD",
    "kernel_distance": "KD",
    "vendi": "Vendi",
    "quality_vendi": "quality Vendi",
    "rke": "RKE",
    "inception_score": "Inception Score",
}
NARROW, WIDE = "fijlrtI.,:;'|()[]!- ", "mwMW%@—"


def text_width(text: str, size: float = SMALL) -> float:
    """Return the approximate width of text in points."""
    return size * sum(map(_letter_width, text))


def log_axis(
    title: str, values: Sequence[float], length: float, horizontal: bool
) -> dict[str, Any]:
    """Make a logarithmic scale and axis for these positive values."""
    low, high = (min(values), max(values)) if values else (1.0, 10.0)
    if low == high:
        low, high = low / 2, high * 2
    if not horizontal:
        low, high = low / 1.05, high * 1.05
    axis = {
        "title": title_lines(title, length),
        "values": log_ticks(low, high, length, horizontal),
        "labelExpr": SHORT_NUMBERS,
        "labelFlush": False,
        "labelOverlap": False,
        "grid": not horizontal,
    }
    return {"scale": {"type": "log", "domain": [low, high], "nice": False}, "axis": axis}


def linear_axis(
    title: str, values: Sequence[float], length: float, padding: float = 0, grid: bool = False
) -> dict[str, Any]:
    """Make a horizontal scale and axis, extended at both ends by the fraction ``padding`` of its span."""
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    margin = padding * (high - low) if high > low else 0.5
    axis: dict[str, Any] = {
        "title": title_lines(title, length),
        "tickCount": max(4, int(length // 35)),
        "labelExpr": NO_COMMA,
        "labelFlush": False,
        "grid": grid,
    }
    if high - low < MOST and all(float(value).is_integer() for value in values):
        axis |= {"values": list(range(int(low), int(high) + 1)), "format": "d"}  # no half samples
    scale = {"zero": False, "nice": False, "domain": [low - margin, high + margin]}
    return {"scale": scale, "axis": axis}


def vertical_axis(title: str, length: float) -> dict[str, Any]:
    """Make a vertical axis with a linear scale."""
    return {"title": title_lines(title, length), "tickCount": 4, "labelExpr": NO_COMMA}


def log_ticks(low: float, high: float, length: float, horizontal: bool) -> list[float]:
    """Return the densest round ticks whose labels fit."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in STEPS:
        ticks = _within([float(f"{s}e{e}") for e in decades for s in steps], low, high)
        if FEWEST <= len(ticks) <= MOST and _fits(ticks, low, high, length, horizontal):
            return ticks
    powers = _within([float(f"1e{e}") for e in decades], low, high)
    if len(powers) >= FEWEST:
        return powers[:: math.ceil(len(powers) / min(MOST, length / 30))]
    return _even_ticks(low, high)


def title_lines(title: str, length: float) -> str | list[str]:
    """Split a title that is too long into two lines, before a parenthesis or near the middle."""
    spaces = [i for i, letter in enumerate(title) if letter == " "]
    if text_width(title, MIDDLE) <= 1.1 * length or not spaces:
        return title
    parentheses = [i for i in spaces if title[i + 1 : i + 2] == "("]
    middle = min(parentheses or spaces, key=lambda i: abs(i - len(title) / 2))
    return [title[:middle], title[middle + 1 :]]


def short_name(score: str) -> str:
    """Return the conventional name of a score; a second Vendi score is ``Vendi 2``."""
    first, _, rest = score.partition(" ")
    return f"{SCORE_NAMES.get(first, first.replace('_', ' '))} {rest}".rstrip()


def direction(maximise: bool) -> str:
    return "↑ (higher is better)" if maximise else "↓ (lower is better)"


def bar_label(value: float | None) -> str:
    """Format a number with three significant digits for the label of a bar."""
    if value is None:
        return "–"
    size = abs(value)
    if 100 <= size < 1e5:
        text = f"{value:.0f}"
    elif 0.001 <= size < 100:
        text = f"{value:#.3g}"
    else:
        text = f"{value:.2g}"
    return text.replace("-", "−")


def _letter_width(letter: str) -> float:
    if letter in NARROW:
        return 0.31
    if letter in WIDE:
        return 0.86
    return 0.69 if letter.isupper() else 0.56


def _within(ticks: list[float], low: float, high: float) -> list[float]:
    return [tick for tick in ticks if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]


def _even_ticks(low: float, high: float) -> list[float]:
    """Return evenly spaced ticks, for a range of less than a decade."""
    rough = (high - low) / 4
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * s for s in (1, 2, 5, 10) if unit * s >= rough)
    count = range(math.ceil(low / step), math.floor(high / step) + 1)
    return [float(f"{i * step:.12g}") for i in count]


def _fits(ticks: list[float], low: float, high: float, length: float, horizontal: bool) -> bool:
    scale = length / math.log(high / low)
    gaps = [scale * math.log(b / a) for a, b in pairwise(ticks)]
    if not horizontal:
        return min(gaps) >= LINE_HEIGHT
    widths = [text_width(f"{t:g}" if t < 1e4 else f"{t / 1e3:g}k") for t in ticks]
    pairs = zip(gaps, pairwise(widths), strict=True)
    return all(gap >= (left + right) / 2 + 4 for gap, (left, right) in pairs)
