"""TensorBoard: event files that `tensorboard --logdir` reads; needs the package tensorboard alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genmix.callbacks.base import Logger
from genmix.core.optional import need

if TYPE_CHECKING:
    from genmix.runs.run import Live


class TensorBoard(Logger):
    """Writes scalars into ``folder``; by default ``tensorboard`` in the run folder."""

    def __init__(
        self, folder: str | os.PathLike[str] | None = None, every: int | None = None
    ) -> None:
        super().__init__(every)
        self._summary = need("tensorboard.summary", extra="tensorboard", what="TensorBoard()")
        self._folder = None if folder is None else Path(folder)
        self._writer: Any = None

    def open(self, live: Live) -> None:
        folder = live.folder / "tensorboard" if self._folder is None else self._folder
        self._writer = self._summary.Writer(str(folder))

    def log(self, numbers: dict[str, float], step: int) -> None:
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()
