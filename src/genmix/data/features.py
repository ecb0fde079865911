"""Read embeddings and FID statistics from feature files, and write statistics.

Nothing is ever unpickled: numpy reads with ``allow_pickle=False``, torch with ``weights_only=True``.
Nothing is read before its declared size is checked; see :mod:`genmix.core.limits`.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from genmix.core.arrays import Array, as_matrix, to_numpy
from genmix.core.atomic import draft_of
from genmix.core.limits import check_size, size_of
from genmix.core.numpy_files import (
    FLOAT,
    PICKLE,
    NumpyArchive,
    check_archive,
    is_archive,
    read_array,
)
from genmix.core.optional import require, require_all
from genmix.core.text import printable, quotable, shortened
from genmix.data.text_files import numbered_lines
from genmix.errors import InputError, whole

SAMPLE_KEYS = ("reps", "feats", "features")
"""Names that dgm-eval, clean-fid and other tools use for features in an ``.npz`` file."""

EMBEDDING = "embedding"
"""The Parquet column and the JSON Lines field that contain embeddings."""

SCANNED = 65536
"""Number of Parquet values to scan at a time."""

HEAD = 1000
"""Number of bytes from which the type of a file is recognized."""

MAX_NAMES = 300
"""Maximum number of characters with which a message lists the names in a file."""


@dataclass(frozen=True, eq=False)
class Statistics:
    """Mean and covariance (normalized by 1/(n−1)) as stored in a file; unknown metadata is None."""

    mu: Any
    sigma: Any
    n: Any = None
    encoder: str | None = None
    dtype: str | None = None
    """The dtype of the embeddings from which the statistics were computed."""


Content = Array | Statistics
"""Validated float64 embeddings ``(n, d)``, or statistics."""


def read_file(path: str | os.PathLike[str], key: str | None = None) -> Content:
    """Read a feature file; ``key`` selects the array, column or field if there are several."""
    path = Path(path)
    if os.path.isdir(path):  # Path.is_dir raises an error if the name is too long
        is_run = (path / "journal.sqlite").exists()
        what = "a run folder (genmix report analyzes it)" if is_run else "a folder"
        raise InputError(f"{path} is {what}; pass a feature file.")
    if not os.path.isfile(path):
        raise InputError(f"no feature file found at {path}; check the path.")
    check_type(path, f"use a file of embeddings ({', '.join(TYPES)})")
    return READERS.get(path.suffix.lower(), _read_numpy)(path, key)


def check_type(path: Path, advice: str) -> None:
    """Raise InputError if neither the name of a file nor its first bytes say that it has embeddings."""
    if path.suffix.lower() in TYPES:
        return
    with suppress(OSError), path.open("rb") as file:
        start = file.read(HEAD)
        is_archive = start.startswith(b"PK") and b".npy" in start
        if start and not is_archive and not start.startswith((np.lib.format.MAGIC_PREFIX, PICKLE)):
            raise InputError(f"{path} has an unsupported type; {advice}.")


def write_statistics(
    path: str | os.PathLike[str],
    mu: Any,
    sigma: Any,
    n: int,
    *,
    encoder: str | None = None,
    dtype: str | None = None,
) -> Path:
    """Atomically write ``mu``, ``sigma`` (normalized by 1/(n−1)), ``n`` and, if known, encoder and dtype.

    clean-fid and pytorch-fid can read the file.
    """
    target = Path(path)
    if target.suffix != ".npz":
        raise InputError(
            f"statistics need an .npz file; name it {target.with_suffix('.npz').name}."
        )
    mean = np.asarray(to_numpy(mu), dtype=np.float64).reshape(-1)
    covariance = np.asarray(to_numpy(sigma), dtype=np.float64)
    if covariance.shape != (len(mean), len(mean)):
        raise InputError(
            f"sigma has shape {covariance.shape}, but mu has {len(mean)} dimensions; "
            f"pass a sigma of shape ({len(mean)}, {len(mean)})."
        )
    labels = {"encoder": encoder, "dtype": dtype}
    known = {name: np.array(label) for name, label in labels.items() if label is not None}
    arrays = {"mu": mean, "sigma": covariance, "n": np.array(whole(n, "n", 2)), **known}
    with draft_of(target) as draft, draft.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
    return target


# -- numpy -------------------------------------------------------------------------------------------


def _read_numpy(path: Path, key: str | None) -> Content:
    if not is_archive(path):
        return as_matrix(read_array(path), str(path))
    with NumpyArchive(path) as content:
        return _from_archive(content, path, key)


def _from_archive(content: Mapping[str, Any], path: Path, key: str | None) -> Content:
    names = list(content)
    if key is None and {"mu", "sigma"} <= set(names):
        return Statistics(
            content["mu"],
            content["sigma"],
            content["n"] if "n" in names else None,
            *(quotable(content[name]) if name in names else None for name in ("encoder", "dtype")),
        )
    name = array_with_features(names, key, path, f"store it as one of {', '.join(SAMPLE_KEYS)}")
    return as_matrix(content[name], f"{path} ({printable(name)})")


def array_with_features(names: list[str], key: str | None, path: Path, otherwise: str) -> str:
    """Return the name of the array that contains the features."""
    found = [n for n in names if n == key or (key is None and _holds_samples(n))]
    if key is not None and not found and names:
        raise InputError(
            f"{path} has no array {key!r}, only {_listed(names)}; name the array with "
            "read_features(path, key=...) or --key."
        )
    if len(found) != 1:
        raise InputError(
            f"{path} contains {_listed(names) or 'no arrays'}; choose the features with "
            f"read_features(path, key=...) or --key, or {otherwise}."
        )
    return found[0]


def _listed(names: Iterable[str]) -> str:
    """Join names from a file, which can contain anything."""
    return shortened(", ".join(map(printable, names)), MAX_NAMES)


def _holds_samples(name: str) -> bool:
    return name in SAMPLE_KEYS or name.endswith("_features")


# -- torch -------------------------------------------------------------------------------------------


def _read_torch(path: Path, key: str | None) -> Content:
    torch = require("torch", extra="torch", what=f"reading {path.name}")
    try:
        if is_archive(path):
            check_archive(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the content is validated below
            content = torch.load(path, map_location="cpu", weights_only=True)
        return _from_torch(torch, content, path, key)
    except InputError:
        raise
    except Exception as error:  # a damaged file can raise anything
        raise InputError(
            f"{path} is not a plain tensor; write it with torch.save(tensor, path), "
            "because genmix never unpickles objects."
        ) from error


def _from_torch(torch: Any, content: Any, path: Path, key: str | None) -> Content:
    where = str(path)
    if isinstance(content, dict):
        named = {str(name): value for name, value in content.items()}
        name = array_with_features(list(named), key, path, "save the tensor alone")
        content, where = named[name], f"{path} ({printable(name)})"
    if not isinstance(content, torch.Tensor) or content.layout != torch.strided:
        raise InputError(f"{where} is not a dense tensor; write one with torch.save(tensor, path).")
    check_size(FLOAT * content.numel(), size_of(path), where)  # a stride of 0 repeats numbers
    return to_numpy(as_matrix(content, where))


# -- Parquet -----------------------------------------------------------------------------------------


def _read_parquet(path: Path, key: str | None) -> Content:
    modules = ("pyarrow", "pyarrow.parquet", "pyarrow.compute")
    _, parquet, _ = require_all(modules, extra="export", what="reading Parquet")
    try:
        with parquet.ParquetFile(path) as file:
            column = required_column(file.schema_arrow, path, key)
            where = f"{path} ({printable(column)})"
            check_column(file, column, size_of(path), where)
            chunks = file.read(columns=[column]).column(column).chunks
            return as_matrix(_stacked(chunks, where), where)
    except InputError:
        raise
    except Exception as error:  # a damaged file can raise anything
        raise InputError(f"{path} is not a readable Parquet file; write it again.") from error


def check_column(file: Any, column: str, on_disk: int, where: str) -> None:
    """Check the number of values that the file declares for a column."""
    paths = [file.schema.column(i).path for i in range(len(file.schema.names))]
    leaves = [i for i, path in enumerate(paths) if f"{path}.".startswith(f"{column}.")]
    # Arrow raises an error for damaged metadata here, but would end the process in column().
    file.scan_contents(columns=leaves, batch_size=SCANNED)
    groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
    parts = [group.column(i) for group in groups for i in leaves]
    sizes = [max(FLOAT * part.num_values, part.total_uncompressed_size) for part in parts]
    check_size(sum(sizes), on_disk, where)


def _stacked(chunks: Sequence[Any], where: str) -> Any:
    """Concatenate all chunks into one matrix."""
    blocks, rows = [np.empty((0, 0))], 0
    for chunk in chunks:
        if len(chunk):
            blocks.append(list_matrix(chunk, where, rows))
            _check_width(f"{where}, row {rows}", blocks[-1].shape[1], blocks[1].shape[1])
            rows += len(chunk)
    return np.concatenate(blocks[1:] or blocks)


def required_column(schema: Any, path: Path, key: str | None) -> str:
    found = embedding_column(schema, key)
    if found is None and key is not None:
        missing = f"the column {key!r} does not contain embeddings"
        if key not in schema.names:
            missing = f"there is no column {key!r}"
        raise InputError(
            f"{path}: {missing}; the columns are {_listed(schema.names) or '(none)'}; name the column "
            "with the embeddings with read_features(path, key=...) or --key."
        )
    if found is None:
        raise InputError(
            f"{path} has the columns {_listed(schema.names) or '(none)'}; choose the embeddings "
            f"with read_features(path, key=...) or --key, or name their column {EMBEDDING!r}."
        )
    return found


def embedding_column(schema: Any, key: str | None) -> str | None:
    """Return the column with embeddings: ``key``, ``embedding``, or the only one with lists of floats."""
    arrow = require("pyarrow", extra="export", what="reading Parquet")
    lists: list[str] = [field.name for field in schema if _is_list(arrow, field.type)]
    is_float = arrow.types.is_floating
    floats = [name for name in lists if is_float(schema.field(name).type.value_type)]
    if key is not None:
        found = [name for name in lists if name == key]
    else:
        found = [name for name in lists if name == EMBEDDING] or floats
    return found[0] if len(found) == 1 else None


def _is_list(arrow: Any, kind: Any) -> bool:
    kinds = arrow.types
    return bool(kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind))


def list_matrix(chunk: Any, where: str, first: int) -> Any:
    """Convert a chunk of equal-length lists to ``(rows, d)``; ``first`` is its first row's index."""
    modules = ("pyarrow", "pyarrow.compute")
    arrow, compute = require_all(modules, extra="export", what="reading Parquet")
    if chunk.null_count:
        row = first + int(np.argmax(chunk.is_null().to_numpy(zero_copy_only=False)))
        raise InputError(f"{where}, row {row} is null; leave this row out.")
    lengths = compute.list_value_length(chunk).to_numpy(zero_copy_only=False)
    other = int(np.argmax(lengths != lengths[0]))
    _check_width(f"{where}, row {first + other}", lengths[other], lengths[0])
    values = chunk.flatten()
    if values.null_count and not arrow.types.is_floating(values.type):  # those become NaN
        row = int(np.argmax(values.is_null().to_numpy(zero_copy_only=False))) // int(lengths[0])
        raise InputError(f"{where}, row {first + row} contains a null; write a number instead.")
    return values.to_numpy(zero_copy_only=False).reshape(len(chunk), int(lengths[0]))


