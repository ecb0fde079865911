"""Arms that replay recorded samples: features, texts in a JSONL file, or images in a folder."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from pydantic import Field

from genmix.core.arrays import as_matrix
from genmix.core.numpy_files import NumpyArchive, is_archive, read_array
from genmix.core.threads import iterate_in_thread
from genmix.data.png import SUFFIXES, read_as_png, require_pillow
from genmix.data.reference import Moments, read_features
from genmix.data.samples import MAX_COST, FieldError, Request, Sample, sample_from
from genmix.data.text_files import is_outside, json_object, numbered_lines
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
"""Metadata keys that a line of a JSONL file can contain."""


class RecordedArm(ArmSettings):
    """Settings for an arm that replays each recorded sample once.

    By default, the samples are shuffled, based on the study's seed and the arm's label.
    """

    kind: Literal["recorded"]
    path: str = Field(
        min_length=1,
        description="A feature file (.npy, .npz), a .jsonl file of texts, or a folder of images.",
    )
    key: str | None = Field(None, description="Name of the feature array in an .npz file.")
    field: str = Field("text", min_length=1, description="Key of the text in a .jsonl file.")
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

    def build(self, context: Context) -> RecordedGenerator:
        samples = self._open(context.path(self.path))
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
        if path.suffix == ".jsonl":
            return TextFile(path, self.field, cost)
        return FeatureFile(path, self.key, cost)


class RecordedSamples(Protocol):
    """Recorded samples, accessed by row."""

    most_cost: float

    def __len__(self) -> int: ...

    def read(self, row: int) -> Sample:
        """Return one sample; raise FieldError if it cannot be read."""
        ...


class RecordedGenerator(Generator):
    """Replays the samples in a fixed order."""

    def __init__(self, samples: RecordedSamples, order: Any, name: str) -> None:
        self._samples, self._order, self._name = samples, order, name

    def generate(self, requests: Sequence[Request]) -> Outcomes:
        if isinstance(self._samples, ImageFolder):  # decoding blocks
            return iterate_in_thread(lambda stop: enumerate(map(self._outcome, requests)))
        return self._generate_now(requests)

    async def _generate_now(self, requests: Sequence[Request]) -> Outcomes:
        for position, request in enumerate(requests):
            yield position, self._outcome(request)

    def _outcome(self, request: Request) -> Outcome:
        if not 0 <= request.index < len(self._order):
            return GenerationError(
                f"{self._name} has {len(self._order)} samples, but sample {request.index} was requested.",
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


class FeatureFile:
    """Rows of a feature file. ``.npy`` files stay on disk; ``.npz`` files can include quality and cost."""

    def __init__(self, path: Path, key: str | None, cost: float) -> None:
        self._rows = _map_rows(path) if path.suffix == ".npy" else _load_rows(path, key)
        metadata = _metadata(path, len(self._rows)) if path.suffix == ".npz" else {}
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
    """Texts from a JSONL file with one object per line."""

    def __init__(self, path: Path, field: str, cost: float) -> None:
        self._samples = [
            _read_line(line, field, cost, f"{path}, line {number}")
            for number, line in numbered_lines(path)
        ]
        if not self._samples:
            raise InputError(f"{path} contains no texts; write one JSON object per line.")
        self.most_cost = max(sample.cost or 0.0 for sample in self._samples)

    def __len__(self) -> int:
        return len(self._samples)

    def read(self, row: int) -> Sample:
        return self._samples[row]


def _read_line(line: str, field: str, cost: float, where: str) -> Sample:
    content = json_object(line)
    if content is None:
        raise InputError(f"{where} is not a JSON object; write one object per line.")
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

    def __init__(self, folder: Path, cost: float) -> None:
        require_pillow()
        self._folder, self.most_cost = folder, cost
        entries = sorted(folder.rglob("*"))
        outside = next((entry for entry in entries if is_outside(entry, folder)), None)
        if outside is not None:
            raise InputError(
                f"{outside} is a link to a place outside {folder}; copy the images into the folder."
            )
        self._files = [e for e in entries if e.suffix.lower() in SUFFIXES and e.is_file()]
        if not self._files:
            raise InputError(
                f"{folder} contains no images ({', '.join(SUFFIXES)}); correct the path."
            )

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
