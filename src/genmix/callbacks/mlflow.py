"""Log to MLflow."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

from genmix.callbacks.base import Logger
from genmix.core.optional import require

if TYPE_CHECKING:
    from genmix.runs.timeline import Live

INVALID_CHARACTERS = re.compile(r"[^\w\-. ]", re.ASCII)
"""Characters to replace in metric names; a slash would create a folder in MLflow's file store."""

MAX_NAME = 250
MAX_BATCH = 1000


class MLflow(Logger):
    """Log to the active MLflow run, or to a new one named after the study.

    Weights, counts, costs and scores become metrics; the policy, seed and objective become tags.

    Parameters
    ----------
    experiment : str, optional
        Name of the experiment for a new run. It is created if it does not exist. Default: MLflow's
        default experiment.
    tracking_uri : str, optional
        Where MLflow stores the run. Default: MLflow's current tracking URI.
    every : int, optional
        Number of samples between log entries. By default, log whenever the timeline has a new entry.

    Raises
    ------
    InputError
        If the ``mlflow`` package is not installed.

    Examples
    --------
    >>> import genmix as gx
    >>> from genmix.callbacks import MLflow
    >>> gx.run("study.yaml", callbacks=[MLflow("cities")])  # doctest: +SKIP
    """

    def __init__(
        self,
        experiment: str | None = None,
        tracking_uri: str | None = None,
        every: int | None = None,
    ) -> None:
        super().__init__(every)
        self._mlflow = require("mlflow", extra="mlflow", what="MLflow()")
        self._client: Any = self._mlflow.MlflowClient(tracking_uri=tracking_uri)
        self._experiment = experiment
        # MLflow's active run is per thread, and the study may run in a different thread.
        active = self._mlflow.active_run()
        self._active: str | None = None if active is None else active.info.run_id
        self._run: str = ""

    def open(self, live: Live) -> None:
        if self._active is not None:
            self._run = self._active
        else:
            created = self._client.create_run(self._experiment_id(), run_name=live.study.name)
            self._run = created.info.run_id
        tags = {"policy": live.study.policy.kind, "seed": live.study.seed}
        tags["objective"] = repr(live.selector.objective)[:500]
        for name, value in tags.items():
            self._client.set_tag(self._run, f"genmix.{name}", str(value))

    def _experiment_id(self) -> str:
        if self._experiment is None:
            return "0"
        found = self._client.get_experiment_by_name(self._experiment)
        if found is not None:
            return str(found.experiment_id)
        return str(self._client.create_experiment(self._experiment))

    def log(self, numbers: dict[str, float], step: int) -> None:
        now = int(1000 * time.time())
        metric = self._mlflow.entities.Metric
        metrics = [metric(n, float(v), now, step) for n, v in _valid_names(numbers).items()]
        for first in range(0, len(metrics), MAX_BATCH):
            self._client.log_batch(self._run, metrics=metrics[first : first + MAX_BATCH])

    def close(self) -> None:
        if self._active is None:
            self._client.set_terminated(self._run)


def _valid_names(numbers: dict[str, float]) -> dict[str, float]:
    """Replace characters that MLflow does not allow, and number names that would collide."""
    found: dict[str, float] = {}
    for name, value in numbers.items():
        kind, slash, label = name.partition("/")
        valid = base = f"{kind}{slash}{INVALID_CHARACTERS.sub('_', label)}"[:MAX_NAME]
        count = 2
        while valid in found:
            valid, count = f"{base[: MAX_NAME - 6]} {count}", count + 1
        found[valid] = value
    return found
