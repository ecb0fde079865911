"""Draw a bar chart: the score of each arm and of the mixture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from genmix.charts import layout
from genmix.charts.axes import (
    SHORT_NUMBERS,
    bar_label,
    linear_axis,
    log_ticks,
    text_width,
    vertical_axis,
)
from genmix.charts.rendering import altair, chart_of
from genmix.charts.rows import Row, by_panel, check_unique, cleaned, panel_name, unique
from genmix.charts.style import ARM_BAR, INK, POLICY_STYLES, SMALL, policy_style
from genmix.errors import InputError

if TYPE_CHECKING:
    from altair import VConcatChart

KINDS = {
    "arm": ARM_BAR,
    "mixture": POLICY_STYLES["Mixture-Greedy"].color,
    "even": POLICY_STYLES["Uniform"].color,
}
ROW_HEIGHT = 15
ABOVE, BESIDE = 0.12, 0.2  # space for the values, as fractions of the axis
FLAT = 0.1
"""If the mixture's bar would be shorter than this fraction of the longest one, the scale is compressed."""


def bars(
    rows: Sequence[Mapping[str, Any]], y: str, columns: int = 2, compress: bool = False
) -> VConcatChart:
    """Draw bars from zero with 95% intervals and values; the mixture's value is bold.

    A row is ``{"label", "mean", "low", "high", "kind": "arm"|"mixture"|"even", "panel"?}``. Bars
    follow the order of the rows, and each panel has its own axis. If the labels do not fit side by
    side, the bars are horizontal. With ``compress``, a bad arm does not flatten the bar of the mixture:
    the axis is then logarithmic beyond the mixture's value, and its title says so.
    """
    panels = by_panel(rows)
    across = layout.columns_for(len(panels), columns)
    tidy = {title: _tidy(title, content) for title, content in panels.items()}
    if any(_is_crowded(content, across) for content in tidy.values()):
        names = layout.names_beside([[r["label"] for r in c] for c in tidy.values()], across)
        drawn = [
            _horizontal(
                title, content, Axis(y, content, compress), names.width, names.hidden(i, across)
            )
            for i, (title, content) in enumerate(tidy.items())
        ]
    else:
        drawn = [
            _vertical(title, content, Axis(y, content, compress), across)
            for title, content in tidy.items()
        ]
    return layout.page(drawn, across, {})


