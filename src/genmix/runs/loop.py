"""The run loop: ask for tickets, generate and embed their samples, tell the selector.

One coroutine owns the session; generators and the encoder run concurrently. Replies are journaled the moment
they arrive, even while the selector re-solves: the journal always contains every sample that was paid for.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from genmix.core.inbox import Inbox
from genmix.core.text import number
from genmix.data.samples import Sample
from genmix.encoders.references import Note
from genmix.engines.embedding import EmbeddedBatch, EmbeddingQueue
from genmix.errors import InputError
from genmix.journal.schema import Entry
from genmix.runs.arm import ArmState, FinishedCall, Reply
from genmix.runs.generating import Generating
from genmix.runs.session import Session
from genmix.runs.spending.budget import Clock, Limits, Money
from genmix.runs.spending.planning import UNAFFORDABLE, Planner, left_out_for_now
from genmix.runs.telling import Telling

INTERRUPTED = "interrupted"
"""The reason recorded when a run was stopped from outside and can be resumed."""
EXHAUSTED = "exhausted"
"""The reason recorded when an arm was retired for lack of samples. Journals contain this word."""
UNAVAILABLE = "it is unavailable and no longer the only arm"
"""The reason recorded when an unavailable arm is retired that was kept while it was the only one."""
MAX_SLEEP = 60.0
ASKED_AHEAD = 4
"""A quarter more tickets than may be generated at the same time are asked for, so that the next calls can
start while the last samples are embedded and told."""
PATIENCE = 5.0
"""Seconds that a stopped run waits for a batch of embeddings; a resumed run computes what is missing."""

Event = Reply | FinishedCall | EmbeddedBatch | Entry | Literal["stopped"]
"""A ticket becomes an event when its next attempt is due; ``"stopped"`` makes the loop check ``reason``."""


@dataclass
class Loop(Generating, Telling):
    """A running study."""

    session: Session
    arms: Mapping[str, ArmState]
    embedding: EmbeddingQueue
    money: Money
    clock: Clock
    limits: Limits
    report: Callable[[], None] = lambda: None
    """Called after every event."""
    note: Note = lambda line: None
    """Called with what the user should know while the run continues."""
    reason: str | None = None
    """Why the run is ending; None while it asks for samples."""
    trouble: str | None = None
    """The reason, if it is a problem that must be fixed before the run can be resumed."""
    failures: Counter[str] = field(default_factory=Counter)
    """Number of failed attempts by arm in this session."""
    last_failure: str = ""
    """The arm that failed last, and its message."""
    _inbox: Inbox[Event] = field(default_factory=Inbox)
    _held: Entry | None = None
    """A ticket waiting until money reserved for other tickets is released."""
    _backoff: dict[int, Entry] = field(default_factory=dict)
    """Tickets waiting for their next attempt."""
    _last_told: float = field(default_factory=time.monotonic)
    _stopped_at: float = math.inf
    """When the run was stopped from outside or by a problem, on the monotonic clock."""

    def __post_init__(self) -> None:
        self._planner = Planner(self.session, self.arms, self.money, self.limits)
        self.session.replan = self._planner.replan

    # -- before, during and after the run --------------------------------------------------------

    def restore(self) -> None:
        """Continue where the journal ends.

        Open tickets are completed. Suspended arms are probed immediately, with an open ticket if possible.
        """
        self._planner.restore()
        tickets = self.session.open_tickets()
        self.money.settle(*(entry.id for entry, sample in tickets if sample is not None))
        for entry, sample in tickets:
            if sample is not None:
                self.embedding.put(entry, sample)
            elif not self._has_room(0) or not (self._enqueue(entry) or self._hold(entry)):
                self.session.withdraw(entry)
            elif entry.probe:
                self.arms[entry.arm].retries.probing = True
        for failure in self.session.open_failures():
            retries = self.arms[failure["arm"]].retries
            retries.restore_failure(failure["ticket"], failure["cost"] is not None)
        active = (*self.session.selector.arms, *self._planner.left_out)
        for label, arm in self.arms.items():
            if arm.has_issued_all(self.session.issued(label)):
                self._mark_exhausted(arm)
            elif label not in active and not arm.retries.probing:
                arm.retries.restore_suspension(has_ticket=bool(arm.queue))

    async def run(self) -> None:
        """Run until a budget is spent or something else ends it; see ``reason`` and ``trouble``."""
        try:
            while True:
                await self._start_embedding()
                found = self.reason or await self.limits.reached(self._told, self.clock)
                self.reason = self.reason or found  # the run may have been stopped meanwhile
                self._probe_suspended_arms()
                self._give_up_if_no_arm_works()
                self._ask()
                self._start_calls()
                self.report()
                if self._has_work():
                    await self._inbox.wait(self._pause())
                    for event in self._inbox.take():
                        await self._handle(event)
                elif self.reason is None and self.embedding.rejected:
                    self._fail_rejected()  # no other sample will show whether the encoder works
                else:
                    break
            if self.embedding.busy and self.trouble is None:
                self.reason = INTERRUPTED
            self.reason = self.reason or "every arm has run out of samples"
            if not self.can_resume:
                self._fail_rejected()  # other open tickets stay open: the run can be extended
        finally:
            await self._inbox.cancel()

    def stop(self, reason: str) -> None:
        """Stop asking for samples; those in flight are still told, unless the encoder takes too long."""
        if math.isinf(self._stopped_at):
            self.reason = self.reason or reason
            self._stopped_at = time.monotonic()
            self._inbox.put("stopped")

    def wake(self) -> None:
        """Call ``report`` soon, even if nothing happens."""
        self._inbox.put("stopped")

    @property
    def can_resume(self) -> bool:
        """Whether the run ended before its budget was spent."""
        return self.reason == INTERRUPTED or self.trouble is not None

    # -- events ----------------------------------------------------------------------------------

    def _has_work(self) -> bool:
        """Return whether anything is running or waiting, or more samples can be asked for."""
        if any(arm.calls for arm in self.arms.values()) or not self._inbox.is_empty:
            return True
        if self.embedding.busy:
            return self._patience > 0
        if self.reason is not None:
            return False
        waiting = any(arm.queue or arm.suspended for arm in self.arms.values())
        return bool(self._held or self._backoff or waiting or self._may_ask())

    @property
    def _patience(self) -> float:
        """How many more seconds to wait for the encoder."""
        return max(self._stopped_at, self.embedding.started_at) + PATIENCE - time.monotonic()

    def _pause(self) -> float:
        """Return the seconds until the loop must act: probe an arm, end the run, or give up."""
        if self.reason is not None:
            return min(self._patience, MAX_SLEEP) if self._patience > 0 else MAX_SLEEP
        now, give_up_at = time.monotonic(), self._last_told + self.limits.give_up
        due = [arm.retries.probe_at - now for arm in self.arms.values() if arm.retries.probe_at]
        room = self._room()
        waiting = (a for a in self.arms.values() if a.ready and self._room_for(a, room))
        due += [arm.seconds_to_wait(now) for arm in waiting]
        due += [give_up_at - now] if give_up_at > now else []
        return max(min([*due, self.clock.left, MAX_SLEEP]), 0.0)

    async def _handle(self, event: Event) -> None:
        if isinstance(event, Reply):
            self._on_reply(event)
        elif isinstance(event, EmbeddedBatch):
            await self._on_embedded(event)
        elif isinstance(event, Entry):
            self._retry(event)

    # -- stopping --------------------------------------------------------------------------------

    def _give_up_if_no_arm_works(self) -> None:
        suspended = [arm for arm in self.arms.values() if arm.suspended]
        if not suspended or not all(self.arms[a].unavailable for a in self.session.selector.arms):
            return
        if self.reason is not None or any(arm.retries.probing for arm in self.arms.values()):
            return
        if all(arm.retries.is_permanent for arm in suspended):
            self._give_up("every arm failed with an error that retrying cannot fix")
        elif time.monotonic() - self._last_told > self.limits.give_up:
            self._give_up(f"no arm has returned a sample for {self.limits.give_up:g} seconds")

    def _give_up(self, trouble: str) -> None:
        self.trouble = self.reason = trouble
        self._stopped_at = min(self._stopped_at, time.monotonic())

    # -- asking ----------------------------------------------------------------------------------

    @property
    def _told(self) -> int:
        return self.session.selector.total

    @property
    def _in_flight(self) -> int:
        return len(self.session.selector.in_flight) - len(self.embedding.rejected)

    def _may_ask(self) -> bool:
        if self.reason is not None or self._held is not None:
            return False
        probes = sum(arm.retries.probing for arm in self.arms.values())
        most = self.limits.in_flight + self.limits.in_flight // ASKED_AHEAD
        if self._in_flight - probes >= most or not self._has_room():
            return False
        return not any(self.arms[label].unavailable for label in self.session.selector.arms)

    def _has_room(self, more: int = 1) -> bool:
        """Whether the sample budget allows this many more tickets."""
        return self.limits.allows(self._told + self._in_flight + more)

    def _ask(self) -> None:
        self._enqueue_held()
        while self._may_ask() and (arms := self._affordable()):
            if (entry := self.session.ask(arms)) is None:
                self._end_without_prompts()
                break
            self._held = entry
            self._enqueue_held()
            if self.arms[entry.arm].has_issued_all(entry.place + 1):
                self._mark_exhausted(self.arms[entry.arm])
        self.session.flush()

    def _end_without_prompts(self) -> None:
        """End the run if no prompt is waiting for an arm that works now or may work later."""
        suspended = [arm.label for arm in self.arms.values() if arm.suspended]
        queue = self.session.prompts
        if (
            not self._in_flight
            and queue
            and queue.next([*self.session.selector.arms, *suspended]) is None
        ):
            self.reason = queue.ending

    def _affordable(self) -> list[str]:
        """Return the arms that the budget covers; end the run if it covers none any more."""
        choice = self._planner.choose(None if self._in_flight else self._last_told)
        if choice.is_over:
            self.reason = (
                f"the cost budget of {number(self.money.limit, 6)} does not cover another sample"
            )
        for label in choice.left_out:
            self._retire(self.arms[label], why=UNAFFORDABLE)
        if choice.left_out:
            self.note(left_out_for_now(choice.left_out))
        return self._affordable() if choice.left_out and self.reason is None else choice.arms

    def _enqueue_held(self) -> None:
        """Queue the held ticket, or withdraw it if no reserved money will be released for it."""
        if self._held is not None and self._enqueue(self._held):
            self._held = None
        elif self._held is not None and self._in_flight == 1:
            self.session.withdraw(self._held)
            self._held = None

    def _hold(self, entry: Entry) -> bool:
        """Hold an open ticket that the budget does not cover, as the last session did."""
        if can_hold := self._held is None and not entry.probe:
            self._held = entry
        return can_hold

    def _enqueue(self, entry: Entry) -> bool:
        """Queue a ticket if the budget covers its cost; return whether it does."""
        if is_covered := self._planner.reserve(entry):
            self.arms[entry.arm].queue.append(entry)
        return is_covered

    # -- generating ------------------------------------------------------------------------------

    def _on_reply(self, reply: Reply) -> None:
        arm, entry, outcome = reply.arm, reply.entry, reply.outcome
        if isinstance(outcome, Sample):
            arm.retries.record_success(entry.id)
            self.embedding.put(entry, outcome)
            return
        arm.failing -= 1
        if (delay := arm.retries.record_failure(entry.id, outcome)) is not None:
            self.money.release(entry.id)
            told = {"arm": arm.label, "ticket": entry.id, "seconds": delay}
            self.session.journal.watch.event("retry", **told)
            self._retry_later(entry, delay)
        else:
            self._fail(entry)
            if arm.retries.should_suspend and not arm.suspended:
                self._suspend(arm, str(outcome))

    def _fail(self, entry: Entry) -> None:
        self.money.release(entry.id)
        self.session.fail(entry)

    def _retry_later(self, entry: Entry, delay: float) -> None:
        self._backoff[entry.id] = entry
        self._inbox.spawn(asyncio.sleep(delay, entry))

    def _retry(self, entry: Entry) -> None:
        """Queue a ticket again if the budget still covers it; the last attempt may have cost money."""
        arm = self.arms[entry.arm]
        del self._backoff[entry.id]
        if arm.suspended:
            self._fail(entry)
        elif self._enqueue(entry):
            return
        elif any(self.money.reserved.values()):  # some of the reserved money may be released
            self._retry_later(entry, arm.retries.settings.first_wait)
        else:
            self.session.withdraw(entry)

    # -- suspending, retiring and reviving arms --------------------------------------------------

    def _suspend(self, arm: ArmState, why: str) -> None:
        pause = arm.retries.suspend()
        if arm.exhausted:
            arm.retries.probe_at = None  # no sample is left for a probe
        while arm.queue:
            self._fail(arm.queue.popleft())
        if self._held is not None and self._held.arm == arm.label:
            self._fail(self._held)
            self._held = None
        self._retire(arm, why=why, pause=pause)

    def _probe_suspended_arms(self) -> None:
        for arm in self.arms.values():
            if arm.retries.is_probe_due and self.reason is None:
                self._probe(arm)

    def _probe(self, arm: ArmState) -> None:
        """Request one sample from a suspended arm; the arm is revived when the sample is told."""
        if not self._has_room() or not self._planner.covers(arm.label):
            arm.retries.probe_at = time.monotonic() + 1.0  # samples in flight may fail by then
            return
        if (entry := self.session.probe(arm.label)) is None:
            arm.retries.probe_at = None  # it has already failed on all remaining prompts
            return
        arm.retries.start_probe()
        self.session.flush()
        self._enqueue(entry)

    def _mark_exhausted(self, arm: ArmState) -> None:
        arm.exhausted = True
        self._planner.readmit()  # it may have been the last active arm
        self._retire(arm, why=EXHAUSTED)

    def _retire(self, arm: ArmState, **why: Any) -> None:
        try:
            self.session.retire(arm.label, **why)
        except InputError as error:  # the policy cannot do without it
            problem = f"arm {arm.label!r} is unavailable ({why['why']}), and {error}"
            self._give_up(problem.rstrip("."))

    def _revive(self, arm: ArmState) -> None:
        """Use an arm again, and retire unavailable arms that were kept active only because none was left."""
        if arm.label not in self.session.selector.arms:
            self.session.revive(arm.label, why="it returned a sample again")
        for other in self.arms.values():
            if other.unavailable and other is not arm:
                self._retire(other, why=UNAVAILABLE)
