"""Read the prompts of a study: one per row of a table, with the group that each belongs to."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from string import Formatter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from genmix.core.optional import require_all
from genmix.data.tables import TEXT, is_table, read_rows
from genmix.errors import InputError

COLUMNS = ("prompt", TEXT)
"""Columns in which to look for prompts if none is named."""
ARROW = ".arrow"


class Prompt(NamedTuple):
    """A prompt that arms answer."""

    id: int
    """Its row in the file, from 0."""
    text: str
    group: str | None = None


def read_prompts(
    path: Path,
    column: str | None = None,
    group: str | None = None,
    template: str | None = None,
) -> list[Prompt]:
    """Read the prompts in a JSON Lines, CSV, Parquet or text file, or in a folder of a Hugging Face data set.

    Parameters
    ----------
    path : Path
        The file or folder.
    column : str, optional
        The column with the prompts. Default: ``prompt`` or ``text``.
    group : str, optional
        The column with the groups.
    template : str, optional
        Text with column names in braces. Filled in for each row, it becomes the prompt.
    """
    found = list[Prompt]()
    for where, row in _rows(path):
        text = _filled(template, row, where) if template else _text(row, column, where)
        found.append(Prompt(len(found), text, None if group is None else _value(row, group, where)))
    if not found:
        raise InputError(f"{path} contains no prompts; write one per row.")
    return found


def read_prompt_embeddings(path: Path, column: str) -> NDArray[np.float64]:
    """Return the embeddings in a column of the table of prompts, one row per prompt."""
    rows = [_vector(row.get(column), column, where) for where, row in _rows(path)]
    if len({len(row) for row in rows}) > 1:
        raise InputError(
            f"the embeddings in the column {column!r} of {path} have different dimensions; use the same "
            "encoder for all prompts."
        )
    return np.array(rows)


def prompt_shares(prompts: Iterable[Prompt]) -> dict[str, float] | None:
    """Return the share of the prompts in each group; None if they have no groups."""
    counts = Counter(prompt.group for prompt in prompts)
    named = {group: count for group, count in counts.items() if group is not None}
    return {group: count / counts.total() for group, count in named.items()} or None


def columns_in(template: str) -> list[str]:
    """Return the columns that a template names.

    Raises
    ------
    ValueError
        If the braces do not match, or contain anything other than a name.
    """
    names = [name for _, name, spec, conversion in Formatter().parse(template) if name is not None]
    if not all(name.isidentifier() for name in names):
        raise ValueError("write the names of columns in braces, e.g. {product}")
    return names


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    if not os.path.exists(path):
        raise InputError(f"no prompts found at {path}; correct prompts.file.")
    files = [path]
    if path.is_dir():
        files = sorted(f for f in path.rglob("*") if is_table(f) or f.suffix == ARROW)
    for file in files:
        if file.suffix == ARROW:
            yield from _arrow_rows(file)
        elif is_table(file):
            yield from read_rows(file)
        else:
            raise InputError(f"{file} is not a table; use .jsonl, .csv, .parquet or .txt.")


def _arrow_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Read a file that ``datasets.Dataset.save_to_disk`` wrote."""
    modules = ("pyarrow", "pyarrow.ipc")
    arrow, ipc = require_all(modules, extra="export", what="reading Arrow files")
    numbers = count()
    try:
        with arrow.memory_map(str(path)) as file:
            for batch in ipc.open_stream(file):
                for row in batch.to_pylist():
                    yield f"{path}, row {next(numbers)}", row
    except (OSError, arrow.ArrowInvalid) as error:
        raise InputError(f"{path} is not an Arrow file ({error}); write it again.") from error


def _text(row: dict[str, Any], column: str | None, where: str) -> str:
    name = column or next((name for name in COLUMNS if name in row), COLUMNS[0])
    return _value(row, name, where)


def _filled(template: str, row: dict[str, Any], where: str) -> str:
    return template.format_map({name: _value(row, name, where) for name in columns_in(template)})


def _vector(value: Any, column: str, where: str) -> NDArray[np.float64]:
    try:
        found = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.empty(0)
    if found.ndim != 1 or not found.size or not np.isfinite(found).all():
        raise InputError(
            f"{where} has no embedding in {column!r}; write a list of numbers, or name another column."
        )
    return found


def _value(row: dict[str, Any], column: str, where: str) -> str:
    value = row.get(column)
    text = "" if value is None else str(value).strip()
    if not text:
        known = ", ".join(sorted(row)) or "none"
        raise InputError(f"{where} has no {column!r}; fill it in, or use another column ({known}).")
    return text
