"""How a run goes: weights and scores, written into the journal while samples come in.

Looking changes nothing: neither the mixture nor what a resumed run does again depends on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from genmix.core.plain import by_name, finite
from genmix.objectives.base import Scores
from genmix.runs.session import Session

GROWTH = 0.02
"""Samples must have grown by this fraction before the next look: looks stay few, and cheap."""


@dataclass(frozen=True)
class Look:
    """Where a run stands."""

    samples: int
    weights: dict[str, float]
    score: dict[str, float | None] | None
    """Of the mixture, by name; None until the warm start is complete."""
    pooled: dict[str, float | None] | None
    """Of all samples together."""


class Timeline:
    """Looks at a session now and then, and writes down what it saw."""

    def __init__(self, session: Session) -> None:
        self._session = session
        before: list[dict[str, Any]] = session.journal.timeline()[-1:]
        self._next = _after(before[0]["samples"]) if before else 1
        self.latest: Look | None = None
        """What was written last in this session."""

    def follow(self) -> None:
        """Write a row if enough samples have come since the last one."""
        if sum(self._session.selector.counts.values()) >= self._next:
            self.write()

    def write(self) -> None:
        """Write a row now, unless there is nothing to tell yet."""
        selector = self._session.selector
        if not any(selector.counts.values()):
            return
        with self._session.threads():
            found = Look(
                sum(selector.counts.values()),
                selector.mixture,
                plain_values(selector.score),
                plain_values(selector.pooled_score),
            )
        self._session.journal.went(found.samples, found.weights, found.score, found.pooled)
        self._next = _after(found.samples)
        self.latest = found


def _after(samples: int) -> int:
    return samples + max(1, int(GROWTH * samples))


def plain_values(scores: Scores | None) -> dict[str, float | None] | None:
    """The numbers alone, by name."""
    if scores is None:
        return None
    return {name: finite(float(score)) for name, score in by_name(scores).items()}
