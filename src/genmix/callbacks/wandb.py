"""Log to Weights & Biases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from genmix.callbacks.base import Logger
from genmix.core.optional import require

if TYPE_CHECKING:
    from genmix.runs.timeline import Live


class WandB(Logger):
    """Log to a new Weights & Biases run whose config is the study.

    Parameters
    ----------
    every : int, optional
        Number of samples between log entries. By default, log whenever the timeline has a new entry.
    **options
        Passed to ``wandb.init``, e.g. ``project``, ``mode`` or ``dir``.

    Raises
    ------
    InputError
        If the ``wandb`` package is not installed.

    Examples
    --------
    >>> import genmix as gx
    >>> from genmix.callbacks import WandB
    >>> gx.run("study.yaml", callbacks=[WandB(project="cities")])  # doctest: +SKIP
    """

    def __init__(self, every: int | None = None, **options: Any) -> None:
        super().__init__(every)
        self._wandb = require("wandb", extra="wandb", what="WandB()")
        self._options, self._run = options, None  # type: tuple[dict[str, Any], Any]

    def open(self, live: Live) -> None:
        study = {"name": live.study.name, "config": live.study.plain()}
        self._run = self._wandb.init(**(study | self._options))

    def log(self, numbers: dict[str, float], step: int) -> None:
        self._run.log(numbers, step=step, commit=True)

    def close(self) -> None:
        self._run.finish()
