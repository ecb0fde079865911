"""Commands: report, plot."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from genmix.cli import app, plain_errors
from genmix.errors import InputError

FORMATS = ("pdf", "png", "svg")
RunFolder = Annotated[Path, typer.Argument(help="The run's folder.", show_default=False)]


@app.command(epilog="Example: genmix report runs/first --out first.html")
def report(
    folder: RunFolder,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The file; by default report.html in the run folder."),
    ] = None,
) -> None:
    """Write the report of a run: one HTML file that opens from disk with no network.

    What the mixture is worth, whether it has converged and what to do next, in words; charts, a table of
    the arms, samples, settings. A run that still goes on can be reported, too.
    """
    with plain_errors():
        from genmix.report import write_report

        typer.echo(write_report(folder, out))


@app.command(epilog="Example: genmix plot runs/first weights --out weights.pdf")
def plot(
    folder: RunFolder,
    name: Annotated[
        str,
        typer.Argument(
            help="scores (each arm alone, and together), weights (over time), pooled (score of all samples "
            "over time), map (embeddings in the plane), or cost (against score).",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="A .pdf, .png or .svg file; by default NAME.pdf here."),
    ] = None,
) -> None:
    """Draw one chart of a run's report into a file."""
    with plain_errors():
        from genmix.charts import save
        from genmix.report import run_chart
        from genmix.runs.export import check_target

        target = Path(f"{name}.pdf") if out is None else out
        form = target.suffix.lstrip(".").lower()
        if form not in FORMATS:
            raise InputError(
                f"{target} is no chart file: give one that ends in .pdf, .png or .svg."
            )
        chart = run_chart(folder, name)
        check_target(folder, target)
        typer.echo(save(chart, target.with_suffix(""), (form,))[0])
