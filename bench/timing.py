"""Seconds of an action, and of a run of rounds of which only some were measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")


def timed(repeats: int, action: Callable[..., T], *arguments: Any) -> tuple[T, float]:
    """What the action returns and the median of its seconds."""
    taken = []
    for _ in range(repeats):
        begin = perf_counter()
        found = action(*arguments)
        taken.append(perf_counter() - begin)
    return found, float(np.median(taken))


def seconds(action: Callable[..., Any], *arguments: Any) -> float:
    return timed(1, action, *arguments)[1]


def median_seconds(repeats: int, action: Callable[..., Any], *arguments: Any) -> float:
    return timed(repeats, action, *arguments)[1]


def over_rounds(at: Sequence[int], cost: Sequence[float], rounds: Sequence[int]) -> float:
    """The cost of all ``rounds``, from its measurement ``at`` some of them, linear between."""
    return float(np.sum(np.interp(rounds, at, cost)))
