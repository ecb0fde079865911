"""Early stopping: when more samples would hardly change anything."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from genmix.objectives.base import Score, Scores
from genmix.runs.session import Session
from genmix.selector.selector import Selector


class Rule(Protocol):
    """A study's ``stop_when``."""

    weights_within: float | None
    score_within: float | None
    over: int


LOOKS = 10
"""Times that scores, which cost more than weights, are looked at while ``over`` samples come."""


class Watch:
    """Looks at the selector at every told sample of the last ``over``."""

    def __init__(self, rule: Rule, session: Session) -> None:
        self._rule, self._session = rule, session
        self._seen: deque[tuple[int, dict[str, float]]] = deque()
        self._scored_at = 0
        self._answer: str | None = None

    @property
    def selector(self) -> Selector:
        return self._session.selector

    def enough(self) -> str | None:
        """A reason to stop, if every part of the rule holds; the same until another sample is told, so
        that a run that was killed after it held, and is resumed, stops where it would have."""
        told = sum(self.selector.counts.values())
        if not self.selector.is_warm:
            return None
        if not self._seen or self._seen[-1][0] != told:
            self._answer = self._look(told)
        return self._answer

    def _look(self, told: int) -> str | None:
        self._seen.append((told, self.selector.mixture))
        while len(self._seen) > 1 and told - self._seen[1][0] >= self._rule.over:
            self._seen.popleft()
        if told - self._seen[0][0] < self._rule.over or not self._weights_are_stable():
            return None
        if not self._score_is_near(told):
            return None
        return f"weights and score have settled over the last {self._rule.over} samples"

    def _weights_are_stable(self) -> bool:
        if self._rule.weights_within is None:
            return True
        now = self._seen[-1][1]
        return all(
            set(then) == set(now)
            and max(abs(then[arm] - now[arm]) for arm in now) <= self._rule.weights_within
            for _, then in self._seen
        )

    def _score_is_near(self, told: int) -> bool:
        """Whether the samples in hand score as well as the current mixture does."""
        if self._rule.score_within is None:
            return True
        if told - self._scored_at < self._rule.over / LOOKS:
            return False
        self._scored_at = told
        pairs = zip(_values(self.selector.pooled_score), _values(self.selector.score), strict=True)
        return all(
            abs(pooled - best) <= self._rule.score_within * max(abs(best), 1e-12)
            for pooled, best in pairs
        )


def _values(scores: Scores | None) -> list[float]:
    if scores is None:
        return []
    return [float(s) for s in ([scores] if isinstance(scores, Score) else scores.values())]
