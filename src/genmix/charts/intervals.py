"""Differences with their 95 % intervals: do they exclude zero?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from genmix.charts import layout
from genmix.charts.axes import linear_axis
from genmix.charts.rendering import altair, chart_of
from genmix.charts.rows import Row, by_panel, check_single, cleaned, finite, place_of
from genmix.charts.style import INK, Style, policy_style, styles

if TYPE_CHECKING:
    from altair import VConcatChart

STEP, GROUP_STEP = 15, 9
LINE = 1.5
ROOM = 0.04
DOT, HOLE = 30, 9


def intervals(rows: Sequence[Mapping[str, Any]], x: str, columns: int = 2) -> VConcatChart:
    """A dot and its interval for each label, with a rule at zero; hollow where it holds zero.

    A row is ``{"label", "mean", "low", "high", "panel"?, "group"?}``; groups have colours and a
    legend, and stand one below the other within a label.
    """
    panels = by_panel(rows)
    across = layout.columns_for(len(panels), columns)
    tidy = {title: _tidy(title, content) for title, content in panels.items()}
    everything = [row for content in tidy.values() for row in content]
    groups = styles(row["group"] for row in everything)
    for row in everything:
        row["colour"] = _colour(row, groups)
    names = layout.names_beside([[r["label"] for r in c] for c in tidy.values()], across)
    return layout.page(
        [
            _panel(title, content, groups, x, names.width, names.hidden(i, across))
            for i, (title, content) in enumerate(tidy.items())
        ],
        across,
        {group: look for group, look in groups.items() if group},
        "circle",
    )


def _panel(
    title: str, rows: list[Row], groups: Mapping[str, Style], x: str, width: int, bare: bool
) -> Any:
    alt = altair()
    labels = list(place_of(rows, "label"))
    y = _places(labels, groups, bare)
    reach = [0.0, *finite(row[key] for row in rows for key in ("mean", "low", "high"))]
    along = linear_axis(x, reach, width, ROOM, grid=True)
    colour = alt.Color("colour:N", scale=None)

    def at(field: str) -> Any:
        return alt.X(f"{field}:Q", **along)

    base = chart_of(rows)
    zero = chart_of([{"zero": 0}]).mark_rule(color=INK, strokeWidth=0.8)
    layers = [
        zero.encode(at("zero")),
        base.mark_rule(strokeWidth=LINE).encode(at("low"), alt.X2("high"), *y, colour),
        base.mark_circle(size=DOT, opacity=1).encode(at("mean"), *y, colour),
        base.transform_filter("!datum.apart")
        .mark_circle(size=HOLE, opacity=1, color="white")
        .encode(at("mean"), *y),
    ]
    step = max(STEP, GROUP_STEP * len(groups) + 6)
    return layout.panel(layers, width, step * len(labels), title)


def _places(labels: Sequence[str], groups: Mapping[str, Style], bare: bool) -> list[Any]:
    alt = altair()
    axis = alt.Axis(
        title=None,
        grid=False,
        ticks=False,
        labelPadding=6,
        labelLimit=layout.LONGEST_NAME,
        labels=not bare,
    )
    place = alt.Y("label:N", axis=axis, scale=alt.Scale(domain=list(labels)))
    if len(groups) == 1:
        return [place]
    return [place, alt.YOffset("group:N", scale=alt.Scale(domain=list(groups)))]


def _colour(row: Row, groups: Mapping[str, Style]) -> str:
    style = groups[row["group"]] if row["group"] else policy_style(row["label"])
    return style.colour if style else INK


def _tidy(title: str, rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    where = f"the panel {title!r}" if title else "the chart"
    found = cleaned(rows, ("label",), ("mean", "low", "high"), where)
    for row, given in zip(found, rows, strict=True):
        row["group"] = str(given.get("group") or "")
        low, high = row["low"], row["high"]
        row["apart"] = low is not None and high is not None and (low > 0 or high < 0)
    check_single(found, ("label", "group"), where)
    return found
