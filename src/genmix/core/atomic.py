"""Files that are whole or not there: a draft beside the file takes its place once all of it is written."""

from __future__ import annotations

import glob
import json
import os
import re
import shutil
import socket
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from genmix.errors import StorageError

ADVICE = "check the folder and its room"
DRAFT = ".genmix.part"


@contextmanager
def draft_of(target: Path, advice: str = ADVICE) -> Iterator[Path]:
    """A path to write to; an old ``target`` stays until the block has ended and the disk has it all."""
    draft = draft_path(target)
    try:
        yield draft
        with draft.open("rb+") as written:
            os.fsync(written.fileno())
        draft.replace(target)
    except OSError as error:
        raise StorageError(
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
        raise StorageError(f"{file} cannot be removed ({error.strerror}): {ADVICE}.") from error


def draft_path(target: Path) -> Path:
    """Beside the target, of this process and thread alone."""
    return Path(f"{target}.{_mark()}-{os.getpid()}-{threading.get_ident()}{DRAFT}")


def _mark() -> str:
    return f"{zlib.crc32(place().encode()):08x}"


def place() -> str:
    """Where a process number means something: this machine, and this container on it."""
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return f"{socket.gethostname()}/{space}"


def sweep(folder: Path) -> None:
    """Remove the drafts of processes that were killed, in a folder that is all genmix's."""
    for draft in folder.glob(f"*{DRAFT}"):
        _sweep_draft(draft)


def sweep_drafts_of(target: Path) -> None:
    """The same for one file, in a folder where others may keep theirs."""
    for draft in target.parent.glob(f"{glob.escape(target.name)}.*{DRAFT}"):
        _sweep_draft(draft)


def _sweep_draft(draft: Path) -> None:
    process = re.search(rf"\.{_mark()}-(\d+)-\d+{re.escape(DRAFT)}$", draft.name)
    if process is not None and not is_alive(int(process[1])):
        with suppress(OSError):
            draft.unlink() if not draft.is_dir() else shutil.rmtree(draft)


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
        raise StorageError(f"{folder} cannot be made ({error.strerror}): {advice}.") from error
