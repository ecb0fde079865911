"""A sample and the request for one: what generators make and encoders embed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Request:
    """One sample to make. The same request to the same generator asks for the same sample."""

    index: int
    """Which sample of the arm, from 0; recorded arms give the one at this place of their order."""
    seed: int
    """Derived from the study's seed, the arm and the index; fits in 31 bits."""


@dataclass(frozen=True)
class Sample:
    """What came out: exactly one of text, image and vector, and what is known of it."""

    text: str | None = None
    image: bytes | None = None
    """An encoded PNG."""
    vector: Any = None
    """Recorded features ``(d,)``, which need no encoder."""
    prompt: str | None = None
    source: str | None = None
    """Where a recorded sample comes from: a file's name and row."""
    quality: float | None = None
    cost: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
