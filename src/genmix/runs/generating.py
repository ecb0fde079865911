"""The part of the run loop that starts calls to the arms and journals their replies.

Tickets are grouped by arm, so that an arm gets batches of its size. Which arm a ticket is for is decided when
it is asked for, so grouping changes when samples are generated, but not how many from which arm.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush
from typing import Any

from genmix.core.inbox import Inbox
from genmix.core.text import quotable
from genmix.data.samples import Sample
from genmix.engines.embedding import EmbeddingQueue
from genmix.generators.base import Outcome
from genmix.journal.schema import Entry
from genmix.runs.arm import ArmState, FinishedCall, Reply, with_maximum_cost
from genmix.runs.session import Session
from genmix.runs.spending.budget import Clock, Limits, Money


class Generating:
    """The methods of :class:`Loop` that call generators."""

    session: Session
    arms: Mapping[str, ArmState]
    embedding: EmbeddingQueue
    money: Money
    clock: Clock
    limits: Limits
    reason: str | None
    failures: Counter[str]
    last_failure: str
    _inbox: Inbox[Any]

    @abstractmethod
    def _has_room(self, more: int = 1) -> bool: ...

    def _start_calls(self) -> None:
        """Start the calls that are due: full batches, and others when their wait is over."""
        now, active = time.monotonic(), set(self.session.selector.arms)
        can_ask = self._has_room()

        def is_due(arm: ArmState, room: int) -> bool:
            if arm.has_full_batch(room):
                return True
            is_busy = self.embedding.busy or room < self.limits.in_flight
            gets_tickets = can_ask and arm.label in active and not arm.unavailable
            # Without either, waiting would not bring more tickets.
            return not (is_busy and gets_tickets) or arm.seconds_to_wait(now) <= 0

        self._start_due(is_due)

    def _start_due_now(self) -> None:
        """Start calls without reading the selector, which may be busy in another thread."""
        now = time.monotonic()

        def is_due(arm: ArmState, room: int) -> bool:
            if arm.failing:
                return False  # it may have to be suspended first
            return arm.has_full_batch(room) or arm.has_waited(now)

        self._start_due(is_due)

    def _start_due(self, is_due: Callable[[ArmState, int], bool]) -> None:
        """Start due calls one by one, each for the arm whose next ticket is the oldest.

        So no arm waits for others that were asked later, wherever it is in the study.
        """
        room = self._room()
        waiting = [(arm.queue[0].id, arm) for arm in self.arms.values() if arm.ready]
        heapify(waiting)
        while waiting and self.reason is None and self.clock.left > 0:
            if self._inbox.has_failed:
                return
            arm = heappop(waiting)[1]
            most = self._room_for(arm, room)
            if most == 0 or not is_due(arm, most):
                continue
            entries = arm.take_batch(most)
            room -= 0 if arm.retries.probing else len(entries)
            self._inbox.spawn(self._call(arm, entries))
            if arm.ready:
                heappush(waiting, (arm.queue[0].id, arm))

    def _room(self) -> int:
        """Return how many more samples may be generated now; probes do not count."""
        others = sum(a.generating for a in self.arms.values() if not a.retries.probing)
        return max(self.limits.in_flight - others, 0)

    @staticmethod
    def _room_for(arm: ArmState, room: int) -> int:
        return 1 if arm.retries.probing else room  # a probe never waits for others

    async def _call(self, arm: ArmState, entries: Sequence[Entry]) -> None:
        tickets = [entry.id for entry in entries]
        with self.session.journal.watch.span("generate", arm=arm.label, tickets=tickets) as report:

            def deliver(event: Reply | FinishedCall) -> None:
                if isinstance(event, Reply) and isinstance(event.outcome, Exception):
                    report(event.outcome)
                self._receive(event)

            await arm.call(entries, deliver)

    def _receive(self, event: Reply | FinishedCall) -> None:
        """Journal a reply as soon as it arrives, because it is paid for; it is handled in its turn.

        An error ends the run: a ticket whose reply is not in the journal must stay open.
        """
        try:
            if isinstance(event, Reply):
                event = replace(event, outcome=self._record(event))
                event.arm.failing += not isinstance(event.outcome, Sample)
            elif event.extra is not None:
                self._record(event.extra)
        except Exception as error:
            self._inbox.fail(error)
        self._inbox.put(event)
        if isinstance(event, FinishedCall):
            event.arm.calls -= 1
            event.arm.generating -= event.tickets
            self._start_due_now()

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
