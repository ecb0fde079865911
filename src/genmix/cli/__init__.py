"""The command line: parse, call, print. Progress goes to stderr, results to stdout."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated

import typer

from genmix import __version__
from genmix.errors import GenmixError

BAD_INPUT = 2
TROUBLE = 3
INTERRUPTED = 130

app = typer.Typer(
    help="Spend a generation budget over several generators as well as they together allow.",
    epilog="Example: genmix demo --budget 500",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


class DemoObjective(StrEnum):
    """What the demo optimises."""

    fd = "fd"
    vendi = "vendi"


@contextmanager
def plain_errors(
    interrupted: Callable[[], str] = lambda: "interrupted before there was anything to show.",
) -> Iterator[None]:
    """Bad input and Ctrl-C end in one sentence on stderr, not in a traceback."""
    try:
        yield
    except GenmixError as error:
        typer.echo(f"genmix: {printable_lines(error)}", err=True)
        raise typer.Exit(BAD_INPUT) from error
    except sqlite3.Error as error:
        from genmix.runs.connection import is_damage

        words = (
            f"the journal is damaged ({error}): restore it from a copy"
            if is_damage(error)
            else f"the journal cannot be used ({error}): check the rights and the room of its folder"
        )
        typer.echo(f"genmix: {words}.", err=True)
        raise typer.Exit(BAD_INPUT) from error
    except KeyboardInterrupt as error:
        typer.echo(f"genmix: {printable_lines(interrupted())}", err=True)
        raise typer.Exit(INTERRUPTED) from error


def printable_lines(words: object) -> str:
    """What may quote other people's files and servers, fit for a terminal."""
    from genmix.core.text import printable

    return "\n".join(map(printable, str(words).split("\n")))


def show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"genmix {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=show_version, is_eager=True, help="Print the version and stop."
        ),
    ] = False,
) -> None:
    """The options that every command shares."""


@app.command(epilog="Example: genmix demo --objective vendi --seed 1")
def demo(
    budget: Annotated[int, typer.Option(help="How many samples to generate.")] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split, the models, the run.")] = 0,
    objective: Annotated[
        DemoObjective,
        typer.Option(help="fd: be like the held-out digits. vendi: be diverse."),
    ] = DemoObjective.fd,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Learn the best mixture of five digit generators with Mixture-Greedy.

    Five generative models are fitted on half of the scikit-learn digits; two of them know some
    digits only. The other half is what the mixture is compared with. Takes less than a minute.
    """
    with plain_errors():
        from genmix.demo import run_demo
        from genmix.demo.view import ProgressLine, print_result

        with ProgressLine() as progress:
            result = run_demo(budget, seed, objective.value, report=progress)
    if as_json:
        typer.echo(json.dumps(result.as_dict(), indent=2))
    else:
        print_result(result)
    if result.interrupted:
        raise typer.Exit(INTERRUPTED)


from genmix.cli import (  # noqa: E402, F401  (commands register themselves)
    comparing,
    dashboard,
    offline,
    paper,
    reporting,
    studies,
)
