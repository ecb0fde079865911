"""Finished runs on disk, one small JSON file each, named by all that the run depends on."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

from genmix.comparison.cell import Cell
from genmix.core.atomic import make_folder, write_text
from genmix.errors import InputError


class Store:
    """A folder of finished runs: made once, found again by any comparison that needs the same."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        make_folder(folder)

    def _file(self, key: str) -> Path:
        return self.folder / f"{key}.json"

    def has(self, key: str) -> bool:
        return self._file(key).exists()

    def write(self, key: str, cell: Cell) -> None:
        """Whole or not at all, so that a kill leaves nothing half."""
        text = json.dumps(asdict(cell))
        write_text(self._file(key), text, "make room, then run it again")

    def read(self, key: str, label: str) -> Cell:
        """The run; ``label`` is what it is called this time."""
        file = self._file(key)
        try:
            return replace(Cell(**json.loads(file.read_text("utf-8"))), label=label)
        except (OSError, ValueError, TypeError) as error:
            raise InputError(f"{file} is damaged ({error}): delete it and run it again.") from error
