"""What is logged of a run, and how often."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from genmix.core.text import quotable
from genmix.errors import whole

if TYPE_CHECKING:
    from genmix.runs.result import Run
    from genmix.runs.run import Live


def flat(live: Live) -> dict[str, float]:
    """A running study as numbers by name: ``weight/ARM``, ``count/ARM``, ``score/NAME``, ``pooled/NAME`` …

    Scores are those of the last entry of the timeline; there are none before the warm start is complete.
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
    look = live.timeline.latest
    for what in ("score", "pooled"):
        values = getattr(look, what, None) or {}
        found |= {f"{what}/{name}": value for name, value in values.items() if value is not None}
    return found


class Logger(ABC):
    """Logs whenever the timeline has a new entry, or with ``every`` at every so many samples.

    What it cannot log is told once as a warning: a tool that is away must not stop a run that is paid for.
    """

    def __init__(self, every: int | None = None) -> None:
        self._every = None if every is None else whole(every, "every", 1)
        self._logged_at = 0
        self._is_open = False
        self._is_broken = False

    def __call__(self, live: Live) -> None:
        if self._is_due(live):
            self._logged_at = live.told
            self._try(lambda: self._tell(live))

    def finish(self, run: Run) -> None:
        """The end of the run; a logger can then be used for another."""
        if self._is_open:
            self._try(self.close)
        self._is_open, self._logged_at = False, 0

    def _is_due(self, live: Live) -> bool:
        if self._every is not None:
            return live.told >= self._logged_at + self._every
        look = live.timeline.latest
        return look is not None and look.samples > self._logged_at

    def _tell(self, live: Live) -> None:
        if not self._is_open:
            self.open(live)
            self._is_open = True
        self.log(flat(live), live.told)

    def _try(self, work: Any) -> None:
        if self._is_broken:
            return
        try:
            work()
        except Exception as error:  # other people's tools
            self._is_broken = True
            name = type(self).__name__
            warnings.warn(
                f"{name} logs no more of this run: {quotable(error)}", RuntimeWarning, stacklevel=2
            )

    @abstractmethod
    def open(self, live: Live) -> None:
        """Begin, with the first numbers of a run."""

    @abstractmethod
    def log(self, numbers: dict[str, float], step: int) -> None:
        """Numbers at this number of samples."""

    @abstractmethod
    def close(self) -> None:
        """The end of a run."""
