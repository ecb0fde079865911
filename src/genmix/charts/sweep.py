"""A score against a parameter, measured at a few of its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from genmix.charts.curves import Panel, draw
from genmix.charts.style import Style

if TYPE_CHECKING:
    from altair import VConcatChart


def sweep(
    panels: Sequence[Panel],
    columns: int = 2,
    log_x: bool = False,
    looks: Mapping[str, Style] | None = None,
) -> VConcatChart:
    """Like ``curves``, with a point at each value and a linear axis, whatever the panels say."""
    return draw([replace(panel, log_x=log_x) for panel in panels], columns, True, looks)
