"""The part of the run loop that starts calls to the arms and journals their replies.

Tickets are grouped by arm, so that an arm gets batches of its size. Which arm a ticket is for is decided when
it is asked for, so grouping changes when samples are generated, but not how many from which arm.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from genmix.core.inbox import Inbox
from genmix.core.text import quotable
from genmix.data.samples import Sample
from genmix.engines.embedding import EmbeddingQueue
from genmix.errors import StorageError
from genmix.generators.base import Outcome
from genmix.journal.schema import Entry
from genmix.runs.arm import ArmState, FinishedCall, Reply, with_maximum_cost
from genmix.runs.budget import Limits, Money
from genmix.runs.session import Session


class Generating:
    """The methods of :class:`Loop` that call generators."""

    session: Session
    arms: Mapping[str, ArmState]
    embedding: EmbeddingQueue
    money: Money
    limits: Limits
    reason: str | None
    failures: Counter[str]
    last_failure: str
    _inbox: Inbox[Any]

    @abstractmethod
    def _has_room(self, more: int = 1) -> bool: ...

    def _start_calls(self) -> None:
        """Start the calls that are due: full batches at once, others when their wait is over."""
        self._start_full_batches()
        now = time.monotonic()
        for arm in self.arms.values():
            while self.reason is None and arm.ready and (room := self._room(arm)) > 0:
                if self._may_grow(arm) and arm.seconds_to_wait(now) > 0:
                    break
                self._inbox.spawn(self._call(arm, arm.take_batch(room)))

    def _start_full_batches(self) -> None:
        """Start calls without reading the selector, which may be busy in another thread."""
        for arm in self.arms.values():
            while self.reason is None and arm.ready and arm.has_full_batch(room := self._room(arm)):
                if arm.failing:
                    break  # it may have to be suspended first
                self._inbox.spawn(self._call(arm, arm.take_batch(room)))

    def _room(self, arm: ArmState) -> int:
        """Return how many more samples of an arm may be generated now; a probe never waits for others."""
        others = sum(a.generating for a in self.arms.values() if not a.retries.probing)
        return 1 if arm.retries.probing else self.limits.in_flight - others

    def _may_grow(self, arm: ArmState) -> bool:
        """Return whether an incomplete batch may get more tickets once something in progress ends."""
        is_busy = self.embedding.busy or any(other.calls for other in self.arms.values())
        can_ask = not arm.unavailable and arm.label in self.session.selector.arms
        return arm.batch > 1 and is_busy and can_ask and self._has_room()

    async def _call(self, arm: ArmState, entries: Sequence[Entry]) -> None:
        tickets = [entry.id for entry in entries]
        with self.session.journal.watch.span("generate", arm=arm.label, tickets=tickets) as report:

            def deliver(event: Reply | FinishedCall) -> None:
                if isinstance(event, Reply) and isinstance(event.outcome, Exception):
                    report(event.outcome)
                self._receive(event)

            await arm.call(entries, deliver)

    def _receive(self, event: Reply | FinishedCall) -> None:
        """Journal a reply as soon as it arrives, because it is paid for; it is handled in its turn."""
        try:
            if isinstance(event, Reply):
                event = replace(event, outcome=self._record(event))
                event.arm.failing += not isinstance(event.outcome, Sample)
            elif event.extra is not None:
                self._record(event.extra)
        except StorageError as error:
            self._inbox.fail(error)
        self._inbox.put(event)
        if isinstance(event, FinishedCall):
            event.arm.calls -= 1
            event.arm.generating -= event.tickets
            self._start_full_batches()

    def _record(self, reply: Reply) -> Outcome:
        """Journal a reply, and return its outcome with the cost that counts."""
        arm, outcome = reply.arm, reply.outcome
        if isinstance(outcome, Sample):
            self.session.store(reply.entry, outcome, reply.started_at)
            self.money.settle(reply.entry.id)
        else:
            most = self.money.bound(arm.label, arm.generator.most_cost())
            outcome = with_maximum_cost(outcome, most)
            self._record_failure(reply.entry, "generate", outcome)
        self.money.pay(arm.label, outcome.cost)
        return outcome

    def _record_failure(self, entry: Entry, stage: str, error: Exception) -> None:
        self.session.journal.failure(entry, stage, error)
        self.failures[entry.arm] += 1
        self.last_failure = f"{entry.arm}: {quotable(error)}"
