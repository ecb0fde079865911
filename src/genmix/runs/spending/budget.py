"""Decide when a run ends: budgets for samples, cost and time, and early stopping."""

from __future__ import annotations

import copy
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol

from genmix.core.text import counted, number
from genmix.core.threads import in_thread
from genmix.errors import InputError
from genmix.journal.kept import predict_kept
from genmix.objectives import Score, Scores
from genmix.runs.session import Session

ROUNDING = 1e-9
"""Tolerance for rounding error in a sum of costs, relative to the budget."""

SETTLED = "weights and score have settled"
ENOUGH = "more samples would hardly improve the kept ones"
EARLY = (SETTLED, ENOUGH)
"""How the reasons begin that are recorded when a run stopped early."""

SCORE_CHECKS = 10
"""Number of score comparisons per ``over`` samples; scores are expensive to compute."""

PREDICTION = "keep gain"
"""The kind of the events that contain predictions for the kept samples."""


@dataclass
class Money:
    """The cost paid so far and upper bounds on the costs in flight; their sum never exceeds the limit."""

    limit: float | None
    paid: float = 0.0
    largest: dict[str, float] = field(default_factory=dict)
    """The cost of the most expensive sample from each arm so far."""
    spent: dict[str, float] = field(default_factory=dict)
    """The cost paid so far by arm, including failures."""
    reserved: dict[int, float] = field(default_factory=dict)
    """Upper bounds on what tickets in flight still cost; 0 for those whose sample is paid."""

    _exact: Fraction = Fraction(0)
    """The cost paid so far without rounding, so that it is the same in a run that was resumed."""

    @classmethod
    def of(
        cls,
        limit: float | None,
        paid: Iterable[float],
        largest: Mapping[str, float],
        spent: Mapping[str, float] | None = None,
    ) -> Money:
        exact = sum(map(Fraction, paid), Fraction(0))
        return cls(limit, float(exact), dict(largest), dict(spent or {}), _exact=exact)

    @property
    def left(self) -> float:
        if self.limit is None:
            return math.inf
        return max(self.limit - self.paid - math.fsum(self.reserved.values()), 0.0)

    def bound(self, arm: str, most: float | None) -> float | None:
        """Return an upper bound on a sample's cost: the arm's own, or its most expensive sample so far."""
        return self.largest.get(arm) if most is None else most

    def reserve(self, ticket: int, arm: str, most: float | None) -> bool:
        """Reserve an upper bound on a sample's cost; return False if the budget does not cover it.

        ``most`` is the arm's own bound. The first sample of unknown cost reserves the rest of the budget,
        so nothing else runs alongside it.
        """
        if self.limit is None:
            return True
        bound = self.bound(arm, most)
        if bound is None:
            bound = self.left
            if bound <= 0 and self.limit > 0:
                return False
        if bound > self.left + ROUNDING * self.limit:
            return False
        self.reserved[ticket] = bound
        return True

    def pay(self, arm: str, cost: float | None) -> None:
        if cost is not None:
            self._exact += Fraction(cost)
            self.paid = float(self._exact)
            self.largest[arm] = max(cost, self.largest.get(arm, 0.0))
            self.spent[arm] = self.spent.get(arm, 0.0) + cost

    def settle(self, *tickets: int) -> None:
        """Record that the samples of these tickets are paid."""
        if self.limit is not None:
            self.reserved |= dict.fromkeys(tickets, 0.0)

    def release(self, ticket: int) -> None:
        self.reserved.pop(ticket, None)


@dataclass
class Clock:
    """The running time of a study across all sessions."""

    limit: float | None
    before: float = 0.0
    """Running time of earlier sessions in seconds."""
    started: float = field(default_factory=time.monotonic)

    @property
    def elapsed(self) -> float:
        return self.before + time.monotonic() - self.started

    @property
    def left(self) -> float:
        return math.inf if self.limit is None else self.limit - self.elapsed


@dataclass
class Limits:
    """The limits at which the loop stops asking for samples."""

    samples: int | None
    in_flight: int
    give_up: float
    """Seconds after which the run stops if all arms are suspended and no sample has been told."""
    warm_start: int = 10
    goal: int | None = None
    """The number of samples that the study asks for; a cost budget is planned to suffice for them."""
    early_stop: Callable[[], Awaitable[str | None]] | None = None
    """Returns a reason to stop before the budget is spent, if there is one."""

    def allows(self, samples: int) -> bool:
        """Return whether the sample budget allows this many samples."""
        return self.samples is None or samples <= self.samples

    async def reached(self, told: int, clock: Clock) -> str | None:
        """Return the reason to stop, if there is one."""
        if self.samples is not None and told >= self.samples:
            return f"the budget of {counted(self.samples, 'sample')} is spent"
        if clock.left <= 0:
            return f"the time budget of {clock.limit:g} seconds is spent"
        return None if self.early_stop is None else await self.early_stop()


def time_left(
    budget: Mapping[str, float | None],
    samples: int,
    cost: float,
    elapsed: float,
    rate: float | None,
) -> float | None:
    """Estimate the seconds until the first budget is spent; return None if there is no estimate yet.

    Parameters
    ----------
    budget : mapping
        ``samples``, ``cost`` and ``time``; a budget that is None or missing is unlimited.
    samples, cost, elapsed
        Usage so far: told samples, cost, and seconds.
    rate : float or None
        Samples per second.
    """
    limits = {key: budget.get(key) for key in ("samples", "cost", "time")}
    estimates = []
    if limits["samples"] is not None and rate:
        estimates.append((limits["samples"] - samples) / rate)
    if limits["time"] is not None:
        estimates.append(limits["time"] - elapsed)
    if limits["cost"] and cost and samples and rate:
        estimates.append((limits["cost"] - cost) / (cost / samples) / rate)
    return max(min(estimates), 0.0) if estimates else None


