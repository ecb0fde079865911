"""Policies that were told the weights in advance: oracles, uniform, fixed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from genmix.core.arrays import Vector
from genmix.errors import InputError
from genmix.objectives.base import Objective
from genmix.policies.base import Decision, Policy, Situation, vertex
from genmix.solvers.simplex import feasible, on_simplex, uniform


@dataclass(frozen=True, eq=False)
class Uniform(Policy):
    """Every arm alike."""

    def decide(self, situation: Situation) -> Decision:
        return Decision(uniform(len(situation.arms)))


@dataclass(frozen=True, eq=False)
class Fixed(Policy):
    """The given weights, a map from arm to weight; those of retired arms go to the others in proportion."""

    weights: Any

    def __post_init__(self) -> None:
        if not isinstance(self.weights, Mapping):
            raise InputError(f"the weights are {self.weights!r}: give a map from arm to weight.")
        shares = on_simplex(list(self.weights.values())).tolist()
        named = {str(arm): share for arm, share in zip(self.weights, shares, strict=True)}
        object.__setattr__(self, "weights", dict(sorted(named.items())))

    def check(self, known: Sequence[str], active: Sequence[str], objective: Objective) -> None:
        unknown = next((arm for arm in self.weights if arm not in known), None)
        if unknown is not None:
            raise InputError(f"unknown arm {unknown!r} in {self}: the arms are {', '.join(known)}.")
        if not self._of(active).any():
            raise InputError(f"{self} gives no weight to {', '.join(active)}: name one of those.")

    def _of(self, arms: Sequence[str]) -> Vector:
        return np.array([self.weights.get(arm, 0.0) for arm in arms])

    def decide(self, situation: Situation) -> Decision:
        return Decision(feasible(self._of(situation.arms)))


@dataclass(frozen=True, eq=False)
class MixtureOracle(Fixed):
    """Told the best mixture in advance."""


@dataclass(frozen=True, eq=False)
class OneArmOracle(Policy):
    """Told the best arm in advance."""

    arm: str

    def check(self, known: Sequence[str], active: Sequence[str], objective: Objective) -> None:
        if self.arm not in active:
            raise InputError(f"{self} names no active arm: those are {', '.join(active)}.")

    def decide(self, situation: Situation) -> Decision:
        return Decision(vertex(len(situation.arms), situation.arms.index(self.arm)))
