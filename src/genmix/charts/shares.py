"""Draw stacked areas: the share of each arm over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from genmix.charts import layout
from genmix.charts.axes import linear_axis, log_axis, title_lines
from genmix.charts.rendering import altair, chart_of
from genmix.charts.rows import Row, by_panel, check_x, cleaned, panel_name
from genmix.charts.style import Style, arm_colors

if TYPE_CHECKING:
    from altair import VConcatChart

MARK = "#333333"
"""The areas are light on dark pages too, so that the line stays dark there."""


def shares(
    rows: Sequence[Mapping[str, Any]],
    x: str = "samples drawn",
    y: str = "share of the mixture",
    log_x: bool = False,
    columns: int = 2,
    mark: float | None = None,
    colors: Mapping[str, str] | None = None,
) -> VConcatChart:
    """Draw stacked areas; a row is ``{"arm", "x", "share", "panel"?}``. Arms keep the order of the rows.

    ``mark`` is the place of a vertical line, and ``colors`` are those of the arms if they are known.
    """
    panels = by_panel(rows)
    across = layout.columns_for(len(panels), columns)
    tidy = {title: _tidy(title, content, log_x) for title, content in panels.items()}
    if colors is None:
        colors = arm_colors(row["arm"] for content in tidy.values() for row in content)
    size = layout.panel_width(across), layout.panel_height(across)

    def axes(content: list[Row]) -> tuple[Any, Any]:
        alt = altair()
        places = [row["x"] for row in content]
        along = log_axis(x, places, size[0], True) if log_x else linear_axis(x, places, size[0])
        up = alt.Axis(title=title_lines(y, size[1]), format="%", tickCount=4, grid=False)
        share = alt.Y("share:Q", stack="zero", axis=up, scale=alt.Scale(domain=[0, 1]))
        return alt.X("x:Q", **along), share

    return layout.page(
        [
            layout.panel([_areas(content, colors, *axes(content)), *_line(mark)], *size, title)
            for title, content in tidy.items()
        ],
        across,
        {arm: Style(color) for arm, color in colors.items()},
        "square",
    )


def _line(mark: float | None) -> list[Any]:
    if mark is None:
        return []
    rule = chart_of([{"x": mark}]).mark_rule(color=MARK, strokeWidth=1.5, strokeDash=[4, 3])
    return [rule.encode(altair().X("x:Q"))]


def _areas(rows: list[Row], colors: Mapping[str, str], x: Any, y: Any) -> Any:
    alt = altair()
    place = {arm: i for i, arm in enumerate(colors)}
    rows = sorted(
        ({**row, "place": place[row["arm"]]} for row in rows),
        key=lambda row: (row["place"], row["x"]),
    )
    scale = alt.Scale(domain=list(colors), range=list(colors.values()))
    return (
        chart_of(rows)
        .mark_area(stroke="white", strokeWidth=0.5, clip=True)
        .encode(x, y, alt.Color("arm:N", scale=scale, legend=None), alt.Order("place:Q"))
    )


def _tidy(title: str, rows: Sequence[Mapping[str, Any]], log_x: bool) -> list[Row]:
    where = panel_name(title)
    found = cleaned(rows, ("arm",), ("x", "share"), where)
    check_x(found, log_x, where)
    # If one share is missing, leave a gap in all; otherwise the others would appear to shrink.
    gaps = {row["x"] for row in found if row["share"] is None}
    return [{**row, "share": None if row["x"] in gaps else row["share"]} for row in found]
