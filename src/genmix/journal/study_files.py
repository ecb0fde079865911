"""Files that a run needs to continue: its study, and what the study names."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from genmix.core.atomic import is_same_file
from genmix.errors import GenmixError
from genmix.journal.reader import JournalReader

KEYS = ("file", "function", "path", "reference")
"""Settings of a study that name files."""


def is_needed(target: Path, run: Path) -> bool:
    """Return whether a run needs an existing file; False if its journal cannot be read."""
    if not os.path.exists(target):
        return False
    with suppress(GenmixError), JournalReader.open(run) as journal:
        folder, file = journal.study_folder(), journal.meta("file")
        names = [*_names_in(journal.study()), *([] if file is None else [file])]
        return any(_is_part(target, folder / os.path.expanduser(name)) for name in names)
    return False


def _names_in(study: Any) -> Iterator[str]:
    """Iterate over the files and folders that the settings of a study name."""
    if isinstance(study, Mapping):
        for key, value in study.items():
            if key in KEYS and isinstance(value, str):
                yield f"{value.partition(':')[0]}.py" if key == "function" else value
            yield from _names_in(value)
    elif isinstance(study, list):
        for value in study:
            yield from _names_in(value)


def _is_part(target: Path, source: Path) -> bool:
    """Return whether a file is a source of samples, or in a folder of samples."""
    if not os.path.isdir(source):
        return is_same_file(target, source)
    return Path(os.path.realpath(target)).is_relative_to(os.path.realpath(source))
