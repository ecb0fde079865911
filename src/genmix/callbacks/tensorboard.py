"""Log to TensorBoard event files; this requires only the ``tensorboard`` package."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genmix.callbacks.base import Logger
from genmix.core.optional import require

if TYPE_CHECKING:
    from genmix.runs.timeline import Live


class TensorBoard(Logger):
    """Write scalars to a folder that ``tensorboard --logdir`` reads.

    Parameters
    ----------
    folder : str or path, optional
        The folder to write to. Default: ``tensorboard`` in the run folder.
    every : int, optional
        Number of samples between log entries. By default, log whenever the timeline has a new entry.

    Raises
    ------
    InputError
        If the ``tensorboard`` package is not installed.

    Examples
    --------
    >>> import genmix as gx
    >>> from genmix.callbacks import TensorBoard
    >>> gx.run("study.yaml", callbacks=[TensorBoard("logs")])  # doctest: +SKIP
    """

    def __init__(
        self, folder: str | os.PathLike[str] | None = None, every: int | None = None
    ) -> None:
        super().__init__(every)
        self._summary = require("tensorboard.summary", extra="tensorboard", what="TensorBoard()")
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
