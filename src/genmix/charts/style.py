"""Colors, dashes and the theme for all figures.

Policies use the color-blind-safe palette of Okabe and Ito, and the dash shows the kind of policy. Arms
use the pale palette of Paul Tol, so that no area or bar is mistaken for a policy.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

Dash = tuple[float, ...]


class Style(NamedTuple):
    """Color and dash of a line; an empty dash is a solid line."""

    color: str
    dash: Dash = ()


BLACK, GRAY = "#000000", "#8C8C8C"
BLUE, VERMILLION, PURPLE = "#0072B2", "#D55E00", "#CC79A7"
GREEN, ORANGE, SKY = "#009E73", "#E69F00", "#56B4E9"

SOLID: Dash = ()
LONG: Dash = (7, 3)
SHORT: Dash = (3, 2)
DOTS: Dash = (1, 2)
DASH_DOT: Dash = (6, 2, 1, 2)

POLICY_STYLES: dict[str, Style] = {
    "Mixture-Greedy": Style(BLUE, SOLID),
    "Mixture-UCB": Style(VERMILLION, SOLID),
    "Mixture-OGD": Style(PURPLE, SOLID),
    "Mixture-Bonus": Style(BLACK, SOLID),
    "Mixture oracle": Style(BLACK, LONG),
    "One-arm oracle": Style(GRAY, LONG),
    "One-arm greedy": Style(SKY, SHORT),
    "ε-greedy": Style(GREEN, SHORT),
    "One-arm UCB": Style(ORANGE, SHORT),
    "FD-UCB": Style(PURPLE, DASH_DOT),
    "Uniform": Style(GRAY, DOTS),
    "Newton": Style(BLACK, DASH_DOT),
}
"""Learned mixtures are solid; oracles have long dashes, and one-arm policies have short dashes."""

FURTHER_SOLID = [Style(color) for color in (GREEN, ORANGE, SKY)]
FURTHER = [
    *FURTHER_SOLID,
    *(Style(c, DASH_DOT) for c in (BLUE, VERMILLION, GREEN, ORANGE, SKY)),
    *(Style(c, DOTS) for c in (BLUE, VERMILLION, ORANGE, SKY, BLACK)),
]
"""Styles for other labels, distinct from those of all policies."""

ARM_COLORS = (
    "#77AADD",
    "#EE8866",
    "#EEDD88",
    "#FFAABB",
    "#99DDFF",
    "#44BB99",
    "#BBCC33",
    "#AAAA00",
    "#DDDDDD",
)
ARM_BAR = "#C5CBD3"
INK = "#222222"
FAINT = "#E4E4E4"

FULL_DELTA = 0.6
UCB_DELTA = re.compile(r"Mixture-UCB\b.*δ\S*?\s*=\s*(\d+\.?\d*(?:e-?\d+)?)")

FONT = "Liberation Sans, Arial, Helvetica, sans-serif"  # the first ships with vl-convert
SMALL, MIDDLE = 8, 9


def label_styles(labels: Iterable[str]) -> dict[str, Style]:
    """Assign a style to each label, in legend order.

    The style of a label that is not a policy depends on its checksum; on a collision, the label gets the
    next free style. Thus a figure does not depend on the order of its rows.
    """
    ordered = legend_order(labels)
    found = {label: style for label in ordered if (style := policy_style(label)) is not None}
    taken: set[int] = set()
    for label in sorted(set(ordered) - set(found)):
        place = _place(label, taken)
        taken.add(place)
        found[label] = FURTHER[place]
    return {label: found[label] for label in ordered}


def policy_style(label: str) -> Style | None:
    """Return the style of a known policy, or None."""
    if label in POLICY_STYLES:
        return POLICY_STYLES[label]
    delta = _delta(label)
    return None if delta is None else Style(_shade(POLICY_STYLES["Mixture-UCB"].color, delta))


def legend_order(labels: Iterable[str]) -> list[str]:
    """Sort labels: policies as in ``POLICY_STYLES``, UCB variants by δ, then other labels as given."""
    names = list(POLICY_STYLES)
    unique = list(dict.fromkeys(labels))

    def rank(label: str) -> tuple[int, float]:
        delta = _delta(label)
        if delta is not None:
            return names.index("Mixture-UCB"), delta
        return (names.index(label), -1.0) if label in POLICY_STYLES else (len(names), 0.0)

    return sorted(unique, key=rank)


def arm_colors(arms: Iterable[str]) -> dict[str, str]:
    """Assign a color to each arm by position; after nine arms, the colors repeat in darker shades."""
    found: dict[str, str] = {}
    for i, arm in enumerate(dict.fromkeys(arms)):
        turn, place = divmod(i, len(ARM_COLORS))
        found[arm] = _blend(ARM_COLORS[place], "#000000", 1 - 0.65**turn)
    return found


def arm_inks(arms: Iterable[str]) -> dict[str, str]:
    """Assign colors to arms for dots and lines, readable on both white and dark pages."""
    return {arm: _blend(color, "#000000", 0.3) for arm, color in arm_colors(arms).items()}


def theme() -> dict[str, Any]:
    """Return the Vega-Lite configuration for all figures; one pixel is one point on paper."""
    return {
        "background": "white",
        "font": FONT,
        "padding": 4,
        "view": {"stroke": None},
        "axis": {
            "labelFontSize": SMALL,
            "titleFontSize": MIDDLE,
            "titleFontWeight": "normal",
            "titlePadding": 5,
            "labelColor": INK,
            "titleColor": INK,
            "domainColor": INK,
            "tickColor": INK,
            "domainWidth": 0.7,
            "tickWidth": 0.7,
            "tickSize": 3,
            "labelPadding": 2,
            "gridColor": FAINT,
            "gridWidth": 0.6,
        },
    }


def _place(label: str, taken: set[int]) -> int:
    """Return the index of the label's preferred solid style, or of the next free style."""
    first = zlib.crc32(label.encode()) % len(FURTHER_SOLID)
    solid = [(first + i) % len(FURTHER_SOLID) for i in range(len(FURTHER_SOLID))]
    places = [*solid, *range(len(FURTHER_SOLID), len(FURTHER))]
    return next((place for place in places if place not in taken), first)


def _delta(label: str) -> float | None:
    match = UCB_DELTA.match(label)
    return float(match.group(1)) if match else None


def _shade(color: str, delta: float) -> str:
    """Make the color paler if δ is below ``FULL_DELTA``, and darker if it is above."""
    if delta <= FULL_DELTA:
        return _blend(color, "#FFFFFF", 0.7 * (1 - delta / FULL_DELTA))
    return _blend(color, "#000000", 0.75 * (1 - FULL_DELTA / delta))


def _blend(color: str, other: str, share: float) -> str:
    pairs = ((int(color[i : i + 2], 16), int(other[i : i + 2], 16)) for i in (1, 3, 5))
    return "#" + "".join(f"{round(a + share * (b - a)):02X}" for a, b in pairs)
