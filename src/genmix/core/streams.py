"""Random streams that are independent of the user's own ``numpy.random.default_rng(seed)``.

A user who generates samples with ``default_rng(0)`` and passes ``seed=0`` to genmix must not get draws that
are correlated with the samples. Every component therefore derives its own stream from its seed.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

VERSION = 2
"""Version of the streams. Runs record it, so that they can be replayed with the streams they used."""

_version: ContextVar[int] = ContextVar("version of the random streams", default=VERSION)


def private_stream(seed: Any, purpose: str, *path: int) -> np.random.Generator:
    """Return the random stream for a purpose; a generator is returned as it is.

    ``path`` numbers several streams of the same purpose.
    """
    if isinstance(seed, np.random.Generator | np.random.BitGenerator | np.random.SeedSequence):
        return np.random.default_rng(seed)
    if _version.get() < VERSION:
        return np.random.default_rng([seed, *path] if path else seed)
    key = (zlib.crc32(b"genmix"), zlib.crc32(purpose.encode()), *path)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def current_version() -> int:
    """Return the version of the streams that :func:`private_stream` uses."""
    return _version.get()


@contextmanager
def streams_of_version(version: int | None) -> Iterator[None]:
    """Use the streams of another version; None is version 1, which used seeds as they are."""
    token = _version.set(1 if version is None else version)
    try:
        yield
    finally:
        _version.reset(token)
