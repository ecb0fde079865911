"""Lay out panels side by side with one legend below, sized for a two-column paper.

Vega's legend uses columns as wide as the longest label; this one fills its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from genmix.charts.axes import text_width, title_lines
from genmix.charts.rendering import altair, chart_of
from genmix.charts.style import INK, MIDDLE, Style, theme
from genmix.errors import InputError, whole

if TYPE_CHECKING:
    from altair import VConcatChart

Shape = Literal["line", "dotted line", "square", "circle"]
PAGE = 500  # points: the text width of most two-column papers
MARGIN = 52  # points: the width of a panel's axis and the space next to it
GAP = 16
TITLE_LINE = 11
LONGEST_NAME = 220
SYMBOL_WIDTH = {"line": 22, "dotted line": 22, "square": 8, "circle": 7}
LEGEND_ROW, AFTER_SYMBOL, AFTER_LABEL = 13, 5, 14


def columns_for(panels: int, columns: int) -> int:
    if panels == 0:
        raise InputError("The chart has nothing to draw; pass at least one panel with rows.")
    return min(whole(columns, "columns", 1), panels)


def panel_width(columns: int) -> int:
    """Return the panel width; a single panel fits one column of the paper, several share the page."""
    return PAGE // max(columns, 2) - MARGIN


def panel_height(columns: int) -> int:
    return 128 if columns <= 2 else 108


def panel(layers: Iterable[Any], width: int, height: int, title: str) -> Any:
    """Stack layers under a title that is at the same height in every panel, whatever the axes."""
    alt = altair()
    lines = title_lines(title, width)
    above = 8 if isinstance(lines, str) else 8 + TITLE_LINE
    font = {"fontSize": MIDDLE, "fontWeight": "bold", "color": INK, "lineHeight": TITLE_LINE}
    name = (
        chart_of([{"title": lines}])
        .mark_text(align="left", baseline="alphabetic", **font)
        .encode(alt.XValue(0), alt.YValue(-above), alt.Text("title:N"))
    )
    return alt.layer(*layers, *([name] if title else []), width=width, height=height)


def page(
    panels: Sequence[Any], columns: int, entries: Mapping[str, Style], shape: Shape = "line"
) -> VConcatChart:
    """Arrange panels in rows of ``columns``, each with its own axes; add a legend if there are entries."""
    alt = altair()
    apart = alt.Resolve(scale={"x": "independent", "y": "independent", "color": "independent"})
    grid = alt.concat(*panels, columns=columns, spacing={"row": GAP, "column": GAP}, resolve=apart)
    width = PAGE if columns > 1 else PAGE / 2 - 8
    below = [legend(entries, shape, width)] if entries else []
    # Everything is passed to the constructors, because each method of a chart copies all of it.
    chart: VConcatChart = alt.vconcat(
        grid, *below, center=True, spacing=10, config=alt.Config(**theme())
    )
    return chart


@dataclass(frozen=True)
class Names:
    """Space for names to the left of the panels; shared names appear in the first column only."""

    width: int
    shared: bool

    def hidden(self, index: int, columns: int) -> bool:
        return self.shared and index % columns > 0


def names_beside(names: Sequence[Sequence[str]], columns: int) -> Names:
    """Compute the panel width that remains next to the names of each panel."""
    shared = all(list(dict.fromkeys(n)) == list(dict.fromkeys(names[0])) for n in names)
    longest = min(max(text_width(name) for panel in names for name in panel), LONGEST_NAME) + 12
    whole_page = PAGE if columns > 1 else PAGE / 2 + max(0, longest - MARGIN)
    taken = longest if shared else longest * columns
    return Names(max(90, int((whole_page - taken) / columns) - GAP), shared)


def legend(entries: Mapping[str, Style], shape: Shape, width: float) -> Any:
    """Draw the labels, each with its symbol, in as few rows as the width allows."""
    alt = altair()
    rows = _legend_rows({label: _entry_width(label, shape) for label in entries}, width)
    widest = max(sum(row.values()) for row in rows) - AFTER_LABEL
    placed = []
    for i, row in enumerate(rows):
        x = (widest - sum(row.values()) + AFTER_LABEL) / 2
        for label, entry_width in row.items():
            placed.append(
                {
                    "label": label,
                    "x": x,
                    "y": i * LEGEND_ROW + LEGEND_ROW / 2,
                    **_symbol_style(entries[label]),
                }
            )
            x += entry_width
    base = chart_of([_positions(entry, shape) for entry in placed])
    y = alt.Y("y:Q", scale=None, axis=None)
    labels = base.mark_text(align="left", baseline="middle", fontSize=MIDDLE, color=INK).encode(
        alt.X("text:Q", scale=None, axis=None), y, alt.Text("label:N")
    )
    size = {"width": round(widest), "height": LEGEND_ROW * len(rows)}
    return alt.layer(*_symbols(base, y, shape), labels, **size)


def _symbols(base: Any, y: Any, shape: Shape) -> list[Any]:
    alt = altair()
    color = alt.Color("color:N", scale=None)
    middle = alt.X("middle:Q", scale=None, axis=None)
    if shape == "square":
        return [base.mark_square(size=64, opacity=1).encode(middle, y, color)]
    dots = base.mark_circle(size=28, opacity=1).encode(middle, y, color)
    if shape == "circle":
        return [dots]
    dash = alt.StrokeDash("dash:N", scale=None)
    line = base.mark_rule(strokeWidth=1.8).encode(
        alt.X("x:Q", scale=None, axis=None), alt.X2("x2"), y, color, dash
    )
    return [line] if shape == "line" else [line, dots]


def _legend_rows(widths: Mapping[str, float], width: float) -> list[dict[str, float]]:
    """Split the labels into the fewest rows, filled as evenly as possible."""
    best = _fill_rows(widths, width)
    while width > max(widths.values()):
        width -= 5
        tighter = _fill_rows(widths, width)
        if len(tighter) > len(best):
            break
        best = tighter
    return best


def _fill_rows(widths: Mapping[str, float], width: float) -> list[dict[str, float]]:
    rows: list[dict[str, float]] = [{}]
    for label, entry_width in widths.items():
        if rows[-1] and sum(rows[-1].values()) + entry_width - AFTER_LABEL > width:
            rows.append({})
        rows[-1][label] = entry_width
    return rows


def _entry_width(label: str, shape: Shape) -> float:
    return SYMBOL_WIDTH[shape] + AFTER_SYMBOL + text_width(label, MIDDLE) + AFTER_LABEL


def _symbol_style(style: Style) -> dict[str, Any]:
    return {"color": style.color, "dash": list(style.dash) or [1, 0]}


def _positions(entry: dict[str, Any], shape: Shape) -> dict[str, Any]:
    x, length = entry["x"], SYMBOL_WIDTH[shape]
    return {
        **entry,
        "x2": x + length,
        "middle": x + length / 2,
        "text": x + length + AFTER_SYMBOL,
    }
