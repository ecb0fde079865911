"""What a diagnosis computes from the samples: in memory, or while reading shards."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from genmix.core.arrays import like
from genmix.diagnosis.innovation import (
    Directions,
    Innovation,
    held_out_innovation,
    innovation,
    innovation_gaps,
    innovation_of_moments,
)
from genmix.diagnosis.passes import BYTES_PER_ROW, in_passes, memory, size_of_state
from genmix.diagnosis.resampling import take_rows
from genmix.kernels.kernels import Cosine
from genmix.objectives import Batch, Objective, Vendi
from genmix.objectives.moments import MomentTally
from genmix.objectives.pool import Pool
from genmix.objectives.tally import Tally
from genmix.offline.mixture import Mixture, best_mixture
from genmix.shards.arms import StreamedArm
from genmix.shards.settings import current
from genmix.shards.statistics import Pick, Request, all_rows, statistics

Rows = NDArray[np.int64]
"""Row numbers of an arm, in ascending order."""

Group = TypeVar("Group")
Found = TypeVar("Found")


@dataclass(frozen=True)
class Split:
    """A split of every arm into two halves, and which rows belong to which slot of the statistics."""

    halves: dict[str, tuple[Rows, Rows]]
    picks: list[tuple[int, str, Rows]]
    slots: int


class SplitStatistics(NamedTuple):
    """The statistics of a split, and the innovation gaps that one half has along directions of the other."""

    tally: Tally
    held_out: dict[str, float]


class PartStatistics(NamedTuple):
    """The best mixture of some samples, and their innovation gaps."""

    mixture: Mixture
    gaps: dict[str, float]


class Samples(Protocol):
    """The samples of all arms."""

    @property
    def counts(self) -> dict[str, int]: ...

    def innovations(self) -> dict[str, Innovation]: ...

    def mixture(self) -> Mixture:
        """Return the best mixture of all samples."""

    def splits(self, objective: Objective, splits: Iterable[Split]) -> Iterator[SplitStatistics]:
        """Yield the statistics of each split."""

    def parts(
        self, objective: Objective, parts: Iterable[Mapping[str, Rows]]
    ) -> Iterator[PartStatistics]:
        """Yield the statistics of each subsample: some rows of each arm."""


class HeldSamples:
    """Samples in memory."""

    def __init__(
        self, arms: Mapping[str, Batch], objective: Objective, encoder: str | None
    ) -> None:
        self.arms, self._objective, self._encoder = arms, objective, encoder
        self.counts = {name: len(batch) for name, batch in arms.items()}

    def innovations(self) -> dict[str, Innovation]:
        return innovation(self.arms)

    def mixture(self) -> Mixture:
        return _mixture(self.arms, self._objective, self._encoder)

    @cached_property
    def _together(self) -> dict[str, Batch]:
        """The samples in one library and on one device."""
        sample = next(iter(self.arms.values())).embeddings
        return {
            name: Batch(like(batch.embeddings, sample), batch.quality, batch.cost)
            for name, batch in self.arms.items()
        }

    def splits(self, objective: Objective, splits: Iterable[Split]) -> Iterator[SplitStatistics]:
        return (self._split(objective, split) for split in splits)

    def parts(
        self, objective: Objective, parts: Iterable[Mapping[str, Rows]]
    ) -> Iterator[PartStatistics]:
        return (self._part(objective, rows) for rows in parts)

    def _split(self, objective: Objective, split: Split) -> SplitStatistics:
        arms = self._together
        tally = objective.tally(split.slots, next(iter(arms.values())).embeddings)
        for slot, name, rows in split.picks:
            tally.add(slot, take_rows(arms[name], rows))
        first, second = (
            {name: take_rows(arms[name], half[k]) for name, half in split.halves.items()}
            for k in range(2)
        )
        found = held_out_innovation(first, second)
        return SplitStatistics(tally, {name: each.held_out for name, each in found.items()})

    def _part(self, objective: Objective, rows: Mapping[str, Rows]) -> PartStatistics:
        arms = {name: take_rows(batch, rows[name]) for name, batch in self.arms.items()}
        return PartStatistics(_mixture(arms, objective, None), innovation_gaps(arms))


def _mixture(arms: Mapping[str, Batch], objective: Objective, encoder: str | None) -> Mixture:
    return best_mixture(
        Pool.of(
            {name: batch.embeddings for name, batch in arms.items()},
            objective,
            {name: batch.quality for name, batch in arms.items() if batch.quality is not None},
            {name: batch.cost for name, batch in arms.items() if batch.cost is not None},
            encoder,
        )
    )


class StreamedSamples:
    """Samples in shards. One pass summarizes all; each later one, as many splits as fit in memory."""

    def __init__(
        self, arms: Sequence[StreamedArm], objective: Objective, encoder: str | None
    ) -> None:
        self.arms, self._encoder = arms, encoder
        self.names = [arm.label for arm in arms]
        self.counts = {arm.label: len(arm) for arm in arms}
        self._objective, self._directions = objective, Directions()

    @cached_property
    def _whole(self) -> tuple[Pool, dict[str, Any]]:
        """The statistics of all samples, and the second moments of their directions."""
        fixed = self._objective.fix_bandwidths([arm.rows for arm in self.arms])
        request = all_rows(fixed, len(self.arms))
        wanted = [(request, all_rows(self._directions, len(self.arms)))]
        [(tally, moments)] = self._with_moments(wanted, "reading shards")
        return Pool(tuple(self.names), fixed, tally, self._encoder), moments

    def _with_moments(
        self, wanted: Sequence[tuple[Request, Request]], title: str
    ) -> list[tuple[Tally, dict[str, Any]]]:
        """Read the shards once; return the statistics and second moments by arm for each pair of requests."""
        is_both = _has_directions(wanted[0][0].objective)
        requests = [r for pair in wanted for r in (pair[:1] if is_both else pair)]
        found = statistics(self.arms, requests, title)
        tallies, held = (found, found) if is_both else (found[::2], found[1::2])
        return [(tally, self._moments(each)) for tally, each in zip(tallies, held, strict=True)]

    def _moments(self, held: Tally) -> dict[str, Any]:
        assert isinstance(held, MomentTally)
        return {name: held.second_moment(i) for i, name in enumerate(self.names)}

    def innovations(self) -> dict[str, Innovation]:
        return innovation_of_moments(self._whole[1])

    def mixture(self) -> Mixture:
        return best_mixture(self._whole[0])

    def _memory(self, sets: int) -> int:
        """Return the memory for ``sets`` sets of statistics of every arm, without row numbers."""
        pool, moments = self._whole
        own = size_of_state(pool.tally.state_dict())
        return memory(sets * own + size_of_state(moments), current().workers)

    def splits(self, objective: Objective, splits: Iterable[Split]) -> Iterator[SplitStatistics]:
        size = self._memory(3) + BYTES_PER_ROW * sum(self.counts.values())
        groups = in_passes(splits, lambda split: size)
        return _freeing(partial(self._read_splits, objective), groups)

    def _read_splits(
        self, objective: Objective, group: Sequence[Split]
    ) -> Iterator[SplitStatistics]:
        wanted = [self._split_requests(objective, split) for split in group]
        found = self._with_moments(wanted, "reading halves")
        for split, (tally, moments) in zip(group, found, strict=True):
            yield SplitStatistics(tally, self._held_out(moments, split))

    def _split_requests(self, objective: Objective, split: Split) -> tuple[Request, Request]:
        picks: dict[str, list[Pick]] = {name: [] for name in self.names}
        for slot, name, rows in split.picks:
            picks[name].append((slot, rows))
        firsts = [[(i, split.halves[name][0])] for i, name in enumerate(self.names)]
        return (
            Request(objective, list(picks.values()), split.slots, is_checked=True),
            Request(self._directions, firsts, len(self.arms), is_checked=True),
        )

    def _held_out(self, moments: Mapping[str, Any], split: Split) -> dict[str, float]:
        """Return the gaps of the second halves along the directions of the first."""
        others = {}
        for name, (first, second) in split.halves.items():
            total = self.counts[name] * self._whole[1][name]
            rest = total - len(first) * moments[name]
            others[name] = rest / len(second) if len(second) else rest * math.nan
        found = {}
        for name, here in innovation_of_moments(moments).items():
            along = {n: float(here.direction @ m @ here.direction) for n, m in others.items()}
            found[name] = 2 * along[name] - sum(along.values())
        return found

    def parts(
        self, objective: Objective, parts: Iterable[Mapping[str, Rows]]
    ) -> Iterator[PartStatistics]:
        own = self._memory(1)

        def size(rows: Mapping[str, Rows]) -> int:
            return own + BYTES_PER_ROW * sum(map(len, rows.values()))

        return _freeing(partial(self._read_parts, objective), in_passes(parts, size))

    def _read_parts(
        self, objective: Objective, group: Sequence[Mapping[str, Rows]]
    ) -> Iterator[PartStatistics]:
        wanted = [self._part_requests(objective, rows) for rows in group]
        for tally, moments in self._with_moments(wanted, "reading subsamples"):
            pool = Pool(tuple(self.names), objective, tally, None)
            gaps = {name: each.gap for name, each in innovation_of_moments(moments).items()}
            yield PartStatistics(best_mixture(pool), gaps)

    def _part_requests(
        self, objective: Objective, rows: Mapping[str, Rows]
    ) -> tuple[Request, Request]:
        picks = [[(i, rows[name])] for i, name in enumerate(self.names)]
        count = len(self.arms)
        return (
            Request(objective, picks, count, is_checked=True),
            Request(self._directions, picks, count, is_checked=True),
        )


def _freeing(read: Callable[[Group], Iterator[Found]], groups: Iterable[Group]) -> Iterator[Found]:
    """Yield what is found in each group; unlike nested loops, keep nothing of it while the next is read."""
    return chain.from_iterable(map(read, groups))


def _has_directions(objective: Objective) -> bool:
    """Return whether the statistics of an objective are the second moments of unit-norm embeddings."""
    return isinstance(objective, Vendi) and isinstance(objective.kernel, Cosine)
