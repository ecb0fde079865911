"""Files that are whole or not there: a draft beside the file takes its place once all of it is written."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from genmix.errors import InputError

ADVICE = "check the folder and its room"


@contextmanager
def draft_of(target: Path, advice: str = ADVICE) -> Iterator[Path]:
    """A path to write to; an old ``target`` stays until the block has ended and the disk has it all."""
    draft = Path(f"{target}.{os.getpid()}-{threading.get_ident()}.part")
    try:
        yield draft
        with draft.open("rb+") as written:
            os.fsync(written.fileno())
        draft.replace(target)
    except OSError as error:
        raise InputError(
            f"{target} could not be written ({error.strerror or error}): {advice}."
        ) from error
    finally:
        with suppress(OSError):
            draft.unlink()


def write_text(target: Path, text: str, advice: str = ADVICE) -> None:
    with draft_of(target, advice) as draft:
        draft.write_text(text, "utf-8")


def write_json(target: Path, content: Any, advice: str = ADVICE) -> None:
    """JSON for people too: indented, in their own letters."""
    write_text(target, json.dumps(content, indent=2, ensure_ascii=False) + "\n", advice)


def remove(file: Path) -> None:
    try:
        file.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{file} cannot be removed ({error.strerror}): {ADVICE}.") from error


def sweep(folder: Path) -> None:
    """Remove the drafts of processes that were killed."""
    for draft in folder.glob("*.part"):
        process = re.search(r"\.(\d+)-\d+\.part$", draft.name)
        if process is not None and not is_alive(int(process[1])):
            with suppress(OSError):
                draft.unlink()


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


def make_folder(folder: Path, advice: str = "name another") -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be made ({error.strerror}): {advice}.") from error
