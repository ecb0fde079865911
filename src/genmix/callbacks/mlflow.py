"""MLflow: metrics of a run, with the study as parameters."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

from genmix.callbacks.base import Logger
from genmix.core.optional import need

if TYPE_CHECKING:
    from genmix.runs.run import Live

NOT_ALLOWED = re.compile(r"[^\w\-. ]", re.ASCII)
"""What MLflow does not take in the name of a metric; a slash would make a folder in its file store."""

LONGEST = 250
AT_ONCE = 1000


class MLflow(Logger):
    """Logs into the active MLflow run, or into one of its own, named after the study.

    ``experiment`` is the name of the experiment that a run of its own goes to; ``tracking_uri`` where
    MLflow keeps it, by default what MLflow was told.
    """

    def __init__(
        self,
        experiment: str | None = None,
        tracking_uri: str | None = None,
        every: int | None = None,
    ) -> None:
        super().__init__(every)
        self._mlflow = need("mlflow", extra="mlflow", what="MLflow()")
        self._client: Any = self._mlflow.MlflowClient(tracking_uri=tracking_uri)
        self._experiment = experiment
        # The active run belongs to a thread, and the study may run in another than this one.
        active = self._mlflow.active_run()
        self._active: str | None = None if active is None else active.info.run_id
        self._run: str = ""

    def open(self, live: Live) -> None:
        if self._active is not None:
            self._run = self._active
        else:
            made = self._client.create_run(self._place(), run_name=live.study.name)
            self._run = made.info.run_id
        settings = {"policy": live.study.policy.name, "seed": live.study.seed}
        settings["objective"] = repr(live.selector.objective)[:500]
        for name, value in settings.items():
            self._client.set_tag(self._run, f"genmix.{name}", str(value))

    def _place(self) -> str:
        if self._experiment is None:
            return "0"
        found = self._client.get_experiment_by_name(self._experiment)
        if found is not None:
            return str(found.experiment_id)
        return str(self._client.create_experiment(self._experiment))

    def log(self, numbers: dict[str, float], step: int) -> None:
        now = int(1000 * time.time())
        metric = self._mlflow.entities.Metric
        told = [metric(n, float(v), now, step) for n, v in _renamed(numbers).items()]
        for first in range(0, len(told), AT_ONCE):
            self._client.log_batch(self._run, metrics=told[first : first + AT_ONCE])

    def close(self) -> None:
        if self._active is None:
            self._client.set_terminated(self._run)


def _renamed(numbers: dict[str, float]) -> dict[str, float]:
    """Names that MLflow takes; two that become alike get a number."""
    found: dict[str, float] = {}
    for name, value in numbers.items():
        what, slash, whose = name.partition("/")
        plain = base = f"{what}{slash}{NOT_ALLOWED.sub('_', whose)}"[:LONGEST]
        count = 2
        while plain in found:
            plain, count = f"{base[: LONGEST - 6]} {count}", count + 1
        found[plain] = value
    return found