class Axis:
    """The axis along the bars of a panel: linear from zero, or logarithmic beyond the mixture's value."""

    def __init__(self, title: str, rows: Sequence[Row], compress: bool) -> None:
        sizes = [max(abs(row["mean"] or 0.0), row["top"]) for row in rows]
        mixture = [abs(row["mean"]) for row in rows if row["kind"] == "mixture" and row["mean"]]
        flat = bool(mixture) and min(mixture) < FLAT * max(sizes)
        self.unit = min(mixture) if compress and flat else None
        self.title = title if self.unit is None else f"{title}, log scale"
        self._rows = rows

    def extent(self, padding: float) -> tuple[float, float]:
        """Return the range of the axis, with space for the values."""
        low = min(0.0, *(row[key] or 0.0 for row in self._rows for key in ("mean", "low")))
        high = max(row["top"] for row in self._rows)
        if self.unit is None:
            return low, high + padding * (high - low or 1)
        return low, self.unit * ((1 + high / self.unit) ** (1 + padding) - 1)

    def compressed(self, length: float, horizontal: bool) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return settings of the scale and of the axis, both empty if the axis is linear."""
        if self.unit is None:
            return {}, {}
        low, high = self.extent(0.0)
        ticks = [0.0]
        for sign, end in ((1, high), (-1, -low)):
            if end > self.unit:
                found = log_ticks(self.unit, end, length, horizontal)
                ticks += [sign * tick for tick in found]
        labels = {"values": sorted(ticks), "labelExpr": f"datum.value == 0 ? '0' : {SHORT_NUMBERS}"}
        return {"type": "symlog", "constant": self.unit}, labels


def _vertical(title: str, rows: list[Row], axis: Axis, across: int) -> Any:
    alt = altair()
    width, height = layout.panel_width(across), layout.panel_height(across)
    names = alt.X("label:N", **_label_axis(rows, labelAngle=0, labelOverlap=False))
    scale, ticks = axis.compressed(height, False)
    scale = {"domain": axis.extent(ABOVE), "nice": False} | scale
    look = vertical_axis(axis.title, height) | ticks

    def at(field: str) -> Any:
        return alt.Y(f"{field}:Q", axis=alt.Axis(**look), scale=alt.Scale(**scale))

    ends, text = {"size": 6, "orient": "horizontal"}, {"baseline": "bottom", "dy": -3}
    layers = _layers(rows, names, at, alt.Y2("high"), ends, text)
    return layout.panel(layers, width, height, title)


def _horizontal(title: str, rows: list[Row], axis: Axis, width: int, bare: bool) -> Any:
    alt = altair()
    names = alt.Y("label:N", **_label_axis(rows, labels=not bare, labelLimit=layout.LONGEST_NAME))
    scale, ticks = axis.compressed(width, True)
    along = linear_axis(axis.title, axis.extent(BESIDE), width, grid=True)
    along = {"scale": along["scale"] | scale, "axis": along["axis"] | ticks}

    def at(field: str) -> Any:
        return alt.X(f"{field}:Q", **along)

    ends, text = {"size": 5, "orient": "vertical"}, {"align": "left", "baseline": "middle", "dx": 4}
    layers = _layers(rows, names, at, alt.X2("high"), ends, text)
    return layout.panel(layers, width, ROW_HEIGHT * len(unique(rows, "label")), title)


def _layers(
    rows: list[Row],
    names: Any,
    at: Callable[[str], Any],
    high: Any,
    ends: Mapping[str, Any],
    text: Mapping[str, Any],
) -> list[Any]:
    """Draw bars, intervals with end caps, and values; ``at`` encodes a field along the bars."""
    base = chart_of(rows)
    font = {"fontSize": SMALL, "color": INK, **text}
    layers = [
        base.mark_bar().encode(names, at("mean"), altair().Color("color:N", scale=None)),
        base.mark_rule(color=INK, strokeWidth=1).encode(names, at("low"), high),
    ]
    for end in ("low", "high"):
        layers.append(base.mark_tick(color=INK, thickness=1, **ends).encode(names, at(end)))
    for sign, weight in (("==", "bold"), ("!=", "normal")):
        selected = base.transform_filter(f"datum.kind {sign} 'mixture'")
        marks = selected.mark_text(fontWeight=weight, **font)
        layers.append(marks.encode(names, at("top"), altair().Text("value:N")))
    return layers


def _label_axis(rows: Sequence[Row], **axis: Any) -> dict[str, Any]:
    alt = altair()
    return {
        "axis": alt.Axis(title=None, grid=False, ticks=False, labelPadding=4, **axis),
        "scale": alt.Scale(domain=unique(rows, "label"), paddingInner=0.3, paddingOuter=0.2),
    }


def _tidy(title: str, rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    where = panel_name(title)
    found = cleaned(rows, ("label", "kind"), ("mean",), where, optional=("low", "high"))
    check_unique(found, ("label",), where)
    for row in found:
        if row["kind"] not in KINDS:
            kinds = ", ".join(KINDS)
            raise InputError(f"A row of {where} has the kind {row['kind']!r}; use one of {kinds}.")
        if row["mean"] is None or row["low"] is None or row["high"] is None:
            row["low"] = row["high"] = None
        style = policy_style(row["label"])
        row["color"] = style.color if style else KINDS[row["kind"]]
        row["value"] = bar_label(row["mean"])
        row["top"] = max(0.0, *(row[key] or 0.0 for key in ("mean", "high")))
    return found


def _is_crowded(rows: Sequence[Row], across: int) -> bool:
    step = layout.panel_width(across) / len(unique(rows, "label"))
    widest = max(text_width(text) for row in rows for text in (row["label"], row["value"]))
    return widest > step - 3
