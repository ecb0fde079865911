"""The base class for loggers, and the metrics that they log."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from genmix.core.text import quotable
from genmix.errors import whole

if TYPE_CHECKING:
    from genmix.runs.result import Run
    from genmix.runs.timeline import Live


def flat(live: Live) -> dict[str, float]:
    """Collect the metrics of a running study in a flat dict.

    Parameters
    ----------
    live : Live
        The running study, as passed to a callback.

    Returns
    -------
    dict of str to float
        ``samples``, ``cost``, ``failures``, and ``weight/ARM``, ``count/ARM``, ``failed/ARM``,
        ``score/NAME`` and ``pooled/NAME``. Scores come from the latest timeline entry; they are
        missing until the warm start is complete.
    """
    selector, loop = live.selector, live.loop
    found: dict[str, float] = {
        "samples": live.told,
        "cost": loop.money.paid,
        "failures": sum(loop.failures.values()),
    }
    found |= {f"weight/{arm}": weight for arm, weight in selector.mixture.items()}
    found |= {f"count/{arm}": count for arm, count in selector.counts.items()}
    found |= {f"failed/{arm}": count for arm, count in loop.failures.items()}
    for kind in ("score", "pooled"):
        values = getattr(live.timeline.latest, kind, None) or {}
        found |= {f"{kind}/{name}": value for name, value in values.items() if value is not None}
    return found


class Logger(ABC):
    """Base class for callbacks that log a running study to another tool.

    A subclass implements ``open``, ``log`` and ``close``. If one of them raises, the logger warns once
    and stops logging, because a tool that is down must not stop a run that costs money. A logger can be
    used for several runs, one after another.

    Parameters
    ----------
    every : int, optional
        Number of samples between log entries. By default, log whenever the timeline has a new entry.

    Raises
    ------
    InputError
        If ``every`` is not a whole number of at least 1.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import genmix as gx
    >>> from genmix.callbacks import Logger
    >>> class Printer(Logger):
    ...     def open(self, live):
    ...         print("logging", live.study.name)
    ...
    ...     def log(self, numbers, step):
    ...         print(step, numbers["count/a"] + numbers["count/b"])
    ...
    ...     def close(self):
    ...         print("done")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for seed, arm in enumerate("ab"):
    ...         rows = np.random.default_rng(seed).normal(size=(40, 2))
    ...         np.save(f"{folder}/{arm}.npy", rows)
    ...     study = {
    ...         "name": "example",
    ...         "arms": {arm: {"kind": "recorded", "path": f"{folder}/{arm}.npy"} for arm in "ab"},
    ...         "objective": "vendi",
    ...         "budget": {"samples": 40},
    ...     }
    ...     run = gx.run(study, f"{folder}/run", callbacks=[Printer(every=20)])
    logging example
    20 20
    40 40
    done
    """

    def __init__(self, every: int | None = None) -> None:
        self._every = None if every is None else whole(every, "every", 1)
        self._logged_at = 0
        self._is_open = False
        self._has_failed = False

    def __call__(self, live: Live) -> None:
        """Log the study if an entry is due."""
        if self._is_due(live):
            self._logged_at = live.told
            self._guard(lambda: self._log(live))

    def finish(self, run: Run) -> None:
        """Close the log at the end of a run."""
        if self._is_open:
            self._guard(self.close)
        self._is_open, self._logged_at = False, 0

    def _is_due(self, live: Live) -> bool:
        if self._every is not None:
            return live.told >= self._logged_at + self._every
        latest = live.timeline.latest
        return latest is not None and latest.samples > self._logged_at

    def _log(self, live: Live) -> None:
        if not self._is_open:
            self.open(live)
            self._is_open = True
        self.log(flat(live), live.told)

    def _guard(self, work: Callable[[], None]) -> None:
        if self._has_failed:
            return
        try:
            work()
        except Exception as error:  # third-party tools can raise anything
            self._has_failed = True
            name = type(self).__name__
            warnings.warn(
                f"{name} stopped logging this run: {quotable(error)}", RuntimeWarning, stacklevel=2
            )

    @abstractmethod
    def open(self, live: Live) -> None:
        """Open the log; called just before the first call to ``log`` in a run."""

    @abstractmethod
    def log(self, numbers: dict[str, float], step: int) -> None:
        """Log the numbers that ``flat`` returns; ``step`` is the number of samples so far."""

    @abstractmethod
    def close(self) -> None:
        """Close the log at the end of a run."""
