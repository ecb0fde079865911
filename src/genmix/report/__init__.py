"""The report of a run: what came of it, in words, numbers and charts, as one HTML file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from genmix.core.atomic import make_folder, write_text
from genmix.errors import InputError

NAME = "report.html"

CHARTS = ("scores", "weights", "pooled", "map", "cost")
"""What :func:`run_chart` draws."""


def write_report(run: str | os.PathLike[str], out: str | os.PathLike[str] | None = None) -> Path:
    """Write the report of a run folder, by default into it, and give its path."""
    from genmix.report.facts import few_threads, gather
    from genmix.report.page import render
    from genmix.runs.export import check_target

    folder = Path(run)
    target = folder / NAME if out is None else Path(out)
    if target.resolve() != (folder / NAME).resolve():
        check_target(folder, target)
    with few_threads(folder):
        text = render(gather(folder))
    make_folder(target.parent)
    write_text(target, text)
    return target


def run_chart(run: str | os.PathLike[str], name: str) -> Any:
    """One chart of a report, as an Altair chart."""
    from genmix.report.facts import few_threads, gather
    from genmix.report.figures import figure

    if name not in CHARTS:
        raise InputError(f"there is no chart {name!r}: give one of {', '.join(CHARTS)}.")
    folder = Path(run)
    with few_threads(folder):
        chart = figure(gather(folder), name)
    if chart is None:
        from genmix.report.page import ABSENT

        raise InputError(f"the run {folder} has nothing for the chart {name!r}: {ABSENT[name]}")
    return chart
