"""What a policy is: from the losses and counts seen so far to the weights of the next draw."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from genmix.core.arrays import Vector
from genmix.core.description import Description
from genmix.errors import number
from genmix.objectives.base import Objective, Tally
from genmix.solvers.loss import Loss
from genmix.solvers.simplex import Solution, Solver


class Decision(NamedTuple):
    """Weights from which the active arms are drawn, and what else the policy happens to know."""

    weights: Vector
    gap: float | None = None
    """Of the mixture; None or NaN where the policy does not know it."""
    curvature: NDArray[np.float64] | None = None
    mixture: Vector | None = None
    """What the policy holds to be the best mixture, where its draws follow other weights than that."""


@dataclass(frozen=True)
class Situation:
    """All that a policy may look at; weights and counts are of the active arms."""

    arms: tuple[str, ...]
    indices: tuple[int, ...]
    """Where the active arms stand in the tally."""
    objective: Objective
    tally: Tally
    counts: NDArray[np.int64]
    total: int
    """t: all told samples, warm start and retired arms included."""
    start: Vector
    """The weights of the last decision, for a warm start."""
    solver: Solver
    curvature: NDArray[np.float64] | None = None
    """The Hessian of the last solve, for a warm start."""

    @cached_property
    def loss(self) -> Loss:
        """The empirical loss of a mixture of the active arms."""
        return self.tally.loss(self.indices)

    def solve(self, loss: Loss) -> Solution:
        """A warm-started solve, whose gap is NaN where the solver left it for later.

        A solver that leaves no curvature behind is never handed any.
        """
        known = () if self.curvature is None else (self.curvature,)
        solve = getattr(self.solver, "resolve", self.solver.solve)
        found: Solution = solve(loss, self.start, *known)
        return found


class Policy(Description):
    """Base of the policies: immutable parameters, no state."""

    def check(self, known: Sequence[str], active: Sequence[str], objective: Objective) -> None:
        """Refuse arms (all there are, and those still drawn from) or an objective it cannot work with."""

    def remark(self, objective: Objective) -> str:
        """What must be said beside its name under this objective; empty if there is nothing to say."""
        return ""

    def label(self, objective: Objective) -> str:
        """Its name, with the remark."""
        return remarked(type(self).__name__, self.remark(objective))

    @abstractmethod
    def decide(self, situation: Situation) -> Decision:
        """The weights from which the next arm is drawn."""


def remarked(name: str, remark: str) -> str:
    """A policy's name as tables have it."""
    return f"{name} ({remark})" if remark else name


def nonnegative(policy: Policy, *fields: str) -> None:
    """Refuse parameters that are no finite numbers of at least 0."""
    for field in fields:
        object.__setattr__(policy, field, number(getattr(policy, field), field, 0.0))


def vertex(size: int, index: int) -> Vector:
    weights = np.zeros(size)
    weights[index] = 1.0
    return weights


def exploration(situation: Situation, beta: float) -> Vector:
    """``sqrt(β log t / n_i)``."""
    bonus: Vector = np.sqrt(beta * np.log(situation.total) / situation.counts)
    return bonus
