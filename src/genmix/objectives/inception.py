"""The Inception Score of a mixture. Embeddings are vectors of class probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from genmix.core.arrays import Array, Vector, namespace, to_numpy
from genmix.errors import InputError
from genmix.objectives.objective import Objective
from genmix.objectives.tally import Batch, SummedTally
from genmix.objectives.trace_loss import LIFTS
from genmix.solvers.loss import EPS, Expansion, Loss

SUM_TOLERANCE = 1e-3
"""How far the sum of a row of probabilities may deviate from 1; allows for float16 rounding."""


@dataclass(frozen=True, eq=False)
class InceptionScore(Objective):
    """Inception Score ↑: ``exp(E KL(p(y|x) ‖ p̄(y)))``.

    The "embedding" of a sample is its vector of class probabilities ``p(y|x)``. The weights minimize
    ``Σ_y p̄ log p̄ + h·α`` over the simplex, with ``p̄ = Σ α_i p̄_i`` the mean probabilities and ``h_i`` the
    mean entropy of arm i's rows.

    References
    ----------
    Salimans, T., et al. (2016). Improved techniques for training GANs. NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> import genmix as gx
    >>> arms = {"cats": [[1.0, 0.0, 0.0]], "others": [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]}
    >>> round(float(gx.optimal_mixture(arms, gx.InceptionScore()).score), 4)
    3.0
    """

    name = "inception_score"
    maximise = True

    def check(self, batch: Batch, where: str) -> None:
        super().check(batch, where)
        rows = to_numpy(batch.embeddings)
        bad = (rows.min(axis=1) < 0) | (np.abs(rows.sum(axis=1) - 1) > SUM_TOLERANCE)
        if bad.any():
            raise InputError(
                f"{where}, sample {int(np.argmax(bad))}: the row is not a probability vector; pass "
                "class probabilities to the Inception Score (apply softmax to logits)."
            )

    def tally(self, arms: int, sample: Array) -> InceptionTally:
        return InceptionTally(arms, sample)

    def details(self) -> dict[str, Any]:
        return {"splits": 1}


class InceptionTally(SummedTally):
    """Mean class probabilities and mean entropy of each arm."""

    STATE = ("first", "entropies")

    def __init__(self, arms: int, sample: Array) -> None:
        super().__init__(arms, sample)
        self.first: list[Any] = [self.zeros(self.dimension) for _ in range(arms)]
        self.entropies: list[float] = [0.0] * arms

    def _add(self, arm: int, batch: Batch) -> None:
        rows = batch.embeddings
        xp = namespace(rows)
        safe = xp.where(rows > 0, rows, xp.ones_like(rows))
        self.first[arm] = self.first[arm] + xp.sum(rows, axis=0)
        self.entropies[arm] -= float(xp.sum(safe * xp.log(safe)))

    def loss(self, arms: Sequence[int]) -> InceptionLoss:
        counts = self.counts_of(arms)
        means = np.stack([to_numpy(self.first[arm]) for arm in arms]) / counts[:, None]
        return InceptionLoss(means, np.array([self.entropies[arm] for arm in arms]) / counts)


class InceptionLoss(Loss):
    """The loss ``Σ p̄ log p̄ + h·α``; zero probabilities are lifted as in ``trace_loss``."""

    singular_boundary = True

    def __init__(self, means: Any, entropies: Vector) -> None:
        self.means = means[:, means.max(axis=0) > 0]
        self.entropies = entropies
        self.size = len(entropies)

    def value(self, alpha: Vector, smoothing: float = 0.0) -> float:
        mixed = alpha @ self.means
        mixed = mixed[mixed > 0]
        return float(np.sum(mixed * np.log(mixed)) + self.entropies @ alpha)

    def expand(self, alpha: Vector, smoothing: float = 0.0) -> Expansion:
        mixed = np.maximum(alpha @ self.means, 1e-300)
        plane = self._plane(mixed)
        lower = np.stack([plane, *(self._plane(np.maximum(mixed, lift)) for lift in LIFTS)])
        value = self.value(alpha)
        return Expansion(
            value=value,
            gradient=plane,
            compute_hessian=lambda: (self.means / mixed) @ self.means.T,
            noise=64 * EPS,
            magnitude=max(1.0, abs(value)),
            lower_planes=lower,
        )

    def _plane(self, mixed: Vector) -> Vector:
        plane: Vector = self.entropies + self.means @ (np.log(mixed) + 1) - mixed.sum()
        return plane

    def score(self, alpha: Vector) -> float:
        return math.exp(-self.value(alpha))
