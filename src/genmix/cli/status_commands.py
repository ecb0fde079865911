"""Commands: ls, status."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from genmix.cli import app, plain_errors, print_note, printable_lines
from genmix.cli.leading_arms import shown_arms
from genmix.cli.summary import gap_words
from genmix.cli.tables import print_json, print_table
from genmix.core.text import ago, counted, duration, number, percent, shortened
from genmix.errors import InputError

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Values = Mapping[str, Any]


@app.command(epilog="Example: genmix ls runs")
def ls(
    folder: Annotated[Path, typer.Argument(help="The folder that contains the runs.")] = Path(
        "runs"
    ),
    as_json: Json = False,
) -> None:
    """List the runs below a folder, newest first.

    The score is the one of all samples so far. A damaged run is listed with its problem.
    """
    with plain_errors():
        from genmix.monitoring.overview import list_runs

        if not folder.is_dir():
            raise InputError(
                f"there is no folder {folder}; pass the folder that contains the runs, or start a run "
                "with `genmix run`."
            )
        runs = list_runs(folder)
    if as_json:
        print_json(runs)
    elif not runs:
        print_note(f"there are no runs in {folder}.")
    else:
        print_runs(runs)


@app.command(epilog="Example: genmix status runs/first")
def status(
    folder: Annotated[Path, typer.Argument(help="The run folder.", show_default=False)],
    as_json: Json = False,
) -> None:
    """Show how far a run is, its weights and score, its failures, and how to continue it."""
    with plain_errors():
        from genmix.monitoring.overview import run_details

        run = run_details(folder)
    if as_json:
        print_json(run)
    else:
        print_run(run)


def print_runs(runs: list[dict[str, Any]]) -> None:
    headings = ["run", "status", "samples", "cost", "score", "updated"]
    rows = [
        [
            run["folder"],
            run["status"],
            *(("–", "–", "–", "–") if run["samples"] is None else _numbers(run)),
        ]
        for run in runs
    ]
    print_table(headings, [[printable_lines(cell) for cell in row] for row in rows])
    for run in runs:
        if run["status"] == "unreadable":
            typer.echo(printable_lines(f"{run['folder']}: {run['reason']}"))


def _numbers(run: Values) -> list[str]:
    budget = run["budget"]
    return [
        _of(f"{run['samples']:,}", budget.get("samples"), "/"),
        _of(number(run["cost"]), budget.get("cost"), "/"),
        ", ".join(_score(s, "pooled") for s in run["scores"] if s["pooled"] is not None) or "–",
        _ago(run["updated"]),
    ]


def _of(amount: str, limit: float | None, join: str = " of ") -> str:
    if limit is None:
        return amount
    return (
        f"{amount}{join}{limit:,}" if isinstance(limit, int) else f"{amount}{join}{number(limit)}"
    )


def _score(score: Values, which: str) -> str:
    arrow = "↑" if score["maximise"] else "↓"
    return "–" if score[which] is None else f"{score['name']} {number(score[which])} {arrow}"


def _ago(at: str | None) -> str:
    if at is None:
        return "–"
    return ago((datetime.now(UTC) - datetime.fromisoformat(at)).total_seconds())


def print_run(run: Values) -> None:
    for line in [*_progress_lines(run), *_score_lines(run), ""]:
        typer.echo(printable_lines(line))
    headings = ["arm", "weight", "samples", "in flight", "failed", "state"]
    arms = {arm["name"]: arm for arm in run["arms"]}
    weights = {name: arm["weight"] for name, arm in arms.items()}
    shown, rest = shown_arms(weights, {name: arm["samples"] for name, arm in arms.items()})
    cells = [_arm(arms[name]) for name in shown]
    print_table(headings, [[printable_lines(cell) for cell in row] for row in cells])
    if rest:
        typer.echo(f"{rest} (--json has all)")
    last = run["last_failure"]
    if last is not None:
        failed = f"{counted(run['failures'], 'failed attempt')}; the last one {_ago(last['at'])}: "
        typer.echo(printable_lines(f"\n{failed}{last['arm']}: {shortened(last['message'], 300)}"))
    typer.echo(f"\n{_next_step(run)}")


def _arm(arm: Values) -> list[str]:
    weight = "–" if arm["weight"] is None else f"{arm['weight']:.3f}"
    counts = [f"{arm[key]:,}" for key in ("samples", "in_flight", "failures")]
    return [arm["name"], weight, *counts, arm["state"]]


def _progress_lines(run: Values) -> list[str]:
    reason = f" ({run['reason']})" if run["reason"] else ""
    budget = run["budget"]
    samples = _of(f"{run['samples']:,}", budget.get("samples"))
    if "samples" in budget:
        samples += f" ({percent(run['samples'] / budget['samples'])})"
    lines = [
        f"{run['folder']}: {run['status']}{reason}",
        f"study:    {run['name']}, objective {run['objective']}",
        f"samples:  {samples}",
    ]
    if run["cost"] is not None or "cost" in budget:
        lines.append(f"cost:     {_of(number(run['cost'] or 0.0), budget.get('cost'))}")
    limit = f" of {duration(budget['time'])}" if "time" in budget else ""
    return [
        *lines,
        f"time:     {duration(run['seconds'])}{limit}, updated {_ago(run['updated'])}",
    ]


def _score_lines(run: Values) -> list[str]:
    lines = []
    for score in run["scores"]:
        mixture = _score(score, "mixture").removeprefix(f"{score['name']} ")
        lines.append(
            f"score:    {_score(score, 'pooled')} of all samples, {mixture} of the mixture"
        )
    lines += [] if run["keep"] is None else _keep_lines(run)
    if run["gap"] is not None:
        weights = {arm["name"]: arm["weight"] for arm in run["arms"]}
        counts = {arm["name"]: arm["samples"] for arm in run["arms"]}
        lines.append(f"gap:      the {gap_words(run['gap'], weights, counts)}")
    return lines


def _keep_lines(run: Values) -> list[str]:
    """Say which samples the run keeps at its end and, once they are chosen, how good they are."""
    kept = run["kept"]
    if kept is None or not kept["is_final"] or kept["samples"] != run["samples"]:
        return [f"keep:     {run['keep']}, chosen at the end"]
    scores = ", ".join(f"{name} {number(value)}" for name, value in kept["scores"].items())
    return [f"keep:     {kept['count']:,} of {kept['samples']:,} samples are kept: {scores}"]


def _next_step(run: Values) -> str:
    import shlex

    if run["continue_with"] is not None:
        return f"Continue with: {run['continue_with']}"
    if run["extend_with"] is not None and run["raise_first"] is not None:
        return f"To extend it, raise {run['raise_first']} in its study, then: {run['extend_with']}"
    if run["extend_with"] is not None:
        return f"Extend it with: {run['extend_with']}"
    parent = shlex.quote(str(Path(run["folder"]).parent))
    return f"Stop it with Ctrl-C in its terminal, or watch it with: genmix dashboard {parent}"
