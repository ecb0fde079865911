"""The retry policy for one arm: backoff between attempts, suspension after repeated failures, probes."""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

from genmix.engines.outcomes import InvalidSampleError
from genmix.generators.base import GenerationError

JITTER = 0.25
"""Delays vary by up to this fraction, so that many requests are not retried at the same moment."""

MAX_BACKOFF = 16
"""Maximum pause before a suspended arm is probed, as a multiple of ``probe_after``."""

MAX_RETRY_AFTER = 86400.0
"""Maximum pause in seconds, even if a server asks for a longer one."""


class RetrySettings(Protocol):
    """A study's ``retries`` settings."""

    attempts: int
    first_wait: float
    longest_wait: float
    suspend_after: int
    probe_after: float
    timeout: float


@dataclass
class Retries:
    """Decides when a failed request to an arm is retried, and when the arm is suspended."""

    settings: RetrySettings
    attempts: Counter[int] = field(default_factory=Counter)
    """Number of failed attempts for each ticket in flight."""
    reseeds: Counter[int] = field(default_factory=Counter)
    """Number of attempts that returned an unusable sample; each one shifts the seed of the next attempt."""
    failed_tickets: int = 0
    """Number of consecutive tickets that were abandoned."""
    rejections: int = 0
    """Number of consecutive samples that the encoder or the selector rejected."""
    suspensions: int = 0
    """Number of suspensions since the last told sample."""
    retry_after: float = 0.0
    """Seconds that the server asked us to wait after the last failure."""
    is_unavailable: bool = False
    """Whether the last failure said that no request can succeed, or none for some time."""
    is_permanent: bool = False
    """Whether the last failure was of a kind that retrying cannot fix."""
    probe_at: float | None = None
    """When to probe a suspended arm, on the monotonic clock; None if it is not suspended."""
    probing: bool = False
    """Whether a probe is in flight: one sample that shows whether the arm works again."""

    @property
    def suspended(self) -> bool:
        return self.probe_at is not None

    @property
    def is_probe_due(self) -> bool:
        return self.probe_at is not None and self.probe_at <= time.monotonic()

    def record_success(self, ticket: int) -> None:
        self._forget(ticket)
        self.failed_tickets, self.retry_after = 0, 0.0
        self.is_unavailable = self.is_permanent = False

    def record_failure(self, ticket: int, error: GenerationError) -> float | None:
        """Return the delay in seconds until the next attempt, or None to give up on the ticket."""
        self.restore_failure(
            ticket, error.cost is not None or isinstance(error, InvalidSampleError)
        )
        self.is_unavailable = not error.retryable
        self.is_permanent = self.is_unavailable and error.retry_after is None
        self.retry_after = error.retry_after or 0.0
        attempts = self.attempts[ticket]
        if self._fails_at_once or error.prompt_at_fault or attempts >= self.settings.attempts:
            self._forget(ticket)
            self.failed_tickets += not error.prompt_at_fault
            return None
        delay = min(self.settings.first_wait * 2.0 ** (attempts - 1), self.settings.longest_wait)
        delay *= 1 + JITTER * (2 * random.random() - 1)  # independent of the run's seed
        return max(delay, self.retry_after)

    def restore_failure(self, ticket: int, reseed: bool) -> None:
        """Count a failed attempt, e.g. one from an earlier session."""
        self.attempts[ticket] += 1
        self.reseeds[ticket] += reseed

    def restore_suspension(self, has_ticket: bool) -> None:
        """Probe again after a suspension in an earlier session, with an open ticket if there is one."""
        self.suspensions = 1
        self.probing, self.probe_at = has_ticket, None if has_ticket else 0.0

    @property
    def _fails_at_once(self) -> bool:
        """Whether another attempt now would be pointless."""
        must_wait = self.retry_after > self.settings.longest_wait
        return self.is_unavailable or self.probing or must_wait

    @property
    def should_suspend(self) -> bool:
        count = max(self.failed_tickets, self.rejections)
        return self._fails_at_once or count >= self.settings.suspend_after

    def suspend(self) -> float:
        """Suspend the arm for a pause that grows each time, and return its length in seconds."""
        pause = self.settings.probe_after * min(2.0**self.suspensions, MAX_BACKOFF)
        pause = max(pause, min(self.retry_after, MAX_RETRY_AFTER))
        self.suspensions += 1
        self.failed_tickets = self.rejections = 0
        self.probing = False
        self.probe_at = time.monotonic() + pause
        return pause

    def start_probe(self) -> None:
        self.probe_at, self.probing = None, True

    def end_probe(self) -> None:
        """Record that the probe's sample was told, so the arm works again."""
        self.probing, self.suspensions = False, 0

    def _forget(self, ticket: int) -> None:
        self.attempts.pop(ticket, None)
        self.reseeds.pop(ticket, None)
