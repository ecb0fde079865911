"""How many splits or subsamples are summarized while shards are read once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeVar

PASS_BYTES = 1 << 29
"""Memory for everything that is summarized in one pass; one split or subsample can take more."""

COPIES = 4
"""The statistics exist as totals, and their parts as results of files that wait to be merged."""

BYTES_PER_ROW = 24
"""Memory for the row numbers of one sample: in a split, in its slots, and in the jobs."""

Each = TypeVar("Each")


def number_per_pass(statistics: int, rows: int) -> int:
    """Return how many splits fit in memory, each with ``statistics`` bytes and ``rows`` samples."""
    return max(1, PASS_BYTES // (COPIES * statistics + BYTES_PER_ROW * rows))


def in_groups(items: Iterable[Each], size: int) -> Iterator[list[Each]]:
    """Yield the items in lists of at most ``size``."""
    waiting = iter(items)
    while group := list(islice(waiting, size)):
        yield group


def size_of_state(state: Any) -> int:
    """Return the number of bytes of the arrays in a state."""
    if isinstance(state, Mapping):
        return sum(map(size_of_state, state.values()))
    if isinstance(state, list):
        return sum(map(size_of_state, state))
    return int(getattr(state, "nbytes", 0))
