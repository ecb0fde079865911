"""Time actions, and runs of which only some rounds were measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")


def timed(repeats: int, action: Callable[..., T], *arguments: Any) -> tuple[T, float]:
    """The result of the action and its median seconds."""
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
    """The cost of all ``rounds``, interpolated linearly from measurements ``at`` some of them."""
    return float(np.sum(np.interp(rounds, at, cost)))
