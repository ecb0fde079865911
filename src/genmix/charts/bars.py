"""Each arm's score beside the mixture's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from genmix.charts import layout
from genmix.charts.axes import linear_axis, short, text_width, upright
from genmix.charts.rendering import altair, chart_of
from genmix.charts.rows import Row, by_panel, check_single, cleaned, place_of
from genmix.charts.style import ARM_BAR, INK, POLICY_STYLES, SMALL, policy_style
from genmix.errors import InputError

if TYPE_CHECKING:
    from altair import VConcatChart

KINDS = {
    "arm": ARM_BAR,
    "mixture": POLICY_STYLES["Mixture-Greedy"].colour,
    "even": POLICY_STYLES["Uniform"].colour,
}
LYING_STEP = 15
ABOVE, BESIDE = 0.12, 0.2  # shares of the axis: room for the values


def bars(rows: Sequence[Mapping[str, Any]], y: str, columns: int = 2) -> VConcatChart:
    """Bars from zero with their 95 % interval and their value; the mixture's stands out.

    A row is ``{"label", "mean", "low", "high", "kind": "arm"|"mixture"|"even", "panel"?}``; bars
    come in the order of the rows, each panel has its own axis, and where the labels are too long to
    stand side by side, the bars lie.
    """
    panels = by_panel(rows)
    across = layout.columns_for(len(panels), columns)
    tidy = {title: _tidy(title, content) for title, content in panels.items()}
    if any(_crowded(content, across) for content in tidy.values()):
        names = layout.names_beside([[r["label"] for r in c] for c in tidy.values()], across)
        drawn = [
            _lying(title, content, y, names.width, names.hidden(i, across))
            for i, (title, content) in enumerate(tidy.items())
        ]
    else:
        drawn = [_standing(title, content, y, across) for title, content in tidy.items()]
    return layout.page(drawn, across, {})


def _standing(title: str, rows: list[Row], y: str, across: int) -> Any:
    alt = altair()
    width, height = layout.panel_width(across), layout.panel_height(across)
    names = alt.X("label:N", **_names(rows, labelAngle=0, labelOverlap=False))
    axis = alt.Axis(**upright(y, height))
    scale = alt.Scale(domain=_reach(rows, ABOVE), nice=False)
    base = chart_of(rows)

    def at(field: str) -> Any:
        return alt.Y(f"{field}:Q", axis=axis, scale=scale)

    layers = [
        base.mark_bar().encode(names, at("mean"), _colour()),
        base.mark_rule(color=INK, strokeWidth=1).encode(names, at("low"), alt.Y2("high")),
        *(
            base.mark_tick(color=INK, thickness=1, size=6, orient="horizontal").encode(
                names, at(end)
            )
            for end in ("low", "high")
        ),
        *(
            chosen.mark_text(baseline="bottom", dy=-3, **look).encode(
                names, at("top"), text="value:N"
            )
            for chosen, look in _values(base)
        ),
    ]
    return layout.panel(layers, width, height, title)


def _lying(title: str, rows: list[Row], y: str, width: int, bare: bool) -> Any:
    alt = altair()
    names = alt.Y("label:N", **_names(rows, labels=not bare, labelLimit=layout.LONGEST_NAME))
    along = linear_axis(y, _reach(rows, BESIDE), width, grid=True)
    base = chart_of(rows)

    def at(field: str) -> Any:
        return alt.X(f"{field}:Q", **along)

    layers = [
        base.mark_bar().encode(names, at("mean"), _colour()),
        base.mark_rule(color=INK, strokeWidth=1).encode(names, at("low"), alt.X2("high")),
        *(
            base.mark_tick(color=INK, thickness=1, size=5, orient="vertical").encode(names, at(end))
            for end in ("low", "high")
        ),
        *(
            chosen.mark_text(align="left", baseline="middle", dx=4, **look).encode(
                names, at("top"), text="value:N"
            )
            for chosen, look in _values(base)
        ),
    ]
    return layout.panel(layers, width, LYING_STEP * len(place_of(rows, "label")), title)


def _names(rows: Sequence[Row], **axis: Any) -> dict[str, Any]:
    alt = altair()
    return {
        "axis": alt.Axis(title=None, grid=False, ticks=False, labelPadding=4, **axis),
        "scale": alt.Scale(
            domain=list(place_of(rows, "label")), paddingInner=0.3, paddingOuter=0.2
        ),
    }


def _colour() -> Any:
    return altair().Color("colour:N", scale=None)


def _values(base: Any) -> list[tuple[Any, dict[str, Any]]]:
    look = {"fontSize": SMALL, "color": INK}
    return [
        (base.transform_filter(f"datum.kind {sign} 'mixture'"), {**look, "fontWeight": weight})
        for sign, weight in (("==", "bold"), ("!=", "normal"))
    ]


def _tidy(title: str, rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    where = f"the panel {title!r}" if title else "the chart"
    found = cleaned(rows, ("label", "kind"), ("mean",), where, optional=("low", "high"))
    check_single(found, ("label",), where)
    for row in found:
        if row["kind"] not in KINDS:
            kinds = ", ".join(KINDS)
            raise InputError(f"A row of {where} has the kind {row['kind']!r}: give one of {kinds}.")
        if row["mean"] is None or row["low"] is None or row["high"] is None:
            row["low"] = row["high"] = None
        known = policy_style(row["label"])
        row["colour"] = known.colour if known else KINDS[row["kind"]]
        row["value"] = short(row["mean"])
        row["top"] = max(0.0, *(row[key] or 0.0 for key in ("mean", "high")))
    return found


def _reach(rows: Sequence[Row], room: float) -> tuple[float, float]:
    """From zero, or from the lowest end, to where the values end that stand beyond the bars."""
    low = min(0.0, *(row[key] or 0.0 for row in rows for key in ("mean", "low")))
    high = max(row["top"] for row in rows)
    return low, high + room * (high - low or 1)


def _crowded(rows: Sequence[Row], across: int) -> bool:
    step = layout.panel_width(across) / len(place_of(rows, "label"))
    widest = max(text_width(text) for row in rows for text in (row["label"], row["value"]))
    return widest > step - 3
