"""Draw differences with 95% intervals, which show whether they exclude zero."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from genmix.charts import layout
from genmix.charts.axes import linear_axis
from genmix.charts.rendering import altair, chart_of
from genmix.charts.rows import Row, by_panel, check_unique, cleaned, known, panel_name, unique
from genmix.charts.style import INK, Style, label_styles, policy_style

if TYPE_CHECKING:
    from altair import VConcatChart

STEP, GROUP_STEP = 15, 9
LINE = 1.5
PADDING = 0.04
DOT, HOLE = 30, 9


def intervals(rows: Sequence[Mapping[str, Any]], x: str, columns: int = 2) -> VConcatChart:
    """Draw a dot with its interval for each label, and a line at zero.

    A row is ``{"label", "mean", "low", "high", "panel"?, "group"?}``. The dot is hollow if the interval
    includes zero. Groups have colors and a legend, and are stacked within a label.
    """
    panels = by_panel(rows)
    across = layout.columns_for(len(panels), columns)
    tidy = {title: _tidy(title, content) for title, content in panels.items()}
    everything = [row for content in tidy.values() for row in content]
    groups = label_styles(row["group"] for row in everything)
    for row in everything:
        row["color"] = _color(row, groups)
    names = layout.names_beside([[r["label"] for r in c] for c in tidy.values()], across)
    return layout.page(
        [
            _panel(title, content, groups, x, names.width, names.hidden(i, across))
            for i, (title, content) in enumerate(tidy.items())
        ],
        across,
        {group: style for group, style in groups.items() if group},
        "circle",
    )


def _panel(
    title: str, rows: list[Row], groups: Mapping[str, Style], x: str, width: int, bare: bool
) -> Any:
    alt = altair()
    labels = unique(rows, "label")
    y = _positions(labels, groups, bare)
    extent = [0.0, *known(row[key] for row in rows for key in ("mean", "low", "high"))]
    along = linear_axis(x, extent, width, PADDING, grid=True)
    color = alt.Color("color:N", scale=None)

    def at(field: str) -> Any:
        return alt.X(f"{field}:Q", **along)

    base = chart_of(rows)
    zero = chart_of([{"zero": 0}]).mark_rule(color=INK, strokeWidth=0.8)
    layers = [
        zero.encode(at("zero")),
        base.mark_rule(strokeWidth=LINE).encode(at("low"), alt.X2("high"), *y, color),
        base.mark_circle(size=DOT, opacity=1).encode(at("mean"), *y, color),
        base.transform_filter("!datum.apart")
        .mark_circle(size=HOLE, opacity=1, color="white")
        .encode(at("mean"), *y),
    ]
    step = max(STEP, GROUP_STEP * len(groups) + 6)
    return layout.panel(layers, width, step * len(labels), title)


def _positions(labels: Sequence[str], groups: Mapping[str, Style], bare: bool) -> list[Any]:
    alt = altair()
    axis = alt.Axis(
        title=None,
        grid=False,
        ticks=False,
        labelPadding=6,
        labelLimit=layout.LONGEST_NAME,
        labels=not bare,
    )
    position = alt.Y("label:N", axis=axis, scale=alt.Scale(domain=list(labels)))
    if len(groups) == 1:
        return [position]
    return [position, alt.YOffset("group:N", scale=alt.Scale(domain=list(groups)))]


def _color(row: Row, groups: Mapping[str, Style]) -> str:
    style = groups[row["group"]] if row["group"] else policy_style(row["label"])
    return style.color if style else INK


def _tidy(title: str, rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    where = panel_name(title)
    found = cleaned(rows, ("label",), ("mean", "low", "high"), where)
    for row, given in zip(found, rows, strict=True):
        row["group"] = str(given.get("group") or "")
        low, high = row["low"], row["high"]
        row["apart"] = low is not None and high is not None and (low > 0 or high < 0)
    check_unique(found, ("label", "group"), where)
    return found
