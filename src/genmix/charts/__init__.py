"""Draw figures from plain rows: each function returns an Altair chart, and ``save`` writes it to a file."""

from __future__ import annotations

from genmix.charts import style
from genmix.charts.bars import bars
from genmix.charts.curves import Panel, curves, sweep
from genmix.charts.intervals import intervals
from genmix.charts.rendering import save
from genmix.charts.scatter import scatter
from genmix.charts.shares import shares

__all__ = ["Panel", "bars", "curves", "intervals", "save", "scatter", "shares", "style", "sweep"]
