"""The gallery: the most typical and the most unusual samples from every arm or group of prompts."""

from __future__ import annotations

import base64
import io
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genmix.core.python_objects import PythonObject
from genmix.core.text import shortened
from genmix.data.samples import Sample
from genmix.encoders.references import texts_or_images
from genmix.errors import GenmixError
from genmix.journal.images import read_image
from genmix.report.sampling import SampleSubset

Row = dict[str, Any]

MAX_SIDE = 160
"""Maximum number of pixels on the longer side of a thumbnail."""

LOSSLESS_SIDE = 64
"""Images up to this size keep every pixel."""

MAX_TEXT, MAX_PROMPT = 600, 200
MAX_REAL = 8
"""Maximum number of samples of a reference to show."""

MAX_PIXELS = 50_000_000
JPEG_QUALITY = 82


@dataclass(frozen=True)
class ShownSample:
    """One sample: a text, an image, or the source of a recorded vector."""

    ticket: int | None
    """None for a sample of a reference."""
    arm: str
    text: str | None = None
    picture: str | None = None
    """A data URI."""
    source: str | None = None
    prompt: str | None = None
    times: int = 1
    """The number of times that its shelf contains exactly this text."""
    problem: str | None = None


@dataclass(frozen=True)
class Shelf:
    """The samples of one arm, or of one group of prompts."""

    name: str
    typical: list[ShownSample]
    unusual: list[ShownSample]


def gallery(
    subset: SampleSubset,
    names: Sequence[str],
    folder: Path,
    unit: bool,
    groups: Sequence[str | None] | None = None,
) -> list[Shelf]:
    """Build one shelf for each named arm that has samples, or for each named group of prompts.

    With ``unit``, compare only the directions of embeddings. ``groups`` contains the group of every sample.
    """
    many = 4 if len(names) <= 20 else 2 if len(names) <= 60 else 1
    embeddings = _unit(subset.outputs) if unit else subset.outputs
    owners = subset.arms if groups is None else np.array(groups, dtype=object)
    shelves = (
        _shelf(subset, embeddings, name, np.flatnonzero(owners == name), many, folder)
        for name in names
    )
    return [shelf for shelf in shelves if shelf is not None]


def _shelf(
    subset: SampleSubset,
    embeddings: NDArray[np.float64],
    name: str,
    indices: NDArray[np.int64],
    many: int,
    folder: Path,
) -> Shelf | None:
    if not any(_has_content(subset.rows[i]) for i in indices):
        return None
    mine = embeddings[indices]
    distances = np.linalg.norm(mine - mine.mean(axis=0), axis=1)
    order = indices[np.argsort(distances, kind="stable")]
    rows = [subset.rows[i] for i in order]
    arms = {subset.rows[i]["ticket"]: str(subset.arms[i]) for i in order}
    times = Counter(map(_content, rows))
    typical = _distinct(rows, many, ())
    unusual = _distinct(rows[::-1], many, map(_content, typical))
    shown = (
        [
            replace(show(row, arms[row["ticket"]], folder), times=times[_content(row)])
            for row in each
        ]
        for each in (typical, unusual)
    )
    return Shelf(name, *shown)


def common_prompt(subset: SampleSubset) -> str | None:
    """Return the prompt of all samples; None if there are several, or none."""
    found = {row["prompt"] for row in subset.rows}
    prompt = next(iter(found)) if len(found) == 1 else None
    return None if prompt is None else shortened(prompt, MAX_PROMPT)


def _distinct(rows: list[Row], many: int, excluded: Iterable[Any]) -> list[Row]:
    """Return the first ``many`` rows with distinct contents that are not in ``excluded``."""
    seen = set(excluded)
    found: list[Row] = []
    for row in rows:
        if _content(row) not in seen and len(found) < many:
            seen.add(_content(row))
            found.append(row)
    return found


def _has_content(row: Row) -> bool:
    """Return whether there is something to see; a bare vector has nothing."""
    return any(row[key] is not None for key in ("text", "image", "source"))


def _content(row: Row) -> Any:
    return row["text"] if row["text"] is not None else ("ticket", row["ticket"])


def show(row: Row, arm: str, folder: Path) -> ShownSample:
    """Prepare a row of the journal for display."""
    sample = ShownSample(
        row["ticket"],
        arm,
        source=source_name(row["source"]),
        prompt=None if row["prompt"] is None else shortened(row["prompt"], MAX_PROMPT),
    )
    if row["text"] is not None:
        return replace(sample, text=shortened(row["text"], MAX_TEXT))
    if row["image"] is None:
        return sample
    try:
        return replace(sample, picture=thumbnail(read_image(folder, row["image"])))
    except Exception as error:  # untrusted data, and Pillow may not be installed
        return replace(sample, problem=_cannot_show(error))


@dataclass(frozen=True)
class RealSamples:
    """Some samples of a reference, to compare with the generated ones."""

    kind: str
    """``images`` or ``texts``."""
    total: int
    shown: list[ShownSample]


def real_samples(study: Mapping[str, Any], folder: Path) -> list[RealSamples]:
    """Return evenly spaced samples of each reference that consists of images or texts.

    References that are features, or cannot be read any more, are left out.
    """
    terms = [settings for term in study["objective"] for settings in term.values()]
    paths = [study.get("reference"), *(settings.get("reference") for settings in terms)]
    found = (_some_of(path, folder) for path in dict.fromkeys(paths) if isinstance(path, str))
    return [each for each in found if each is not None]


def _some_of(path: str, folder: Path) -> RealSamples | None:
    try:
        read = texts_or_images(PythonObject.stored(path), folder)
        if read is None:
            return None
        items, kind = read
        places = np.unique(np.linspace(0, len(items) - 1, MAX_REAL).round().astype(int))
        shown = [_show_real(*items[i]) for i in places.tolist()]
        return RealSamples(kind, len(items), shown)
    except (GenmixError, OSError, ValueError):
        return None


def _show_real(name: str, read: Callable[[], Sample]) -> ShownSample:
    sample, shown = read(), ShownSample(None, "the reference", source=name)
    if sample.image is None:
        return replace(shown, text=shortened(sample.text or "", MAX_TEXT))
    try:
        return replace(shown, picture=thumbnail(sample.image))
    except Exception as error:  # untrusted data, and Pillow may not be installed
        return replace(shown, problem=_cannot_show(error))


def _cannot_show(error: Exception) -> str:
    return f"the image cannot be shown ({type(error).__name__})"


def source_name(source: str | None) -> str | None:
    """Return the file and row of a recorded sample, without folders."""
    return None if source is None else source.replace("\\", "/").rpartition("/")[2]


def thumbnail(content: bytes) -> str:
    """Return a small image as a data URI, re-encoded so that it contains nothing but pixels."""
    from PIL import Image

    with Image.open(io.BytesIO(content), formats=("PNG", "JPEG", "WEBP")) as image:
        if image.width * image.height > MAX_PIXELS:
            raise ValueError("the image is too large")
        small = max(image.width, image.height) <= LOSSLESS_SIDE
        plain = image if image.mode in ("L", "RGB") else image.convert("RGB")
        if max(image.width, image.height) > MAX_SIDE:
            plain = plain.copy()
            plain.thumbnail((MAX_SIDE, MAX_SIDE))
        kind = "png" if small else "jpeg"
        buffer = io.BytesIO()
        plain.save(buffer, kind.upper(), **({} if small else {"quality": JPEG_QUALITY}))
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"


def _unit(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    found: NDArray[np.float64] = rows / np.where(lengths > 0, lengths, 1.0)
    return found
