"""Samples in several files, which together can be larger than memory."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from genmix.core.arrays import Vector
from genmix.core.text import counted, printable
from genmix.data.samples import FieldError, checked_field
from genmix.data.shard_files import SUFFIXES, ShardFile, open_shard, shard_paths
from genmix.data.tables import MODEL
from genmix.errors import InputError

Source = str | os.PathLike[str]

HELD_BYTES = 1 << 28
"""Number of bytes of embeddings in float64 up to which shards are simply loaded."""


def fits_in_memory(samples: int, dimension: int) -> bool:
    """Return whether so many embeddings may be held in memory at once."""
    return 8 * samples * dimension <= HELD_BYTES


class Shards:
    """The samples of one arm in several files, which are read in blocks and never all at once.

    Pass it instead of an array to :func:`optimal_mixture`, :func:`score`, :func:`diagnose` or
    :func:`keep`. The results are those of the same samples in memory, up to rounding errors. Use
    :func:`streaming` to set the number of worker processes, to use Ray, or to show progress. Shards that
    together take at most 256 MiB as float64 are loaded into memory, unless the engine is Ray.

    Parameters
    ----------
    path : str, path, or list of them
        A folder of ``.npy``, ``.npz`` or Parquet files (with its subfolders), or the files themselves. The
        samples of a folder are ordered by the paths of their files; a list keeps its order. Each file can
        occur only once.
    key : str, optional
        The array or column to read if the files contain several.

    Attributes
    ----------
    files : list of ShardFile
        The files that contain samples.
    shape : tuple of int
        Number of samples and dimension, as of an array.
    encoder : str or None
        The encoder that the files name, if they do.

    Raises
    ------
    InputError
        If there are no such files, if a file occurs twice, or if they are damaged or of different
        dimensions. While the samples are used, also if a file changed after it was opened.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> import genmix as gx
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for i in range(3):
    ...         np.save(pathlib.Path(folder) / f"part-{i}.npy", np.eye(3)[i:])
    ...     shards = gx.Shards(folder)
    ...     table = gx.score({"a": shards}, gx.Vendi())
    >>> shards
    <6 samples of dimension 3 in 3 files>
    >>> round(table.pooled["vendi"], 3)
    2.749
    """

    def __init__(self, path: Source | Sequence[Source], key: str | None = None) -> None:
        given = [path] if isinstance(path, str | os.PathLike) else path
        self.key, self.sources = key, [Path(each) for each in given]
        self._set_files([open_shard(each, key) for each in _paths(self.sources)])

    def _set_files(self, found: Sequence[ShardFile]) -> None:
        self.files: list[ShardFile] = [each for each in found if each.rows]
        if not self.files:
            raise InputError(f"{self} contains no samples; write one row per sample.")
        first = self.files[0]
        for each in self.files:
            if each.dimension != first.dimension:
                raise InputError(
                    f"{each.where} has dimension {each.dimension}, but {first.where} has "
                    f"{first.dimension}; embed all samples with the same encoder."
                )
        self.shape = sum(each.rows for each in self.files), first.dimension
        self.ends: list[int] = np.cumsum([each.rows for each in self.files]).tolist()

    def __len__(self) -> int:
        return self.shape[0]

    def __str__(self) -> str:
        return ", ".join(map(str, self.sources[:3])) + (", …" if len(self.sources) > 3 else "")

    def __repr__(self) -> str:
        count, files = counted(len(self), "sample"), counted(len(self.files), "file")
        return f"<{count} of dimension {self.shape[1]} in {files}>"

    @property
    def encoder(self) -> str | None:
        named = {each.encoder: each for each in self.files if each.encoder is not None}
        if len(named) > 1:
            (one, first), (other, second) = list(named.items())[:2]
            raise InputError(
                f"{first.path} was embedded with {one!r}, but {second.path} with {other!r}; embed both "
                "with the same encoder."
            )
        return next(iter(named), None)

    @cached_property
    def quality(self) -> Vector | None:
        """The quality of every sample; None if a file does not have it."""
        return self._numbers("quality")

    @cached_property
    def cost(self) -> Vector | None:
        """The cost of every sample; None if a file does not have it."""
        return self._numbers("cost")

    def _numbers(self, name: str) -> Vector | None:
        parts = []
        for each in self.files:
            values = each.column(name)
            if not values or None in values:
                return None
            try:
                parts.append(np.array([checked_field(name, value) for value in values]))
            except FieldError as error:
                raise InputError(f"{each.path}: a sample {error}.") from None
        return np.concatenate(parts)

    def check_models(self) -> None:
        """Raise InputError if the files say that their samples come from several models."""
        for each in self.files:
            models = sorted({str(model) for model in each.column(MODEL) or ()})
            if len(models) > 1:
                raise InputError(
                    f"{each.path} contains samples of {len(models)} models ({printable(models[0])}, "
                    f"{printable(models[1])}, …), but a folder of shards is one arm; write one folder per "
                    "model."
                )

    def column(self, name: str, rows: Any) -> list[Any] | None:
        """Return what the files say about some samples, in ascending order; None if a file does not."""
        found: list[Any] = []
        for each, (begin, end) in zip(self.files, self.bounds(), strict=True):
            a, b = np.searchsorted(rows, [begin, end]).tolist()
            values = each.column(name) if a < b else []
            if values is None:
                return None
            found += [values[row - begin] for row in rows[a:b]]
        return None if None in found else found

    def bounds(self) -> list[tuple[int, int]]:
        """Return the first row of each file, and the row after its last."""
        return list(zip([0, *self.ends[:-1]], self.ends, strict=True))

    def with_files(self, files: Sequence[ShardFile]) -> Self:
        """Return the same samples in other files."""
        other = copy.copy(self)
        other._set_files(files)
        return other

    @property
    def fits_in_memory(self) -> bool:
        return fits_in_memory(*self.shape)

    def load(self) -> Any:
        """Return all embeddings as one array."""
        return np.concatenate([block for each in self.files for _, block in each.blocks()])

    def take(self, rows: Any) -> Any:
        """Return some rows, in any order, in float64."""
        order = np.argsort(rows, kind="stable")
        wanted = np.asarray(rows)[order]
        found = np.empty((len(wanted), self.shape[1]))
        for each, (begin, end) in zip(self.files, self.bounds(), strict=True):
            a, b = np.searchsorted(wanted, [begin, end]).tolist()
            if a < b:
                found[order[a:b]] = each.take(wanted[a:b] - begin)
        return found


def _paths(sources: Iterable[Path]) -> list[Path]:
    found: list[Path] = []
    for source in sources:
        if os.path.isdir(source):
            inside = shard_paths(source)
            if not inside:
                raise InputError(
                    f"{source} contains no files of embeddings ({', '.join(SUFFIXES)}); check the path."
                )
            found += inside
        elif not os.path.isfile(source):
            raise InputError(f"no file or folder found at {source}; check the path.")
        elif source.suffix.lower() not in SUFFIXES:
            raise InputError(f"{source} is not a shard; pass {', '.join(SUFFIXES)} files.")
        else:
            found.append(source)
    _check_distinct(found)
    return found


def _check_distinct(paths: Iterable[Path]) -> None:
    known: dict[Path, Path] = {}
    for path in paths:
        place = path.resolve()
        if place in known:
            raise InputError(f"{path} and {known[place]} are the same file; leave one of them out.")
        known[place] = path
