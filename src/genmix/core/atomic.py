"""Atomic file writes: content goes to a draft file, which replaces the target once complete.

Also the folder for what can be computed again.
"""

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

from genmix.core.optional import require_all
from genmix.errors import InputError, StorageError

ADVICE = "check the folder and its free space"
DRAFT = ".genmix.part"


def cache_folder() -> Path:
    """Return ``$GENMIX_CACHE``, or ``genmix`` in ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    if named := os.environ.get("GENMIX_CACHE"):
        return Path(named).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "genmix"


@contextmanager
def draft_of(target: Path, advice: str = ADVICE) -> Iterator[Path]:
    """Yield the path of a draft file, which replaces ``target`` at the end of the block."""
    draft = draft_path(target)
    try:
        yield draft
        with draft.open("rb+") as written:
            os.fsync(written.fileno())
        draft.replace(target)
    except OSError as error:
        raise _write_error(target, error, advice) from error
    finally:
        with suppress(OSError):
            draft.unlink()


def move(draft: Path, target: Path, advice: str = ADVICE) -> None:
    """Replace ``target`` with a complete file in the same folder."""
    try:
        draft.replace(target)
    except OSError as error:
        raise _write_error(target, error, advice) from error


def _write_error(target: Path, error: OSError, advice: str) -> StorageError:
    return StorageError(f"could not write {target} ({error.strerror or error}); {advice}.")


def write_text(target: Path, text: str, advice: str = ADVICE) -> None:
    with draft_of(target, advice) as draft:
        draft.write_text(text, "utf-8")


def write_json(target: Path, content: Any, advice: str = ADVICE) -> None:
    """Write indented JSON; non-ASCII characters are not escaped."""
    write_text(target, json.dumps(content, indent=2, ensure_ascii=False) + "\n", advice)


def write_parquet(target: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows, which must all have the same keys, to a Parquet table."""
    modules = ("pyarrow", "pyarrow.parquet")
    arrow, parquet = require_all(modules, extra="paper", what="a Parquet table")
    with draft_of(target) as draft:
        parquet.write_table(arrow.Table.from_pylist(rows), draft)


def remove(file: Path) -> None:
    try:
        file.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"could not remove {file} ({error.strerror}); {ADVICE}.") from error


def draft_path(target: Path) -> Path:
    """Return a path next to the target that no other process or thread uses."""
    return Path(f"{target}.{_host_hash()}-{os.getpid()}-{threading.get_ident()}{DRAFT}")


def _host_hash() -> str:
    return f"{zlib.crc32(place().encode()):08x}"


def place() -> str:
    """Return the scope in which a process ID is unique: the machine and the container."""
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return f"{socket.gethostname()}/{space}"


def sweep(folder: Path) -> None:
    """Remove drafts left by killed processes from a folder that only genmix writes to."""
    for draft in folder.glob(f"*{DRAFT}"):
        _sweep_draft(draft)


def sweep_drafts_of(target: Path) -> None:
    """Remove drafts of ``target`` left by killed processes; leave other files alone."""
    for draft in target.parent.glob(f"{glob.escape(target.name)}.*{DRAFT}"):
        _sweep_draft(draft)


def _sweep_draft(draft: Path) -> None:
    process = re.search(rf"\.{_host_hash()}-(\d+)-\d+{re.escape(DRAFT)}$", draft.name)
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


def check_writable(target: Path) -> None:
    """Raise an error if a file cannot be written, before the work of computing its content."""
    if not os.path.isdir(target.parent):
        raise InputError(f"there is no folder {target.parent} for {target.name}; create it.")
    if os.path.isdir(target):
        raise InputError(f"{target} is a folder; add the name of a file.")
    if os.path.exists(target) and not os.path.isfile(target):
        raise InputError(f"{target} exists and is not a regular file; choose another file.")
    draft = draft_path(target)
    try:
        draft.open("xb").close()
    except OSError as error:
        raise _write_error(target, error, ADVICE) from error
    finally:
        with suppress(OSError):
            draft.unlink()


def check_folder(folder: Path) -> None:
    """Raise an error if a folder cannot be created or written to; nothing is created."""
    place = Path(os.path.abspath(folder))
    while not os.path.lexists(place):
        place = place.parent
    if not os.path.isdir(place):
        raise InputError(f"{place} is not a folder; choose another one.")
    if not os.access(place, os.W_OK | os.X_OK):
        raise StorageError(
            f"could not write to {place} (Permission denied); choose another folder."
        )


def is_same_file(first: Path, second: Path) -> bool:
    """Return whether two paths lead to the same file, e.g. through links; the file may not exist yet."""
    try:
        return os.path.samefile(first, second)
    except OSError:
        return os.path.realpath(first) == os.path.realpath(second)


def make_folder(folder: Path, advice: str = "choose another folder") -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"could not create {folder} ({error.strerror}); {advice}.") from error
