"""Samples made before: features in a file, texts in a JSONL file, images in a folder."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from pydantic import Field

from genmix.core.arrays import as_matrix
from genmix.core.threads import in_thread
from genmix.data.conversion import FieldError, checked
from genmix.data.lines import json_object, leads_out, numbered_lines
from genmix.data.png import SUFFIXES, read_as_png
from genmix.data.reference import Moments, read_features
from genmix.data.samples import Request, Sample
from genmix.errors import InputError
from genmix.generators.base import GenerationError
from genmix.generators.settings import ArmSettings, Context

CHECKED_AT_ONCE = 1 << 20
"""Numbers of a features file that are looked at in one go."""

CARRIED = ("prompt", "quality", "cost", "input_tokens", "output_tokens")
"""What a line of a JSONL file may say about its text."""


class RecordedArm(ArmSettings):
    """Gives recorded samples, each once, in an order that depends on the study's seed and the arm."""

    kind: Literal["recorded"]
    path: str = Field(
        min_length=1,
        description="A features file (.npy, .npz), a .jsonl file of texts, or a folder of images.",
    )
    key: str | None = Field(None, description="The array of features in an .npz file of several.")
    field: str = Field("text", min_length=1, description="The key of the text in a .jsonl file.")
    shuffle: bool = Field(True, description="Whether to shuffle; if not, in the order of the file.")
    cost: float | None = Field(
        None,
        ge=0,
        allow_inf_nan=False,
        description="What a sample costs that does not say so itself.",
    )
    exhausted: Literal["refuse", "retire"] = Field(
        "refuse",
        description="When there may be too few for the budget: refuse to begin, or go on without the arm.",
    )

    def build(self, context: Context) -> RecordedGenerator:
        source = self._open(context.path(self.path))
        order = np.arange(len(source))
        if self.shuffle:
            _random(context).shuffle(order)
        return RecordedGenerator(source, order, self.path)

    def _open(self, path: Path) -> Source:
        cost = self.cost or 0.0
        if path.is_dir():
            return ImageFolder(path, cost)
        if not path.is_file():
            raise InputError(f"there is no file or folder {path}: check the path.")
        if path.suffix == ".jsonl":
            return TextFile(path, self.field, cost)
        return FeatureFile(path, self.key, cost)


class Source(Protocol):
    """Recorded samples by their place in the file."""

    most_cost: float

    def __len__(self) -> int: ...

    def read(self, place: int) -> Sample:
        """The sample at a place; one that cannot be read raises FieldError."""
        ...


class RecordedGenerator:
    """Gives the sample at place ``index`` of the order."""

    def __init__(self, source: Source, order: Any, name: str) -> None:
        self._source, self._order, self._name = source, order, name

    async def generate(self, requests: Sequence[Request]) -> list[Sample | GenerationError]:
        if isinstance(self._source, ImageFolder):
            return await in_thread(lambda _: [self._outcome(request) for request in requests])
        return [self._outcome(request) for request in requests]

    def _outcome(self, request: Request) -> Sample | GenerationError:
        if not 0 <= request.index < len(self._order):
            return GenerationError(
                f"{self._name} has {len(self._order)} samples and no number {request.index}.",
                retryable=False,
            )
        place = int(self._order[request.index])
        try:
            found = self._source.read(place)
            return replace(found, source=found.source or f"{self._name}#{place}")
        except FieldError as error:
            return GenerationError(f"{self._name}, sample {place} {error}: leave it out.")

    async def ping(self) -> None:
        """The file was there when the arm was built."""

    def most_cost(self) -> float | None:
        return self._source.most_cost

    def available(self) -> int | None:
        return len(self._order)

    async def close(self) -> None:
        """There is nothing to let go of."""


class FeatureFile:
    """Rows of a features file; an ``.npy`` file stays on disk, an ``.npz`` may hold quality and cost."""

    def __init__(self, path: Path, key: str | None, cost: float) -> None:
        self._rows = _map_rows(path) if path.suffix == ".npy" else _load_rows(path, key)
        notes = _notes(path, len(self._rows)) if path.suffix == ".npz" else {}
        self._quality = notes.get("quality")
        self._cost = notes.get("cost", np.full(len(self._rows), cost))
        if self._cost.min() < 0:
            raise InputError(f"{path} holds a negative cost: correct it.")
        self.most_cost = float(self._cost.max())

    def __len__(self) -> int:
        return len(self._rows)

    def read(self, place: int) -> Sample:
        quality = None if self._quality is None else self._quality[place]
        return checked(vector=self._rows[place], quality=quality, cost=self._cost[place])


