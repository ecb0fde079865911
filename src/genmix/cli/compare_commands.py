"""Command: compare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from genmix.cli import INTERRUPTED, app, plain_errors
from genmix.cli.samples.option_words import in_option_words
from genmix.cli.samples.targets import check_output_folder
from genmix.cli.tables import counter, print_json

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
            help="A study with recorded arms, or a run folder whose samples are used as the arms.",
            show_default=False,
        ),
    ],
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="Name of a policy; repeat the option for more. The first is tested against the others. "
            "The oracles, mixture-oracle and one-arm-oracle, know the best mixture and the best arm.",
            show_default="mixture-ucbv, mixture-greedy, mixture-ucb, uniform, the oracles, one-arm-greedy",
        ),
    ] = None,
    repeats: Annotated[int, typer.Option(help="Number of paired runs per policy.")] = 20,
    budget: Annotated[
        int | None, typer.Option(help="Samples per run. Default: the study's budget.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Random seed. Default: the study's seed.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Folder for runs, tables and figures; an interrupted comparison continues from it. "
            "Default: comparisons/NAME, with the name of the study or of the run folder.",
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Worker processes. Default: one per core.")
    ] = None,
    figures: Annotated[bool, typer.Option(help="Draw the figures.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Compare policies on the same arms with paired seeds.

    Prints the final score of all samples, the regret and its exponent, exploration and paired tests.
    Writes curves.parquet, shares.parquet, summary.json and figures (PDF and PNG). Samples are drawn
    with replacement from the recorded ones, so the best mixture is known exactly. Every policy draws the
    same number of samples: budgets of cost and time, and bounds on weights, do not apply.
    """
    with plain_errors(), in_option_words():
        from genmix.comparison.compare import compare as run_comparison

        folder = out if out is not None else Path("comparisons", _name_of(study))
        check_output_folder(folder, "--out" if out is not None else "the output folder")
        try:
            with counter("comparing") as report:
                result = run_comparison(
                    study,
                    policy or None,
                    repeats,
                    budget=budget,
                    seed=seed,
                    workers=workers,
                    out=folder,
                    progress=report,
                )
            result.save(folder, figures)
        except KeyboardInterrupt as error:
            typer.echo(
                f"genmix: interrupted; run the same command again to continue from {folder}.",
                err=True,
            )
            raise typer.Exit(INTERRUPTED) from error
    if as_json:
        print_json(result.as_dict())
    else:
        drawn = ", figures" if figures else ""
        typer.echo(
            f"{result}\n\nSaved in {folder}: curves.parquet, shares.parquet, summary.json{drawn}."
        )


def _name_of(study: Path) -> str:
    """Return the name of a study, or that of a run folder."""
    from genmix.journal.schema import JOURNAL
    from genmix.study.study import read_study

    return study.resolve().name if (study / JOURNAL).exists() else read_study(study).name
