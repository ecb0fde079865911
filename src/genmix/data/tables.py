"""Read tables with one row per sample: JSON Lines, CSV, Parquet, and plain text files."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from genmix.core.limits import check_size, size_of
from genmix.core.optional import require_all
from genmix.core.text import printable
from genmix.data.features import check_column
from genmix.data.text_files import json_object, numbered_lines
from genmix.errors import InputError

TEXT = "text"
MODEL = "model_name"
"""The column that says which arm a sample belongs to. Exports of runs have it."""
NUMBERS = ("quality", "cost", "input_tokens", "output_tokens")
"""Columns that contain numbers; in a CSV file they are text."""
PARQUET = (".parquet", ".pq")
ROWS_PER_BATCH = 1000

Row = dict[str, Any]
Rows = Iterator[tuple[str, Row]]
"""The location of each row, for messages, and its values by column."""


def is_table(path: Path) -> bool:
    return path.suffix.lower() in READERS


def read_rows(path: Path, columns: Collection[str] | None = None) -> Rows:
    """Iterate over the rows of a table; ``columns`` are the only ones that are needed.

    A missing value is None or absent. A ``.txt`` file has the column ``text``, with one row per line.
    """
    return READERS[path.suffix.lower()](path, columns)


def column_names(path: Path) -> list[str]:
    """Return the columns of a table; for JSON Lines, the keys of the first line."""
    if path.suffix.lower() in PARQUET:
        return list(parquet_schema(path).names)
    return list(next((row for _, row in read_rows(path)), {}))


def _read_json_lines(path: Path, columns: Collection[str] | None) -> Rows:
    for number, line in numbered_lines(path):
        where, found = f"{path}, line {number}", json_object(line)
        if found is None:
            raise InputError(f"{where} is not a JSON object; write one object per line.")
        yield where, found if columns is None else {c: found[c] for c in columns if c in found}


def _read_text(path: Path, columns: Collection[str] | None) -> Rows:
    for number, line in numbered_lines(path):
        yield f"{path}, line {number}", {TEXT: line.strip()}


def _read_csv(path: Path, columns: Collection[str] | None) -> Rows:
    lines = (line for _, line in numbered_lines(path, keep=True))
    reader = csv.DictReader(lines, strict=True)
    try:
        for row in reader:
            where = f"{path}, line {reader.line_num}"
            if None in row:
                raise InputError(
                    f"{where} has more values than the first line has names; quote values with commas."
                )
            yield where, {name: _csv_value(name, value, where) for name, value in row.items()}
    except csv.Error as error:
        raise InputError(
            f"{path}, line {reader.line_num} is not valid CSV ({error}); write it again, or use JSONL."
        ) from error


def _csv_value(name: str, text: str | None, where: str) -> Any:
    if name not in NUMBERS or text is None:
        return text
    try:
        return (int if name.endswith("_tokens") else float)(text) if text.strip() else None
    except ValueError:
        raise InputError(f"{where}: {name} is {text!r}; write a number.") from None


def _read_parquet(path: Path, columns: Collection[str] | None) -> Rows:
    modules = ("pyarrow", "pyarrow.parquet", "pyarrow.compute")
    arrow, parquet, compute = require_all(modules, extra="export", what="reading Parquet")
    schema, on_disk = parquet_schema(path), size_of(path)
    names = [name for name in schema.names if columns is None or name in columns]
    texts = [name for name in names if arrow.types.is_string(schema.field(name).type)]
    numbers, needed = itertools.count(), 0
    with _readable(path), parquet.ParquetFile(path, read_dictionary=texts) as file:
        for name in names:
            check_column(file, name, on_disk, f"{path} ({printable(name)})")
        for batch in file.iter_batches(ROWS_PER_BATCH, columns=names):
            needed += sum(_expanded_size(arrow, compute, column) for column in batch.columns)
            check_size(needed, on_disk, str(path))
            for row in batch.to_pylist():
                yield f"{path}, row {next(numbers)}", row


def _expanded_size(arrow: Any, compute: Any, column: Any) -> int:
    """Return how many bytes a column takes; a text that is repeated counts each time."""
    if not isinstance(column, arrow.DictionaryArray):
        return int(column.nbytes)
    lengths = compute.binary_length(column.dictionary)
    return int(compute.sum(lengths.take(column.indices)).as_py() or 0)


def parquet_schema(path: Path) -> Any:
    """Return the Arrow schema of a Parquet file."""
    (parquet,) = require_all(("pyarrow.parquet",), extra="export", what="reading Parquet")
    with _readable(path):
        return parquet.read_schema(path)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (InputError, GeneratorExit):
        raise
    except Exception as error:  # a damaged file can raise anything
        raise InputError(f"{path} is not a readable Parquet file; write it again.") from error


READERS: dict[str, Callable[[Path, Collection[str] | None], Rows]] = {
    ".jsonl": _read_json_lines,
    ".ndjson": _read_json_lines,
    ".csv": _read_csv,
    ".parquet": _read_parquet,
    ".pq": _read_parquet,
    ".txt": _read_text,
}
"""Readers by file extension."""
