"""First and second moments of each arm's rows, kept as the rows themselves while those are fewer.

While all arms together have fewer rows than columns, the rows say everything in less memory and
more exactly; from then on sums of ``x`` and ``x xᵀ`` do, in fixed memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from genmix.arrays import Array, namespace
from genmix.objectives.base import Batch, Tally
from genmix.objectives.trace import DenseMoments, FactorMoments, MixtureMoments


class MomentTally(Tally):
    """Moments of ``transform(embeddings)``; the transform is row by row."""

    STATE: ClassVar[tuple[str, ...]] = ("kept", "first", "second")

    def __init__(self, arms: int, sample: Array, columns: int) -> None:
        super().__init__(arms, sample)
        self.columns = columns
        self.kept: list[Any] = [self.rows(columns) for _ in range(arms)]
        self.first: list[Any] = []
        self.second: list[Any] = []

    @property
    def keeps_rows(self) -> bool:
        return not self.second

    def transform(self, embeddings: Array) -> Array:
        """The rows whose moments are taken."""
        return embeddings

    def _add(self, arm: int, batch: Batch) -> None:
        self._take(arm, self.transform(batch.embeddings), sum(self.counts))

    def _take(self, arm: int, rows: Array, before: int) -> None:
        if self.keeps_rows:
            self.kept[arm].append(rows)
            if before + rows.shape[0] >= self.columns:
                self._fold()
        else:
            self.first[arm] += namespace(rows).sum(rows, axis=0)
            self.second[arm] += rows.mT @ rows

    def _fold(self) -> None:
        """Turn the kept rows into sums."""
        arms = len(self.kept)
        self.first = [self.sums(self.columns) for _ in range(arms)]
        self.second = [self.sums(self.columns, self.columns) for _ in range(arms)]
        for arm, rows in enumerate(self.kept):
            self._take(arm, rows.array, 0)
        self.kept = []

    def _merge(self, other: MomentTally) -> None:
        if other.keeps_rows:
            before = sum(self.counts)
            for arm, rows in enumerate(other.kept):
                self._take(arm, rows.array, before)
                before += rows.count
            return
        if self.keeps_rows:
            self._fold()
        for arm in range(len(self.counts)):
            self.first[arm] += other.first[arm]
            self.second[arm] += other.second[arm]

    def _grow(self) -> None:
        if self.keeps_rows:
            self.kept.append(self.rows(self.columns))
        else:
            self.first.append(self.sums(self.columns))
            self.second.append(self.sums(self.columns, self.columns))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if not state["kept"]:
            self._fold()
        super().load_state_dict(state)

    def mean(self, arm: int) -> Array:
        if self.keeps_rows:
            return namespace(self.sample).mean(self.kept[arm].array, axis=0)
        return self.first[arm] / self.counts[arm]

    def second_moment(self, arm: int) -> Array:
        if self.keeps_rows:
            rows = self.kept[arm].array
            return rows.mT @ rows / self.counts[arm]
        return self.second[arm] / self.counts[arm]

    def mixture_moments(
        self, arms: Sequence[int], centred: bool, factor: Array | None = None
    ) -> MixtureMoments:
        """The moments of ``rows @ factor`` for these arms."""
        xp = namespace(self.sample)
        if self.keeps_rows:
            rows = [self.kept[arm].array for arm in arms]
            return FactorMoments(rows if factor is None else [r @ factor for r in rows], centred)
        second = xp.stack([self.second_moment(arm) for arm in arms])
        means = xp.stack([self.mean(arm) for arm in arms]) if centred else None
        if factor is not None:
            second = factor.mT @ second @ factor
            means = means @ factor if means is not None else None
        return DenseMoments(second, means)
