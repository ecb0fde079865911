"""One arm of a running study: its queue, and its calls to the generator."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any

from genmix.core.text import number
from genmix.data.samples import Request, Sample
from genmix.engines.outcomes import message_of, sanitized, validated_stream
from genmix.generators.base import GenerationError, Generator, Outcome
from genmix.journal.schema import Entry
from genmix.runs.retries import Retries

LONGEST_WAIT = 10.0
"""Seconds that an incomplete batch waits at most, however long the calls of its arm take."""


@dataclass(frozen=True)
class Reply:
    """What an arm's generator returned for one ticket."""

    arm: ArmState
    entry: Entry
    outcome: Outcome
    started_at: float


@dataclass(frozen=True)
class FinishedCall:
    """The end of a call to an arm's generator, after the replies to all its tickets."""

    arm: ArmState
    tickets: int
    extra: Reply | None = None
    """An error that cost something although every ticket had been answered."""


@dataclass
class ArmState:
    """An arm of a running study."""

    label: str
    generator: Generator
    concurrency: int
    batch: int
    retries: Retries
    queue: deque[Entry] = field(default_factory=deque)
    """Tickets whose samples are waiting to be generated."""
    calls: int = 0
    """Number of calls in progress."""
    generating: int = 0
    """Number of tickets in these calls."""
    failing: int = 0
    """Number of failed attempts that the run has not handled yet."""
    call_seconds: float = 0.0
    """How long the last call with a sample took."""
    partial_since: float | None = None
    """When an incomplete batch could first have been started, on the monotonic clock."""
    exhausted: bool = False
    """Whether tickets have been issued for all of the generator's samples."""

    @property
    def suspended(self) -> bool:
        return self.retries.suspended

    @property
    def unavailable(self) -> bool:
        """Whether no tickets can be issued for this arm at the moment."""
        return self.suspended or self.retries.probing or self.exhausted

    @property
    def ready(self) -> bool:
        return bool(self.queue) and self.calls < self.capacity and not self.suspended

    @property
    def capacity(self) -> int:
        """Number of calls that the generator can handle at the same time."""
        return getattr(self.generator, "capacity", self.concurrency)

    def has_full_batch(self, room: int) -> bool:
        """Return whether a full batch is waiting and ``room`` allows it."""
        return self.batch <= min(len(self.queue), room)

    def seconds_to_wait(self, now: float) -> float:
        """Return how long an incomplete batch still waits for more tickets; this starts its wait."""
        if self.partial_since is None:
            self.partial_since = now
        return self.partial_since + min(self.call_seconds, LONGEST_WAIT) - now

    def has_waited(self, now: float) -> bool:
        """Return whether the wait of an incomplete batch has begun and is over."""
        return self.partial_since is not None and self.seconds_to_wait(now) <= 0

    def take_batch(self, room: int) -> list[Entry]:
        """Take the tickets of the next call, which begins now."""
        entries = [self.queue.popleft() for _ in range(min(self.batch, len(self.queue), room))]
        self.calls, self.generating = self.calls + 1, self.generating + len(entries)
        self.partial_since = None
        return entries

    def has_issued_all(self, tickets: int) -> bool:
        """Return whether this many tickets exhaust the generator's samples."""
        available = self.generator.available()
        return available is not None and tickets >= available

    async def call(
        self, entries: Sequence[Entry], deliver: Callable[[Reply | FinishedCall], None]
    ) -> None:
        """Generate a batch; deliver one reply per entry as it arrives, whatever the generator does."""
        started_at, begun = time.time(), time.monotonic()
        requests = [self._request(entry) for entry in entries]
        waiting = dict(enumerate(entries))

        def answer(position: int, outcome: Outcome) -> None:
            if position not in waiting:
                raise _wrong_position(position, outcome)
            entry = waiting.pop(position)
            if isinstance(outcome, GenerationError) and entry.prompt is None:
                outcome.prompt_at_fault = False  # there is no other prompt that could succeed
            if isinstance(outcome, Sample):
                self.call_seconds = time.monotonic() - begun
            deliver(Reply(self, entry, outcome, started_at))

        error, extra = sanitized(await self._receive(requests, answer)), None
        if not waiting and error.cost is not None:
            extra = Reply(self, entries[-1], error, started_at)
        for order, position in enumerate(list(waiting)):
            answer(position, self._error_for(requests[position], error, is_first=order == 0))
        deliver(FinishedCall(self, len(entries), extra))

    def _request(self, entry: Entry) -> Request:
        seed = (entry.seed + self.retries.reseeds[entry.id]) % 2**31
        return Request(entry.place, seed, None if entry.prompt is None else entry.prompt.text)

    async def _receive(
        self, requests: Sequence[Request], answer: Callable[[int, Outcome], None]
    ) -> GenerationError:
        """Pass on what the generator yields, and return the error for requests without an answer."""
        timeout = self.retries.settings.timeout * len(requests)
        try:
            async with (
                asyncio.timeout(timeout),
                aclosing(validated_stream(self.generator, requests)) as outcomes,
            ):
                async for position, outcome in outcomes:
                    answer(position, outcome)
            return GenerationError("the generator returned no outcome for this request.")
        except TimeoutError:
            return GenerationError(f"no answer within {timeout:g} seconds.", may_be_charged=True)
        except GenerationError as raised:
            return raised
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise  # the run is being stopped
            return GenerationError("the generator canceled its own call.")
        except (Exception, SystemExit) as raised:  # a generator may be user code
            return GenerationError(f"{type(raised).__name__}: {message_of(raised)}")

    def _error_for(
        self, request: Request, error: GenerationError, is_first: bool
    ) -> GenerationError:
        """Return an error of the whole call for one of its requests; its cost counts only once."""
        found = sanitized(error)
        if not is_first:
            found.cost = found.input_tokens = found.output_tokens = None
        if found.may_be_charged:
            with suppress(Exception):  # the hook may be user code; if it fails, the request counts
                is_sent = getattr(self.generator, "may_be_charged", lambda request: True)
                found.may_be_charged = bool(is_sent(request))
        return found


def _wrong_position(position: Any, outcome: Outcome) -> GenerationError:
    return GenerationError(
        f"the generator yielded position {position!r}, which is a duplicate or out of range; "
        "yield each position of the batch once.",
        retryable=False,
        cost=outcome.cost,
    )


def with_maximum_cost(error: GenerationError, cost: float | None) -> GenerationError:
    """Count the maximum cost of a request whose answer was lost; the server may charge for it."""
    if not error.may_be_charged or error.cost is not None or not cost:
        return error
    return GenerationError(
        f"{str(error).rstrip('.')}; its maximum cost of {number(cost, 6)} is counted.",
        retryable=error.retryable,
        retry_after=error.retry_after,
        cost=cost,
    )
