"""How runs, mixtures and comparisons show themselves in a notebook: small tables and a few words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from genmix.core.plain import by_name
from genmix.core.text import number
from genmix.errors import GenmixError
from genmix.report.sanitize import escaped

if TYPE_CHECKING:
    from genmix.comparison.comparison import Comparison
    from genmix.offline.mixture import Mixture
    from genmix.runs.result import Run


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """The first cell of a row is its heading."""
    top = "".join(f'<th scope="col">{escaped(cell)}</th>' for cell in head)
    body = "".join(
        f'<tr><th scope="row">{escaped(row[0])}</th>'
        + "".join(f"<td>{escaped(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def paragraphs(lines: Iterable[str]) -> str:
    return "".join(f"<p>{escaped(line)}</p>" for line in lines)


def run_html(run: Run) -> str:
    """The table and the words at the end of a run; a run that goes on says how far it is."""
    from genmix.cli.summary import lines

    try:
        summary = run.summary
    except GenmixError:
        return paragraphs([f"genmix run in {run.folder}: no summary yet"])
    names = list(summary["score"] or {})
    head = ["arm", "weight", "samples", *(f"{name} alone" for name in names), "failed"]
    rows = []
    for arm, count in summary["counts"].items():
        weight = summary["weights"].get(arm)
        alone = summary["single_scores"].get(arm) or {}
        scores = [number(alone.get(name, {}).get("value"), 5) for name in names]
        shown = "retired" if weight is None else f"{weight:.3f}"
        rows.append([arm, shown, f"{count:,}", *scores, summary["failures"].get(arm, 0)])
    return f"<div>{table(head, rows)}{paragraphs(lines(summary, run.folder))}</div>"


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
    words = [f"mixture: {score}" for score in by_name(mixture.score).values()]
    words.append(f"mixture: loss {mixture.loss:.8g}, at most {mixture.gap:.1e} above the least")
    return f"<div>{table(head, rows)}{paragraphs(words)}</div>"


def comparison_html(found: Comparison) -> str:
    from genmix.comparison.presentation import heading, outcome_rows, tests

    head, *rows = outcome_rows(found)
    return f"<div>{paragraphs(heading(found))}{table(head, rows)}{paragraphs(tests(found))}</div>"
