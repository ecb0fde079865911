"""Weights & Biases: one W&B run for each run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from genmix.callbacks.base import Logger
from genmix.core.optional import need

if TYPE_CHECKING:
    from genmix.runs.run import Live


class WandB(Logger):
    """Logs into a W&B run; ``options`` go to ``wandb.init``, such as ``project``, ``mode`` or ``dir``."""

    def __init__(self, every: int | None = None, **options: Any) -> None:
        super().__init__(every)
        self._wandb = need("wandb", extra="wandb", what="WandB()")
        self._options, self._run = options, None  # type: tuple[dict[str, Any], Any]

    def open(self, live: Live) -> None:
        study = {"name": live.study.name, "config": live.study.plain()}
        self._run = self._wandb.init(**(study | self._options))

    def log(self, numbers: dict[str, float], step: int) -> None:
        self._run.log(numbers, step=step, commit=True)

    def close(self) -> None:
        self._run.finish()
