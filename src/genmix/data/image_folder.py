"""List the images in a folder."""

from __future__ import annotations

import os
from pathlib import Path

from genmix.data.png import SUFFIXES
from genmix.data.shard_files import SUFFIXES as SHARD_SUFFIXES
from genmix.data.text_files import is_outside
from genmix.errors import InputError


def image_files(folder: Path) -> list[Path]:
    """Return the images in a folder and its subfolders, sorted by path.

    Hidden files are skipped. A link to a place outside the folder is refused, so that nothing outside
    is read.
    """
    found: list[Path] = []
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            entry = Path(place, name)
            if entry.is_symlink() and is_outside(entry, folder):
                raise InputError(
                    f"{entry} is a link to a place outside {folder}; copy the images into the folder."
                )
        found += [Path(place, name) for name in files if _is_image(Path(place, name))]
    if not found:
        raise InputError(
            f"{folder} contains no images ({', '.join(SUFFIXES)}) and no files of embeddings "
            f"({', '.join(SHARD_SUFFIXES)}); correct the path."
        )
    return sorted(found)


def has_images(folder: Path) -> bool:
    """Return whether a folder or its subfolders contain an image."""
    return any(
        _is_image(Path(place, name)) for place, _, files in os.walk(folder) for name in files
    )


def _is_image(file: Path) -> bool:
    return (
        file.suffix.lower() in SUFFIXES and not file.name.startswith(".") and os.path.isfile(file)
    )
