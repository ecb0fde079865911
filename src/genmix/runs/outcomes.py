"""What generators hand over, made fit for the journal and the terminal: other people wrote it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from genmix.core.text import quotable
from genmix.data.samples import Sample
from genmix.generators.base import GenerationError

MOST_TOKENS = 2**53
LONGEST_MESSAGE = 1000


class WorthlessError(GenerationError):
    """A sample came, but there is nothing in it."""


def checked(outcome: Any) -> Sample | GenerationError:
    """A sample that can be written down, or why it is none."""
    if isinstance(outcome, GenerationError):
        return clean_error(outcome)
    if not isinstance(outcome, Sample):
        return GenerationError(f"gave a {type(outcome).__name__} where a sample was asked for.")
    given = [part is not None for part in (outcome.text, outcome.image, outcome.vector)]
    if sum(given) != 1:
        return _worthless("gave no text, image or vector, or more than one of them.", outcome)
    if outcome.text is not None and not outcome.text.strip():
        return _worthless("gave an empty text.", outcome)
    if outcome.quality is not None and not _is_finite(outcome.quality):
        return _worthless(f"gave the quality {outcome.quality!r}, which is no number.", outcome)
    if outcome.cost is not None and not _is_cost(outcome.cost):
        return _worthless(f"gave the cost {outcome.cost!r}, which is none.", outcome)
    return replace(
        outcome,
        text=None if outcome.text is None else encodable(outcome.text),
        prompt=None if outcome.prompt is None else encodable(outcome.prompt),
        source=None if outcome.source is None else encodable(outcome.source),
        input_tokens=_tokens(outcome.input_tokens),
        output_tokens=_tokens(outcome.output_tokens),
    )


def clean_error(error: GenerationError) -> GenerationError:
    """The same error with a message of one printable line and numbers that can be added up."""
    clean = type(error) if isinstance(error, WorthlessError) else GenerationError
    return clean(
        quotable(error, most=LONGEST_MESSAGE),
        retryable=error.retryable,
        retry_after=_seconds(error.retry_after),
        cost=error.cost if _is_cost(error.cost) else None,
        input_tokens=_tokens(error.input_tokens),
        output_tokens=_tokens(error.output_tokens),
    )


def encodable(text: str) -> str:
    """The text with lone surrogates replaced; all else stays."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _worthless(message: str, sample: Sample) -> GenerationError:
    return clean_error(
        WorthlessError(
            message,
            cost=sample.cost,
            input_tokens=sample.input_tokens,
            output_tokens=sample.output_tokens,
        )
    )


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _is_cost(value: Any) -> bool:
    return _is_finite(value) and value >= 0


def _tokens(value: Any) -> int | None:
    return value if isinstance(value, int) and 0 <= value <= MOST_TOKENS else None


def _seconds(value: Any) -> float | None:
    return float(value) if _is_cost(value) else None
