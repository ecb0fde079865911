"""Print the summary at the end of a run: a table of the arms, scores, cost, failures, and the run folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from genmix.cli.leading_arms import shown_arms
from genmix.core.text import counted, duration, number, printable
from genmix.journal.continuing import resume_command


def print_summary(summary: dict[str, Any], folder: Path) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    head, rows, rest = arm_rows(summary)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in head:
        table.add_column(column, justify="left" if column == "arm" else "right")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console.print(table)
    if rest:
        console.print(rest, markup=False, highlight=False)
    for line in summary_lines(summary, folder):
        console.print(printable(line), markup=False, highlight=False, soft_wrap=True)


def arm_rows(summary: dict[str, Any]) -> tuple[list[str], list[list[str]], str]:
    """Return the header of the table, one row per arm, and a line about arms that are left out."""
    names = list(summary["score"] or {})
    head = ["arm", "weight", "samples", *(f"{name} alone" for name in names), "failed"]
    rows = []
    listed, rest = shown_arms(summary["weights"], summary["counts"])
    for arm in listed:
        weight, count = summary["weights"].get(arm), summary["counts"][arm]
        alone = summary["single_scores"].get(arm) or {}
        scores = [number(alone.get(name, {}).get("value"), 5) for name in names]
        absent = "suspended" if arm in summary.get("suspended", ()) else "retired"  # or an old run
        shown = absent if weight is None else f"{weight:.3f}"
        rows.append([arm, shown, f"{count:,}", *scores, str(summary["failures"].get(arm, 0))])
    return head, rows, rest


def summary_lines(summary: dict[str, Any], folder: Path) -> list[str]:
    """Return the lines below the table."""
    from genmix.objectives.score import details_text

    lines = []
    for title, key in (("All samples", "pooled_score"), ("Final mixture", "score")):
        for name, score in (summary[key] or {}).items():
            details = details_text(score["details"])
            lines.append(f"{title}: {name} {number(score['value'], 5)} ({details})")
    if summary["gap"] is not None:
        lines.append(f"The {gap_words(summary['gap'], summary['weights'], summary['counts'])}.")
    lines += kept_lines(summary.get("kept"))
    spent = f"{counted(summary['samples'], 'sample')} in {duration(summary['seconds'])}"
    if summary["cost"]:
        spent += f", cost {number(summary['cost'], 6)}"
    if summary["output_tokens"]:
        spent += (
            f", {summary['input_tokens']:,} input and {summary['output_tokens']:,} output tokens"
        )
    lines.append(f"{spent}; {summary['reason']}")
    for arm, times in summary["suspensions"].items():
        last = summary["last_failure"].get(arm)
        lines.append(f"Arm {arm!r} was suspended {times}×; last failure: {last}")
    return [*lines, closing_line(summary, folder)]


def gap_words(gap: float, weights: Mapping[str, float | None], counts: Mapping[str, int]) -> str:
    """Say what the gap means; if arms have retired, it is about the samples of the others."""
    is_whole = all(weights.get(arm) is not None for arm, count in counts.items() if count)
    which = "these samples" if is_whole else "the samples of the remaining arms"
    return f"mixture's loss is at most {number(gap, 2)} above the minimum on {which}"


def kept_lines(kept: dict[str, Any] | None) -> list[str]:
    """Say how good the kept samples are; nothing if the study keeps all."""
    from genmix.offline.keeping import bound_sentence
    from genmix.offline.predict_keep import prediction_sentences

    if kept is None:
        return []
    if kept["problem"] is not None:
        return [f"All samples are kept: {kept['problem']}"]
    lines = []
    for name, score in kept["scores"].items():
        every, drawn = kept["all_scores"][name]["value"], kept["random_scores"][name]["mean"]
        lines.append(
            f"Kept {kept['count']:,} of {counted(kept['samples'], 'sample')}: {name} "
            f"{number(score['value'], 5)} (all samples: {number(every, 5)}; "
            f"{counted(kept['count'], 'random sample')}: {number(drawn, 5)})"
        )
    lines += [bound_sentence(kept), *prediction_sentences(kept)]
    return [*lines, *(f"Warning: {text}" for text in kept["warnings"])]


def closing_line(summary: dict[str, Any], folder: Path) -> str:
    """Say where everything is and, after Ctrl-C, how to continue."""
    is_one = summary["samples"] == 1
    saved = (
        f"{counted(summary['samples'], 'sample')} {'is' if is_one else 'are'} saved in {folder}."
    )
    if (kept := summary.get("kept")) and kept["problem"] is None:
        verb = "is" if kept["count"] == 1 else "are"
        saved += (
            f" The {counted(kept['count'], 'kept sample')} {verb} in {folder / 'samples.jsonl'}."
        )
    if summary["status"] == "interrupted":
        return f"Stopped. {saved} Continue with: {resume_command(folder)}"
    report = folder / "report.html"
    return f"{saved} Report: {report}" if _is_current(report) else saved


def _is_current(report: Path) -> bool:
    """Return whether a report was written after the summary of its run; an older one has other results."""
    try:
        return report.stat().st_mtime_ns >= report.with_name("summary.json").stat().st_mtime_ns
    except OSError:
        return False
