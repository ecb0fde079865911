"""Objectives that are means over samples: precision, density, quality, cost."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from genmix.core.arrays import Array, Vector, like, to_numpy
from genmix.data.reference import samples_of
from genmix.errors import InputError
from genmix.kernels.balls import Balls, check_neighbours
from genmix.objectives.base import Batch, Objective, Tally
from genmix.solvers.loss import MeanLoss


class MeanObjective(Objective):
    """``minimise over α  ∓ θ·α`` with ``θ_i`` the mean of ψ over arm i's samples."""

    linear = True
    quadratic = True

    def tally(self, arms: int, sample: Array) -> MeanTally:
        return MeanTally(self, arms, sample)

    @abstractmethod
    def measure(self, sample: Array) -> Any:
        """ψ of a batch, as a function of the batch, prepared for embeddings like ``sample``."""


class MeanTally(Tally):
    """The sum of ψ over each arm's samples."""

    STATE = ("totals",)

    def __init__(self, objective: MeanObjective, arms: int, sample: Array) -> None:
        super().__init__(arms, sample)
        self._sign = -1.0 if objective.maximise else 1.0
        self._measure = objective.measure(sample)
        self.totals: list[float] = [0.0] * arms

    def _add(self, arm: int, batch: Batch) -> None:
        self.totals[arm] += float(np.sum(self._measure(batch)))

    def _merge(self, other: MeanTally) -> None:
        self.totals = [a + b for a, b in zip(self.totals, other.totals, strict=True)]

    def _grow(self) -> None:
        self.totals.append(0.0)

    def means(self, arms: Sequence[int]) -> Vector:
        return np.array([self.totals[arm] / self.counts[arm] for arm in arms])

    def loss(self, arms: Sequence[int]) -> MeanLoss:
        return MeanLoss(self.means(arms), self._sign)


class _BallObjective(MeanObjective):
    """A mean over how many balls of the reference hold a sample."""

    reference: Any
    k: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "reference", samples_of(self.reference))
        count = int(self.reference.points.shape[0])
        k = check_neighbours(count, self.k, f"the reference of {self.name}")
        object.__setattr__(self, "k", k)

    @property
    def dimension(self) -> int:
        dimension: int = self.reference.dimension
        return dimension

    @abstractmethod
    def per_sample(self, hits: Vector) -> Vector: ...

    def measure(self, sample: Array) -> Any:
        balls = Balls.around(like(self.reference.points, sample), self.k)
        return lambda batch: self.per_sample(to_numpy(balls.hits(batch.embeddings)))

    def details(self) -> dict[str, Any]:
        return {"k": self.k, "reference n": int(self.reference.points.shape[0])}


@dataclass(frozen=True, eq=False)
class Precision(_BallObjective):
    """Precision ↑: the share of samples inside some reference point's k-nearest-neighbour ball."""

    reference: Any
    k: int = 5
    name = "precision"
    maximise = True
    fidelity = 1.0

    def per_sample(self, hits: Vector) -> Vector:
        return (hits > 0).astype(float)


@dataclass(frozen=True, eq=False)
class Density(_BallObjective):
    """Density ↑: how many reference balls hold a sample, over k. It can exceed 1."""

    reference: Any
    k: int = 5
    name = "density"
    maximise = True
    fidelity = 1.0

    def per_sample(self, hits: Vector) -> Vector:
        return hits / self.k


@dataclass(frozen=True, eq=False)
class Quality(MeanObjective):
    """Mean quality ↑: any number that the user attaches to a sample."""

    name = "quality"
    maximise = True
    fidelity = 1.0

    def check(self, batch: Batch, where: str) -> None:
        if batch.quality is None:
            raise InputError(
                f"{where}: the objective needs a quality; give quality= with the sample."
            )

    def measure(self, sample: Array) -> Any:
        return lambda batch: batch.quality


@dataclass(frozen=True, eq=False)
class Cost(MeanObjective):
    """Mean cost ↓ of a sample."""

    name = "cost"
    maximise = False

    def check(self, batch: Batch, where: str) -> None:
        if batch.cost is None:
            raise InputError(f"{where}: the objective needs a cost; give cost= with the sample.")

    def measure(self, sample: Array) -> Any:
        return lambda batch: batch.cost
