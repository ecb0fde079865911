"""Curves with shaded 95 % bands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from genmix.charts import layout
from genmix.charts.axes import linear_axis, log_axis, upright
from genmix.charts.rendering import altair, chart_of
from genmix.charts.rows import Row, cleaned, finite
from genmix.charts.style import Style, styles
from genmix.errors import InputError

if TYPE_CHECKING:
    from altair import VConcatChart

BAND = 0.16
LINE = 1.6
ROOM = 0.04
VALUES = ("mean", "low", "high")


@dataclass(frozen=True)
class Panel:
    """One pair of axes.

    A row is ``{"series": label, "x": number, "mean": float, "low": float, "high": float}``; a mean
    that is None or NaN leaves a gap in the line, a low or high that is missing one in the band.
    """

    title: str
    rows: Sequence[Mapping[str, Any]]
    y: str
    log_x: bool = True
    log_y: bool = False
    x: str = "samples drawn"


def curves(
    panels: Sequence[Panel], columns: int = 2, looks: Mapping[str, Style] | None = None
) -> VConcatChart:
    """A line and a band for each series; one legend for all panels, each with its own axes.

    ``looks`` gives the style of every series, in the order of the legend, where they are no policies.
    """
    return draw(panels, columns, False, looks)


def draw(
    panels: Sequence[Panel], columns: int, points: bool, looks: Mapping[str, Style] | None = None
) -> VConcatChart:
    across = layout.columns_for(len(panels), columns)
    tidy = [_tidy(panel) for panel in panels]
    drawn = looks or styles(row["series"] for rows in tidy for row in rows)
    pairs = zip(panels, tidy, strict=True)
    return layout.page(
        [_panel(panel, rows, drawn, across, points) for panel, rows in pairs],
        across,
        drawn,
        "dotted line" if points else "line",
    )


def _panel(
    panel: Panel, rows: list[Row], drawn: Mapping[str, Style], across: int, points: bool
) -> Any:
    alt = altair()
    width, height = layout.panel_width(across), layout.panel_height(across)
    # The first series of the legend is drawn last, on top.
    order = {label: -i for i, label in enumerate(drawn)}
    rows = sorted(rows, key=lambda row: (order[row["series"]], row["x"]))
    x = alt.X("x:Q", **_x_axis(panel, rows, width))
    y = _y_axis(panel, rows, height)
    colour, dash = _look(drawn)
    base = chart_of(rows)
    band = base.mark_area(opacity=BAND, clip=True).encode(
        x, alt.Y("low:Q", **y), alt.Y2("high"), colour
    )
    line = base.mark_line(strokeWidth=LINE, clip=True, strokeJoin="round").encode(
        x, alt.Y("mean:Q", **y), colour, dash
    )
    seen = [row for row in rows if row["mean"] is not None] if points else alone(rows)
    dots = chart_of(seen).mark_circle(size=20, opacity=1)
    dotted = [dots.encode(x, alt.Y("mean:Q", **y), colour)] if seen else []
    return layout.panel([band, line, *dotted], width, height, panel.title)


def alone(rows: Sequence[Row]) -> list[Row]:
    """Means without a neighbour, which a line would not show; rows are sorted by series and x."""
    found = []
    for i, row in enumerate(rows):
        beside = [rows[j] for j in (i - 1, i + 1) if 0 <= j < len(rows)]
        joined = any(r["series"] == row["series"] and r["mean"] is not None for r in beside)
        if row["mean"] is not None and not joined:
            found.append(row)
    return found


def _look(drawn: Mapping[str, Style]) -> tuple[Any, Any]:
    alt = altair()
    labels = list(drawn)
    colours = [style.colour for style in drawn.values()]
    dashes = [list(style.dash) or [1, 0] for style in drawn.values()]
    return (
        alt.Color("series:N", scale=alt.Scale(domain=labels, range=colours), legend=None),
        alt.StrokeDash("series:N", scale=alt.Scale(domain=labels, range=dashes), legend=None),
    )


def _tidy(panel: Panel) -> list[Row]:
    where = f"the panel {panel.title!r}"
    rows = cleaned(panel.rows, ("series",), ("x", "mean"), where, optional=("low", "high"))
    for row in rows:
        if row["x"] is None or (panel.log_x and row["x"] <= 0):
            wanted = "a positive number, or set log_x=False" if panel.log_x else "a number"
            raise InputError(f"A row of {where} has no place on the x axis: give {wanted}.")
    return [_bounded(row, panel.log_y) for row in rows]


def _bounded(row: Row, log_y: bool) -> Row:
    """What is not positive is left out of a logarithmic axis, and a band needs both its ends."""
    if log_y:
        row = {**row, **{k: row[k] if (row[k] or 0) > 0 else None for k in VALUES}}
        # Half of a band is better than none where its lower end falls below zero.
        row["low"] = row["mean"] if row["low"] is None else row["low"]
    if row["low"] is None or row["high"] is None:
        row = {**row, "low": None, "high": None}
    return row


def _x_axis(panel: Panel, rows: Sequence[Row], width: int) -> dict[str, Any]:
    values = [row["x"] for row in rows]
    if panel.log_x:
        return log_axis(panel.x, values, width, across=True)
    return linear_axis(panel.x, values, width, ROOM)


def _y_axis(panel: Panel, rows: Sequence[Row], height: int) -> dict[str, Any]:
    if panel.log_y:
        values = finite(row[key] for row in rows for key in VALUES)
        return log_axis(panel.y, values, height, across=False)
    return {"scale": {"zero": False, "nice": True}, "axis": upright(panel.y, height)}
