"""Items (figures and tables of the paper): how they are made, and how they are stored."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from genmix import __version__
from genmix.comparison.worlds import find_worlds
from genmix.core.atomic import make_folder, remove, sweep, write_json, write_parquet, write_text
from genmix.errors import GenmixError
from genmix.shards.processes import Job, run_jobs

SETTINGS, PAGE, LATEX = "settings.json", "README.md", "tables.tex"
DATA = (".npz", ".npy", ".json", ".jsonl", ".ndjson", ".parquet", ".pq", ".pt", ".pth")

Rows = list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings for making items."""

    quick: bool = False
    """Use fewer repeats and rounds, for a first look rather than for conclusions."""
    worlds: Path | None = None
    """The folder of recorded worlds; None searches the default locations."""
    features: Path | None = None
    """The folder of the paper's own feature files, if available."""
    workers: int | None = 1
    """Number of processes; None means one per core."""
    seed: int = 0
    out: Path = Path("paper")
    progress: Callable[[str], None] = field(default=lambda line: None)

    def count(self, title: str) -> Callable[[int, int], None]:
        """Return a progress callback that reports every quarter."""
        reported = 0

        def report(done: int, total: int) -> None:
            nonlocal reported
            quarter = 4 * done // max(total, 1)
            if quarter > reported:
                reported = quarter
                self.progress(f"{title}: {done}/{total}")

        return report


@dataclass(frozen=True)
class ItemOutput:
    """The content of an item."""

    tables: dict[str, Rows]
    charts: dict[str, Any] = field(repr=False)
    text: str
    """Markdown: our results, next to the paper's values."""


@dataclass(frozen=True)
class Item:
    """A figure or table of the paper, or one that goes beyond it."""

    name: str
    title: str
    needs: str
    """Feature files that --features should contain."""
    stands_in: str
    """Recorded worlds that are used if these files are missing."""
    choice: str
    """What we do where the paper is unclear or contradicts itself; empty if it does not."""
    make: Callable[[Settings], ItemOutput] = field(repr=False)


def in_parallel(
    settings: Settings, title: str, function: Job, shared: Any, jobs: Sequence[Any]
) -> list[Any]:
    """Return ``function(shared, job)`` for every job, in order."""
    results: dict[int, Any] = {}
    report = settings.count(title)
    with closing(run_jobs(function, shared, jobs, settings.workers)) as finished:
        for index, result in finished:
            results[index] = result
            report(len(results), len(jobs))
    return [results[index] for index in range(len(jobs))]


# -- on disk -----------------------------------------------------------------------------------------


def fingerprint(item: Item, settings: Settings) -> dict[str, Any]:
    """Return everything that the content of an item depends on (the number of workers does not matter)."""
    worlds = None
    with suppress(GenmixError):  # not every item needs the recorded worlds
        worlds = find_worlds(settings.worlds)
    return {
        "item": item.name,
        "genmix": __version__,
        "numpy": np.__version__,
        "quick": settings.quick,
        "seed": settings.seed,
        "worlds": _folder_digest(worlds),
        "features": _folder_digest(settings.features),
    }


def _folder_digest(folder: Path | None) -> str | None:
    """Hash the paths, sizes and modification times of the data files in a folder."""
    if folder is None:
        return None
    found = hashlib.blake2b(digest_size=16)
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() in DATA and path.is_file():
            status = path.stat()
            name = path.relative_to(folder).as_posix()
            found.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    return found.hexdigest()


def is_made(folder: Path, made_with: dict[str, Any]) -> bool:
    """Return whether the folder contains the complete item with this fingerprint."""
    try:
        stored = json.loads((folder / SETTINGS).read_text("utf-8"))
        return bool(stored["settings"] == made_with) and all(
            (folder / name).is_file() for name in stored["files"]
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def files_of(folder: Path) -> list[str]:
    """Return the files of a complete item."""
    names: list[str] = json.loads((folder / SETTINGS).read_text("utf-8"))["files"]
    return names


def write_item(
    item: Item, output: ItemOutput, settings: Settings, made_with: dict[str, Any]
) -> Path:
    """Write an item to its folder; files with other names are left alone.

    The settings are removed first and written last, so they exist only if everything else does.
    """
    folder = settings.out / item.name
    make_folder(folder)
    sweep(folder)
    remove(folder / SETTINGS)
    files = []
    for name, rows in output.tables.items():
        columns = list(dict.fromkeys(column for row in rows for column in row))
        write_parquet(
            folder / f"{name}.parquet", [{c: row.get(c) for c in columns} for row in rows]
        )
        files.append(f"{name}.parquet")
    for name, chart in output.charts.items():
        from genmix import charts

        charts.save(chart, folder / name, formats=("pdf", "png"))
        files += [f"{name}.pdf", f"{name}.png"]
    write_text(folder / PAGE, _page(item, output.text, settings, files))
    write_json(folder / SETTINGS, {"settings": made_with, "files": [*files, PAGE]})
    return folder


def write_latex(folder: Path) -> list[str]:
    """Write the tables on an item's page as LaTeX; return the file's name, or nothing without a table."""
    from genmix.paper.markdown import latex_tables

    found = latex_tables((folder / PAGE).read_text("utf-8"))
    if not found:
        return []
    write_text(folder / LATEX, f"% needs \\usepackage{{booktabs}}\n\n{found}")
    return [LATEX]


def _page(item: Item, text: str, settings: Settings, files: Sequence[str]) -> str:
    quick = " --quick" if settings.quick else ""
    parts = [
        f"# {item.name}: {item.title}",
        f"Generated by `genmix paper {item.name}{quick}` with genmix {__version__}, seed "
        f"{settings.seed}. Feature files for --features: {item.needs}. Recorded worlds used without "
        f"feature files: {item.stands_in}.",
    ]
    if settings.quick:
        parts.append(
            "This is a quick run with few repeats, for a first look and not for conclusions."
        )
    if item.choice:
        parts.append(f"Choices we made: {item.choice}")
    parts += [text, "Files: " + ", ".join(f"`{name}`" for name in files) + "."]
    return "\n\n".join(parts) + "\n"
