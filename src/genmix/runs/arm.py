"""One arm at work: its queue, its calls, its failures, and whether it is suspended."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from genmix.data.samples import Request, Sample
from genmix.generators.base import GenerationError, Generator
from genmix.runs.journal import Entry
from genmix.runs.outcomes import WorthlessError, checked, clean_error

JITTER = 0.25
"""A wait is longer or shorter by up to this share, so that many do not come back at once."""

LONGEST_PAUSE = 16
"""A suspended arm is probed again after at most this many times the first pause."""

LONGEST_ASKED = 86400.0
"""Seconds beyond which nobody's Retry-After is heeded."""


class Patience(Protocol):
    """How often and how long to try; a study's ``retries``."""

    attempts: int
    first_wait: float
    longest_wait: float
    suspend_after: int
    probe_after: float
    timeout: float


@dataclass
class ArmState:
    """An arm of a running study."""

    label: str
    generator: Generator
    concurrency: int
    batch: int
    patience: Patience
    waiting: deque[Entry] = field(default_factory=deque)
    calls: int = 0
    attempts: Counter[int] = field(default_factory=Counter)
    """Failed attempts of every ticket in flight."""
    spoilt: Counter[int] = field(default_factory=Counter)
    """Those among them that gave something worthless, which the same seed would give again."""
    strikes: int = 0
    """Tickets given up since the last sample that came."""
    probe_at: float | None = None
    """When to try again, on the monotonic clock; None if it is not suspended."""
    pauses: int = 0
    """Suspensions since the last sample that came."""
    asked_pause: float = 0.0
    """Seconds that the other side asked us to stay away."""
    refusals: int = 0
    """Samples in a row that the encoder refused."""
    on_trial: bool = False
    """One sample of it is being made, to see whether it works again."""
    used_up: bool = False
    """It has given all the samples that it has."""
    hopeless: bool = False
    """The last failure was of a kind that waiting does not mend."""

    @property
    def suspended(self) -> bool:
        return self.probe_at is not None

    @property
    def out(self) -> bool:
        """Whether nothing more is to be asked of it now."""
        return self.suspended or self.on_trial or self.used_up

    @property
    def ready(self) -> bool:
        return bool(self.waiting) and self.calls < self.concurrency

    def take(self) -> list[Entry]:
        return [self.waiting.popleft() for _ in range(min(self.batch, len(self.waiting)))]

    def succeeded(self, ticket: int) -> None:
        self._forget(ticket)
        self.strikes = 0
        self.hopeless = False

    def came_back(self) -> None:
        """The sample that it was tried with has been taken in."""
        self.on_trial, self.pauses = False, 0

    def wait_after(self, ticket: int, error: GenerationError) -> float | None:
        """Seconds until the next attempt at a ticket; None if it is to be given up."""
        self.attempts[ticket] += 1
        self.spoilt[ticket] += error.cost is not None or isinstance(error, WorthlessError)
        tried = self.attempts[ticket]
        self.hopeless = not error.retryable
        self.asked_pause = error.retry_after or 0.0
        too_long = self.asked_pause > self.patience.longest_wait
        if self.hopeless or self.on_trial or too_long or tried >= self.patience.attempts:
            return None
        wait = min(self.patience.first_wait * 2.0 ** (tried - 1), self.patience.longest_wait)
        wait *= 1 + JITTER * (2 * random.random() - 1)  # not part of the run's randomness
        return max(wait, self.asked_pause)

    def gave_up(self, ticket: int) -> bool:
        """Whether the arm is to be suspended after giving up this ticket."""
        self._forget(ticket)
        self.strikes += 1
        at_once = self.hopeless or self.on_trial or self.asked_pause > self.patience.longest_wait
        return at_once or self.strikes >= self.patience.suspend_after

    def was_refused(self) -> bool:
        """Whether the arm is to be suspended after the encoder refused another sample of it."""
        self.refusals += 1
        return self.on_trial or self.refusals >= self.patience.suspend_after

    def suspend(self) -> float:
        """Rest for a while, longer each time; how long."""
        pause = self.patience.probe_after * min(2.0**self.pauses, LONGEST_PAUSE)
        pause = max(pause, min(self.asked_pause, LONGEST_ASKED))
        self.pauses += 1
        self.strikes = self.refusals = 0
        self.on_trial = False
        self.probe_at = time.monotonic() + pause
        return pause

    def remember(self, ticket: int, spoilt: bool) -> None:
        """A failed attempt of an earlier session."""
        self.attempts[ticket] += 1
        self.spoilt[ticket] += spoilt

    def _forget(self, ticket: int) -> None:
        self.attempts.pop(ticket, None)
        self.spoilt.pop(ticket, None)

    async def call(self, entries: Sequence[Entry]) -> list[Sample | GenerationError]:
        """One outcome for each entry, whatever happens."""
        requests = [Request(e.place, (e.seed + self.spoilt[e.id]) % 2**31) for e in entries]
        try:
            async with asyncio.timeout(self.patience.timeout * len(entries)):
                outcomes = await self.generator.generate(requests)
            if len(outcomes) != len(entries):
                message = f"gave {len(outcomes)} samples where {len(entries)} were asked for."
                raise GenerationError(message)
            return [checked(outcome) for outcome in outcomes]
        except TimeoutError:
            seconds = f"{self.patience.timeout * len(entries):g}"
            return [GenerationError(f"no answer within {seconds} seconds.") for _ in entries]
        except GenerationError as error:
            return _one_for_all(error, len(entries))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise  # we are being stopped; else something inside the generator was
            return _one_for_all(GenerationError("it was cancelled from inside."), len(entries))
        except (Exception, SystemExit) as error:  # a generator is other people's code
            return _one_for_all(GenerationError(f"{type(error).__name__}: {error}"), len(entries))


def _one_for_all(error: GenerationError, count: int) -> list[Sample | GenerationError]:
    """The error for every entry, what was paid for it with the first alone."""
    first = clean_error(error)
    others = GenerationError(str(first), retryable=error.retryable, retry_after=error.retry_after)
    return [first, *[others] * (count - 1)]
