"""Precision, density, coverage and recall of arms that are read in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from genmix.core.arrays import Array, namespace, to_numpy
from genmix.data.shards import fits_in_memory
from genmix.kernels.balls import Balls
from genmix.objectives.coverage import BLOCK_ROWS
from genmix.objectives.precision_density import BallReference
from genmix.objectives.tally import Batch, SummedTally
from genmix.shards.arms import StreamedArm
from genmix.shards.statistics import all_rows, statistics
from genmix.solvers.loss import Loss

Scores = dict[str, float]


def neighbor_scores(
    arms: Sequence[StreamedArm], reference: Array, k: int
) -> tuple[list[Scores], Scores]:
    """Return the scores of each arm and of all samples together, as ``scores_against`` does.

    Recall compares every pair of samples, so it is left out if they do not fit in memory.
    """
    objective = NeighborCounts(to_numpy(reference), k)
    [tally] = statistics(arms, [all_rows(objective, len(arms))], "comparing with the reference")
    assert isinstance(tally, NeighborTally)
    apart = [tally.scores([i]) for i in range(len(arms))]
    together = tally.scores(range(len(arms)))
    for group, scores in [*(([a], s) for a, s in zip(arms, apart, strict=True)), (arms, together)]:
        recall = _recall(group, tally.balls)
        if recall is not None:
            coverage = scores.pop("coverage")
            scores |= {"recall": recall, "coverage": coverage}
    return apart, together


def _recall(arms: Sequence[StreamedArm], real: Balls) -> float | None:
    count, size = sum(map(len, arms)), arms[0].shards.shape[1]
    if count <= real.k or not fits_in_memory(count, size):
        return None
    rows = np.concatenate([block for arm in arms for _, block in arm.rows.blocks()])
    fake = Balls.around(rows, real.k, "the sample set")
    return float(np.mean(to_numpy(fake.hits(real.centers)) > 0))


@dataclass(frozen=True, eq=False)
class NeighborCounts(BallReference):
    """How many samples are in each ball of a reference, and how many are in any; it is not optimized."""

    reference: Any
    k: int = 5
    name = "neighbor_counts"
    maximise = True

    def tally(self, arms: int, sample: Array) -> NeighborTally:
        return NeighborTally(self.balls(sample), arms, sample)


class NeighborTally(SummedTally):
    """The number of samples in each ball, and of samples in at least one."""

    STATE = ("inside", "precise")

    def __init__(self, balls: Balls, arms: int, sample: Array) -> None:
        super().__init__(arms, sample)
        self.balls = balls
        self.inside: list[Any] = [self.zeros(int(balls.centers.shape[0])) for _ in range(arms)]
        self.precise: list[float] = [0.0] * arms

    def _add(self, arm: int, batch: Batch) -> None:
        xp = namespace(batch.embeddings)
        for start in range(0, len(batch), BLOCK_ROWS):
            inside = self.balls.contains(batch.embeddings[start : start + BLOCK_ROWS, :])
            self.inside[arm] = self.inside[arm] + xp.sum(xp.astype(inside, xp.float64), axis=0)
            self.precise[arm] += float(xp.sum(xp.astype(xp.any(inside, axis=1), xp.float64)))

    def scores(self, arms: Sequence[int]) -> Scores:
        """Return precision, density and coverage of these arms together."""
        count = float(self.counts_of(arms).sum())
        inside = sum(to_numpy(self.inside[arm]) for arm in arms)
        return {
            "precision": sum(self.precise[arm] for arm in arms) / count,
            "density": float(np.sum(inside)) / count / self.balls.k,
            "coverage": float(np.mean(inside > 0)),
        }

    def loss(self, arms: Sequence[int]) -> Loss:
        raise NotImplementedError
