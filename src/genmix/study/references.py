"""What a study compares its samples with: features as they are, texts and images once embedded."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from genmix.encoders.base import Encoder, EncodingError
from genmix.errors import InputError
from genmix.generators.base import Sample
from genmix.reference import Moments, read_features

FEATURES = (".npy", ".npz")
TEXTS = (".jsonl", ".txt")
IMAGES = (".png", ".jpg", ".jpeg", ".webp")
AT_ONCE = 64
"""Samples handed to the encoder in one call; what it has embedded then is in the cache."""
LINES = 20
"""Notes of progress, at most."""

Note = Callable[[str], None]
Item = tuple[str, Callable[[], Sample]]
"""Where a sample is, for messages, and how to get it."""


def read_reference(path: str, folder: Path, encoder: Encoder | None, note: Note) -> Any:
    """Samples ``(n, d)`` or Moments of a features file, a file of texts or a folder of images.

    ``path`` is relative to ``folder``; texts and images go through ``encoder``.
    """
    place = folder / Path(path).expanduser()
    if not place.exists():
        raise InputError(
            f"there is no reference {path} in {folder}: check the path, which is relative to the study."
        )
    if place.is_dir():
        return _embed(_images(place), path, "images", encoder, note)
    ending = place.suffix.lower()
    if ending in FEATURES:
        found = read_features(place)
        return found if isinstance(found, Moments) else found.points
    if ending in TEXTS:
        return _embed(_texts(place), path, "texts", encoder, note)
    raise InputError(
        f"the reference {path} is of no known kind: give features ({', '.join(FEATURES)}), texts "
        f"({', '.join(TEXTS)}) or a folder of images."
    )


def _embed(items: Sequence[Item], path: str, kind: str, encoder: Encoder | None, note: Note) -> Any:
    if not items:
        wanted = f" ({', '.join(IMAGES)})" if kind == "images" else ""
        raise InputError(f"the reference {path} holds no {kind}{wanted}: give at least one.")
    if encoder is None:
        raise InputError(
            f"the reference {path} holds {kind} and the study has no encoder: name one."
        )
    rows, total = [], len(items)
    told = -1
    for start in range(0, total, AT_ONCE):
        if start * LINES // total > told:
            told = start * LINES // total
            note(f"embedding the reference: {start}/{total}")
        rows.append(_encoded(items[start : start + AT_ONCE], path, encoder))
    note(f"embedding the reference: {total}/{total}")
    return np.concatenate(rows)


def _encoded(items: Sequence[Item], path: str, encoder: Encoder) -> Any:
    """The rows of a batch; if it is refused, the first sample that is to blame is named."""
    samples = [get() for _, get in items]
    try:
        return encoder.encode(samples)
    except EncodingError as error:
        for (where, _), sample in zip(items, samples, strict=True):
            try:
                encoder.encode([sample])
            except EncodingError as fault:
                raise InputError(f"the reference {path}, {where}: {fault}") from fault
        raise InputError(f"the reference {path}: {error}") from error


def _texts(file: Path) -> list[Item]:
    """Texts of a file, in order; empty lines are left out."""
    try:
        lines = file.read_text(encoding="utf-8-sig").split("\n")  # JSON may hold other line ends
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read as UTF-8: check the file.") from error
    found = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            text = _field(line, file, number) if file.suffix.lower() == ".jsonl" else line.strip()
            found.append((f"line {number}", _constant(Sample(text=text))))
    return found


def _constant(sample: Sample) -> Callable[[], Sample]:
    return lambda: sample


def _field(line: str, file: Path, number: int) -> str:
    try:
        text = json.loads(line)["text"]
        if isinstance(text, str) and text.strip():
            return text
    except (ValueError, LookupError, TypeError, RecursionError):
        pass
    raise InputError(
        f'{file}, line {number}: there is no text: give an object such as {{"text": "…"}}.'
    )


def _images(folder: Path) -> list[Item]:
    """Images in a folder and below, in the order of their paths."""
    root = folder.resolve()
    found = sorted(
        (file.relative_to(root).as_posix(), file) for file in _files(root) if _is_image(file)
    )
    return [(name, _reader(file)) for name, file in found]


def _is_image(file: Path) -> bool:
    return file.suffix.lower() in IMAGES and not file.name.startswith(".")


def _files(root: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(root):
        for name in (*folders, *files):
            entry = Path(place, name)
            if entry.is_symlink() and not entry.resolve().is_relative_to(root):
                raise InputError(
                    f"{entry} is a link that leads out of the reference's folder: copy what it names, "
                    "or leave it out."
                )
        yield from (Path(place, name) for name in files)


def _reader(file: Path) -> Callable[[], Sample]:
    def read() -> Sample:
        try:
            return Sample(image=file.read_bytes())
        except OSError as error:
            raise InputError(
                f"{file} cannot be read ({error.strerror}): check the file."
            ) from error

    return read
