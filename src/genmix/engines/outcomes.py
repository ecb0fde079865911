"""Checks on what a generator returned, so that a run can store it and another process can receive it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from genmix.core.masking import mask
from genmix.core.text import quotable
from genmix.data.samples import MAX_COST, Request, Sample
from genmix.generators.base import GenerationError, Generator, Outcome, Outcomes

MAX_TOKENS = 2**53
MAX_MESSAGE = 1000


class InvalidSampleError(GenerationError):
    """A sample arrived but is unusable, e.g. an empty string. The same seed would produce it again."""


async def validated_stream(generator: Generator, requests: Sequence[Request]) -> Outcomes:
    """Generate a batch, and validate its outcomes as they arrive."""
    outcomes = generator.generate(requests)
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
    for name, kind in (("text", str), ("image", bytes), ("prompt", str), ("source", str)):
        if not isinstance(value := getattr(sample, name), kind | None):
            return f"returned {name} of type {type(value).__name__}; it must be {kind.__name__}."
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
        quotable(message_of(error), most=MAX_MESSAGE),
        retryable=bool(getattr(error, "retryable", True)),
        retry_after=float(retry_after) if _is_cost(retry_after) else None,  # type: ignore[arg-type]
        cost=cost if _is_cost(cost) else None,
        input_tokens=_token_count(getattr(error, "input_tokens", None)),
        output_tokens=_token_count(getattr(error, "output_tokens", None)),
        may_be_charged=bool(getattr(error, "may_be_charged", False)),
        prompt_at_fault=bool(getattr(error, "prompt_at_fault", False)),
    )


def message_of(error: BaseException) -> str:
    """Return the message of an exception, which may be user code that fails."""
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