def _check_width(where: str, found: int, before: int) -> None:
    if found != before:
        raise InputError(
            f"{where} has {found} numbers, but earlier rows have {before}; "
            "embed all samples with the same encoder."
        )


# -- JSON Lines --------------------------------------------------------------------------------------


def _read_jsonl(path: Path, key: str | None) -> Content:
    field = key or EMBEDDING
    rows: list[Any] = []
    for number, line in numbered_lines(path):
        rows.append(np.array(_embedding_in(line, field, path, number)))
        _check_width(f"{path}, line {number}", len(rows[-1]), len(rows[0]))
    return as_matrix(np.array(rows), str(path))


def _embedding_in(line: str, field: str, path: Path, number: int) -> list[float]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path}, line {number} is not JSON; write one object per line."
        ) from error
    if not isinstance(record, dict):
        raise InputError(f"{path}, line {number} is not a JSON object; write one object per line.")
    if field not in record and isinstance(record.get("text"), str):
        raise InputError(
            f"{path}, line {number} has text but no {field!r}; embed the texts first, "
            "or use them in a study that has an encoder."
        )
    value = record.get(field)
    if not isinstance(value, list) or not all(type(entry) in (int, float) for entry in value):
        raise InputError(f"{path}, line {number}: {field!r} is not a list of numbers; write one.")
    return value


READERS: dict[str, Callable[[Path, str | None], Content]] = {
    ".parquet": _read_parquet,
    ".pq": _read_parquet,
    ".pt": _read_torch,
    ".pth": _read_torch,
    ".jsonl": _read_jsonl,
    ".ndjson": _read_jsonl,
}
"""Readers by file extension; numpy reads everything else."""

TYPES = (".npy", ".npz", *READERS)
"""The extensions of feature files."""
