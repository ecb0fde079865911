"""The table at the end of a run: the mixture, its score against single arms, cost, what went wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from genmix.core.text import duration, number, printable


def print_summary(summary: dict[str, Any], folder: Path) -> None:
    console = Console()
    console.print(_table(summary))
    for line in lines(summary, folder):
        console.print(printable(line), markup=False, highlight=False, soft_wrap=True)


def _table(summary: dict[str, Any]) -> Table:
    names = list(summary["score"] or {})
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("arm", "weight", "samples", *(f"{name} alone" for name in names), "failed"):
        table.add_column(column, justify="left" if column == "arm" else "right")
    for arm, count in summary["counts"].items():
        weight = summary["weights"].get(arm)
        alone = summary["single_scores"].get(arm) or {}
        scores = [number(alone[name]["value"], 5) if name in alone else "–" for name in names]
        failed = str(summary["failures"].get(arm, 0))
        shown = "retired" if weight is None else f"{weight:.3f}"
        table.add_row(Text(printable(arm)), shown, str(count), *scores, failed)
    return table


def lines(summary: dict[str, Any], folder: Path) -> list[str]:
    """The words below the table."""
    found = []
    for title, key in (("all samples together", "pooled_score"), ("the final mixture", "score")):
        for name, score in (summary[key] or {}).items():
            details = ", ".join(f"{k} {v}" for k, v in score["details"].items())
            found.append(f"{title}: {name} {number(score['value'], 5)} ({details})")
    if summary["gap"] is not None:
        found.append(f"its loss is at most {summary['gap']:.1e} above the least on these samples")
    spent = f"{summary['samples']} samples in {duration(summary['seconds'])}"
    if summary["cost"]:
        spent += f", cost {summary['cost']:.6g}"
    if summary["output_tokens"]:
        spent += f", {summary['input_tokens']} tokens in and {summary['output_tokens']} out"
    found.append(f"{spent}; {summary['reason']}")
    for arm, times in summary["suspensions"].items():
        found.append(f"arm {arm!r} was suspended {times}×: {summary['last_failure'].get(arm)}")
    report = folder / "report.html"
    seen = f"; {report} shows it" if report.exists() else ""
    found.append(f"everything is in {folder}{seen}")
    return found
