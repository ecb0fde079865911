"""One arm of a running study: its queue, its calls to the generator, and checks on their outcomes."""

from __future__ import annotations

import asyncio
import inspect
import math
import time
from collections import deque
from collections.abc import Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

from genmix.core.masking import mask
from genmix.core.text import quotable
from genmix.data.samples import Request, Sample
from genmix.generators.base import GenerationError, Generator, Outcome, Outcomes
from genmix.runs.journal_schema import Entry
from genmix.runs.retries import InvalidSampleError, Retries

MAX_TOKENS = 2**53
MAX_MESSAGE = 1000


@dataclass(frozen=True)
class FinishedCall:
    """A call to an arm's generator, with one outcome per ticket."""

    arm: ArmState
    entries: Sequence[Entry]
    outcomes: Sequence[Outcome]
    started_at: float


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
        return bool(self.queue) and self.calls < self.concurrency and not self.suspended

    def take_batch(self) -> list[Entry]:
        return [self.queue.popleft() for _ in range(min(self.batch, len(self.queue)))]

    def has_issued_all(self, tickets: int) -> bool:
        """Return whether this many tickets exhaust the generator's samples."""
        available = self.generator.available()
        return available is not None and tickets >= available

    async def call(self, entries: Sequence[Entry]) -> FinishedCall:
        """Generate a batch and return one outcome per entry, whatever the generator does."""
        started_at = time.time()
        return FinishedCall(self, entries, await self._outcomes(entries), started_at)

    async def _outcomes(self, entries: Sequence[Entry]) -> list[Outcome]:
        requests = [
            Request(e.place, (e.seed + self.retries.reseeds[e.id]) % 2**31) for e in entries
        ]
        found: dict[int, Outcome] = {}
        timeout = self.retries.settings.timeout * len(entries)
        try:
            async with asyncio.timeout(timeout), aclosing(self._stream(requests)) as outcomes:
                async for position, outcome in outcomes:
                    _check_position(position, outcome, found, len(entries))
                    found[position] = outcome
            error = GenerationError("the generator returned no outcome for this request.")
        except TimeoutError:
            error = GenerationError(f"no answer within {timeout:g} seconds.")
        except GenerationError as raised:
            error = raised
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise  # the run is being stopped
            error = GenerationError("the generator canceled its own call.")
        except (Exception, SystemExit) as raised:  # a generator may be user code
            error = GenerationError(f"{type(raised).__name__}: {raised}")
        missing = [position for position in range(len(entries)) if position not in found]
        found.update(zip(missing, _for_each(error, len(missing)), strict=True))
        last = len(entries) - 1
        if not missing and _is_cost(error.cost):  # every request was answered before the error
            found[last] = _with_extra_cost(found[last], error.cost)
        return [found[position] for position in range(len(entries))]

    async def _stream(self, requests: Sequence[Request]) -> Outcomes:
        outcomes = self.generator.generate(requests)
        if not hasattr(outcomes, "__aiter__"):
            if inspect.iscoroutine(outcomes):
                outcomes.close()
            raise GenerationError(
                "generate() must be an async generator that yields (position, outcome) pairs.",
                retryable=False,
            )
        async with aclosing(outcomes):
            async for position, outcome in outcomes:
                yield position, validated(outcome)


def _check_position(position: Any, outcome: Outcome, found: Collection[int], count: int) -> None:
    """Reject an answer that matches no open request, but keep its cost."""
    if position in found or position not in range(count):
        raise GenerationError(
            f"the generator yielded position {position!r}, which is a duplicate or out of range; "
            "yield each position of the batch once.",
            retryable=False,
            cost=outcome.cost,
        )


def _with_extra_cost(outcome: Outcome, cost: Any) -> Outcome:
    total = (outcome.cost or 0.0) + cost
    if isinstance(outcome, Sample):
        return replace(outcome, cost=total)
    outcome.cost = total
    return outcome


def _for_each(error: GenerationError, count: int) -> list[GenerationError]:
    """Repeat an error for several requests, but count its cost only once."""
    first = sanitized(error)
    others = GenerationError(str(first), retryable=error.retryable, retry_after=error.retry_after)
    return [first, *[others] * (count - 1)][:count]


# -- checks on what a generator returned -------------------------------------------------------------


def validated(outcome: Any) -> Outcome:
    """Return a sample that the journal can store, or an error that says what is wrong with it."""
    if isinstance(outcome, GenerationError):
        return sanitized(outcome)
    if not isinstance(outcome, Sample):
        return GenerationError(f"returned a {type(outcome).__name__} instead of a sample.")
    problem = _problem(outcome)
    if problem is not None:
        return sanitized(
            InvalidSampleError(
                problem,
                cost=outcome.cost,
                input_tokens=outcome.input_tokens,
                output_tokens=outcome.output_tokens,
            )
        )
    return replace(
        outcome,
        text=_storable(outcome.text),
        prompt=_storable(outcome.prompt),
        source=_storable(outcome.source),
        input_tokens=_token_count(outcome.input_tokens),
        output_tokens=_token_count(outcome.output_tokens),
    )


def _problem(sample: Sample) -> str | None:
    if sum(part is not None for part in (sample.text, sample.image, sample.vector)) != 1:
        return "must return exactly one of text, image and vector."
    if sample.text is not None and not sample.text.strip():
        return "returned empty text."
    if sample.quality is not None and not _is_finite(sample.quality):
        return f"returned the quality {sample.quality!r}, which is not a finite number."
    if sample.cost is not None and not _is_cost(sample.cost):
        return f"returned the cost {sample.cost!r}, which is not a nonnegative number."
    return None


def sanitized(error: GenerationError) -> GenerationError:
    """Copy an error with a printable one-line message and numbers that can be summed."""
    kind = InvalidSampleError if isinstance(error, InvalidSampleError) else GenerationError
    return kind(
        quotable(error, most=MAX_MESSAGE),
        retryable=error.retryable,
        retry_after=float(error.retry_after) if _is_cost(error.retry_after) else None,  # type: ignore[arg-type]
        cost=error.cost if _is_cost(error.cost) else None,
        input_tokens=_token_count(error.input_tokens),
        output_tokens=_token_count(error.output_tokens),
    )


def _storable(text: str | None) -> str | None:
    """Mask secrets, and replace lone surrogates, which UTF-8 cannot represent."""
    return None if text is None else mask(text).encode("utf-8", "replace").decode("utf-8")


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _is_cost(value: Any) -> bool:
    return _is_finite(value) and value >= 0


def _token_count(value: Any) -> int | None:
    return value if isinstance(value, int) and 0 <= value <= MAX_TOKENS else None
