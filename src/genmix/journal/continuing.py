"""Say how to continue a run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from genmix.core.python_objects import contains_names
from genmix.errors import GenmixError
from genmix.journal.reader import JournalReader


def resume_command(
    folder: Path,
    study: Mapping[str, Any] | None = None,
    changed_study: str | None = None,
    **limits: str,
) -> str:
    """Return the command that continues a run, or a Python call if its study contains Python objects.

    ``study`` is the plain study of the run; by default, it is read from the journal. ``changed_study`` is the
    file with which it continues. ``limits`` are new totals, e.g. ``samples="500"``.
    """
    if study is None:
        study = {}
        with suppress(GenmixError), JournalReader.open(folder) as journal:
            study = journal.meta("study") or {}
    # "." would be meaningless in another working directory.
    place = str(folder if folder.name else folder.resolve())
    if contains_names(study):
        values = {key: repr(value) if key == "time" else value for key, value in limits.items()}
        passed = ["study=study", *(f"{key}={value}" for key, value in values.items())]
        return f"gx.resume({place!r}, {', '.join(passed)})"
    file = [] if changed_study is None else [f"--study {shlex.quote(changed_study)}"]
    options = [*file, *(f"--{key} {value}" for key, value in limits.items())]
    return " ".join(["genmix resume", shlex.quote(place), *options])
