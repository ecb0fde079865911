"""Colours, dashes and the theme: one look for every figure.

The colours of policies are those of Okabe and Ito, which the colour-blind can tell apart; the dash
says what kind of policy it is. Arms have the pale colours of Paul Tol, so that an area or a bar is
never taken for a policy.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

Dash = tuple[float, ...]


class Style(NamedTuple):
    """How a line is drawn; an empty dash is a solid line."""

    colour: str
    dash: Dash = ()


BLACK, GREY = "#000000", "#8C8C8C"
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
    "One-arm oracle": Style(GREY, LONG),
    "One-arm greedy": Style(SKY, SHORT),
    "ε-greedy": Style(GREEN, SHORT),
    "One-arm UCB": Style(ORANGE, SHORT),
    "FD-UCB": Style(PURPLE, DASH_DOT),
    "Uniform": Style(GREY, DOTS),
    "Newton": Style(BLACK, DASH_DOT),
}
"""Mixtures that learn are solid, oracles have long dashes, one-arm policies short ones."""

FURTHER_SOLID = [Style(colour) for colour in (GREEN, ORANGE, SKY)]
FURTHER = [
    *FURTHER_SOLID,
    *(Style(c, DASH_DOT) for c in (BLUE, VERMILLION, GREEN, ORANGE, SKY)),
    *(Style(c, DOTS) for c in (BLUE, VERMILLION, ORANGE, SKY, BLACK)),
]
"""What other labels get: nothing that a policy has, or that some would take for it."""

ARM_COLOURS = (
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

FONT = "Liberation Sans, Arial, Helvetica, sans-serif"  # the first comes with vl-convert
SMALL, MIDDLE = 8, 9


def styles(labels: Iterable[str]) -> dict[str, Style]:
    """A style for each label, in the order of the legend.

    Other labels than a policy's take a place by their checksum and the next free one where two of
    a figure meet, so that a figure never depends on the order of its rows.
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
    """The style of a policy that is known by name."""
    if label in POLICY_STYLES:
        return POLICY_STYLES[label]
    delta = _delta(label)
    return None if delta is None else Style(_shade(POLICY_STYLES["Mixture-UCB"].colour, delta))


def legend_order(labels: Iterable[str]) -> list[str]:
    """Policies as listed above, UCB by its δ, and then the others as they come."""
    names = list(POLICY_STYLES)
    unique = list(dict.fromkeys(labels))

    def rank(label: str) -> tuple[int, float]:
        delta = _delta(label)
        if delta is not None:
            return names.index("Mixture-UCB"), delta
        return (names.index(label), -1.0) if label in POLICY_STYLES else (len(names), 0.0)

    return sorted(unique, key=rank)


def arm_colours(arms: Iterable[str]) -> dict[str, str]:
    """A colour for each arm, by its place; after nine arms darker ones follow."""
    found: dict[str, str] = {}
    for i, arm in enumerate(dict.fromkeys(arms)):
        turn, place = divmod(i, len(ARM_COLOURS))
        found[arm] = _blend(ARM_COLOURS[place], "#000000", 1 - 0.65**turn)
    return found


def arm_inks(arms: Iterable[str]) -> dict[str, str]:
    """The arms' colours for dots and lines: dark enough for white, and light enough for a dark page."""
    return {arm: _blend(colour, "#000000", 0.3) for arm, colour in arm_colours(arms).items()}


def theme() -> dict[str, Any]:
    """The Vega-Lite configuration of every figure: one pixel is one point of the paper."""
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
    """The label's own place among the solid styles, or the next that is free."""
    first = zlib.crc32(label.encode()) % len(FURTHER_SOLID)
    solid = [(first + i) % len(FURTHER_SOLID) for i in range(len(FURTHER_SOLID))]
    places = [*solid, *range(len(FURTHER_SOLID), len(FURTHER))]
    return next((place for place in places if place not in taken), first)


def _delta(label: str) -> float | None:
    match = UCB_DELTA.match(label)
    return float(match.group(1)) if match else None


def _shade(colour: str, delta: float) -> str:
    """Paler below the full δ, darker above it."""
    if delta <= FULL_DELTA:
        return _blend(colour, "#FFFFFF", 0.7 * (1 - delta / FULL_DELTA))
    return _blend(colour, "#000000", 0.75 * (1 - FULL_DELTA / delta))


def _blend(colour: str, other: str, share: float) -> str:
    pairs = ((int(colour[i : i + 2], 16), int(other[i : i + 2], 16)) for i in (1, 3, 5))
    return "#" + "".join(f"{round(a + share * (b - a)):02X}" for a, b in pairs)
