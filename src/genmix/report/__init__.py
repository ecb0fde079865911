"""The report on a run: results, advice, charts and samples in one HTML file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from genmix.core.atomic import check_folder, make_folder, write_text
from genmix.errors import InputError

NAME = "report.html"

CHARTS = ("scores", "weights", "pooled", "map", "cost", "frontier")
"""The names that :func:`run_chart` accepts."""


def write_report(
    run: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    note: Callable[[str], None] = lambda line: None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Path:
    """Write the report on a run, by default to ``report.html`` in its folder, and return the path.

    ``note`` is called with a sentence for each problem that did not prevent the report, and
    ``progress`` with the number of finished steps and their total.
    """
    from genmix.journal.run_folders import check_run_folder
    from genmix.journal.targets import check_target
    from genmix.report.facts import Facts
    from genmix.report.page import STEPS, render_page

    folder = Path(run)
    check_run_folder(folder)
    target = folder / NAME if out is None else Path(out)
    if out is not None:
        check_target(target, folder, NAME)
        check_folder(target.parent)
    progress(0, STEPS)
    facts = Facts(folder)
    with facts.limited_threads():
        text = render_page(facts, progress)
    make_folder(target.parent)
    write_text(target, text)
    for line in facts.problems:
        note(line)
    return target


def run_chart(run: str | os.PathLike[str], name: str) -> Any:
    """Return one chart from a report as an Altair chart."""
    from genmix.report.facts import Facts
    from genmix.report.figures import FIGURES, why_missing

    if name not in CHARTS:
        raise InputError(f"there is no chart named {name!r}; use one of {', '.join(CHARTS)}.")
    folder = Path(run)
    facts = Facts(folder)
    with facts.limited_threads():
        chart = FIGURES[name](facts)
        reason = why_missing(facts, name) if chart is None else ""
    if chart is None:
        raise InputError(
            f"could not draw the chart {name!r} for {folder}: {reason[0].lower()}{reason[1:]}"
        )
    return chart
