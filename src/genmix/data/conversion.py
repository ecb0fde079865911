"""From what other people's code hands over to a Sample, every part of it checked."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from genmix.core.arrays import LARGEST, is_torch, to_numpy
from genmix.data.samples import Sample

FIELDS = (
    "text",
    "image",
    "vector",
    "prompt",
    "quality",
    "cost",
    "input_tokens",
    "output_tokens",
)


class FieldError(ValueError):
    """What is wrong with a sample: a phrase that goes on from "it ..."."""


def checked(**fields: Any) -> Sample:
    """A Sample of these fields; None is the same as nothing."""
    unknown = sorted(set(fields) - set(FIELDS))
    if unknown:
        raise FieldError(f"has the field {unknown[0]!r}: give {', '.join(FIELDS)}")
    given = {name: value for name, value in fields.items() if value is not None}
    if sum(name in given for name in ("text", "image", "vector")) != 1:
        raise FieldError("has not exactly one of text, image and vector")
    return Sample(**{name: _CHECKS[name](value, name) for name, value in given.items()})


def storable(text: str) -> str:
    """The text with half characters replaced, which no file can hold."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def as_vector(value: Any, name: str = "vector") -> Any:
    """Finite numbers ``(d,)``, single precision if they came so."""
    try:
        array = to_numpy(value) if is_torch(value) else np.asarray(value)
    except (TypeError, ValueError):
        raise FieldError(f"has a {name} that is no array of numbers") from None
    if array.ndim != 1 or not array.size or array.dtype.kind not in "fiub":
        raise FieldError(
            f"has a {name} of shape {array.shape} and dtype {array.dtype}: give real numbers (d,)"
        )
    row = array.astype(np.float32 if array.dtype == np.float32 else np.float64)
    if not float(np.abs(row).max()) <= LARGEST:  # also if it is NaN
        raise FieldError(f"has NaN, infinity or a number beyond {LARGEST:g} in its {name}")
    return row


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise FieldError(f"has a {name} that is no text but a {type(value).__name__}")
    return storable(value)


def _image(value: Any, name: str) -> bytes:
    from genmix.data.png import as_png

    return as_png(value)


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool | str | bytes):
        raise FieldError(f"has {name} {value!r}: give a number")
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise FieldError(f"has {name} {value!r}: give a finite number")
    return found


def _cost(value: Any, name: str) -> float:
    found = _number(value, name)
    if found < 0:
        raise FieldError(f"has {name} {found:g}: give a number of at least 0")
    return found


def _count(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
        raise FieldError(f"has {name} {value!r}: give a whole number of at least 0")
    return int(value)


_CHECKS: dict[str, Any] = {
    "text": _text,
    "image": _image,
    "vector": as_vector,
    "prompt": _text,
    "quality": _number,
    "cost": _cost,
    "input_tokens": _count,
    "output_tokens": _count,
}
