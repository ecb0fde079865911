"""Command: compare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from genmix.cli import INTERRUPTED, app, plain_errors
from genmix.cli.show import counter, print_json

EXAMPLES = """\
Examples:

genmix compare study.yaml --repeats 50

genmix compare runs/first --policy mixture-greedy --policy uniform --budget 500
"""


@app.command(epilog=EXAMPLES)
def compare(
    study: Annotated[
        Path,
        typer.Argument(
            help="A study whose arms are recorded, or the folder of a run, whose samples then are the arms.",
            show_default=False,
        ),
    ],
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="A policy by name; repeat it for more. The first is tested against the others. "
            "mixture-oracle and one-arm-oracle know the best mixture and arm.",
            show_default="mixture-greedy, mixture-ucb, the oracles, one-arm-greedy",
        ),
    ] = None,
    repeats: Annotated[int, typer.Option(help="Paired runs of every policy.")] = 20,
    budget: Annotated[
        int | None, typer.Option(help="Samples of one run; by default the study's budget.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="By default the study's.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Keeps runs, tables and figures; an interrupted comparison goes on from it. "
            "By default comparisons/NAME.",
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes; by default one for each core.")
    ] = None,
    figures: Annotated[bool, typer.Option(help="Whether to draw the figures.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Compare policies on the same arms with paired seeds.

    Prints the score of all samples at the end, regret and its exponent, exploration and paired tests;
    leaves curves.parquet, shares.parquet, summary.json and figures (PDF and PNG). Samples are drawn
    with replacement from what is recorded, so that the best mixture is known exactly.
    """
    with plain_errors():
        from genmix.comparison.compare import compare as carry_out

        name = study.resolve().name.removesuffix(".yaml").removesuffix(".yml")
        place = out if out is not None else Path("comparisons", name)
        try:
            with counter("comparing") as report:
                found = carry_out(
                    study,
                    policy or None,
                    repeats,
                    budget=budget,
                    seed=seed,
                    workers=workers,
                    out=place,
                    progress=report,
                )
            found.save(place, figures)
        except KeyboardInterrupt as error:
            typer.echo(f"genmix: interrupted; the same command goes on from {place}.", err=True)
            raise typer.Exit(INTERRUPTED) from error
    if as_json:
        print_json(found.as_dict())
    else:
        drawn = ", figures" if figures else ""
        typer.echo(f"{found}\n\nIn {place}: curves.parquet, shares.parquet, summary.json{drawn}.")
