"""One arm of a running study: its queue, its calls to the generator, and checks on their outcomes."""

from __future__ import annotations

import asyncio
import inspect
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from genmix.core.masking import mask
from genmix.core.text import number, quotable
from genmix.data.samples import MAX_COST, Request, Sample
from genmix.generators.base import GenerationError, Generator, Outcome, Outcomes
from genmix.journal.schema import Entry
from genmix.runs.retries import InvalidSampleError, Retries

MAX_TOKENS = 2**53
MAX_MESSAGE = 1000


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

    async def call(
        self, entries: Sequence[Entry], deliver: Callable[[Reply | FinishedCall], None]
    ) -> None:
        """Generate a batch; deliver one reply per entry as it arrives, whatever the generator does."""
        started_at = time.time()
        requests = [self._request(entry) for entry in entries]
        waiting = dict(enumerate(entries))

        def answer(position: int, outcome: Outcome) -> None:
            if position not in waiting:
                raise _wrong_position(position, outcome)
            entry = waiting.pop(position)
            if isinstance(outcome, GenerationError) and entry.prompt is None:
                outcome.prompt_at_fault = False  # there is no other prompt that could succeed
            deliver(Reply(self, entry, outcome, started_at))

        error, extra = sanitized(await self._receive(requests, answer)), None
        if not waiting and error.cost is not None:
            extra = Reply(self, entries[-1], error, started_at)
        for order, position in enumerate(list(waiting)):
            answer(position, self._error_for(requests[position], error, is_first=order == 0))
        deliver(FinishedCall(self, extra))

    def _request(self, entry: Entry) -> Request:
        seed = (entry.seed + self.retries.reseeds[entry.id]) % 2**31
        return Request(entry.place, seed, None if entry.prompt is None else entry.prompt.text)

    async def _receive(
        self, requests: Sequence[Request], answer: Callable[[int, Outcome], None]
    ) -> GenerationError:
        """Pass on what the generator yields, and return the error for requests without an answer."""
        timeout = self.retries.settings.timeout * len(requests)
        try:
            async with asyncio.timeout(timeout), aclosing(self._stream(requests)) as outcomes:
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
            return GenerationError(f"{type(raised).__name__}: {_message(raised)}")

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
        return f"returned the cost {sample.cost!r}, which is not a number from 0 to {MAX_COST:g}."
    return None


def sanitized(error: GenerationError) -> GenerationError:
    """Copy an error with a printable one-line message and numbers that can be summed."""
    kind = InvalidSampleError if isinstance(error, InvalidSampleError) else GenerationError
    # A subclass of a user may have skipped __init__.
    retry_after, cost = getattr(error, "retry_after", None), getattr(error, "cost", None)
    return kind(
        quotable(_message(error), most=MAX_MESSAGE),
        retryable=bool(getattr(error, "retryable", True)),
        retry_after=float(retry_after) if _is_cost(retry_after) else None,  # type: ignore[arg-type]
        cost=cost if _is_cost(cost) else None,
        input_tokens=_token_count(getattr(error, "input_tokens", None)),
        output_tokens=_token_count(getattr(error, "output_tokens", None)),
        may_be_charged=bool(getattr(error, "may_be_charged", False)),
        prompt_at_fault=bool(getattr(error, "prompt_at_fault", False)),
    )


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return f"{type(error).__name__} (its message cannot be read)"


def _storable(text: str | None) -> str | None:
    """Mask secrets, and replace lone surrogates, which UTF-8 cannot represent."""
    return None if text is None else mask(text).encode("utf-8", "replace").decode("utf-8")


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) <= sys.float_info.max


def _is_cost(value: Any) -> bool:
    return isinstance(value, int | float) and 0 <= value <= MAX_COST


def _token_count(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return int(value) if 0 <= value <= MAX_TOKENS else None
