"""The Inception Score of a mixture: embeddings are class-probability vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from genmix.core.arrays import Array, Vector, namespace, to_numpy
from genmix.errors import InputError
from genmix.objectives.base import Batch, Objective, Tally
from genmix.objectives.trace import LIFTS
from genmix.solvers.loss import EPS, Expansion, Loss

OFF_BY = 1e-3
"""How far a row of probabilities may be from summing to 1 (float16 rows are)."""


@dataclass(frozen=True, eq=False)
class InceptionScore(Objective):
    """Inception Score ↑: ``exp(E KL(p(y|x) ‖ p̄(y)))``; the "embedding" of a sample is ``p(y|x)``.

    minimise over α   Σ_y p̄ log p̄ + h·α,   p̄ = Σ α_i p̄_i,   h_i the mean entropy of arm i's rows
    """

    name = "inception_score"
    maximise = True

    def check(self, batch: Batch, where: str) -> None:
        super().check(batch, where)
        rows = to_numpy(batch.embeddings)
        bad = (rows.min(axis=1) < 0) | (np.abs(rows.sum(axis=1) - 1) > OFF_BY)
        if bad.any():
            raise InputError(
                f"{where}, sample {int(np.argmax(bad))}: the row is no probability vector; the "
                "Inception Score needs class probabilities (apply softmax to logits)."
            )

    def tally(self, arms: int, sample: Array) -> InceptionTally:
        return InceptionTally(arms, sample)

    def details(self) -> dict[str, Any]:
        return {"splits": 1}


class InceptionTally(Tally):
    """Mean class probabilities and mean entropy of each arm."""

    STATE = ("first", "entropies")

    def __init__(self, arms: int, sample: Array) -> None:
        super().__init__(arms, sample)
        self.first: list[Any] = [self.sums(self.dimension) for _ in range(arms)]
        self.entropies: list[float] = [0.0] * arms

    def _add(self, arm: int, batch: Batch) -> None:
        rows = batch.embeddings
        xp = namespace(rows)
        safe = xp.where(rows > 0, rows, xp.ones_like(rows))
        self.first[arm] = self.first[arm] + xp.sum(rows, axis=0)
        self.entropies[arm] -= float(xp.sum(safe * xp.log(safe)))

    def _merge(self, other: InceptionTally) -> None:
        self.first = [a + b for a, b in zip(self.first, other.first, strict=True)]
        self.entropies = [a + b for a, b in zip(self.entropies, other.entropies, strict=True)]

    def _grow(self) -> None:
        self.first.append(self.sums(self.dimension))
        self.entropies.append(0.0)

    def loss(self, arms: Sequence[int]) -> InceptionLoss:
        counts = np.array([self.counts[arm] for arm in arms])
        means = np.stack([to_numpy(self.first[arm]) for arm in arms]) / counts[:, None]
        return InceptionLoss(means, np.array([self.entropies[arm] for arm in arms]) / counts)


class InceptionLoss(Loss):
    """``Σ p̄ log p̄ + h·α``, with the plane lifted off zero probabilities as in objectives.trace."""

    steep = True

    def __init__(self, means: Any, entropies: Vector) -> None:
        self.means = means[:, means.max(axis=0) > 0]
        self.entropies = entropies
        self.size = len(entropies)

    def value(self, alpha: Vector, blur: float = 0.0) -> float:
        mixed = alpha @ self.means
        mixed = mixed[mixed > 0]
        return float(np.sum(mixed * np.log(mixed)) + self.entropies @ alpha)

    def expand(self, alpha: Vector, blur: float = 0.0) -> Expansion:
        mixed = np.maximum(alpha @ self.means, 1e-300)
        plane = self._plane(mixed)
        lower = np.stack([plane, *(self._plane(np.maximum(mixed, lift)) for lift in LIFTS)])
        value = self.value(alpha)

        def bend() -> Any:
            return (self.means / mixed) @ self.means.T

        return Expansion(value, plane, bend, 64 * EPS, max(1.0, abs(value)), lower=lower)

    def _plane(self, mixed: Vector) -> Vector:
        plane: Vector = self.entropies + self.means @ (np.log(mixed) + 1) - mixed.sum()
        return plane

    def score(self, alpha: Vector) -> float:
        return math.exp(-self.value(alpha))
