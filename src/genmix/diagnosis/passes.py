"""How many splits or subsamples fit in one pass over the shards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

PASS_BYTES = 1 << 29
"""Memory for everything that is summarized in one pass; a single split or subsample can take more."""

BYTES_PER_ROW = 24
"""Memory for the row numbers of one sample: in a split, in its slots, and in the jobs."""

Each = TypeVar("Each")


def memory(statistics: int, workers: int | None) -> int:
    """Return the memory for a split with ``statistics`` bytes, without its row numbers.

    This covers the totals, what a file adds to them, and up to two results per worker that wait to be
    merged, each with about half of the statistics.
    """
    import joblib

    waiting = joblib.cpu_count() if workers is None else workers
    return (2 + waiting) * statistics


def in_passes(items: Iterable[Each], size: Callable[[Each], int]) -> Iterator[list[Each]]:
    """Yield the items in lists; each list fits in memory or has only one item."""
    group: list[Each] = []
    used = 0
    for item in items:
        needed = size(item)
        if group and used + needed > PASS_BYTES:
            yield group
            group, used = [], 0
        group.append(item)
        used += needed
    if group:
        yield group


def size_of_state(state: Any) -> int:
    """Return the number of bytes of the arrays in a state."""
    if isinstance(state, Mapping):
        return sum(map(size_of_state, state.values()))
    if isinstance(state, list):
        return sum(map(size_of_state, state))
    return int(getattr(state, "nbytes", 0))
