"""One arm at work: its queue, its calls, its failures, and whether it is suspended."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from genmix.generators.base import GenerationError, Generator, Request, Sample
from genmix.study.journal import Entry

JITTER = 0.25
"""A wait is longer or shorter by up to this share, so that many do not come back at once."""

LONGEST_PAUSE = 16
"""A suspended arm is probed again after at most this many times the first pause."""


class Patience(Protocol):
    """How often and how long to try; a study's ``retries``."""

    attempts: int
    first_wait: float
    longest_wait: float
    suspend_after: int
    probe_after: float
    timeout: float


class WorthlessError(GenerationError):
    """A sample came, but there is nothing in it."""


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
    hopeless: bool = False
    """The last failure was of a kind that waiting does not mend."""

    @property
    def suspended(self) -> bool:
        return self.probe_at is not None

    @property
    def ready(self) -> bool:
        """Whether a call may start; after a suspension one at a time until a sample comes."""
        limit = 1 if self.pauses else self.concurrency
        return bool(self.waiting) and self.calls < limit

    def take(self) -> list[Entry]:
        count = 1 if self.pauses else self.batch
        return [self.waiting.popleft() for _ in range(min(count, len(self.waiting)))]

    def succeeded(self, ticket: int) -> None:
        self._forget(ticket)
        self.strikes = self.pauses = 0
        self.hopeless = False

    def wait_after(self, ticket: int, error: GenerationError) -> float | None:
        """Seconds until the next attempt at a ticket; None if it is to be given up."""
        self.attempts[ticket] += 1
        self.spoilt[ticket] += error.cost is not None or isinstance(error, WorthlessError)
        tried = self.attempts[ticket]
        self.hopeless = not error.retryable
        if self.hopeless or tried >= self.patience.attempts:
            return None
        wait = min(self.patience.first_wait * 2.0 ** (tried - 1), self.patience.longest_wait)
        wait *= 1 + JITTER * (2 * random.random() - 1)  # not part of the run's randomness
        return max(wait, error.retry_after or 0.0)

    def gave_up(self, ticket: int) -> bool:
        """Whether the arm is to be suspended after giving up this ticket."""
        self._forget(ticket)
        self.strikes += 1
        return self.hopeless or self.pauses > 0 or self.strikes >= self.patience.suspend_after

    def suspend(self) -> float:
        """Rest for a while, longer each time; how long."""
        pause = self.patience.probe_after * min(2.0**self.pauses, LONGEST_PAUSE)
        self.pauses += 1
        self.strikes = 0
        self.probe_at = time.monotonic() + pause
        return pause

    def _forget(self, ticket: int) -> None:
        self.attempts.pop(ticket, None)
        self.spoilt.pop(ticket, None)

    async def call(self, entries: Sequence[Entry]) -> list[Sample | GenerationError]:
        """One outcome for each entry, whatever happens."""
        requests = [Request(e.place, (e.seed + self.spoilt[e.id]) % 2**31) for e in entries]
        try:
            async with asyncio.timeout(self.patience.timeout):
                outcomes = await self.generator.generate(requests)
        except TimeoutError:
            seconds = f"{self.patience.timeout:g}"
            return [GenerationError(f"no answer within {seconds} seconds.") for _ in entries]
        except GenerationError as error:
            return _one_for_all(error, len(entries))
        except Exception as error:  # a generator is other people's code
            return _one_for_all(GenerationError(f"{type(error).__name__}: {error}"), len(entries))
        if len(outcomes) != len(entries):
            message = f"gave {len(outcomes)} samples where {len(entries)} were asked for."
            return _one_for_all(GenerationError(message), len(entries))
        return [_checked(outcome) for outcome in outcomes]


def _one_for_all(error: GenerationError, count: int) -> list[Sample | GenerationError]:
    """The error for every entry, what was paid for it with the first alone."""
    others = GenerationError(str(error), retryable=error.retryable, retry_after=error.retry_after)
    return [error, *[others] * (count - 1)]


def _checked(outcome: Sample | GenerationError) -> Sample | GenerationError:
    if isinstance(outcome, GenerationError):
        return outcome
    given = [part is not None for part in (outcome.text, outcome.image, outcome.vector)]
    if sum(given) != 1:
        return _worthless("gave no text, image or vector, or more than one of them.", outcome)
    if outcome.text is not None and not outcome.text.strip():
        return _worthless("gave an empty text.", outcome)
    return outcome


def _worthless(message: str, sample: Sample) -> WorthlessError:
    return WorthlessError(
        message,
        cost=sample.cost,
        input_tokens=sample.input_tokens,
        output_tokens=sample.output_tokens,
    )
