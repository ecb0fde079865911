"""Which arms a table in the terminal lists if there are many."""

from __future__ import annotations

from collections.abc import Mapping

from genmix.charts.leading import MAX_ROWS, Total, leading


def shown_arms(
    weights: Mapping[str, float | None], counts: Mapping[str, int], most: int = MAX_ROWS
) -> tuple[list[str], str]:
    """Return the arms to list, and a line about the others; if there are others, by decreasing weight."""
    names = list(counts)
    shown = leading(names, weights, counts, most)
    if len(shown) == len(names):
        return shown, ""
    shown.sort(key=lambda arm: (-(weights.get(arm) or 0.0), -counts[arm]))
    return shown, Total.of("", set(names) - set(shown), weights, counts).text
