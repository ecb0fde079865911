"""Which samples a report looks at one by one: all of a small run, an even part of each arm of a large one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genmix.runs.journal_reader import JournalReader, embedding_of

MOST = 10_000
MOST_BYTES = 100_000_000
"""Of their embeddings together, as long as that leaves enough samples."""
ENOUGH = 500
LEAST_OF_AN_ARM = 20


@dataclass(frozen=True)
class Chosen:
    """Samples of all arms, in the order in which they were told."""

    rows: list[dict[str, Any]]
    arms: NDArray[np.str_]
    embeddings: NDArray[np.float64]
    total: int
    """How many there are in the run."""

    @property
    def is_all(self) -> bool:
        return len(self.rows) == self.total

    def part(self, most: int, seed: int = 0) -> NDArray[np.int64]:
        """Places of an even part of each arm."""
        return even_part(self.arms.tolist(), most, seed)


def choose(journal: JournalReader, most: int = MOST) -> Chosen:
    """At most this many told samples, fewer of many dimensions, the same ones every time."""
    told = [(ticket, arm) for ticket, arm, _, _ in journal.told_numbers()]
    first = journal.samples_of([ticket for ticket, _ in told[:1]])
    dimension = next((len(embedding_of(row)) for row in first), 0)
    most = min(most, max(ENOUGH, MOST_BYTES // (8 * max(dimension, 1))))
    kept = [told[i] for i in even_part([arm for _, arm in told], most)]
    rows: list[dict[str, Any]] = []
    embeddings = np.empty((len(kept), dimension))
    for place, row in enumerate(journal.samples_of([ticket for ticket, _ in kept])):
        embeddings[place] = embedding_of(row)
        del row["embedding"]
        rows.append(row)
    return Chosen(rows, np.array([arm for _, arm in kept], dtype=str), embeddings, len(told))


def even_part(arms: Sequence[str], most: int, seed: int = 0) -> NDArray[np.int64]:
    """Places of at most ``most`` samples: of each arm in proportion, but some of every one."""
    if len(arms) <= most:
        return np.arange(len(arms))
    labels = np.array(arms)
    rng = np.random.default_rng(seed)
    kept = []
    for arm, quota in _quotas(arms, most).items():
        mine = np.flatnonzero(labels == arm)
        kept.append(rng.permutation(mine)[:quota])
    return np.sort(np.concatenate(kept))


def _quotas(arms: Sequence[str], most: int) -> dict[str, int]:
    names, counts = np.unique(np.array(arms), return_counts=True)
    least = min(LEAST_OF_AN_ARM, max(most // len(names), 1))
    sizes: Mapping[str, int] = dict(zip(names.tolist(), counts.tolist(), strict=True))
    floor = {arm: min(n, least) for arm, n in sizes.items()}
    left = most - sum(floor.values())
    spare = sum(sizes.values()) - sum(floor.values())
    return {arm: floor[arm] + (n - floor[arm]) * max(left, 0) // spare for arm, n in sizes.items()}
