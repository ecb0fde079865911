"""Read the samples of a run from its journal and its folder of images."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from genmix.data.samples import Sample
from genmix.errors import StorageError
from genmix.journal.schema import embedding_of

IMAGES = "images"
"""The folder of images in a run folder."""


def read_image(folder: Path, name: str) -> bytes:
    """Return the bytes of one of a run's images; any folders in ``name`` are ignored."""
    path = folder / IMAGES / Path(name).name
    try:
        return path.read_bytes()
    except OSError as error:
        raise StorageError(
            f"could not read {path} ({error.strerror or error}); restore it from a backup."
        ) from error


def sample_of(row: Mapping[str, Any], folder: Path) -> Sample:
    """Return a sample as the journal recorded it."""
    return Sample(
        text=row["text"],
        image=None if row["image"] is None else read_image(folder, row["image"]),
        vector=None if row["embedding"] is None else embedding_of(row),
        prompt=row["prompt"],
        source=row["source"],
        quality=row["quality"],
        cost=row["cost"],
        input_tokens=row["input_tokens"],
        output_tokens=row["output_tokens"],
    )
