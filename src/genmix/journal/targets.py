"""Which files of a run folder no command may overwrite."""

from __future__ import annotations

import os
from pathlib import Path

from genmix.core.atomic import is_same_file
from genmix.errors import InputError
from genmix.journal.images import IMAGES
from genmix.journal.run_folders import check_run_folder
from genmix.journal.schema import JOURNAL
from genmix.journal.study_files import is_needed

OWN_FILES = (
    "kept.json",
    "groups.json",
    "lock",
    "report.html",
    "resume.log",
    "samples.jsonl",
    "selector.npz",
    "study.yaml",
    "summary.json",
    "weights.json",
)
"""What genmix writes into a run folder, in addition to the journal and the images."""


def check_target(target: Path, run: Path | None = None, own: str | None = None) -> None:
    """Refuse to overwrite a file that belongs to a run or is its input, or anything but a regular file.

    Parameters
    ----------
    target : Path
        The file to write.
    run : Path, optional
        A run folder that is read; other names of its files, e.g. hard links, are refused as well, and so
        are the files that its study names.
    own : str, optional
        The file of this run that the command writes, e.g. ``report.html``.
    """
    if run is not None:
        check_run_folder(run)
    if run is not None and own is not None and is_same_file(target, run / own):
        return
    owner = owner_of(target, run)
    if owner is not None:
        raise InputError(f"{target} belongs to the run in {owner}; choose another file.")
    if os.path.islink(target) or (os.path.exists(target) and not os.path.isfile(target)):
        raise InputError(f"{target} exists and is not a regular file; choose another file.")
    if run is not None and is_needed(target, run):
        raise InputError(f"{target} is an input of the run in {run}; choose another file.")


def owner_of(target: Path, run: Path | None = None) -> Path | None:
    """Return the run folder that a file belongs to; None if no run needs the file."""
    place = Path(os.path.realpath(target))
    for folder in place.parents:
        if os.path.exists(folder / JOURNAL) and _is_own(place.relative_to(folder)):
            return folder
    if run is not None and os.path.exists(target):
        found = (run / name for name in os.listdir(run) if _is_own(Path(name)))
        if any(is_same_file(target, file) for file in found):
            return run
    return None


def _is_own(name: Path) -> bool:
    """Return whether a path relative to a run folder is one of the run's own files."""
    if name.parts[0] == IMAGES:
        return True
    return str(name) in OWN_FILES or str(name).startswith(JOURNAL)
