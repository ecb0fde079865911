"""Read references, to which a study compares its samples: feature files, or texts or images to embed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from genmix.core.python_objects import PythonObject
from genmix.data.loaded_arm import Item
from genmix.data.png import SUFFIXES
from genmix.data.reference import Moments, read_features
from genmix.data.samples import Sample, without_surrogates
from genmix.data.text_files import is_outside, json_object, numbered_lines, resolved
from genmix.encoders.base import Encoder
from genmix.encoders.embed_items import embed_items
from genmix.errors import InputError

FEATURES = (".npy", ".npz", ".parquet", ".pq", ".pt", ".pth")
LINES = (".jsonl", ".ndjson")
MAX_NOTES = 20
"""Maximum number of progress messages."""

Note = Callable[[str], None]
"""A function that takes a progress message."""


def read_reference(path: str, folder: Path, encoder: Encoder | None, note: Note) -> Any:
    """Read samples ``(n, d)`` or Moments from a feature file, a file of texts or a folder of images.

    ``path`` is relative to ``folder``; ``encoder`` embeds texts and images.
    """
    if isinstance(path, PythonObject):
        found = path.get()
        return found if isinstance(found, Moments) else found.points
    unembedded = texts_or_images(path, folder)
    if unembedded is not None:
        return _embed(*unembedded, path, encoder, note)
    found = read_features(resolved(path, folder))
    return found if isinstance(found, Moments) else found.points


def texts_or_images(path: str, folder: Path) -> tuple[list[Item], str] | None:
    """Return the texts or images of a reference, and what they are; None for features."""
    if isinstance(path, PythonObject):
        return None
    place = resolved(path, folder)
    if not os.path.exists(place):  # Path.exists raises an error if the name is too long
        raise InputError(
            f"the reference {path} does not exist; check the path, which is relative to the study file."
        )
    ending = place.suffix.lower()
    if place.is_dir():
        items, kind = _images(place), "images"
    elif ending in FEATURES or (ending in LINES and not _holds_texts(place)):
        return None
    elif ending in LINES or ending == ".txt":
        items, kind = _texts(place), "texts"
    else:
        raise InputError(
            f"the reference {path} has an unknown type; use features ({', '.join(FEATURES)}), texts "
            "(.jsonl, .txt) or a folder of images."
        )
    if not items:
        wanted = f" ({', '.join(SUFFIXES)})" if kind == "images" else ""
        raise InputError(f"the reference {path} contains no {kind}{wanted}; add at least one.")
    return items, kind


def _embed(items: Sequence[Item], kind: str, path: str, encoder: Encoder | None, note: Note) -> Any:
    if encoder is None:
        raise InputError(
            f"the reference {path} contains {kind}, but the study has no encoder; add one."
        )
    noted = -1

    def report(done: int, total: int) -> None:
        nonlocal noted
        if done * MAX_NOTES // total > noted:
            noted = done * MAX_NOTES // total
            note(f"embedding the reference: {done}/{total}")

    return embed_items(items, encoder, f"the reference {path}", report)


def _holds_texts(file: Path) -> bool:
    """Return whether a JSONL file contains texts rather than embeddings, judging by its first line."""
    for _, line in numbered_lines(file):
        record = json_object(line)
        return record is None or "text" in record or "embedding" not in record
    return True


def _texts(file: Path) -> list[Item]:
    plain = file.suffix.lower() == ".txt"
    return [
        (f"line {number}", _constant(line.strip() if plain else _text_in(line, file, number)))
        for number, line in numbered_lines(file)
    ]


def _constant(text: str) -> Callable[[], Sample]:
    return lambda: Sample(text=without_surrogates(text))


def _text_in(line: str, file: Path, number: int) -> str:
    text = (json_object(line) or {}).get("text")
    if not isinstance(text, str) or not text.strip():
        raise InputError(
            f'{file}, line {number} has no text; write an object such as {{"text": "…"}}.'
        )
    return text


def _images(folder: Path) -> list[Item]:
    """List the images in a folder and its subfolders, sorted by path."""
    root = folder.resolve()
    found = sorted(
        (file.relative_to(root).as_posix(), file) for file in _files(root) if _is_image(file)
    )
    return [(name, _reader(file)) for name, file in found]


def _is_image(file: Path) -> bool:
    return (
        file.suffix.lower() in SUFFIXES and not file.name.startswith(".") and os.path.isfile(file)
    )


def _files(root: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(root):
        for name in (*folders, *files):
            entry = Path(place, name)
            if entry.is_symlink() and is_outside(entry, root):
                raise InputError(
                    f"{entry} links to a file outside the reference folder; copy the file, or remove "
                    "the link."
                )
        yield from (Path(place, name) for name in files)


def _reader(file: Path) -> Callable[[], Sample]:
    def read() -> Sample:
        try:
            return Sample(image=file.read_bytes())
        except OSError as error:
            raise InputError(
                f"could not read {file} ({error.strerror}); check its permissions."
            ) from error

    return read
