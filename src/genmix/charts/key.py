"""The legend of a figure, drawn below its panels.

Vega's own legend stands in columns as wide as the longest label; this one fills its rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from genmix.charts.axes import text_width
from genmix.charts.rendering import altair, chart_of
from genmix.charts.style import INK, MIDDLE, Style

Shape = Literal["line", "dotted line", "square", "circle"]
SAMPLE = {"line": 22, "dotted line": 22, "square": 8, "circle": 7}
ROW, AFTER_SAMPLE, AFTER_LABEL = 13, 5, 14


def key(entries: Mapping[str, Style], shape: Shape, width: float) -> Any:
    """The labels with a sample of each, in as few rows as the width allows."""
    alt = altair()
    rows = _rows({label: _room(label, shape) for label in entries}, width)
    widest = max(sum(row.values()) for row in rows) - AFTER_LABEL
    placed = []
    for i, row in enumerate(rows):
        x = (widest - sum(row.values()) + AFTER_LABEL) / 2
        for label, room in row.items():
            placed.append({"label": label, "x": x, "y": i * ROW + ROW / 2, **_look(entries[label])})
            x += room
    base = chart_of([_ends(entry, shape) for entry in placed])
    y = alt.Y("y:Q", scale=None, axis=None)
    words = base.mark_text(align="left", baseline="middle", fontSize=MIDDLE, color=INK).encode(
        alt.X("text:Q", scale=None, axis=None), y, text="label:N"
    )
    return alt.layer(*_samples(base, y, shape), words).properties(
        width=round(widest), height=ROW * len(rows)
    )


def _samples(base: Any, y: Any, shape: Shape) -> list[Any]:
    alt = altair()
    colour = alt.Color("colour:N", scale=None)
    middle = alt.X("middle:Q", scale=None, axis=None)
    if shape == "square":
        return [base.mark_square(size=64, opacity=1).encode(middle, y, colour)]
    dots = base.mark_circle(size=28, opacity=1).encode(middle, y, colour)
    if shape == "circle":
        return [dots]
    dash = alt.StrokeDash("dash:N", scale=None)
    line = base.mark_rule(strokeWidth=1.8).encode(
        alt.X("x:Q", scale=None, axis=None), alt.X2("x2"), y, colour, dash
    )
    return [line] if shape == "line" else [line, dots]


def _rows(rooms: Mapping[str, float], width: float) -> list[dict[str, float]]:
    """The fewest rows, and among these the most even ones."""
    best = _flow(rooms, width)
    while width > max(rooms.values()):
        width -= 5
        tighter = _flow(rooms, width)
        if len(tighter) > len(best):
            break
        best = tighter
    return best


def _flow(rooms: Mapping[str, float], width: float) -> list[dict[str, float]]:
    rows: list[dict[str, float]] = [{}]
    for label, room in rooms.items():
        if rows[-1] and sum(rows[-1].values()) + room - AFTER_LABEL > width:
            rows.append({})
        rows[-1][label] = room
    return rows


def _room(label: str, shape: Shape) -> float:
    return SAMPLE[shape] + AFTER_SAMPLE + text_width(label, MIDDLE) + AFTER_LABEL


def _look(style: Style) -> dict[str, Any]:
    return {"colour": style.colour, "dash": list(style.dash) or [1, 0]}


def _ends(entry: dict[str, Any], shape: Shape) -> dict[str, Any]:
    x, length = entry["x"], SAMPLE[shape]
    return {
        **entry,
        "x2": x + length,
        "middle": x + length / 2,
        "text": x + length + AFTER_SAMPLE,
    }
