"""The progress of a run: what callbacks see, and the timeline of weights and scores in the journal.

Reading or writing it changes neither the mixture nor what a resumed run replays.
"""

from __future__ import annotations

import copy
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from genmix.core.atomic import write_json
from genmix.core.plain import by_name, finite
from genmix.errors import GenmixError
from genmix.journal.kept import write_kept_so_far
from genmix.journal.prompts import GROUPS, told_by_group
from genmix.objectives import Objective, Scores
from genmix.runs.session import Session
from genmix.selector.selector import Selector
from genmix.solvers.subset import SubsetProgress
from genmix.study.study import Study

if TYPE_CHECKING:
    from genmix.runs.loop import Loop

GROWTH = 0.02
"""The number of samples grows by this fraction between points, so that there are few points."""

KEPT_GROWTH = 0.2
"""The number of samples grows by this fraction between two searches for the best set so far."""

KEPT_SECONDS = 5.0
"""The longest search for the best set so far."""

PAUSE = 20.0
"""The pause after a search, or after the groups were scored, as a multiple of the time that it took."""


@dataclass(frozen=True)
class TimelinePoint:
    """Weights and scores at one point in a run."""

    samples: int
    weights: dict[str, float]
    score: dict[str, float | None] | None
    """Scores of the mixture by name; None until the warm start is complete."""
    pooled: dict[str, float | None] | None
    """Scores of all samples together."""


class Timeline:
    """Journals weights and scores as the number of samples grows."""

    def __init__(self, session: Session) -> None:
        self._session, self._groups = session, GroupsSoFar()
        points = session.journal.timeline()
        if points and points[-1]["samples"] == session.selector.total:
            # The last session ended with it. It is written again if it is due.
            session.journal.remove_from_timeline(points.pop()["samples"])
        self._next = _next_point(points[-1]["samples"]) if points else 1
        self.latest: TimelinePoint | None = None
        """The last point of this session."""

    def update(self) -> None:
        """Add a point if enough samples have been told since the last one."""
        if self._session.selector.total >= self._next:
            self.write()

    def write(self, at_end: bool = False) -> None:
        """Add a point now, unless there is no sample yet; the last one scores the mixture on all samples."""
        selector = copy.copy(self._session.selector)
        if not any(selector.counts.values()):
            return
        with self._session.threads():
            if at_end:
                selector.certify()
            point = TimelinePoint(
                selector.total,
                selector.mixture,
                plain_values(selector.score),
                plain_values(selector.pooled_score),
            )
        self._session.journal.write_timeline(
            point.samples, point.weights, point.score, point.pooled
        )
        self._groups.write(self._session, selector, at_end)
        self._next = _next_point(point.samples)
        self.latest = point


class GroupsSoFar:
    """Writes the weights and the score of each group of prompts next to the journal, only for display."""

    def __init__(self) -> None:
        self._earliest = 0.0

    def write(self, session: Session, selector: Selector, at_end: bool) -> None:
        """Write them, unless there are no groups, or the last time was slow and recent."""
        begin = monotonic()
        if not selector.groups or (begin < self._earliest and not at_end):
            return
        with session.threads():
            scores = {g: plain_values(s) for g, s in selector.score_by_group.items()}
        counts = told_by_group(session.journal)
        found = {
            group: {
                "weights": weights,
                "scores": scores.get(group, {}),
                "counts": counts.get(group, {}),
            }
            for group, weights in selector.weights_by_group.items()
        }
        content = {"samples": selector.total, "groups": found}
        with suppress(GenmixError):  # e.g. a full disk: the run does not need it
            write_json(session.journal.path.with_name(GROUPS), content)
        self._earliest = monotonic() + PAUSE * (monotonic() - begin)


class KeptSoFar:
    """Scores the best set of the samples so far in a thread, at growing intervals.

    The result is only for display. It neither blocks the run nor changes what it keeps in the end.
    """

    def __init__(self, study: Study, folder: Path) -> None:
        self._is_needed, self._folder = study.keep is not None, folder
        self._next = 0
        self._earliest = 0.0
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()

    def update(self, told: int, objective: Objective) -> None:
        """Start scoring if enough samples were told and enough time has passed since the last time."""
        is_busy = self._thread is not None and self._thread.is_alive()
        if not self._is_needed or told < self._next or is_busy or monotonic() < self._earliest:
            return
        self._next = told + max(1, int(KEPT_GROWTH * told))
        self._thread = threading.Thread(target=self._score, args=(objective,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the search and wait for its thread."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def _score(self, objective: Objective) -> None:
        begin = monotonic()

        def check(_: SubsetProgress) -> None:
            if self._stopping.is_set() or monotonic() - begin > KEPT_SECONDS:
                raise KeyboardInterrupt  # the search ends with the best set so far

        with suppress(Exception):  # e.g. the samples so far have no quality
            write_kept_so_far(self._folder, objective, check)
        self._earliest = monotonic() + PAUSE * (monotonic() - begin)


def _next_point(samples: int) -> int:
    return samples + max(1, int(GROWTH * samples))


def plain_values(scores: Scores | None) -> dict[str, float | None] | None:
    """Return the numeric scores by name, without details."""
    if scores is None:
        return None
    return {name: finite(float(score)) for name, score in by_name(scores).items()}


@dataclass
class Live:
    """A running study, as callbacks see it; reading its attributes has no side effects."""

    study: Study
    folder: Path
    loop: Loop
    timeline: Timeline

    @property
    def selector(self) -> Selector:
        return self.loop.session.selector

    @property
    def told(self) -> int:
        """Number of samples told so far."""
        return self.selector.total