class StoppingRule(Protocol):
    """A study's ``stop_when`` settings."""

    weights_within: float | None
    score_within: float | None
    keep_gain_below: float | None
    over: int


class KeepGain:
    """Predicts what the next samples are worth for the kept set, as the number of samples grows.

    A prediction depends only on the samples before a checkpoint, and it is journaled. A resumed run therefore
    stops at the same sample, and does not predict again.
    """

    def __init__(self, more: int, session: Session) -> None:
        self._more, self._session = more, session
        self._keep = session.journal.meta("study").get("keep")
        self._gains: dict[int, float | None] = {
            event["detail"]["samples"]: event["detail"]["gain"]
            for event in session.journal.events()
            if event["kind"] == PREDICTION and self._is_current(event["detail"])
        }

    def _is_current(self, detail: Mapping[str, Any]) -> bool:
        return (detail.get("more"), detail.get("keep")) == (self._more, self._keep)

    def _checkpoint(self, told: int) -> int:
        """Return the last checkpoint at or before ``told`` samples."""
        point = self._more
        while (after := point + max(1, self._more // 4, point // 10)) <= told:
            point = after
        return point

    async def prepare(self, told: int) -> None:
        """Predict in a thread, because replies must be journaled while the prediction is computed."""
        point = self._checkpoint(told)
        if point <= told and point not in self._gains:
            self._record(point, await in_thread(lambda: self._predict(point)))

    def at(self, told: int) -> float | None:
        """Return the gain at the last checkpoint; None if there are too few samples for a prediction."""
        point = self._checkpoint(told)
        if point > told:
            return None
        if point not in self._gains:
            self._record(point, self._predict(point))
        return self._gains[point]

    def _predict(self, point: int) -> dict[str, Any] | None:
        session = self._session
        folder, objective = session.journal.path.parent, session.selector.objective
        try:
            return predict_kept(folder, objective, point, self._more, seed=0)
        except InputError:  # e.g. too few samples
            return None

    def _record(self, point: int, found: dict[str, Any] | None) -> None:
        self._gains[point] = None if found is None else found["gain"]
        if found is not None:
            self._session.journal.event(PREDICTION, **found, keep=self._keep)


class EarlyStopping:
    """Stops a run when weights and score have been stable over the last ``over`` samples.

    With ``keep_gain_below``, the next ``over`` samples must also be worth less than that for the kept set.
    """

    def __init__(self, rule: StoppingRule, session: Session) -> None:
        self._rule, self._session = rule, session
        self._gain = None if rule.keep_gain_below is None else KeepGain(rule.over, session)
        self._history: deque[tuple[int, dict[str, float]]] = deque()
        self._scored_at = 0
        self._reason: str | None = None

    async def check_soon(self) -> str | None:
        """Return the reason to stop like ``check``, but without blocking while it is computed."""
        selector = self._session.selector
        if selector.is_warm and self._gain is not None:
            await self._gain.prepare(selector.total)
        return self.check()

    def check(self) -> str | None:
        """Return the reason to stop if every part of the rule is satisfied.

        The result changes only when a sample is told. Therefore a run that was killed after the rule was
        satisfied stops at the same point when it is resumed.
        """
        selector = self._session.selector
        told = selector.total
        if not selector.is_warm:
            return None
        if not self._history or self._history[-1][0] != told:
            self._reason = self._evaluate(told)
        return self._reason

    def _evaluate(self, told: int) -> str | None:
        history, over = self._history, self._rule.over
        history.append((told, self._session.selector.mixture))
        while len(history) > 1 and told - history[1][0] >= over:
            history.popleft()
        if told - history[0][0] < over or not self._weights_are_stable():
            return None
        if self._rule.score_within is not None:
            if told - self._scored_at < over / SCORE_CHECKS:
                return None
            self._scored_at = told
            if not self._is_score_close(self._rule.score_within):
                return None
        if self._gain is not None and self._rule.keep_gain_below is not None:
            gain = self._gain.at(told)
            if gain is None or gain >= self._rule.keep_gain_below:
                return None
            return f"{ENOUGH}: another {over} are worth about {number(gain, 2)}"
        return f"{SETTLED} over the last {over} samples"

    def _weights_are_stable(self) -> bool:
        within = self._rule.weights_within
        if within is None:
            return True
        now = self._history[-1][1]
        return all(
            set(then) == set(now) and max(abs(then[arm] - now[arm]) for arm in now) <= within
            for _, then in self._history
        )

    def _is_score_close(self, within: float) -> bool:
        """Return whether the samples so far score about as well as the current mixture."""
        selector = copy.copy(self._session.selector)
        pairs = zip(_values(selector.pooled_score), _values(selector.score), strict=True)
        return all(abs(pooled - best) <= within * max(abs(best), 1e-12) for pooled, best in pairs)


def _values(scores: Scores | None) -> list[float]:
    if scores is None:
        return []
    return [float(s) for s in ([scores] if isinstance(scores, Score) else scores.values())]
