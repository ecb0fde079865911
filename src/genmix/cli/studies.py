"""Commands about studies and runs."""

from __future__ import annotations

import json
import os
import sys
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from genmix.cli import INTERRUPTED, TROUBLE, app, plain_errors, printable_lines

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the result alone.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
StudyFile = Annotated[Path, typer.Argument(help="The study file.", show_default=False)]
Report = Annotated[
    bool, typer.Option(help="Whether to write report.html into the run folder at the end.")
]
RunFolder = Annotated[Path, typer.Argument(help="The run's folder.", show_default=False)]


@app.command(epilog="Example: genmix init my-study && genmix run my-study/study.yaml")
def init(
    folder: Annotated[Path, typer.Argument(help="Where to write it.")] = Path(),
    force: Annotated[bool, typer.Option(help="Overwrite files that are there.")] = False,
) -> None:
    """Write a commented example study that runs as it is.

    The folder gets study.yaml, the arms.py that its generators come from, and study.schema.json, with
    which editors check and complete the study while you write it.
    """
    with plain_errors():
        from genmix.study.template import write_example

        for path in write_example(folder, force):
            typer.echo(path)


@app.command(epilog="Example: genmix check study.yaml --no-draw")
def check(
    study: StudyFile,
    draw: Annotated[
        bool, typer.Option(help="Draw and embed one sample of every arm (paid arms charge for it).")
    ] = True,
    as_json: Json = False,
) -> None:
    """Validate a study and draw one sample from every arm.

    Exits with 2 if anything is wrong.
    """
    with plain_errors():
        from genmix.runs.check import check_study, print_checks

        report = check_study(study, draw)
    if as_json:
        typer.echo(json.dumps(report.as_dict(), indent=2))
    else:
        print_checks(report)
    if report.problems:
        raise typer.Exit(2)


@app.command(epilog="Example: genmix run study.yaml --out runs/first")
def run(
    study: StudyFile,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The run folder; by default runs/NAME.")
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
    report: Report = True,
) -> None:
    """Run a study: generate, learn the mixture meanwhile, leave a run folder.

    Ctrl-C ends it cleanly, a second one at once; 'genmix resume' goes on in either case. Exits with 0
    when the budget is spent, 2 if the study cannot begin, 3 if it had to stop early, 130 after Ctrl-C.
    """
    folder = out
    with plain_errors(lambda: _stopped(folder)):
        from genmix.runs.run import start
        from genmix.study.config import read_study

        plan = read_study(study)
        folder = out if out is not None else Path("runs") / plan.name
        text, base = study.read_text("utf-8"), study.resolve().parent
        play = partial(start, plan, base, folder, text, file=study.resolve().name)
        summary = _watched(play, quiet, report)
    _finish(summary, folder, as_json)


@app.command(epilog="Example: genmix resume runs/first")
def resume(
    folder: RunFolder, quiet: Quiet = False, as_json: Json = False, report: Report = True
) -> None:
    """Go on with a run that was interrupted, killed or stopped by trouble.

    Nothing that was paid for is made again. Exits as 'genmix run' does.
    """
    with plain_errors(lambda: _stopped(folder)):
        from genmix.runs.run import go_on, is_finished

        if is_finished(folder):
            typer.echo("genmix: the run was finished already.", err=True)
        summary = _watched(partial(go_on, folder), quiet, report)
    _finish(summary, folder, as_json)


@app.command(epilog="Example: genmix export runs/first --to hf --out my-dataset")
def export(
    folder: RunFolder,
    to: Annotated[str, typer.Option(help="parquet, jsonl, or hf for a datasets folder.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Where to; by default into the run folder.")
    ] = None,
) -> None:
    """Write the data set of a run, one row a sample."""
    with plain_errors():
        from genmix.runs.export import export as write

        typer.echo(write(folder, to, out))  # type: ignore[arg-type]


@app.command(epilog="Example: genmix doctor study.yaml")
def doctor(
    study: Annotated[Path | None, typer.Argument(help="A study to look at.")] = None,
    as_json: Json = False,
) -> None:
    """Say what is installed, what is missing (for a study), and how to get it."""
    with plain_errors():
        from genmix.study.doctor import examine, print_findings

        findings = examine(study)
    if as_json:
        typer.echo(json.dumps([finding.as_dict() for finding in findings], indent=2))
    else:
        print_findings(findings)
    if any(finding.is_missing for finding in findings):
        raise typer.Exit(2)


def _watched(play: Any, quiet: bool, report: bool) -> dict[str, Any]:
    """The summary of a run that is shown while it goes on."""
    from rich.console import Console

    from genmix.cli.view import make_view
    from genmix.runs.run import Options

    view = make_view(Console(stderr=True))
    with view:
        options = Options(() if quiet else (view,), view.note if not quiet else lambda _: None)
        options.hard_stop = _leave_now
        options.report &= report
        with redirect_stdout(sys.stderr):  # what arms print must not mix with the result
            summary: dict[str, Any] = play(options).summary
    return summary


def _leave_now() -> None:
    """Every sample that came is in the journal; threads that still compute are not waited for."""
    sys.stderr.write("\ngenmix: stopped at once; 'genmix resume' goes on.\n")
    sys.stderr.flush()
    os._exit(INTERRUPTED)


def _stopped(folder: Path | None) -> str:
    """What to say of a run that was interrupted for good."""
    from genmix.runs.journal import NAME

    if folder is None or not (folder / NAME).exists():
        return "interrupted before anything was made."
    return f"stopped at once: what came is in {folder}, and 'genmix resume {folder}' goes on."


def _finish(summary: dict[str, Any], folder: Path, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({**summary, "folder": str(folder)}, indent=2))
    else:
        from genmix.cli.closing import print_summary

        print_summary(summary, folder)
    status = summary["status"]
    if status == "trouble":
        words = f"genmix: {summary['reason']}; 'genmix resume {folder}' goes on."
        typer.echo(printable_lines(words), err=True)
        raise typer.Exit(TROUBLE)
    if status == "interrupted":
        raise typer.Exit(INTERRUPTED)
