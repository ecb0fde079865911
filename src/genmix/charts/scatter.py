"""Draw a scatter plot, colored by group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from genmix.charts import layout
from genmix.charts.axes import title_lines
from genmix.charts.rendering import altair, chart_of
from genmix.charts.rows import cleaned
from genmix.charts.style import Style
from genmix.errors import InputError

if TYPE_CHECKING:
    from altair import VConcatChart

DOT = 9
OPACITY = 0.7


def scatter(
    rows: Sequence[Mapping[str, Any]],
    x: str,
    y: str,
    colors: Mapping[str, str],
    height: int = 170,
) -> VConcatChart:
    """Draw one dot per row ``{"group", "x", "y"}`` in the order of the rows; each group needs a color."""
    found = cleaned(rows, ("group",), ("x", "y"), "the chart")
    missing = next((row["group"] for row in found if row["group"] not in colors), None)
    if missing is not None:
        raise InputError(f"the group {missing!r} has no color; pass one for each group.")
    alt = altair()
    width = layout.panel_width(1)

    def axis(title: str, length: int) -> Any:
        return alt.Axis(title=title_lines(title, length), labels=False, ticks=False, grid=False)

    scale = alt.Scale(zero=False, nice=False, padding=6)
    dots = (
        chart_of(found)
        .mark_circle(size=DOT, opacity=OPACITY)
        .encode(
            alt.X("x:Q", axis=axis(x, width), scale=scale),
            alt.Y("y:Q", axis=axis(y, height), scale=scale),
            alt.Color(
                "group:N",
                scale=alt.Scale(domain=list(colors), range=list(colors.values())),
                legend=None,
            ),
        )
    )
    named = {group: Style(color) for group, color in colors.items()}
    return layout.page([layout.panel([dots], width, height, "")], 1, named, "circle")
