"""Images of a run: files named by ticket, so that no label or prompt has a say in a path."""

from __future__ import annotations

from pathlib import Path

from genmix.core.atomic import draft_of, make_folder
from genmix.errors import StorageError
from genmix.runs.journal import JournalError

FOLDER = "images"


def save_image(folder: Path, ticket: int, content: bytes) -> str:
    """Write an image whole or not at all, and give its name."""
    name = f"{ticket:08d}.png"
    target = folder / FOLDER / name
    advice = "make room or mend the disk, then resume the run"
    try:
        make_folder(target.parent, advice)
        with draft_of(target, advice) as draft:
            draft.write_bytes(content)
    except StorageError as error:
        raise JournalError(f"the image {error}") from error
    return name


def read_image(folder: Path, name: str) -> bytes:
    return (folder / FOLDER / Path(name).name).read_bytes()
