"""Commands: init, check, run, resume, export, doctor."""

from __future__ import annotations

import json
import os
import sys
from contextlib import redirect_stdout
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from genmix.cli import BAD_INPUT, INTERRUPTED, TROUBLE, app, plain_errors, printable_lines

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Do not show progress.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
StudyFile = Annotated[Path, typer.Argument(help="The study file.", show_default=False)]
Report = Annotated[bool, typer.Option(help="Write report.html into the run folder at the end.")]
RunFolder = Annotated[Path, typer.Argument(help="The run folder.", show_default=False)]


@app.command(epilog="Example: genmix init my-study && genmix run my-study/study.yaml")
def init(
    folder: Annotated[Path, typer.Argument(help="Folder to write to.")] = Path(),
    force: Annotated[bool, typer.Option(help="Overwrite existing files.")] = False,
) -> None:
    """Write a commented example study that is ready to run.

    Writes study.yaml, arms.py with its generators, and study.schema.json, which lets editors check and
    complete the study while you type.
    """
    with plain_errors():
        from genmix.study.template import write_example

        for path in write_example(folder, force):
            typer.echo(path)


@app.command(epilog="Example: genmix check study.yaml --no-draw")
def check(
    study: Annotated[
        Path, typer.Argument(help="The study file, or a run folder.", show_default=False)
    ],
    draw: Annotated[
        bool,
        typer.Option(help="Draw and embed one sample per arm. Paid arms charge for it."),
    ] = True,
    as_json: Json = False,
) -> None:
    """Validate a study and draw one sample from every arm, or verify that a run is undamaged.

    A folder that contains a journal is a run: its checksum is compared with its content. The exit code is 2
    if there is a problem.
    """
    from genmix.journal.schema import JOURNAL

    if (study / JOURNAL).exists():
        _check_run(study, as_json)
        return
    with plain_errors():
        from genmix.runs.check import check_study, print_checks

        report = check_study(study, draw)
    if as_json:
        typer.echo(json.dumps(report.as_dict(), indent=2))
    else:
        print_checks(report)
    if report.problems:
        raise typer.Exit(2)


def _check_run(folder: Path, as_json: bool) -> None:
    from genmix.journal.integrity import check_run

    found = check_run(folder)
    if as_json:
        typer.echo(json.dumps(asdict(found), indent=2))
    else:
        journal: str = found.journal
        if journal == "unverified":
            journal += " (it is from an older version of genmix, which did not write a checksum)"
        typer.echo(f"journal: {journal}")
        for table, count in found.rows.items():
            typer.echo(f"  {table}: {count}")
        typer.echo(f"selector.npz: {found.selector}")
        for problem in found.problems:
            typer.echo(printable_lines(problem))
    if not found.is_intact:
        raise typer.Exit(BAD_INPUT)


@app.command(epilog="Example: genmix run study.yaml --out runs/first")
def run(
    study: StudyFile,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The run folder. Default: runs/NAME.")
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
    report: Report = True,
) -> None:
    """Run a study: generate samples, learn the mixture, and save everything in a run folder.

    Ctrl-C stops the run cleanly, and a second Ctrl-C stops it immediately; 'genmix resume' continues it
    in either case. The exit code is 0 when the budget is spent, 2 if the study cannot start, 3 if the run
    had to stop early, and 130 after Ctrl-C.
    """
    folder = out
    with plain_errors(lambda: stop_message(folder)):
        from genmix.runs.prepare import Plan
        from genmix.runs.run import start

        plan = Plan.of(study)
        folder = out if out is not None else Path("runs") / plan.study.name
        summary = run_with_view(partial(start, plan, folder), quiet, report)
    finish(summary, folder, as_json)


@app.command(epilog="Example: genmix resume runs/first")
def resume(
    folder: RunFolder, quiet: Quiet = False, as_json: Json = False, report: Report = True
) -> None:
    """Continue a run that was interrupted, killed or stopped by an error.

    It never pays for the same sample twice. The exit codes are those of 'genmix run'.
    """
    with plain_errors(lambda: stop_message(folder)):
        from genmix.runs.run import continue_run, is_finished

        if is_finished(folder):
            typer.echo("genmix: the run is already finished.", err=True)
        summary = run_with_view(partial(continue_run, folder), quiet, report)
    finish(summary, folder, as_json)


@app.command(epilog="Example: genmix export runs/first --to hf --out my-dataset")
def export(
    folder: RunFolder,
    to: Annotated[
        str,
        typer.Option(
            help="parquet, jsonl, hf (a Hugging Face datasets folder), or npz (only embeddings)."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Output path. Default: inside the run folder."),
    ] = None,
    embeddings: Annotated[
        bool, typer.Option("--embeddings", help="Add the embeddings as a column.")
    ] = False,
) -> None:
    """Write the data set of a run, one row per sample."""
    with plain_errors():
        from genmix.runs.export import export as write

        typer.echo(write(folder, to, out, embeddings=embeddings))  # type: ignore[arg-type]


@app.command(epilog="Example: genmix doctor study.yaml")
def doctor(
    study: Annotated[Path | None, typer.Argument(help="The study file to check.")] = None,
    as_json: Json = False,
) -> None:
    """Show what is installed, what is missing for a study, and how to install it."""
    with plain_errors():
        from genmix.cli.doctor import examine, print_findings

        findings = examine(study)
    if as_json:
        typer.echo(json.dumps([finding.as_dict() for finding in findings], indent=2))
    else:
        print_findings(findings)
    if any(finding.is_missing for finding in findings):
        raise typer.Exit(2)


def run_with_view(execute: Any, quiet: bool, report: bool) -> dict[str, Any]:
    """Run with a live view and return the summary."""
    from rich.console import Console

    from genmix.cli.live_terminal import make_view
    from genmix.runs.run import Options

    view = make_view(Console(stderr=True))
    with view:
        options = Options(() if quiet else (view,), view.note if not quiet else lambda _: None)
        options.hard_stop = _exit_now
        options.report &= report
        with redirect_stdout(sys.stderr):  # stdout is for the result, not for what arms print
            summary: dict[str, Any] = execute(options).summary
    return summary


def _exit_now() -> None:
    """Exit without waiting for busy threads; the journal already has every sample that arrived."""
    sys.stderr.write("\ngenmix: stopped immediately; continue with genmix resume.\n")
    sys.stderr.flush()
    os._exit(INTERRUPTED)


def stop_message(folder: Path | None) -> str:
    """Return the message for a run that was stopped by a second Ctrl-C."""
    from genmix.journal.schema import JOURNAL

    if folder is None or not (folder / JOURNAL).exists():
        return "interrupted before any sample was generated."
    return f"stopped immediately. The samples are saved in {folder}. Continue with: genmix resume {folder}"


def finish(summary: dict[str, Any], folder: Path, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({**summary, "folder": str(folder)}, indent=2))
    else:
        from genmix.cli.summary import print_summary

        print_summary(summary, folder)
    status = summary["status"]
    if status == "trouble":
        problem = f"genmix: {summary['reason'].rstrip('.')}. Continue with: genmix resume {folder}"
        typer.echo(printable_lines(problem), err=True)
        raise typer.Exit(TROUBLE)
    if status == "interrupted":
        raise typer.Exit(INTERRUPTED)
