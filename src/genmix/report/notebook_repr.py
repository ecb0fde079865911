"""Show runs, mixtures and comparisons in Python: a small table and a few lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genmix.core.plain import by_name
from genmix.core.text import aligned, number, printable
from genmix.errors import GenmixError
from genmix.report.templating import render_template

if TYPE_CHECKING:
    from genmix.comparison.comparison import Comparison
    from genmix.offline.mixture import Mixture
    from genmix.runs.result import Run


def run_html(run: Run) -> str:
    """Render the summary of a run, or a note that there is none yet."""
    title, rows, lines = _run_parts(run)
    if not rows:
        return render_template("table.html", before=[title])
    return render_template("table.html", before=[title], head=rows[0], rows=rows[1:], after=lines)


def run_text(run: Run) -> str:
    """Format what :func:`run_html` shows as plain text."""
    title, rows, lines = _run_parts(run)
    return "\n".join(map(printable, [title, *(aligned(rows) if rows else []), *lines]))


def _run_parts(run: Run) -> tuple[str, list[list[str]], list[str]]:
    """Return a title, a table with its header, and lines; only a title if there is no summary yet."""
    from genmix.cli.summary import arm_rows, summary_lines

    try:
        summary, status = run.summary, run.status
    except GenmixError:
        return f"genmix run in {run.folder}: no summary yet", [], []
    head, rows, rest = arm_rows(summary)
    title = f"genmix run in {run.folder}: {status}"
    lines = summary_lines(summary, run.folder)
    return title, [head, *rows], [rest, *lines] if rest else lines


def mixture_html(mixture: Mixture) -> str:
    names = list(by_name(mixture.score))
    head = ["arm", "weight", "loss alone", *(f"{name} alone" for name in names)]
    rows = [
        [
            arm,
            f"{weight:.3f}",
            number(mixture.single_losses[arm], 5),
            *(number(float(s), 5) for s in by_name(mixture.single_scores[arm]).values()),
        ]
        for arm, weight in mixture.weights.items()
    ]
    lines = [f"mixture: {score}" for score in by_name(mixture.score).values()]
    lines.append(
        f"mixture: loss {mixture.loss:.8g}, at most {mixture.gap:.1e} above the minimum on these samples"
    )
    return render_template("table.html", head=head, rows=rows, after=lines)


def comparison_html(found: Comparison) -> str:
    from genmix.comparison.presentation import heading, outcome_rows, tests

    head, *rows = outcome_rows(found)
    return render_template(
        "table.html", before=heading(found), head=head, rows=rows, after=tests(found)
    )
