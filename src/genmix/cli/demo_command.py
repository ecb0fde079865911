"""Command: demo."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from genmix.cli import app, plain_errors
from genmix.cli.live.hang_up import stopped_by_hang_up
from genmix.cli.live.lasting_output import lasting_output
from genmix.cli.run_commands import Json, Quiet, finish, run_with_view, stop_message


class DemoObjective(StrEnum):
    """The objective of the demo."""

    fd = "fd"
    vendi = "vendi"


@app.command(epilog="Example: genmix demo --objective vendi --out runs/diverse-digits")
def demo(
    budget: Annotated[int, typer.Option(help="Number of samples to generate.")] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="Random seed for the run.")] = 0,
    objective: Annotated[
        DemoObjective,
        typer.Option(help="fd: match held-out digits. vendi: maximize diversity."),
    ] = DemoObjective.fd,
    out: Annotated[Path, typer.Option("--out", "-o", help="The run folder.")] = Path("runs/demo"),
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Run the bundled study: learn the best mixture of five generators of handwritten digits.

    Like 'genmix run', it writes a run folder with a report. It takes less than a minute. Run it again to
    continue an interrupted demo or to show the results of a finished one.
    """
    with lasting_output(), stopped_by_hang_up():
        stopped = partial(stop_message, out)
        with plain_errors(stopped):
            from genmix.demo import run_demo

            execute = partial(run_demo, out, budget, seed, objective.value)
            summary = run_with_view(execute, stopped, quiet, report=True)
        finish(summary, out, as_json)
        typer.echo("Next, write your own study: genmix init my-study", err=True)
