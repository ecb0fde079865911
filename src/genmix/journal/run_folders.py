"""Recognize run folders, and say what else a path is."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

from genmix.errors import InputError
from genmix.journal.schema import JOURNAL

STUDIES = (".yaml", ".yml")


def check_run_folder(folder: Path) -> None:
    """Raise InputError unless a path is a run folder; say what it is and what to pass instead."""
    if os.path.exists(folder / JOURNAL):  # Path.exists raises an error if the name is too long
        return
    if not os.path.exists(folder):
        raise InputError(
            f"{folder} is not a run folder because it does not exist; check the path, or list the runs "
            "with `genmix ls`."
        )
    if os.path.isdir(folder):
        raise InputError(
            f"{folder} is not a run folder because it has no {JOURNAL}; pass the folder of a run"
            f"{_example_in(folder)}."
        )
    advice = "pass the folder of a run"
    if os.path.exists(folder.parent / JOURNAL):
        advice = f"pass the folder of its run, {folder.parent}"
    elif folder.suffix.lower() in STUDIES:
        advice = f"start a run with `genmix run {folder}`, or pass the folder of a run"
    raise InputError(f"{folder} is a file and not a run folder; {advice}.")


def _example_in(folder: Path) -> str:
    """Name a run in a folder of runs."""
    found = sorted(islice(folder.glob(f"*/{JOURNAL}"), 100))
    return f", e.g. {found[0].parent}" if found else ""
