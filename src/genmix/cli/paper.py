"""Command: paper."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from genmix.cli import BAD_INPUT, INTERRUPTED, app, plain_errors, printable_lines
from genmix.cli.show import print_json
from genmix.core.atomic import make_folder
from genmix.errors import GenmixError, InputError

if TYPE_CHECKING:
    from genmix.paper import Item, Setting

EXAMPLES = """\
Examples:

genmix paper --list

genmix paper table-innovation fig-fd-bars --quick

genmix paper --all --features dgm-eval/ --out results
"""


@app.command(epilog=EXAMPLES)
def paper(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAMES]...", help="Items to make; --list names them."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Make every item.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few repeats and rounds: for a look, in minutes.")
    ] = False,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Each item gets a folder in this one.")
    ] = Path("paper"),
    features: Annotated[
        Path | None,
        typer.Option(help="The paper's own feature files, a folder for each dataset; see --list."),
    ] = None,
    worlds: Annotated[
        Path | None,
        typer.Option(
            help="The recorded worlds that stand in for them; by default $GENMIX_WORLDS, or the "
            "folder 'worlds' here or of the repository."
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; by default one for each core.")
    ] = None,
    listing: Annotated[
        bool, typer.Option("--list", help="Say what each item needs, and stop.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Make the paper's figures and tables again.

    Every item leaves tables (Parquet), figures (PDF and PNG) and a page with the paper's values beside
    ours. Without --features recorded worlds stand in for the paper's data. Items that are there
    already, made with the same settings, are kept: an interrupted command goes on where it was.
    Exits with 2 if an item could not be made, 130 after Ctrl-C.
    """
    with plain_errors():
        from genmix.comparison.workforce import cores
        from genmix.paper import ITEMS, Setting

        if listing:
            print_items(list(ITEMS.values()), as_json)
            return
        chosen = choose(ITEMS, names or [], every)
        setting = Setting(
            quick=quick,
            worlds=worlds,
            features=features,
            workers=workers or cores(),
            out=out,
            progress=lambda line: typer.echo(printable_lines(line), err=True),
        )
        check(setting)
        told, failed = make_all(chosen, setting, as_json)
    if as_json:
        print_json(told)
    if failed:
        raise typer.Exit(BAD_INPUT)


def choose(items: dict[str, Item], names: Sequence[str], every: bool) -> list[Item]:
    """The items that were asked for, each once."""
    from genmix.study.problems import nearest

    if every and names:
        raise InputError(f"--all makes every item, {names[0]} too: give names or --all.")
    if not every and not names:
        raise InputError("there is nothing to make: name items, as --list does, or give --all.")
    for name in names:
        if name not in items:
            close = nearest(name, items)
            rest = f"did you mean {close}?" if close else "genmix paper --list names all."
            raise InputError(f"there is no item {name!r}: {rest}")
    return list(items.values()) if every else [items[name] for name in dict.fromkeys(names)]


def check(setting: Setting) -> None:
    """Find out what is missing before anything is computed."""
    from genmix.core.optional import need
    from genmix.paper.features import check_folder

    need("pyarrow.parquet", "paper", "a Parquet table")
    need("altair", "paper", "drawing a figure")
    need("vl_convert", "paper", "drawing a figure")
    if setting.features is not None:
        check_folder(setting.features)
    make_folder(setting.out, "name another with --out")


def make_all(
    items: Sequence[Item], setting: Setting, as_json: bool
) -> tuple[list[dict[str, Any]], bool]:
    """Make what is not there yet, tell all, and whether any could not be made."""
    told: list[dict[str, Any]] = []
    failed = False
    for place, item in enumerate(items, 1):
        if len(items) > 1:
            setting.progress(f"{item.name} ({place} of {len(items)})")
        try:
            found = make(item, setting)
        except GenmixError as error:
            if len(items) == 1:
                raise
            typer.echo(f"genmix: {item.name}: {printable_lines(error)}", err=True)
            failed = True
            continue
        except KeyboardInterrupt as error:
            typer.echo(f"genmix: interrupted; the same command goes on with {item.name}.", err=True)
            raise typer.Exit(INTERRUPTED) from error
        told.append(found)
        if not as_json:
            typer.echo(printable_lines(f"{found['text'].rstrip()}\n\nIn {found['folder']}.\n"))
    return told, failed


def make(item: Item, setting: Setting) -> dict[str, Any]:
    """An item, made now or before."""
    from genmix.paper.write import PAGE, files_of, is_made, settings_of, write

    folder = setting.out / item.name
    settings = settings_of(item, setting)
    kept = is_made(folder, settings)
    if kept:
        setting.progress(f"{item.name} is made already; remove {folder} to make it anew")
    else:
        write(item, item.make(setting), setting, settings)
    return {
        "name": item.name,
        "folder": str(folder),
        "kept": kept,
        "files": files_of(folder),
        "text": (folder / PAGE).read_text("utf-8"),
    }


def print_items(items: Sequence[Item], as_json: bool) -> None:
    """What there is, what each wants of --features, and what is taken without."""
    from genmix.paper.features import RULE

    fields = ("name", "title", "needs", "stands_in", "choice")
    if as_json:
        rows = [{field: getattr(item, field) for field in fields} for item in items]
        print_json({"features": RULE, "items": rows})
        return
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    console = Console()
    for item in items:
        console.print(Text(item.name, style="bold"))
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        said = {
            "makes": item.title,
            "needs": item.needs,
            "stands in": item.stands_in,
            "choice": item.choice,
        }
        for heading, words in said.items():
            if words:
                table.add_row(Text(heading, style="dim"), Text(words))
        console.print(Padding(table, (0, 0, 1, 2)))
    console.print(Text(f"--features DIR: {RULE}"))
