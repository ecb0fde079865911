"""Panels side by side, with one legend below them all, at the size of a two-column paper."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from genmix.charts.axes import text_width, title_lines
from genmix.charts.rendering import altair, chart_of
from genmix.charts.key import Shape, key
from genmix.charts.style import INK, MIDDLE, Style, theme
from genmix.errors import InputError, whole

if TYPE_CHECKING:
    from altair import VConcatChart

PAGE = 500  # points: the text width of most two-column papers
MARGIN = 52  # points: what a panel's axis and the space beside it take
GAP = 16
TITLE_LINE = 11
LONGEST_NAME = 220


def columns_for(panels: int, columns: int) -> int:
    if panels == 0:
        raise InputError("The chart has nothing to draw: give at least one panel with rows.")
    return min(whole(columns, "columns", 1), panels)


def panel_width(columns: int) -> int:
    """One panel fits a column of the paper; more share its whole width."""
    return PAGE // max(columns, 2) - MARGIN


def panel_height(columns: int) -> int:
    return 128 if columns <= 2 else 108


def panel(layers: Iterable[Any], width: int, height: int, title: str) -> Any:
    """Layers under a title that stands at the same height in every panel, whatever the axes."""
    alt = altair()
    lines = title_lines(title, width)
    above = 8 if isinstance(lines, str) else 8 + TITLE_LINE
    look = {"fontSize": MIDDLE, "fontWeight": "bold", "color": INK, "lineHeight": TITLE_LINE}
    name = (
        chart_of([{"title": lines}])
        .mark_text(align="left", baseline="alphabetic", **look)
        .encode(x=alt.value(0), y=alt.value(-above), text="title:N")
    )
    return alt.layer(*layers, *([name] if title else [])).properties(width=width, height=height)


def page(
    panels: Sequence[Any], columns: int, entries: Mapping[str, Style], shape: Shape = "line"
) -> VConcatChart:
    """The panels in rows of ``columns``, each with its own axes, and a legend where one is needed."""
    alt = altair()
    grid = alt.concat(*panels, columns=columns, spacing={"row": GAP, "column": GAP})
    grid = grid.resolve_scale(x="independent", y="independent", color="independent")
    width = PAGE if columns > 1 else PAGE / 2 - 8
    below = [key(entries, shape, width)] if entries else []
    chart: VConcatChart = alt.vconcat(grid, *below, center=True, spacing=10).configure(**theme())
    return chart


@dataclass(frozen=True)
class Names:
    """Room for names to the left of the panels; alike names are written in the first column only."""

    width: int
    alike: bool

    def hidden(self, place: int, columns: int) -> bool:
        return self.alike and place % columns > 0


def names_beside(names: Sequence[Sequence[str]], columns: int) -> Names:
    """What the names of each panel leave of the page."""
    alike = all(list(dict.fromkeys(n)) == list(dict.fromkeys(names[0])) for n in names)
    longest = min(max(text_width(name) for panel in names for name in panel), LONGEST_NAME) + 12
    whole_page = PAGE if columns > 1 else PAGE / 2 + max(0, longest - MARGIN)
    taken = longest if alike else longest * columns
    return Names(max(90, int((whole_page - taken) / columns) - GAP), alike)
