"""Command: paper."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from genmix.cli import BAD_INPUT, INTERRUPTED, app, plain_errors, print_note, printable_lines
from genmix.cli.tables import print_json
from genmix.core.atomic import make_folder
from genmix.errors import GenmixError, InputError

if TYPE_CHECKING:
    from genmix.paper import Item, Settings

EXAMPLES = """\
Examples:

genmix paper --list

genmix paper --list fig-fd

genmix paper table-innovation fig-fd-bars --quick

genmix paper --all --features dgm-eval/ --out results
"""


@app.command(epilog=EXAMPLES)
def paper(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAMES]...", help="Names of items; see --list."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Make every item.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Use few repeats and rounds; this takes minutes.")
    ] = False,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Output folder; each item gets a subfolder.")
    ] = Path("paper"),
    features: Annotated[
        Path | None,
        typer.Option(help="The paper's feature files, one folder per data set; see --list."),
    ] = None,
    worlds: Annotated[
        Path | None,
        typer.Option(
            help="The recorded worlds to use without --features. Default: $GENMIX_WORLDS, or a folder "
            "named 'worlds' in the current folder or in the repository."
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Worker processes. Default: one per core.")
    ] = None,
    listing: Annotated[
        bool,
        typer.Option("--list", help="List the items; with names, what they need. Makes nothing."),
    ] = False,
    latex: Annotated[
        bool, typer.Option("--latex", help="Also write the tables as LaTeX, to tables.tex.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Reproduce the paper's figures and tables.

    Each item writes tables (Parquet), figures (PDF and PNG) and a page with the paper's values next to
    ours. Without --features, recorded worlds replace the paper's data. Existing items with the same
    settings are kept, so the same command continues after an interruption. The exit code is 2 if an item
    failed, and 130 after Ctrl-C.
    """
    with plain_errors():
        from genmix.paper import ITEMS, Settings

        if listing:
            shown = choose(ITEMS, names or [], every or not names)
            print_items(shown, as_json, details=bool(names))
            return
        chosen = choose(ITEMS, names or [], every)
        settings = Settings(
            quick=quick,
            worlds=worlds,
            features=features,
            workers=workers,
            out=out,
            progress=lambda line: typer.echo(printable_lines(line), err=True),
        )
        check(settings)
        results, failed = make_all(chosen, settings, latex, as_json)
    if as_json:
        print_json(results)
    if failed:
        raise typer.Exit(BAD_INPUT)


def choose(items: dict[str, Item], names: Sequence[str], every: bool) -> list[Item]:
    """Return the requested items, without duplicates."""
    from genmix.study.problems import nearest

    if every and names:
        raise InputError(f"--all already includes {names[0]}; pass names or --all, not both.")
    if not every and not names:
        raise InputError("no items were requested; pass names from --list, or --all.")
    for name in names:
        if name not in items:
            close = nearest(name, items)
            rest = f"did you mean {close}?" if close else "see genmix paper --list."
            raise InputError(f"there is no item named {name!r}; {rest}")
    return list(items.values()) if every else [items[name] for name in dict.fromkeys(names)]


def check(settings: Settings) -> None:
    """Raise an error if packages or files are missing, before anything is computed."""
    from genmix.core.optional import require_all
    from genmix.paper.feature_files import check_folder

    modules = ("altair", "pyarrow.parquet", "scipy.stats", "vl_convert")
    require_all(modules, extra="paper", what="reproducing the paper")
    if settings.features is not None:
        check_folder(settings.features)
    make_folder(settings.out, "choose another folder with --out")


def make_all(
    items: Sequence[Item], settings: Settings, latex: bool, as_json: bool
) -> tuple[list[dict[str, Any]], bool]:
    """Make the items that do not exist yet; return all results and whether any item failed."""
    results: list[dict[str, Any]] = []
    failed = False
    for place, item in enumerate(items, 1):
        if len(items) > 1:
            settings.progress(f"{item.name} ({place} of {len(items)})")
        try:
            result = make(item, settings, latex)
        except GenmixError as error:
            if len(items) == 1:
                raise
            print_note(f"{item.name}: {error}")
            failed = True
            continue
        except KeyboardInterrupt as error:
            typer.echo(
                f"genmix: interrupted; run the same command again to continue with {item.name}.",
                err=True,
            )
            raise typer.Exit(INTERRUPTED) from error
        results.append(result)
        if not as_json:
            text = f"{result['text'].rstrip()}\n\nSaved in {result['folder']}.\n"
            typer.echo(printable_lines(text))
    return results, failed


def make(item: Item, settings: Settings, latex: bool = False) -> dict[str, Any]:
    """Make an item, or keep the existing one; ``latex`` writes its tables as LaTeX in either case."""
    from genmix.paper.items import PAGE, files_of, fingerprint, is_made, write_item, write_latex

    folder = settings.out / item.name
    made_with = fingerprint(item, settings)
    kept = is_made(folder, made_with)
    if kept:
        settings.progress(f"{item.name} already exists; remove {folder} to make it again")
    else:
        write_item(item, item.make(settings), settings, made_with)
    return {
        "name": item.name,
        "folder": str(folder),
        "kept": kept,
        "files": [*files_of(folder), *(write_latex(folder) if latex else ())],
        "text": (folder / PAGE).read_text("utf-8"),
    }


def print_items(items: Sequence[Item], as_json: bool, details: bool) -> None:
    """List the items, one per line; with details, what each needs and what is used without it."""
    from genmix.paper.feature_files import RULE

    fields = ("name", "title", "needs", "stands_in", "choice")
    if as_json:
        rows = [{field: getattr(item, field) for field in fields} for item in items]
        print_json({"features": RULE, "items": rows})
    elif details:
        _print_details(items, RULE)
    else:
        width = max(len(item.name) for item in items)
        for item in items:
            typer.echo(f"{item.name:<{width}}  {item.title}")
        typer.echo("\nWhat an item needs: genmix paper --list NAME")


def _print_details(items: Sequence[Item], rule: str) -> None:
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
        fields_shown = {
            "makes": item.title,
            "needs": item.needs,
            "replacement": item.stands_in,
            "choice": item.choice,
        }
        for heading, text in fields_shown.items():
            if text:
                table.add_row(Text(heading, style="dim"), Text(text))
        console.print(Padding(table, (0, 0, 1, 2)))
    console.print(Text(f"--features DIR: {rule}"))
