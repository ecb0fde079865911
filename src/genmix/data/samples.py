"""Samples and requests, and validation of the samples returned by user code."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from genmix.core.arrays import LARGEST, is_torch, to_numpy
from genmix.core.text import quotable

MAX_TOKENS = 10**15
"""Largest token count of one sample. Sums of such counts fit into 64 bits."""

MAX_COST = 1e12
"""Largest cost of one sample. Sums of such costs are finite and exact to a fraction of a cent."""


@dataclass(frozen=True)
class Request:
    """A request for one sample. The same request to the same generator yields the same sample."""

    index: int
    """Number of the sample within its arm, starting at 0."""
    seed: int
    """Derived from the study's seed, the arm and the index; fits in 31 bits."""
    prompt: str | None = None
    """The prompt to answer, in a study with prompts."""


@dataclass(frozen=True)
class Sample:
    """A generated sample: exactly one of text, image and vector, plus metadata."""

    text: str | None = None
    image: bytes | None = None
    """An encoded PNG."""
    vector: Any = None
    """Recorded features of shape ``(d,)``; they need no encoder."""
    prompt: str | None = None
    source: str | None = None
    """Origin of a recorded sample: file name and row."""
    quality: float | None = None
    cost: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None


class FieldError(ValueError):
    """A field of a sample is invalid. The message is a predicate, e.g. ``has cost -1``."""


def sample_from(**fields: Any) -> Sample:
    """Validate the fields of a sample; None means that a field is absent."""
    unknown = sorted(set(fields) - set(FIELDS))
    if unknown:
        raise FieldError(f"has the unknown field {unknown[0]!r}; use {', '.join(FIELDS)}")
    given = {name: value for name, value in fields.items() if value is not None}
    if sum(name in given for name in ("text", "image", "vector")) != 1:
        raise FieldError("needs exactly one of text, image and vector")
    return Sample(**{name: _CHECKS[name](value, name) for name, value in given.items()})


def checked_field(name: str, value: Any) -> Any:
    """Validate one field of a sample; raise FieldError if it is invalid."""
    return _CHECKS[name](value, name)


def without_surrogates(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode, with U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise FieldError(f"has a {name} of type {type(value).__name__}; pass a str")
    return without_surrogates(value)


def _image(value: Any, name: str) -> bytes:
    from genmix.data.png import as_png

    return as_png(value)


def _vector(value: Any, name: str) -> Any:
    """Validate finite numbers of shape ``(d,)``; keep float32, convert other types to float64."""
    try:
        array = to_numpy(value) if is_torch(value) else np.asarray(value)
    except (TypeError, ValueError):
        raise FieldError(f"has a {name} that is not an array of numbers") from None
    if array.ndim != 1 or not array.size or array.dtype.kind not in "fiub":
        raise FieldError(
            f"has a {name} of shape {array.shape} and dtype {array.dtype}; "
            "pass real numbers of shape (d,)"
        )
    row = array.astype(np.float32 if array.dtype == np.float32 else np.float64)
    if not float(np.abs(row).max()) <= LARGEST:  # also true for NaN
        raise FieldError(f"has a {name} with NaN, infinity or a number beyond {LARGEST:g}")
    return row


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool | str | bytes):
        raise FieldError(f"has {name} {_shown(value)}; pass a number")
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise FieldError(f"has {name} {_shown(value)}; pass a finite number")
    return found


def _cost(value: Any, name: str) -> float:
    found = _number(value, name)
    if found < 0:
        raise FieldError(f"has {name} {found:g}; pass a number of at least 0")
    if found > MAX_COST:
        raise FieldError(f"has {name} {found:g}; pass a number of at most {MAX_COST:g}")
    return found


def _shown(value: Any) -> str:
    """Format a value on one line; it can be anything, e.g. an integer with a million digits."""
    try:
        return quotable(repr(value), most=60)
    except ValueError:
        return "a very large number"


def _count(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
        raise FieldError(f"has {name} {_shown(value)}; pass a whole number of at least 0")
    if value > MAX_TOKENS:
        raise FieldError(f"has more than {MAX_TOKENS} {name}; pass a smaller number")
    return int(value)


_CHECKS: dict[str, Any] = {
    "text": _text,
    "image": _image,
    "vector": _vector,
    "prompt": _text,
    "quality": _number,
    "cost": _cost,
    "input_tokens": _count,
    "output_tokens": _count,
}

FIELDS = tuple(_CHECKS)
"""The fields that user code may set."""
