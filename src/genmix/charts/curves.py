"""Draw line charts with shaded 95% bands, and parameter sweeps with a dot at each value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from genmix.charts import layout
from genmix.charts.axes import linear_axis, log_axis, vertical_axis
from genmix.charts.rendering import altair, chart_of
from genmix.charts.rows import Row, check_x, cleaned, known, panel_name
from genmix.charts.style import Style, label_styles

if TYPE_CHECKING:
    from altair import VConcatChart

BAND = 0.16
LINE = 1.6
PADDING = 0.04
VALUES = ("mean", "low", "high")


@dataclass(frozen=True)
class Panel:
    """One pair of axes.

    A row is ``{"series": label, "x": number, "mean": float, "low": float, "high": float}``. A mean
    of None or NaN leaves a gap in the line; a missing low or high leaves a gap in the band.
    """

    title: str
    rows: Sequence[Mapping[str, Any]]
    y: str
    log_x: bool = True
    log_y: bool = False
    x: str = "samples drawn"


def curves(
    panels: Sequence[Panel], columns: int = 2, styles: Mapping[str, Style] | None = None
) -> VConcatChart:
    """Draw a line and a band for each series; each panel has its own axes, and all share one legend.

    ``styles`` sets the style of every series, in legend order, if the series are not policies.
    """
    return _draw(panels, columns, False, styles)


def sweep(
    panels: Sequence[Panel],
    columns: int = 2,
    log_x: bool = False,
    styles: Mapping[str, Style] | None = None,
) -> VConcatChart:
    """Draw curves with a dot at each value; ``log_x`` overrides the panels' own setting."""
    return _draw([replace(panel, log_x=log_x) for panel in panels], columns, True, styles)


def _draw(
    panels: Sequence[Panel], columns: int, points: bool, styles: Mapping[str, Style] | None
) -> VConcatChart:
    across = layout.columns_for(len(panels), columns)
    tidy = [_tidy(panel) for panel in panels]
    drawn = styles or label_styles(row["series"] for rows in tidy for row in rows)
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
    # The first series in the legend is drawn last, on top of the others.
    order = {label: -i for i, label in enumerate(drawn)}
    rows = sorted(rows, key=lambda row: (order[row["series"]], row["x"]))
    x = alt.X("x:Q", **_x_axis(panel, rows, width))
    y = _y_axis(panel, rows, height)
    color, dash = _style_scales(drawn)
    base = chart_of(rows)
    band = base.mark_area(opacity=BAND, clip=True).encode(
        x, alt.Y("low:Q", **y), alt.Y2("high"), color
    )
    line = base.mark_line(strokeWidth=LINE, clip=True, strokeJoin="round").encode(
        x, alt.Y("mean:Q", **y), color, dash
    )
    seen = [row for row in rows if row["mean"] is not None] if points else isolated(rows)
    dots = chart_of(seen).mark_circle(size=20, opacity=1)
    dotted = [dots.encode(x, alt.Y("mean:Q", **y), color)] if seen else []
    return layout.panel([band, line, *dotted], width, height, panel.title)


def isolated(rows: Sequence[Row]) -> list[Row]:
    """Return the means without a neighbor, which a line would not show; rows are sorted by series and x."""
    found = []
    for i, row in enumerate(rows):
        beside = [rows[j] for j in (i - 1, i + 1) if 0 <= j < len(rows)]
        joined = any(r["series"] == row["series"] and r["mean"] is not None for r in beside)
        if row["mean"] is not None and not joined:
            found.append(row)
    return found


def _style_scales(drawn: Mapping[str, Style]) -> tuple[Any, Any]:
    alt = altair()
    labels = list(drawn)
    colors = [style.color for style in drawn.values()]
    dashes = [list(style.dash) or [1, 0] for style in drawn.values()]
    return (
        alt.Color("series:N", scale=alt.Scale(domain=labels, range=colors), legend=None),
        alt.StrokeDash("series:N", scale=alt.Scale(domain=labels, range=dashes), legend=None),
    )


def _tidy(panel: Panel) -> list[Row]:
    where = panel_name(panel.title)
    rows = cleaned(panel.rows, ("series",), ("x", "mean"), where, optional=("low", "high"))
    check_x(rows, panel.log_x, where)
    return [_bounded(row, panel.log_y) for row in rows]


def _bounded(row: Row, log_y: bool) -> Row:
    """Remove nonpositive values if the axis is logarithmic, and remove bands with a missing end."""
    if log_y:
        row = {**row, **{k: row[k] if (row[k] or 0) > 0 else None for k in VALUES}}
        # Where the lower end falls below zero, half a band is better than none.
        row["low"] = row["mean"] if row["low"] is None else row["low"]
    if row["low"] is None or row["high"] is None:
        row = {**row, "low": None, "high": None}
    return row


def _x_axis(panel: Panel, rows: Sequence[Row], width: int) -> dict[str, Any]:
    values = [row["x"] for row in rows]
    if panel.log_x:
        return log_axis(panel.x, values, width, horizontal=True)
    return linear_axis(panel.x, values, width, PADDING)


def _y_axis(panel: Panel, rows: Sequence[Row], height: int) -> dict[str, Any]:
    if panel.log_y:
        values = known(row[key] for row in rows for key in VALUES)
        return log_axis(panel.y, values, height, horizontal=False)
    return {"scale": {"zero": False, "nice": True}, "axis": vertical_axis(panel.y, height)}
