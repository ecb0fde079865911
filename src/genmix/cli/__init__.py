"""The command line: parse, call, print. Progress goes to stderr, results to stdout."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
import typer.core

from genmix import __version__
from genmix.errors import GenmixError

UNEXPECTED = 1
BAD_INPUT = 2
TROUBLE = 3
INTERRUPTED = 130

TASKS = {
    "Run a study": ("demo", "init", "check", "run", "resume"),
    "Look at runs": ("ls", "status", "export", "report", "plot", "dashboard"),
    "Use samples you already have": ("mixture", "score", "diagnose", "embed", "keep"),
    "Compare policies": ("compare", "paper"),
    "Fix the installation": ("doctor",),
}
"""The commands by task, in the order of the help text."""

COMMANDS = tuple(name for names in TASKS.values() for name in names)


class OrderedGroup(typer.core.TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=COMMANDS.index)


app = typer.Typer(
    cls=OrderedGroup,
    help="Spend a generation budget across several generators so that the samples score best together.",
    epilog="Example: genmix demo --budget 500",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


@contextmanager
def plain_errors(
    interrupted: Callable[[], str] = lambda: "interrupted; there are no results.",
) -> Iterator[None]:
    """Turn bad input and Ctrl-C into one sentence on stderr instead of a traceback."""
    try:
        yield
    except GenmixError as error:
        for line in printable_lines(error).split("\n"):
            typer.echo(f"genmix: {line}", err=True)
        raise typer.Exit(BAD_INPUT) from error
    except KeyboardInterrupt as error:
        print_note(interrupted())
        raise typer.Exit(INTERRUPTED) from error
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:  # a bug, or an error in the user's code
        _print_if_secret(error)
        raise


def _print_if_secret(error: Exception) -> None:
    """Print a masked traceback and exit if Python's own traceback would reveal a secret."""
    from genmix.core.masking import mask

    shown = "".join(traceback.format_exception(error))  # with notes and causes
    if mask(shown) != shown:
        typer.echo(mask(shown), err=True, nl=False)
        raise typer.Exit(UNEXPECTED) from None


def printable_lines(text: object) -> str:
    """Make text that may quote files or servers safe to print in a terminal."""
    from genmix.core.masking import mask
    from genmix.core.text import printable

    return "\n".join(map(printable, mask(str(text)).split("\n")))


def print_note(text: object) -> None:
    """Print a message on stderr."""
    typer.echo(f"genmix: {printable_lines(text)}", err=True)


def print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"genmix {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Options that apply to genmix itself."""


from genmix.cli import (  # noqa: E402, F401  (importing them registers their commands)
    compare_commands,
    demo_command,
    keep_command,
    offline_commands,
    paper_commands,
    report_commands,
    run_commands,
    status_commands,
)


def _group_by_task() -> None:
    tasks = {name: task for task, names in TASKS.items() for name in names}
    for command in app.registered_commands:
        assert command.callback is not None
        command.rich_help_panel = tasks[command.name or command.callback.__name__]


_group_by_task()
