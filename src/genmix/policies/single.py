"""Policies that look for the best single arm: greedy, ε-greedy, UCB, FD-UCB."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from genmix.core.arrays import Vector, to_numpy
from genmix.errors import InputError, number
from genmix.objectives.base import Objective
from genmix.objectives.frechet import FrechetDistance, FrechetTally
from genmix.policies.base import (
    Decision,
    Policy,
    Situation,
    exploration,
    nonnegative,
    vertex,
)
from genmix.solvers.simplex import uniform


@dataclass(frozen=True, eq=False)
class OneArmGreedy(Policy):
    """The arm whose own loss is least."""

    def decide(self, situation: Situation) -> Decision:
        losses = situation.loss.singles()
        return Decision(vertex(len(losses), int(np.argmin(losses))))


@dataclass(frozen=True, eq=False)
class EpsilonGreedy(Policy):
    """The arm whose own loss is least, and with probability ε any arm."""

    epsilon: float = 0.1

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", number(self.epsilon, "epsilon", 0.0, 1.0))

    def decide(self, situation: Situation) -> Decision:
        best = OneArmGreedy().decide(situation).weights
        return Decision((1 - self.epsilon) * best + self.epsilon * uniform(len(best)))


@dataclass(frozen=True, eq=False)
class OneArmUCB(Policy):
    """The arm with the least ``own loss − δ_L sqrt(β log t / (2 n_i))``."""

    delta: float = 0.6
    beta: float = 1.0

    def __post_init__(self) -> None:
        nonnegative(self, "delta", "beta")

    def decide(self, situation: Situation) -> Decision:
        bonus = self.delta * exploration(situation, self.beta / 2)
        losses = situation.loss.singles() - bonus
        return Decision(vertex(len(losses), int(np.argmin(losses))))


@dataclass(frozen=True, eq=False)
class FrechetUCB(Policy):
    """FD-UCB (Hu et al. 2025), as published: the arm with the least ``FD_i − bonus_i``.

    It is no valid bound. ``threshold > 0`` first zeroes the entries of the covariance below
    ``threshold · sqrt(2 Σ_ii Σ_jj log d / n)``.
    """

    delta: float = 0.05
    kappa: float = 1.0
    threshold: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", number(self.delta, "delta", 1e-300, 1.0))
        nonnegative(self, "kappa", "threshold")

    def check(self, known: Sequence[str], active: Sequence[str], objective: Objective) -> None:
        if not isinstance(objective, FrechetDistance):
            raise InputError(
                "FrechetUCB works with FrechetDistance alone: use OneArmUCB() instead."
            )

    def remark(self, objective: Objective) -> str:
        return "as published"

    def decide(self, situation: Situation) -> Decision:
        tally = situation.tally
        assert isinstance(tally, FrechetTally)
        losses = situation.loss.singles()
        bonuses = [self._bonus(tally, arm) for arm in situation.indices]
        return Decision(vertex(len(losses), int(np.argmin(losses - np.array(bonuses)))))

    def _bonus(self, tally: FrechetTally, arm: int) -> float:
        n = tally.counts[arm]
        covariance = self._thresholded(to_numpy(tally.covariance(arm)), n)
        spectrum = np.abs(np.linalg.eigvalsh(covariance))
        norm, trace = float(spectrum.max()), float(np.trace(covariance))
        confidence = math.log(1 / self.delta)
        rank = trace / norm if norm > 0 else 0.0
        mean_square = (math.sqrt(float(np.sum(spectrum**2)) * confidence) + norm * confidence) / n
        spread = self.kappa**2 * norm * math.sqrt((rank + confidence) / n) + mean_square
        mean = math.sqrt(mean_square)
        distance = float(np.linalg.norm(to_numpy(tally.offset(arm))))
        return (
            mean * (mean + distance)
            + tally.root_trace * math.sqrt(spread)
            + trace * math.sqrt(confidence / n)
            + norm * confidence / n
        )

    def _thresholded(self, covariance: Vector, n: int) -> Vector:
        if self.threshold == 0:
            return covariance
        variances = np.maximum(np.diag(covariance), 0.0)
        level = np.sqrt(2 * np.outer(variances, variances) * math.log(len(variances)) / n)
        return np.where(np.abs(covariance) < self.threshold * level, 0.0, covariance)
