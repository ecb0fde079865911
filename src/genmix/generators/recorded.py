"""Arms that replay recorded samples: features, a table of texts, or a folder of images."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from pydantic import Field, model_validator

from genmix.core.arrays import as_matrix
from genmix.core.numpy_files import NumpyArchive, is_archive, read_array
from genmix.core.text import counted
from genmix.core.threads import iterate_in_thread
from genmix.data.arm_files import read_table
from genmix.data.features import EMBEDDING, embedding_column
from genmix.data.image_folder import image_files
from genmix.data.png import read_as_png, require_pillow
from genmix.data.reference import Moments, read_features
from genmix.data.samples import MAX_COST, FieldError, Request, Sample, sample_from
from genmix.data.tables import PARQUET, column_names, is_table, parquet_schema, read_rows
from genmix.data.text_files import is_outside
from genmix.errors import InputError
from genmix.generators.base import (
    ArmSettings,
    Context,
    GenerationError,
    Generator,
    Outcome,
    Outcomes,
)

BLOCK_SIZE = 1 << 20
"""Number of feature values that are checked at a time."""

METADATA = ("prompt", "quality", "cost", "input_tokens", "output_tokens")
"""Columns of a table that describe a text."""


class RecordedArm(ArmSettings):
    """Settings for an arm that replays each recorded sample once.

    By default, the samples are shuffled, based on the study's seed and the arm's label. Samples that
    you already have and do not pay for again are an arm with ``once: true``.
    """

    billed: ClassVar[bool] = False

    kind: Literal["recorded"]
    path: str = Field(
        min_length=1,
        description="A feature file (.npy, .npz, .parquet …), a table of texts (.jsonl, .csv, .parquet, "
        ".txt), or a folder of images.",
    )
    key: str | None = Field(
        None, description="Name of the array or column of features, if there are several."
    )
    field: str = Field("text", min_length=1, description="Column of the texts in a table.")
    once: bool = Field(
        False,
        description="These are samples that you already have: they cost nothing, whatever the file says, "
        "and the arm retires when all of them are used.",
    )
    shuffle: bool = Field(
        True, description="Shuffle the samples; if false, keep the order of the file."
    )
    cost: float | None = Field(
        None,
        ge=0,
        allow_inf_nan=False,
        description="Cost of a sample for which the file specifies no cost.",
    )
    exhausted: Literal["refuse", "retire"] = Field(
        "refuse",
        description="What to do if there may be too few samples for the budget: refuse to start, or "
        "retire the arm when it runs out.",
    )

    @model_validator(mode="before")
    @classmethod
    def _set_once(cls, written: Any) -> Any:
        if not isinstance(written, dict) or written.get("once") is not True:
            return written
        if written.get("exhausted", "retire") != "retire" or written.get("cost"):
            key = "cost" if written.get("cost") else "exhausted"
            raise ValueError(
                f"once: true uses each sample at no cost and then retires; remove '{key}'"
            )
        return {**written, "exhausted": "retire"}

    def build(self, context: Context) -> RecordedGenerator:
        samples = self._open(context.path(self.path))
        if self.once:
            samples = FreeSamples(samples)
        order = np.arange(len(samples))
        if self.shuffle:
            _rng(context).shuffle(order)
        return RecordedGenerator(samples, order, self.path)

    def _open(self, path: Path) -> RecordedSamples:
        cost = self.cost or 0.0
        if os.path.isdir(path):  # Path.is_dir raises an error if the name is too long
            return ImageFolder(path, cost)
        if not os.path.isfile(path):
            raise InputError(f"no file or folder found at {path}; correct the path.")
        if is_table(path) and self._holds_texts(path):
            return TextFile(path, self.field, cost)
        return FeatureFile(path, self.key, cost)

    def _holds_texts(self, path: Path) -> bool:
        """Return whether a table contains texts, with or without their embeddings."""
        names = column_names(path)
        if self.key is None and self.field in names:
            return True
        if path.suffix.lower() in PARQUET:
            return embedding_column(parquet_schema(path), self.key) is None
        return (self.key or EMBEDDING) not in names


class RecordedSamples(Protocol):
    """Recorded samples, accessed by row."""

    most_cost: float
    is_slow: bool
    """Whether reading a sample takes so long that it should happen in a thread."""

    def __len__(self) -> int: ...

    def read(self, row: int) -> Sample:
        """Return one sample; raise FieldError if it cannot be read."""
        ...


class RecordedGenerator(Generator):
    """Replays the samples in a fixed order."""

    def __init__(self, samples: RecordedSamples, order: Any, name: str) -> None:
        self._samples, self._order, self._name = samples, order, name

    def generate(self, requests: Sequence[Request]) -> Outcomes:
        if self._samples.is_slow:
            return iterate_in_thread(lambda stop: enumerate(map(self._outcome, requests)))
        return self._generate_now(requests)

    async def _generate_now(self, requests: Sequence[Request]) -> Outcomes:
        for position, request in enumerate(requests):
            yield position, self._outcome(request)

    def _outcome(self, request: Request) -> Outcome:
        if not 0 <= request.index < len(self._order):
            return GenerationError(
                f"{self._name} has {counted(len(self._order), 'sample')}, but sample {request.index} was "
                "requested.",
                retryable=False,
            )
        row = int(self._order[request.index])
        try:
            found = self._samples.read(row)
            return replace(found, source=found.source or f"{self._name}#{row}")
        except FieldError as error:
            return GenerationError(f"{self._name}, sample {row} {error}; remove it.")

    def most_cost(self) -> float | None:
        return self._samples.most_cost

    def available(self) -> int | None:
        return len(self._order)


class FreeSamples:
    """Samples that have been paid for; their costs are ignored."""

    def __init__(self, samples: RecordedSamples) -> None:
        self._samples, self.most_cost, self.is_slow = samples, 0.0, samples.is_slow

    def __len__(self) -> int:
        return len(self._samples)

    def read(self, row: int) -> Sample:
        return replace(self._samples.read(row), cost=0.0)


class FeatureFile:
    """Rows of a feature file. ``.npy`` files stay on disk; others can include quality and cost."""

    is_slow = False

    def __init__(self, path: Path, key: str | None, cost: float) -> None:
        self._rows, metadata = _read_features(path, key)
        self._quality = metadata.get("quality")
        self._cost = metadata.get("cost", np.full(len(self._rows), cost))
        if self._cost.min() < 0:
            raise InputError(f"{path} contains a negative cost; correct it.")
        if self._cost.max() > MAX_COST:
            raise InputError(f"{path} contains a cost above {MAX_COST:g}; correct it.")
        self.most_cost = float(self._cost.max())

    def __len__(self) -> int:
        return len(self._rows)

    def read(self, row: int) -> Sample:
        quality = None if self._quality is None else self._quality[row]
        return sample_from(vector=self._rows[row], quality=quality, cost=self._cost[row])


def _read_features(path: Path, key: str | None) -> tuple[Any, dict[str, Any]]:
    """Return the rows, and the quality and cost that the file contains."""
    if path.suffix == ".npy":
        return _map_rows(path), {}
    if is_table(path):
        whole = read_table(path, key)
        found = {"quality": whole.quality, "cost": whole.cost}
        return whole.features, {name: each for name, each in found.items() if each is not None}
    rows = _load_rows(path, key)
    return rows, _metadata(path, len(rows)) if path.suffix == ".npz" else {}


def _map_rows(path: Path) -> Any:
    """Memory-map the rows of an ``.npy`` file and validate them in blocks."""
    if is_archive(path):
        raise InputError(f"{path} is an .npz file; rename it so that its name ends in .npz.")
    rows = read_array(path, mmap=True)
    if rows.ndim != 2 or not rows.size:
        as_matrix(rows, str(path))  # raises the error
    step = max(BLOCK_SIZE // rows.shape[1], 1)
    for start in range(0, len(rows), step):
        as_matrix(rows[start : start + step], f"{path}, counting from sample {start}")
    return rows


def _load_rows(path: Path, key: str | None) -> Any:
    found = read_features(path, key)
    if isinstance(found, Moments):
        raise InputError(
            f"{path} contains moments, but an arm needs samples; use a file of samples."
        )
    return found.points


def _metadata(path: Path, count: int) -> dict[str, Any]:
    """Return the ``quality`` and ``cost`` arrays in an ``.npz`` file, if it contains them."""
    if not is_archive(path):
        return {}
    with NumpyArchive(path) as content:
        return {
            name: _column(content[name], count, f"{path}: {name}")
            for name in ("quality", "cost")
            if name in content
        }


def _column(values: Any, count: int, where: str) -> Any:
    if values.shape != (count,) or values.dtype.kind not in "fiu":
        raise InputError(
            f"{where} has shape {values.shape} and dtype {values.dtype}; save {count} numbers."
        )
    with np.errstate(over="ignore"):  # numbers too large for float64 become infinite
        numbers = values.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise InputError(f"{where} contains NaN or infinity; correct it.")
    return numbers


class TextFile:
    """Texts from a table with one row per sample."""

    is_slow = False

    def __init__(self, path: Path, field: str, cost: float) -> None:
        columns = (field, *METADATA)
        self._samples = [
            _read_row(row, field, cost, where) for where, row in read_rows(path, columns)
        ]
        if not self._samples:
            raise InputError(f"{path} contains no texts; write one per row.")
        self.most_cost = max(sample.cost or 0.0 for sample in self._samples)

    def __len__(self) -> int:
        return len(self._samples)

    def read(self, row: int) -> Sample:
        return self._samples[row]


def _read_row(content: Mapping[str, Any], field: str, cost: float, where: str) -> Sample:
    text = content.get(field)
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"{where} has no text under {field!r}; add it, or correct 'field'.")
    metadata = {name: content[name] for name in METADATA if content.get(name) is not None}
    try:
        return sample_from(**{"cost": cost, **metadata, "text": text})
    except FieldError as error:
        raise InputError(f"{where} {error}.") from None


class ImageFolder:
    """Images in a folder and its subfolders, sorted by name. Nothing outside the folder is read."""

    is_slow = True

    def __init__(self, folder: Path, cost: float) -> None:
        require_pillow()
        self._folder, self.most_cost = folder, cost
        self._files = image_files(folder)

    def __len__(self) -> int:
        return len(self._files)

    def read(self, row: int) -> Sample:
        file = self._files[row]
        if is_outside(file, self._folder):
            raise FieldError(f"({file.name}) is a link to a place outside the folder")
        try:
            name = str(file.relative_to(self._folder))
            return Sample(image=read_as_png(file), source=name, cost=self.most_cost)
        except FieldError as error:
            raise FieldError(f"({file.name}) {error}") from None


def _rng(context: Context) -> np.random.Generator:
    """Return the arm's random number generator, which is the same in every session of the study."""
    text = f"order\0{context.seed}\0{context.arm}".encode()
    return np.random.default_rng(int.from_bytes(hashlib.blake2b(text, digest_size=16).digest()))
