"""Objectives that are means over samples: the base class, quality and cost."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from genmix.core.arrays import Array, Vector
from genmix.errors import InputError
from genmix.objectives.objective import Objective
from genmix.objectives.tally import Batch, SummedTally
from genmix.solvers.loss import MeanLoss


class MeanObjective(Objective):
    """Base class for objectives that minimize ``∓ θ·α``, with ``θ_i`` the mean of ψ over arm i."""

    linear = True
    quadratic = True
    least: ClassVar[float] = -math.inf
    most: ClassVar[float] = math.inf
    """The range of ψ."""

    def tally(self, arms: int, sample: Array) -> MeanTally:
        return MeanTally(self, arms, sample)

    @abstractmethod
    def measure(self, sample: Array) -> Any:
        """Return a function that computes ψ for each sample of a batch.

        ``sample`` is an array with the library, device and dimension of the embeddings.
        """


class MeanTally(SummedTally):
    """The sum of ψ over each arm's samples."""

    STATE = ("totals",)

    def __init__(self, objective: MeanObjective, arms: int, sample: Array) -> None:
        super().__init__(arms, sample)
        self._sign = -1.0 if objective.maximise else 1.0
        self._measure = objective.measure(sample)
        self.totals: list[float] = [0.0] * arms

    def _add(self, arm: int, batch: Batch) -> None:
        self.totals[arm] += float(np.sum(self._measure(batch)))

    def means(self, arms: Sequence[int]) -> Vector:
        return np.array([self.totals[arm] / self.counts[arm] for arm in arms])

    def sample_plane(
        self, loss: Any, arms: Sequence[int], alpha: Vector, batch: Batch, complete: bool = False
    ) -> Vector:
        plane: Vector = self._sign * np.asarray(self._measure(batch), dtype=np.float64)
        return plane

    def loss(self, arms: Sequence[int]) -> MeanLoss:
        return MeanLoss(self.means(arms), self._sign)


@dataclass(frozen=True, eq=False)
class Quality(MeanObjective):
    """Mean quality ↑, where quality is any number that you assign to a sample.

    The weights minimize ``−θ·α`` over the simplex, with ``θ_i`` the mean quality of arm i. This objective
    is usually one term of a sum.

    Examples
    --------
    >>> import numpy as np
    >>> import genmix as gx
    >>> arms = {"a": np.eye(3)[:1], "b": np.eye(3)[1:]}
    >>> objective = gx.Vendi() + gx.Quality()
    >>> mix = gx.optimal_mixture(arms, objective, quality={"a": 1.0, "b": [0.2, 0.4]})
    >>> round(mix.weights["a"], 4)
    0.5017
    """

    name = "quality"
    maximise = True
    fidelity = 1.0

    def check(self, batch: Batch, where: str) -> None:
        if batch.quality is None:
            raise InputError(
                f"{where}: the objective needs a quality; pass quality= with the sample."
            )

    def measure(self, sample: Array) -> Any:
        return lambda batch: batch.quality


@dataclass(frozen=True, eq=False)
class Cost(MeanObjective):
    """Mean cost ↓ per sample.

    The weights minimize ``c·α`` over the simplex, with ``c_i`` the mean cost of arm i. This objective is
    usually one term of a sum.

    Examples
    --------
    >>> import numpy as np
    >>> import genmix as gx
    >>> arms = {"a": np.eye(4)[:2], "b": np.eye(4)[2:]}
    >>> objective = gx.Vendi() + 0.5 * gx.Cost()
    >>> mix = gx.optimal_mixture(arms, objective, cost={"a": 3.0, "b": 1.0})
    >>> round(mix.weights["b"], 4)
    0.7311
    """

    name = "cost"
    maximise = False
    least = 0.0

    def check(self, batch: Batch, where: str) -> None:
        if batch.cost is None:
            raise InputError(f"{where}: the objective needs a cost; pass cost= with the sample.")

    def measure(self, sample: Array) -> Any:
        return lambda batch: batch.cost
