"""Items on disk: a folder each, with tables, figures, a page, and the settings that made them.

Every file is whole or not there. The settings are taken away first and written last, so that they are
there only where all else is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from genmix import __version__
from genmix.comparison.tables import write_table
from genmix.comparison.worlds import find_worlds
from genmix.core.atomic import make_folder, remove, sweep, write_json, write_text
from genmix.errors import GenmixError
from genmix.paper.item import Item, Made, Setting

SETTINGS, PAGE = "settings.json", "README.md"
DATA = (".npz", ".npy", ".json", ".jsonl", ".ndjson", ".parquet", ".pq", ".pt", ".pth")


def settings_of(item: Item, setting: Setting) -> dict[str, Any]:
    """All that an item's results depend on; the number of workers is not among it."""
    return {
        "item": item.name,
        "genmix": __version__,
        "numpy": np.__version__,
        "quick": setting.quick,
        "seed": setting.seed,
        "worlds": _seen(_worlds(setting)),
        "features": _seen(setting.features),
    }


def _worlds(setting: Setting) -> Path | None:
    """Where the worlds are, if anywhere: not every item needs them."""
    with suppress(GenmixError):
        return find_worlds(setting.worlds)
    return None


def _seen(folder: Path | None) -> str | None:
    """A name for the data files of a folder, by their paths, sizes and times."""
    if folder is None:
        return None
    found = hashlib.blake2b(digest_size=16)
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() in DATA and path.is_file():
            status = path.stat()
            name = path.relative_to(folder).as_posix()
            found.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    return found.hexdigest()


def is_made(folder: Path, settings: dict[str, Any]) -> bool:
    """Whether the folder holds the item whole, made with the same settings."""
    try:
        stored = json.loads((folder / SETTINGS).read_text("utf-8"))
        return bool(stored["settings"] == settings) and all(
            (folder / name).is_file() for name in stored["files"]
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def files_of(folder: Path) -> list[str]:
    """The files of an item that is made."""
    names: list[str] = json.loads((folder / SETTINGS).read_text("utf-8"))["files"]
    return names


def write(item: Item, made: Made, setting: Setting, settings: dict[str, Any]) -> Path:
    """The item's folder, with everything in it; files of other names are left alone."""
    folder = setting.out / item.name
    make_folder(folder)
    sweep(folder)
    remove(folder / SETTINGS)
    files = [_table(folder / f"{name}.parquet", rows) for name, rows in made.tables.items()]
    for name, chart in made.charts.items():
        files += _chart(folder / name, chart)
    write_text(folder / PAGE, page(item, made.text, setting, files))
    stored = {"settings": settings, "files": [*files, PAGE]}
    write_json(folder / SETTINGS, stored)
    return folder


def _table(path: Path, rows: list[dict[str, Any]]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    write_table(path, [{name: row.get(name) for name in names} for row in rows])
    return path.name


def _chart(stem: Path, chart: Any) -> list[str]:
    from genmix import charts

    charts.save(chart, stem, formats=("pdf", "png"))
    return [f"{stem.name}.pdf", f"{stem.name}.png"]


def page(item: Item, text: str, setting: Setting, files: Iterable[str]) -> str:
    """What a reader of the folder should know."""
    quick = " --quick" if setting.quick else ""
    parts = [
        f"# {item.name}: {item.title}",
        f"Made by `genmix paper {item.name}{quick}` with genmix {__version__}, seed {setting.seed}. "
        f"With --features it wants {item.needs}; without, these stand in: {item.stands_in}.",
    ]
    if setting.quick:
        parts.append("Quick: few repeats, for a look and not for conclusions.")
    if item.choice:
        parts.append(f"Where the paper leaves a choice: {item.choice}")
    parts += [text, "Files: " + ", ".join(f"`{name}`" for name in files) + "."]
    return "\n\n".join(parts) + "\n"
