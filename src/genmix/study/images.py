"""Images of a run: files named by ticket, so that no label or prompt has a say in a path."""

from __future__ import annotations

import os
from pathlib import Path

from genmix.study.journal import JournalError

FOLDER = "images"


def save_image(folder: Path, ticket: int, content: bytes) -> str:
    """Write an image whole or not at all, and give its name."""
    name = f"{ticket:08d}.png"
    target = folder / FOLDER / name
    try:
        target.parent.mkdir(exist_ok=True)
        draft = target.with_suffix(".part")
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
    except OSError as error:
        raise JournalError(
            f"the image {target} could not be written ({error.strerror}): "
            "make room or mend the disk, then resume the run."
        ) from error
    return name


def read_image(folder: Path, name: str) -> bytes:
    return (folder / FOLDER / Path(name).name).read_bytes()