def _map_rows(path: Path) -> Any:
    """The rows of an ``.npy`` file, looked at in blocks and left on disk."""
    try:
        rows = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise InputError(f"{path} is no .npy of plain numbers: write it anew.") from error
    if not isinstance(rows, np.ndarray) or rows.ndim != 2 or not rows.size:
        as_matrix(rows, str(path))  # says what is wrong
    step = max(CHECKED_AT_ONCE // rows.shape[1], 1)
    for start in range(0, len(rows), step):
        as_matrix(rows[start : start + step], f"{path}, from sample {start} on")
    return rows


def _load_rows(path: Path, key: str | None) -> Any:
    found = read_features(path, key)
    if isinstance(found, Moments):
        raise InputError(f"{path} holds moments only: an arm needs samples.")
    return found.points


def _notes(path: Path, count: int) -> dict[str, Any]:
    """The arrays ``quality`` and ``cost`` of an ``.npz`` file, if it has them."""
    found = {}
    with np.load(path, allow_pickle=False) as content:
        for name in {"quality", "cost"} & set(content.files):
            values = content[name]
            if values.shape != (count,) or values.dtype.kind not in "fiu":
                raise InputError(
                    f"{path}: {name} has shape {values.shape} and dtype {values.dtype}: "
                    f"give {count} numbers."
                )
            if not np.isfinite(values).all():
                raise InputError(f"{path}: {name} holds NaN or infinity: correct it.")
            found[name] = values
    return found


class TextFile:
    """The texts of a JSONL file, one object a line."""

    def __init__(self, path: Path, field: str, cost: float) -> None:
        self._samples = [
            _read_line(line, field, cost, f"{path}, line {number}")
            for number, line in numbered_lines(path)
        ]
        if not self._samples:
            raise InputError(f"{path} holds no text: write one JSON object a line.")
        self.most_cost = max(sample.cost or 0.0 for sample in self._samples)

    def __len__(self) -> int:
        return len(self._samples)

    def read(self, place: int) -> Sample:
        return self._samples[place]


def _read_line(line: str, field: str, cost: float, where: str) -> Sample:
    content = json_object(line)
    if content is None:
        raise InputError(f"{where} is no JSON object: write one a line.")
    text = content.get(field)
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"{where} has no text under {field!r}: write one, or set 'field'.")
    carried = {name: content[name] for name in CARRIED if content.get(name) is not None}
    try:
        return checked(**{"cost": cost, **carried, "text": text})
    except FieldError as error:
        raise InputError(f"{where} {error}.") from None


class ImageFolder:
    """The images in a folder and the folders below it, by name; nothing outside of it is read."""

    def __init__(self, folder: Path, cost: float) -> None:
        self._folder, self.most_cost = folder, cost
        entries = sorted(folder.rglob("*"))
        astray = next((entry for entry in entries if leads_out(entry, folder)), None)
        if astray is not None:
            raise InputError(f"{astray} leads out of {folder}: copy the images into it.")
        self._files = [e for e in entries if e.suffix.lower() in SUFFIXES and e.is_file()]
        if not self._files:
            raise InputError(f"{folder} holds no image ({', '.join(SUFFIXES)}): check the path.")

    def __len__(self) -> int:
        return len(self._files)

    def read(self, place: int) -> Sample:
        file = self._files[place]
        if leads_out(file, self._folder):
            raise FieldError(f"({file.name}) leads out of the folder")
        try:
            name = str(file.relative_to(self._folder))
            return Sample(image=read_as_png(file), source=name, cost=self.most_cost)
        except FieldError as error:
            raise FieldError(f"({file.name}) {error}") from None


def _random(context: Context) -> np.random.Generator:
    """Randomness of the arm's own, alike in every session of the study."""
    text = f"order\0{context.seed}\0{context.arm}".encode()
    return np.random.default_rng(int.from_bytes(hashlib.blake2b(text, digest_size=16).digest()))
