"""First and second moments of each arm's rows, stored as the rows themselves while there are few.

While all arms together have fewer rows than columns, storing the rows takes less memory and is more
accurate. After that, sums of ``x`` and ``x xᵀ`` take fixed memory. With many arms that have few
rows each, storing the rows remains smaller and faster for longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from genmix.core.arrays import Array, Vector, namespace
from genmix.objectives.eigenbasis import DenseMoments, FactorMoments, MixtureMoments
from genmix.objectives.tally import Batch, Tally

MANY_ARMS = 32
"""Number of arms above which one matrix per arm can cost more than the rows."""

ROWS_PER_ARM = 32
"""Number of rows per arm up to which multiplying the rows is cheaper than reading a matrix."""


class MomentTally(Tally):
    """First and second moments of the rows of ``transform(embeddings)``.

    The second moment is ``Σ x xᵀ``. If ``centered``, each arm's mean is subtracted first, so that a mean
    far from 0 does not cost precision.
    """

    STATE: ClassVar[tuple[str, ...]] = ("kept", "first", "second")
    centered: ClassVar[bool] = False

    def __init__(self, arms: int, sample: Array, columns: int) -> None:
        super().__init__(arms, sample)
        self.columns = columns
        self.kept: list[Any] = [self.rows(columns) for _ in range(arms)]
        self.first: list[Any] = []
        self.second: list[Any] = []

    @property
    def keeps_rows(self) -> bool:
        return not self.second

    @property
    def _max_rows(self) -> int:
        many = ROWS_PER_ARM * len(self.counts) if len(self.counts) > MANY_ARMS else 0
        return max(self.columns, many)

    def transform(self, embeddings: Array) -> Array:
        """Return the rows whose moments are computed."""
        return embeddings

    def _add(self, arm: int, batch: Batch) -> None:
        self._take(arm, self.transform(batch.embeddings), sum(self.counts))

    def _take(self, arm: int, rows: Array, before: int) -> None:
        if not self.keeps_rows:
            self._absorb(arm, self.counts[arm], *self._moments(rows))
            return
        self.kept[arm].append(rows)
        if before + rows.shape[0] >= self._max_rows:
            self._fold()

    def _moments(self, rows: Array) -> tuple[int, Array, Array]:
        """Return the number, the sum and the second-order sum of rows."""
        first = namespace(rows).sum(rows, axis=0)
        if self.centered:
            rows = rows - first / rows.shape[0]
        return int(rows.shape[0]), first, rows.mT @ rows

    def _absorb(self, arm: int, have: int, more: int, first: Array, second: Array) -> None:
        """Add the sums of ``more`` rows to the sums of an arm with ``have`` rows (Chan's rule)."""
        if self.centered and have and more:
            apart = first / more - self.first[arm] / have
            second = second + (have * more / (have + more)) * apart[:, None] * apart[None, :]
        self.first[arm] = self.first[arm] + first
        self.second[arm] = self.second[arm] + second

    def _fold(self) -> None:
        """Replace the kept rows with sums."""
        kept, self.kept = self.kept, []
        self.first = [self.zeros(self.columns) for _ in kept]
        self.second = [self.zeros(self.columns, self.columns) for _ in kept]
        for arm, rows in enumerate(kept):
            if rows.count:
                self._absorb(arm, 0, *self._moments(rows.array))

    def _merge(self, other: MomentTally, arms: Sequence[int]) -> None:
        if other.keeps_rows:
            before = sum(self.counts)
            for arm, rows in zip(arms, other.kept, strict=True):
                if rows.count:
                    self._take(arm, rows.array, before)
                    before += rows.count
            return
        if self.keeps_rows:
            self._fold()
        sums = zip(arms, other.counts, other.first, other.second, strict=True)
        for arm, more, first, second in sums:
            self._absorb(arm, self.counts[arm], more, first, second)

    def _grow(self) -> None:
        if self.keeps_rows:
            self.kept.append(self.rows(self.columns))
        else:
            self.first.append(self.zeros(self.columns))
            self.second.append(self.zeros(self.columns, self.columns))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if not state["kept"]:
            self._fold()
        super().load_state_dict(state)

    def mean(self, arm: int) -> Array:
        if self.keeps_rows:
            return namespace(self.sample).mean(self.kept[arm].array, axis=0)
        return self.first[arm] / self.counts[arm]

    def second_moment(self, arm: int) -> Array:
        """Return ``E x xᵀ``, or the 1/n covariance if centered."""
        if self.keeps_rows:
            return self._moments(self.kept[arm].array)[2] / self.counts[arm]
        return self.second[arm] / self.counts[arm]

    def mixture_moments(self, arms: Sequence[int]) -> MixtureMoments:
        """Return the moments of these arms."""
        if self.keeps_rows:
            return FactorMoments([self.kept[arm].array for arm in arms], self.centered)
        xp = namespace(self.sample)
        sums = xp.stack([self.second[arm] for arm in arms])
        return DenseMoments(sums, self.counts_of(arms), self.means_of(arms))

    def sample_plane(
        self, loss: Any, arms: Sequence[int], alpha: Vector, batch: Batch, complete: bool = False
    ) -> Vector:
        probes = self.keeps_rows and not complete
        if probes and not (len(arms) > MANY_ARMS and loss.moments.keeps_coordinates):
            return super().sample_plane(loss, arms, alpha, batch)
        rows = self.transform(batch.embeddings) if probes or not self.keeps_rows else None
        plane: Vector = loss.sample_plane(alpha, rows)
        return plane

    def means_of(self, arms: Sequence[int]) -> Array | None:
        """Return the means ``(m, d)`` of these arms if centered, else None."""
        if not self.centered:
            return None
        return namespace(self.sample).stack([self.mean(arm) for arm in arms])
