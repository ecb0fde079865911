"""Commands: init, check, run, resume, export, doctor."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from genmix.cli import (
    BAD_INPUT,
    INTERRUPTED,
    TROUBLE,
    app,
    plain_errors,
    print_note,
    printable_lines,
)
from genmix.cli.live.hang_up import stopped_by_hang_up
from genmix.cli.live.lasting_output import lasting_output
from genmix.cli.watching import NOTHING, LogJson, MetricsPort, Otel, Watching, logging, watching
from genmix.errors import InputError

if TYPE_CHECKING:
    from genmix.cli.live.terminal import LineView
    from genmix.runs.new_folder import NewFolder

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Do not show progress.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
StudyFile = Annotated[
    Path, typer.Argument(help="The study file, or its folder.", show_default=False)
]
Report = Annotated[bool, typer.Option(help="Write report.html into the run folder at the end.")]
EngineName = Annotated[
    str | None,
    typer.Option("--engine", help="Where to generate: local or ray. Overrides the study's engine."),
]
Address = Annotated[
    str | None,
    typer.Option(
        help="Address of the Ray cluster, e.g. auto on one of its nodes. Default: $RAY_ADDRESS, or a "
        "cluster on this machine."
    ),
]
RunFolder = Annotated[Path, typer.Argument(help="The run folder.", show_default=False)]


@app.command(epilog="Example: genmix init my-study && genmix run my-study")
def init(
    folder: Annotated[Path, typer.Argument(help="Folder to write to.")] = Path(),
    force: Annotated[bool, typer.Option(help="Overwrite existing files.")] = False,
) -> None:
    """Write a commented example study that is ready to run.

    Writes study.yaml, arms.py with its generators, and study.schema.json, which lets editors check and
    complete the study while you type. The study is named after the folder.
    """
    with plain_errors():
        from genmix.journal.targets import check_target
        from genmix.study.template import write_example

        if force:
            check_target(folder / "study.yaml")
        paths = write_example(folder, force)
    for path in paths:
        typer.echo(path)
    study = folder if folder.name else paths[0]
    typer.echo(f"Next, run it: genmix run {shlex.quote(str(study))}", err=True)


@app.command(epilog="Example: genmix check study.yaml --no-draw")
def check(
    study: Annotated[
        Path,
        typer.Argument(help="The study file, its folder, or a run folder.", show_default=False),
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
    from genmix.journal.file_systems import network_warning
    from genmix.journal.schema import JOURNAL

    is_run = (study / JOURNAL).exists()
    if (warning := network_warning(study if is_run else Path("runs"))) is not None:
        print_note(warning)
    if is_run:
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
        Path | None,
        typer.Option(
            "--out", "-o", help="The run folder. Default: runs/NAME, or runs/NAME-2 and so on."
        ),
    ] = None,
    samples: Annotated[
        int | None, typer.Option(help="Number of samples, instead of the study's.")
    ] = None,
    cost: Annotated[
        float | None, typer.Option(help="Maximum cost, instead of the study's.")
    ] = None,
    time: Annotated[
        str | None, typer.Option(help="Maximum time, e.g. 30m, instead of the study's.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed, instead of the study's.")] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the study, which also names the run folder.")
    ] = None,
    engine: EngineName = None,
    address: Address = None,
    metrics: MetricsPort = None,
    log_json: LogJson = False,
    otel: Otel = False,
    quiet: Quiet = False,
    as_json: Json = False,
    report: Report = True,
) -> None:
    """Run a study: generate samples, learn the mixture, and save everything in a run folder.

    --samples, --cost, --time, --seed and --name replace those of the study, also when the run is resumed.
    Ctrl-C stops the run cleanly, and a second Ctrl-C stops it immediately; 'genmix resume' continues it
    in either case. The exit code is 0 when the budget is spent, 2 if the study cannot start, 3 if the run
    had to stop early, and 130 after Ctrl-C.
    """
    place: NewFolder | None = None

    def stopped() -> str:
        return stop_message(None if place is None else place.own)

    with lasting_output(), stopped_by_hang_up(), logging(log_json) as log:
        with plain_errors(stopped):
            from genmix.runs import new_folder
            from genmix.runs.prepare import Plan
            from genmix.runs.run import check_address, start

            plan = Plan.of(study, _changes(samples, cost, time, seed, name)).with_engine(engine)
            check_address(plan.study, address)
            default = partial(new_folder.DefaultFolder, plan.study.name, print_note)
            place = default() if out is None else new_folder.NewFolder(out)
            place.check()  # before the address of the metrics is announced
            execute = partial(start, plan, place)
            with watching(metrics, log, otel) as watch:
                summary = run_with_view(execute, stopped, quiet, report, address, watch)
        finish(summary, place.path, as_json)


def _changes(
    samples: int | None, cost: float | None, time: str | None, seed: int | None, name: str | None
) -> dict[str, Any]:
    """Return the settings of a study that options replace."""
    limits = {"samples": samples, "cost": cost, "time": time}
    budget = {key: value for key, value in limits.items() if value is not None}
    given = {"name": name, "seed": seed, "budget": budget or None}
    return {key: value for key, value in given.items() if value is not None}


@app.command(epilog="Example: genmix resume runs/first --samples 500")
def resume(
    folder: RunFolder,
    samples: Annotated[
        int | None, typer.Option(help="New total number of samples, including those it has.")
    ] = None,
    cost: Annotated[
        float | None, typer.Option(help="New total cost, including what is already spent.")
    ] = None,
    time: Annotated[
        str | None, typer.Option(help="New total running time, e.g. 90s, 30m or 1h.")
    ] = None,
    study: Annotated[
        Path | None, typer.Option(help="A changed study with which the run continues.")
    ] = None,
    engine: EngineName = None,
    address: Address = None,
    metrics: MetricsPort = None,
    log_json: LogJson = False,
    otel: Otel = False,
    quiet: Quiet = False,
    as_json: Json = False,
    report: Report = True,
) -> None:
    """Continue a run that was interrupted or killed, extend a finished one, or change its study.

    It never pays for the same sample twice. With --study, new arms join, removed arms retire, and changed
    prices, retries and limits apply; the seed, the encoder and the objective must stay the same. The exit
    codes are those of 'genmix run'.
    """
    with lasting_output(), stopped_by_hang_up(), logging(log_json) as log:
        stopped = partial(stop_message, folder)
        with plain_errors(stopped):
            from genmix.journal.run_folders import check_run_folder
            from genmix.runs.resume import Update
            from genmix.runs.run import continue_run, is_finished

            check_run_folder(folder)  # before the address of the metrics is announced
            update = Update(study, samples, cost, time, engine)
            if update.is_empty and is_finished(folder):
                print_note(
                    "the run is already finished; extend it with --samples, --cost or --time, or change "
                    "its study with --study."
                )
            execute = partial(continue_run, folder, update=update)
            with watching(metrics, log, otel) as watch:
                summary = run_with_view(execute, stopped, quiet, report, address, watch)
        finish(summary, folder, as_json)


@app.command(epilog="Example: genmix export runs/first --to hf --out my-dataset")
def export(
    folder: RunFolder,
    to: Annotated[
        str | None,
        typer.Option(
            help="parquet, jsonl, hf (a Hugging Face datasets folder), or npz (only embeddings). Can be "
            "omitted with --out -."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Output path, or - to print JSONL. Default: inside the run folder.",
        ),
    ] = None,
    embeddings: Annotated[
        bool, typer.Option("--embeddings", help="Add the embeddings as a column.")
    ] = False,
    all_: Annotated[
        bool,
        typer.Option("--all", help="Also write samples that the run does not keep (see kept)."),
    ] = False,
) -> None:
    """Write the data set of a run, one row per sample.

    If the study has keep, these are the kept samples.
    """
    with plain_errors():
        from genmix.runs.export import export as write
        from genmix.runs.export import write_lines

        if str(out) == "-":
            if to not in (None, "jsonl"):
                raise InputError(
                    f"{to} cannot be printed; use --to jsonl, or pass a path to --out."
                )
            stdout = typer.get_binary_stream("stdout")
            write_lines(folder, stdout, embeddings=embeddings, all=all_)
        elif to is None:
            raise InputError("the format is missing; pass --to parquet, jsonl, hf or npz.")
        else:
            typer.echo(write(folder, to, out, embeddings=embeddings, all=all_))  # type: ignore[arg-type]


@app.command(epilog="Example: genmix doctor study.yaml")
def doctor(
    study: Annotated[
        Path | None, typer.Argument(help="The study file to check, or its folder.")
    ] = None,
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


def run_with_view(
    execute: Any,
    stopped: Callable[[], str],
    quiet: bool,
    report: bool,
    address: str | None = None,
    watch: Watching = NOTHING,
) -> dict[str, Any]:
    """Run with a live view, unless it is logged, and return the summary.

    ``stopped`` returns the message for a run that was stopped by a second Ctrl-C.
    """
    from rich.console import Console

    from genmix.cli.live.terminal import make_view
    from genmix.runs.run import Options

    view = make_view(Console(stderr=True))
    with view:
        options = Options(watch.callbacks, watch.note)
        options.address = address
        options.hard_stop = partial(_exit_now, view, stopped)
        if not quiet and not watch.is_logged:
            options.callbacks, options.note = (view, *watch.callbacks), view.note
            options.report_progress = view.report_progress
        options.report &= report
        with redirect_stdout(sys.stderr):  # stdout is for the result, not for what arms print
            summary: dict[str, Any] = execute(options).summary
    return summary


def _exit_now(view: LineView, stopped: Callable[[], str]) -> None:
    """Exit without waiting for busy threads; the journal already has every sample that arrived."""
    view.__exit__()  # shows the cursor again
    sys.stderr.write(f"\ngenmix: {printable_lines(stopped())}\n")
    sys.stderr.flush()
    os._exit(INTERRUPTED)


def stop_message(folder: Path | None) -> str:
    """Return the message for a run that was stopped by a second Ctrl-C."""
    from genmix.journal.continuing import resume_command
    from genmix.journal.schema import JOURNAL

    if folder is None or not (folder / JOURNAL).exists():
        return "interrupted before any sample was generated."
    return (
        f"stopped immediately. The samples are saved in {folder}. "
        f"Continue with: {resume_command(folder)}"
    )


def finish(summary: dict[str, Any], folder: Path, as_json: bool) -> None:
    from genmix.cli.summary import closing_line, print_summary
    from genmix.journal.continuing import resume_command

    status = summary["status"]
    if as_json:
        typer.echo(json.dumps({**summary, "folder": str(folder)}, indent=2))
        if status == "interrupted":
            print_note(closing_line(summary, folder))
    else:
        print_summary(summary, folder)
    if status == "trouble":
        reason = summary["reason"].rstrip(".")
        print_note(f"{reason}. Continue with: {resume_command(folder)}")
        raise typer.Exit(TROUBLE)
    if status == "interrupted":
        raise typer.Exit(INTERRUPTED)
