"""Figures for a paper, from plain rows: each function gives an Altair chart, ``save`` writes it."""

from __future__ import annotations

from genmix.charts import style
from genmix.charts.bars import bars
from genmix.charts.curves import Panel, curves
from genmix.charts.intervals import intervals
from genmix.charts.save import save
from genmix.charts.scatter import scatter
from genmix.charts.shares import shares
from genmix.charts.sweep import sweep

__all__ = ["Panel", "bars", "curves", "intervals", "save", "scatter", "shares", "style", "sweep"]
