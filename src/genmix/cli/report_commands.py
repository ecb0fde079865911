"""Commands: report, plot, dashboard."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from genmix.cli import app, plain_errors, print_note
from genmix.cli.tables import counter
from genmix.errors import InputError

FORMATS = ("pdf", "png", "svg")
RunFolder = Annotated[Path, typer.Argument(help="The run folder.", show_default=False)]


@app.command(epilog="Example: genmix report runs/first --out first.html")
def report(
    folder: RunFolder,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Output file. Default: report.html in the run folder."),
    ] = None,
) -> None:
    """Write the report on a run: one HTML file that works offline.

    It says how good the mixture is, whether it has converged and what to do next. It shows charts, a
    table of the arms, samples and settings. It also works for a run that is still in progress.
    """
    with plain_errors():
        from genmix.report import write_report

        with counter("writing the report") as progress:
            path = write_report(folder, out, print_note, progress)
        typer.echo(path)


@app.command(epilog="Example: genmix plot runs/first weights --out weights.pdf")
def plot(
    folder: RunFolder,
    name: Annotated[
        str,
        typer.Argument(
            help="scores (each arm and the mixture), weights (over time), pooled (score of all samples "
            "over time), map (embeddings in two dimensions), cost (score against cost), or frontier (best "
            "mixture for each cost).",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="A .pdf, .png or .svg file. Default: NAME.pdf."),
    ] = None,
) -> None:
    """Save one chart of a run's report to a file."""
    with plain_errors():
        from genmix.charts import save
        from genmix.core.optional import require_all
        from genmix.journal.targets import check_target
        from genmix.report import run_chart

        target = Path(f"{name}.pdf") if out is None else out
        extension = target.suffix.lstrip(".").lower()
        if extension not in FORMATS:
            raise InputError(
                f"{target} is not a chart file; use a name that ends in .pdf, .png or .svg."
            )
        check_target(target, folder)
        require_all(("altair", "vl_convert"), extra="report", what="saving a chart")
        chart = run_chart(folder, name)
        typer.echo(save(chart, target.with_suffix(""), (extension,))[0])


@app.command(epilog="Example: genmix dashboard runs cluster=/mnt/cluster/runs --port 8080")
def dashboard(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            help="The folders that contain the runs, or NAME=FOLDER. Default: runs.",
            show_default=False,
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            help="Address to listen on. A token is required if other machines can reach it."
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 picks a free one.")
    ] = 8765,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="GENMIX_DASHBOARD_TOKEN",
            help="Secret that a user must enter once in the browser to get access.",
            show_default=False,
        ),
    ] = None,
    open_: Annotated[
        bool,
        typer.Option(
            "--open/--no-open", help="Open the page in a browser, if this machine has one."
        ),
    ] = True,
) -> None:
    """Show runs live in a browser; compare, stop and resume them.

    It prints its address, opens it in a browser and runs until Ctrl-C. Runs continue after it stops.
    """
    with plain_errors():
        from genmix.dashboard.browser import open_browser
        from genmix.dashboard.server import serve

        def announce(url: str) -> None:
            typer.echo(url)
            if open_ and is_interactive():
                open_browser(url)

        serve(runs or ["runs"], host, port, token, announce)


def is_interactive() -> bool:
    return sys.stdout.isatty()
