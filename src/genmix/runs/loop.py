"""The run loop: asks for tickets, lets the arms make them, has them embedded, tells the selector.

One coroutine owns the session and everything that is written; generators and the encoder run beside it
and put what they have into its inbox. At any moment the journal knows all that was paid for.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from genmix.core.text import quotable
from genmix.data.samples import Sample
from genmix.encoders.base import Encoder
from genmix.errors import InputError
from genmix.generators.base import GenerationError
from genmix.runs.arm import ArmState
from genmix.runs.budget import Clock, Money
from genmix.runs.images import save_image
from genmix.runs.journal import Entry, JournalError
from genmix.runs.session import Session

INTERRUPTED = "interrupted"
"""The reason of a run that was stopped from outside and will go on."""
EXHAUSTED = "exhausted"
"""Why an arm is retired that has no more samples to give."""

ENCODED_AT_ONCE = 256
LONGEST_SLEEP = 60.0
ENCODING_ATTEMPTS = 3
BROKEN_AFTER = 3
"""Samples in a row that the encoder refuses before the run stops rather than spends on."""


@dataclass(frozen=True)
class Landed:
    """A call of an arm that ended."""

    arm: ArmState
    entries: Sequence[Entry]
    outcomes: Sequence[Sample | GenerationError]
    started_at: float


@dataclass(frozen=True)
class Encoded:
    """Embeddings of samples, or why there are none."""

    pairs: Sequence[tuple[Entry, Sample]]
    result: Any


@dataclass(frozen=True)
class Again:
    """A ticket whose wait is over."""

    arm: ArmState
    entry: Entry


@dataclass(frozen=True)
class Wake:
    """Something outside changed: look again."""


@dataclass
class Limits:
    """When the loop stops asking."""

    samples: int | None
    in_flight: int
    give_up: float
    """Seconds without a sample taken in, while all arms are suspended, after which the run stops."""
    warm_start: int = 10
    encoding_wait: float = 1.0
    """Seconds before the second attempt at embedding a sample."""
    enough: Callable[[], str | None] = lambda: None
    """A reason to stop early, if there is one."""


@dataclass
class Loop:
    """A study while it runs."""

    session: Session
    arms: Mapping[str, ArmState]
    encoder: Encoder | None
    money: Money
    clock: Clock
    limits: Limits
    folder: Path
    report: Callable[[], None] = lambda: None
    reason: str | None = None
    """Why nothing more is asked for."""
    trouble: str | None = None
    """The reason, if it is one to mend."""
    failures: Counter[str] = field(default_factory=Counter)
    """Failed attempts of every arm in this session."""
    last_failure: str = ""
    """Which arm failed last, and why."""
    _inbox: asyncio.Queue[Landed | Encoded | Again | Wake] = field(default_factory=asyncio.Queue)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _held: Entry | None = None
    """A ticket that waits for money that is reserved for others."""
    _to_encode: deque[tuple[Entry, Sample]] = field(default_factory=deque)
    _encoding: int = 0
    _alone: set[int] = field(default_factory=set)
    """Tickets to embed one at a time, because a batch with them failed."""
    _refused: list[Entry] = field(default_factory=list)
    """Tickets that the encoder refused; if it takes the next, the fault was theirs."""
    _calls: int = 0
    _resting: dict[int, Entry] = field(default_factory=dict)
    """Tickets that wait for their next attempt."""
    _last_sample: float = field(default_factory=time.monotonic)

    # -- from outside ----------------------------------------------------------------------------

    def stop(self, reason: str) -> None:
        """Ask for nothing more; what is in flight is still taken in."""
        if self.reason is None:
            self.reason = reason
            self._inbox.put_nowait(Wake())

    @property
    def flying(self) -> set[int]:
        """Tickets in flight."""
        return {ticket.id for ticket in self.session.selector.in_flight}

    def complete_mixture(self) -> None:
        """At the end of the budget: the mixture of all arms that have their warm start, used up or not."""
        selector = self.session.selector
        if self.reason == INTERRUPTED or self.trouble is not None:
            return
        for arm in self.arms.values():
            full = selector.counts[arm.label] >= self.limits.warm_start
            if full and arm.used_up and arm.label not in selector.arms:
                self.session.revive(arm.label, why="its samples belong to the final mixture")
        for arm in self.arms.values():
            lacking = selector.counts[arm.label] < self.limits.warm_start
            if lacking and arm.label in selector.arms and not selector.is_warm:
                self._retire(arm, why="the run ended before its warm start was complete")

    def take_up(self, unfinished: Sequence[tuple[Entry, Sample | None]]) -> None:
        """Tickets of an earlier session: samples that were made are embedded, others made (again)."""
        for entry, sample in unfinished:
            if sample is not None:
                self._to_encode.append((entry, sample))
                continue
            if not self._reserve(entry):
                self.session.withdraw(entry)
            elif entry.probe:
                self.arms[entry.arm].on_trial = True

    # -- the loop --------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until the budget is spent, or something else ends it; see ``reason`` and ``trouble``."""
        try:
            while True:
                self._start_encoding()
                self._look_at_limits()
                self._ask()
                self._start_calls()
                self.report()
                if self._is_over():
                    break
                await self._next_event()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _is_over(self) -> bool:
        busy = self._calls or self._encoding or self._to_encode
        if self.reason is not None:
            if not busy:
                self._withdraw_the_rest()
            return not busy
        waiting = self._held or self._resting or any(arm.waiting for arm in self.arms.values())
        if busy or waiting or any(arm.suspended for arm in self.arms.values()) or self._may_ask():
            return False
        if self._refused:  # nothing else will come that tells whose fault it was
            self._fail_refused()
            self._look_at_limits()
            return self._is_over()
        self.reason = "all samples of all arms are used up"
        return True

    async def _next_event(self) -> None:
        pause = self._patience() if self.reason is None else LONGEST_SLEEP
        try:
            async with asyncio.timeout(pause):
                event = await self._inbox.get()
        except TimeoutError:
            return
        self._handle(event)
        while not self._inbox.empty():
            self._handle(self._inbox.get_nowait())

    def _patience(self) -> float:
        """Seconds until something is due that no message announces: a probe, the end, giving up."""
        now = time.monotonic()
        due = [arm.probe_at - now for arm in self.arms.values() if arm.probe_at is not None]
        giving_up = self._last_sample + self.limits.give_up - now
        if giving_up > 0:
            due.append(giving_up)
        return max(min([*due, self.clock.left, LONGEST_SLEEP]), 0.0)

    def _handle(self, event: Landed | Encoded | Again | Wake) -> None:
        if isinstance(event, Landed):
            self._landed(event)
        elif isinstance(event, Encoded):
            self._encoded(event)
        elif isinstance(event, Again):
            self._go_again(event.arm, event.entry)

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- asking ----------------------------------------------------------------------------------

    @property
    def _told(self) -> int:
        return sum(self.session.selector.counts.values())

    @property
    def _flying(self) -> int:
        return len(self.session.selector.in_flight) - len(self._refused)

    def _look_at_limits(self) -> None:
        """Set the reason to stop, if there is one."""
        if self.reason is not None:
            return
        if self.limits.samples is not None and self._told >= self.limits.samples:
            self.reason = f"the budget of {self.limits.samples} samples is spent"
        elif self.clock.left <= 0:
            self.reason = f"the {self.clock.limit:g} seconds of the budget are over"
        else:
            self.reason = self.limits.enough()
        if self.reason is None:
            self._look_at_arms()

    def _use_held_ticket(self) -> None:
        """Start the ticket that waits for money, or end the run if none will be free for it."""
        assert self._held is not None
        if self._reserve(self._held):
            self._held = None
        elif self._flying == 1:
            self.session.withdraw(self._held)
            self._held = None
            self.reason = f"the cost budget of {self.money.limit:g} has no room for another sample"

    def _reserve(self, entry: Entry) -> bool:
        arm = self.arms[entry.arm]
        if not self.money.reserve(entry.id, entry.arm, arm.generator.most_cost()):
            return False
        arm.waiting.append(entry)
        return True

    def _look_at_arms(self) -> None:
        now = time.monotonic()
        for arm in self.arms.values():
            if arm.probe_at is not None and arm.probe_at <= now:
                self._probe(arm)
        suspended = [arm for arm in self.arms.values() if arm.suspended]
        if not suspended or not all(self.arms[a].out for a in self.session.selector.arms):
            return
        if any(arm.on_trial for arm in self.arms.values()):
            return
        if all(arm.hopeless for arm in suspended):
            self._give_up("every arm fails in a way that waiting does not mend")
        elif now - self._last_sample > self.limits.give_up:
            self._give_up(f"no arm has given a sample for {self.limits.give_up:g} seconds")

    def _give_up(self, trouble: str) -> None:
        self.trouble = self.reason = trouble

    def _may_ask(self) -> bool:
        if self.reason is not None or self._held is not None:
            return False
        trials = sum(arm.on_trial for arm in self.arms.values())
        if self._flying - trials >= self.limits.in_flight or not self._has_room():
            return False
        return not any(self.arms[label].out for label in self.session.selector.arms)

    def _has_room(self) -> bool:
        """Whether the budget of samples allows for another ticket."""
        return self.limits.samples is None or self._told + self._flying < self.limits.samples

    def _ask(self) -> None:
        if self._held is not None:
            self._use_held_ticket()
        while self._may_ask():
            self._held = entry = self.session.ask()
            self._use_held_ticket()
            self._look_at_supply(self.arms[entry.arm], entry)
        self.session.flush()

    def _look_at_supply(self, arm: ArmState, entry: Entry) -> None:
        available = arm.generator.available()
        if available is not None and entry.place + 1 >= available:
            self.mark_used_up(arm)

    def mark_used_up(self, arm: ArmState) -> None:
        """Ask nothing more of an arm that has given all it has."""
        arm.used_up = True
        if arm.label in self.session.selector.arms:
            self._retire(arm, why=EXHAUSTED)

    def _retire(self, arm: ArmState, **why: Any) -> None:
        """Go on without an arm; the last one stays, and nothing is asked of it while it is out."""
        active = self.session.selector.arms
        if arm.label in active and len(active) > 1:
            try:
                self.session.retire(arm.label, **why)
            except InputError as error:  # the policy cannot do without it
                self._give_up(f"arm {arm.label!r} is out ({why['why']}) and {error}".rstrip("."))
        elif "pause" in why:
            self.session.journal.event("suspend", arm.label, **why)

    def _revive(self, arm: ArmState) -> None:
        """An arm is back; one that only stayed because it was the last may go."""
        if arm.label not in self.session.selector.arms:
            self.session.revive(arm.label, why="it gave a sample again")
        for other in self.arms.values():
            if other.out and other is not arm:
                self._retire(other, why="it is out and no longer the last")

    def _withdraw_the_rest(self) -> None:
        """Tickets that were never started, once the run ends for good."""
        if self.reason == INTERRUPTED or self.trouble is not None:
            return  # they will be made when it goes on
        self._fail_refused()
        waiting = [entry for arm in self.arms.values() for entry in arm.waiting]
        held = [] if self._held is None else [self._held]
        for entry in [*waiting, *self._resting.values(), *held]:
            self.session.withdraw(entry)
        self._resting.clear()
        for arm in self.arms.values():
            arm.waiting.clear()
        self._held = None

    # -- generating ------------------------------------------------------------------------------

    def _start_calls(self) -> None:
        if self.reason is not None:
            return
        for arm in self.arms.values():
            while arm.ready and not arm.suspended:
                entries = arm.take()
                arm.calls += 1
                self._calls += 1
                self._spawn(self._call(arm, entries))

    async def _call(self, arm: ArmState, entries: Sequence[Entry]) -> None:
        started_at = time.time()
        outcomes = await arm.call(entries)
        await self._inbox.put(Landed(arm, entries, outcomes, started_at))

    def _landed(self, landed: Landed) -> None:
        arm = landed.arm
        arm.calls -= 1
        self._calls -= 1
        for entry, outcome in zip(landed.entries, landed.outcomes, strict=True):
            self.money.pay(arm.label, outcome.cost)
            if isinstance(outcome, Sample):
                self._made(arm, entry, outcome, landed.started_at)
            else:
                self._failed(arm, entry, outcome)

    def _made(self, arm: ArmState, entry: Entry, sample: Sample, started_at: float) -> None:
        image = None if sample.image is None else save_image(self.folder, entry.id, sample.image)
        self.session.journal.made(entry.id, sample, image, started_at)
        self.money.release(entry.id)
        arm.succeeded(entry.id)
        self._to_encode.append((entry, sample))

    def _failed(self, arm: ArmState, entry: Entry, error: GenerationError) -> None:
        self.session.journal.failure(entry, "generate", error)
        self.failures[arm.label] += 1
        self.last_failure = f"{arm.label}: {error}"
        wait = arm.wait_after(entry.id, error)
        if wait is not None:
            self.money.release(entry.id)
            self._rest(wait, arm, entry)
            return
        self._drop(entry)
        if arm.gave_up(entry.id) and not arm.suspended:
            self._suspend(arm, str(error))

    def _drop(self, entry: Entry) -> None:
        self.money.release(entry.id)
        self.session.fail(entry)

    def _go_again(self, arm: ArmState, entry: Entry) -> None:
        """The next attempt at a ticket, if there still is room: the last one may have cost something."""
        del self._resting[entry.id]
        if arm.suspended:
            self._drop(entry)
        elif self._reserve(entry):
            return
        elif self.money.reserved:  # some of which may become free
            self._rest(arm.patience.first_wait, arm, entry)
        else:
            self.session.withdraw(entry)

    def _rest(self, wait: float, arm: ArmState, entry: Entry) -> None:
        self._resting[entry.id] = entry
        self._spawn(self._later(wait, arm, entry))

    async def _later(self, wait: float, arm: ArmState, entry: Entry) -> None:
        await asyncio.sleep(wait)
        await self._inbox.put(Again(arm, entry))

    def _suspend(self, arm: ArmState, why: str) -> None:
        pause = arm.suspend()
        if arm.used_up:
            arm.probe_at = None  # there is nothing left to probe
        while arm.waiting:
            self._drop(arm.waiting.popleft())
        if self._held is not None and self._held.arm == arm.label:
            self._drop(self._held)
            self._held = None
        self._retire(arm, why=why, pause=pause)

    def _probe(self, arm: ArmState) -> None:
        """Have one sample of a suspended arm made; the arm comes back when that one does."""
        if not self._has_room():
            arm.probe_at = time.monotonic() + 1.0  # once what is in flight has landed
            return
        arm.probe_at, arm.on_trial = None, True
        entry = self.session.probe(arm.label)
        self.session.flush()
        if not self._reserve(entry):
            self.session.withdraw(entry)
            arm.suspend()

    # -- embedding and telling -------------------------------------------------------------------

    def _start_encoding(self) -> None:
        """One batch at a time, in the order in which the samples came."""
        while self._to_encode and not self._encoding:
            pairs = self._next_batch()
            if pairs[0][1].vector is not None:  # needs no encoder
                self._tell(pairs, [np.asarray(sample.vector) for _, sample in pairs])
                continue
            self._encoding = len(pairs)
            self._spawn(self._encode(pairs))

    def _next_batch(self) -> list[tuple[Entry, Sample]]:
        """The next samples that can be embedded, or told, together."""
        pairs = [self._to_encode.popleft()]
        way = self._way_of(pairs[0])
        while (
            self._to_encode
            and way != "alone"
            and len(pairs) < ENCODED_AT_ONCE
            and self._way_of(self._to_encode[0]) == way
        ):
            pairs.append(self._to_encode.popleft())
        return pairs

    def _way_of(self, pair: tuple[Entry, Sample]) -> str:
        if pair[1].vector is not None:
            return "told"
        return "alone" if pair[0].id in self._alone else "embedded"

    async def _encode(self, pairs: Sequence[tuple[Entry, Sample]]) -> None:
        samples = [sample for _, sample in pairs]
        attempts = ENCODING_ATTEMPTS if len(pairs) == 1 else 1
        for attempt in range(attempts):
            try:
                result: Any = await asyncio.to_thread(self._embed, samples)
                break
            except Exception as error:  # an encoder is other people's code
                result = error
            if attempt + 1 < attempts:
                await asyncio.sleep(self.limits.encoding_wait * 2**attempt)
        await self._inbox.put(Encoded(pairs, result))

    def _embed(self, samples: Sequence[Sample]) -> Any:
        if self.encoder is None:
            raise InputError(
                "an arm gave a text or an image and the study has no encoder: name one."
            )
        rows = self.encoder.encode(samples)
        if len(rows) != len(samples):
            raise ValueError(f"the encoder gave {len(rows)} vectors for {len(samples)} samples")
        return rows

    def _encoded(self, event: Encoded) -> None:
        self._encoding = 0
        if not isinstance(event.result, Exception):
            self._tell(event.pairs, [np.asarray(row) for row in event.result])
        elif isinstance(event.result, InputError):
            self._give_up(str(event.result).rstrip("."))
        elif len(event.pairs) > 1:  # one of them may be the cause
            self._alone |= {entry.id for entry, _ in event.pairs}
            self._to_encode.extendleft(reversed(event.pairs))
        else:
            self._refuse(event.pairs[0][0], event.result)
            self._look_at_refused(event.result)

    def _tell(self, pairs: Sequence[tuple[Entry, Sample]], rows: Sequence[Any]) -> None:
        told, odd = [], []
        for (entry, sample), row in zip(pairs, rows, strict=True):
            error = self._fault_of(entry, sample, row)
            if error is None:
                told.append((entry, sample, row))
            else:
                odd.append((entry, error))
        for entry, error in odd:
            self._refuse(entry, error)
        if told:
            self._fail_refused()
            self._take_in(told)
        elif odd:
            self._look_at_refused(odd[-1][1])

    def _fault_of(self, entry: Entry, sample: Sample, row: Any) -> InputError | None:
        """Why the selector would not take a sample, if it would not."""
        try:
            self.session.selector.check(entry.id, row, sample.quality, sample.cost)
        except InputError as error:
            return error
        return None

    def _take_in(self, told: Sequence[tuple[Entry, Sample, Any]]) -> None:
        try:
            self.session.tell(told)
        except JournalError:
            raise
        except InputError:  # they do not go together, as two dimensions in the first batch
            if len(told) == 1:
                raise
            for entry, sample, row in told:
                self._tell([(entry, sample)], [row])
            return
        self._last_sample = time.monotonic()
        for entry, _, _ in told:
            arm = self.arms[entry.arm]
            self._alone.discard(entry.id)
            arm.refusals = 0
            if arm.on_trial:
                arm.came_back()
                self._revive(arm)
        self.session.save_snapshot()

    def _refuse(self, entry: Entry, error: Exception) -> None:
        """A sample that could not be embedded stays in the journal, but is not counted."""
        self.session.journal.failure(entry, "encode", error)
        self.failures[entry.arm] += 1
        self.last_failure = f"{entry.arm}: {quotable(error)}"
        self._refused.append(entry)

    def _look_at_refused(self, error: Exception) -> None:
        """Several in a row: the encoder is broken, unless all are of one arm and others had better luck."""
        arms = {entry.arm for entry in self._refused}
        others = {arm for arm, count in self.session.selector.counts.items() if count} - arms
        if len(self._refused) < BROKEN_AFTER:
            return
        if len(arms) == 1 and others:
            self._fail_refused()
        else:
            self._give_up(f"no sample can be embedded and taken in ({str(error).rstrip('.')})")

    def _fail_refused(self) -> None:
        """The encoder works, so it was their fault."""
        refused, self._refused = self._refused, []
        for entry in refused:
            self.session.fail(entry)
            arm = self.arms[entry.arm]
            if arm.was_refused() and not arm.suspended:
                self._suspend(arm, "the encoder refuses its samples.")
