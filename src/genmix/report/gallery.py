"""Samples to look at: of every arm the most typical ones and the most unusual."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genmix.report.sampling import Chosen
from genmix.report.sanitize import clipped
from genmix.runs.images import read_image

SIDE = 160
"""Pixels of the longer side of a picture, at most."""

SHARP_SIDE = 64
"""Pictures up to here stay as they are, pixel by pixel."""

MOST_LETTERS = 600
MOST_PIXELS = 50_000_000
JPEG_QUALITY = 82


@dataclass(frozen=True)
class Shown:
    """One sample: a text, a picture, or where a recorded vector comes from."""

    ticket: int
    arm: str
    distance: float
    """To the mean of its arm."""
    text: str | None = None
    picture: str | None = None
    """A data URI, made here from the pixels."""
    source: str | None = None
    prompt: str | None = None
    times: int = 1
    """How often the arm said exactly this."""
    trouble: str | None = None


@dataclass(frozen=True)
class Shelf:
    """An arm's samples."""

    arm: str
    typical: list[Shown]
    unusual: list[Shown]


def gallery(chosen: Chosen, arms: Sequence[str], folder: Path, unit: bool) -> list[Shelf]:
    """Nearest to the mean of their arm first, and farthest first; ``unit`` compares directions alone."""
    many = 4 if len(arms) <= 20 else 2 if len(arms) <= 60 else 1
    rows = _unit(chosen.embeddings) if unit else chosen.embeddings
    return [shelf for arm in arms if (shelf := _shelf(chosen, rows, arm, many, folder)) is not None]


def _shelf(
    chosen: Chosen, rows: NDArray[np.float64], arm: str, many: int, folder: Path
) -> Shelf | None:
    places = np.flatnonzero(chosen.arms == arm)
    if not len(places):
        return None
    mine = rows[places]
    distances = np.linalg.norm(mine - mine.mean(axis=0), axis=1)
    order = np.argsort(distances, kind="stable")
    typical = _distinct(chosen, places, distances, order, many, set())
    seen = {_content(chosen.rows[places[i]]) for i in typical}
    unusual = _distinct(chosen, places, distances, order[::-1], many, seen)
    times = _times(chosen, places)

    def shown(which: list[int]) -> list[Shown]:
        found = []
        for i in which:
            row = chosen.rows[places[i]]
            sample = show(row, arm, folder, float(distances[i]))
            found.append(replace(sample, times=times[_content(row)]))
        return found

    return Shelf(arm, shown(typical), shown(unusual))


def _distinct(
    chosen: Chosen,
    places: NDArray[np.int64],
    distances: NDArray[np.float64],
    order: NDArray[np.int64],
    many: int,
    seen: set[Any],
) -> list[int]:
    """The first of an order, each content once."""
    found: list[int] = []
    seen = set(seen)
    for i in order.tolist():
        content = _content(chosen.rows[places[i]])
        if content not in seen:
            seen.add(content)
            found.append(i)
        if len(found) == many:
            break
    return found


def _times(chosen: Chosen, places: NDArray[np.int64]) -> dict[Any, int]:
    found: dict[Any, int] = {}
    for place in places.tolist():
        content = _content(chosen.rows[place])
        found[content] = found.get(content, 0) + 1
    return found


def _content(row: dict[str, Any]) -> Any:
    return row["text"] if row["text"] is not None else ("ticket", row["ticket"])


def show(row: dict[str, Any], arm: str, folder: Path, distance: float = 0.0) -> Shown:
    """A row of the journal, fit to be shown."""
    sample = Shown(
        row["ticket"],
        arm,
        distance,
        source=source_name(row["source"]),
        prompt=None if row["prompt"] is None else clipped(row["prompt"], 200),
    )
    if row["text"] is not None:
        return replace(sample, text=clipped(row["text"], MOST_LETTERS))
    if row["image"] is None:
        return sample
    try:
        return replace(sample, picture=thumbnail(read_image(folder, row["image"])))
    except Exception as error:  # a picture is other people's data, and Pillow may not be there
        return replace(sample, trouble=f"the image cannot be shown ({type(error).__name__})")


def source_name(source: str | None) -> str | None:
    """The file and row of a recorded sample, without the folders that it lies in."""
    return None if source is None else source.replace("\\", "/").rpartition("/")[2]


def thumbnail(content: bytes) -> str:
    """A small picture as a data URI: decoded and encoded anew, so that nothing but pixels gets through."""
    from PIL import Image

    with Image.open(io.BytesIO(content), formats=("PNG", "JPEG", "WEBP")) as image:
        if image.width * image.height > MOST_PIXELS:
            raise ValueError("it is too large")
        small = max(image.width, image.height) <= SHARP_SIDE
        plain = image if image.mode in ("L", "RGB") else image.convert("RGB")
        if max(image.width, image.height) > SIDE:
            plain = plain.copy()
            plain.thumbnail((SIDE, SIDE))
        kind = "png" if small else "jpeg"
        buffer = io.BytesIO()
        plain.save(buffer, kind.upper(), **({} if small else {"quality": JPEG_QUALITY}))
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"


def _unit(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    found: NDArray[np.float64] = rows / np.where(lengths > 0, lengths, 1.0)
    return found
