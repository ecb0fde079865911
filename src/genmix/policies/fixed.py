"""Policies with weights that are known in advance: uniform, fixed and oracle policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from genmix.core.arrays import Vector
from genmix.errors import InputError
from genmix.objectives.objective import Objective
from genmix.policies.policy import Decision, Policy, Situation
from genmix.solvers.simplex import feasible, on_simplex, uniform, vertex


@dataclass(frozen=True, eq=False)
class Uniform(Policy):
    """Draw every active arm with the same probability.

    Examples
    --------
    >>> import genmix as gx
    >>> sel = gx.Selector(["a", "b"], gx.Vendi(), policy=gx.Uniform())
    >>> sel.weights
    {'a': 0.5, 'b': 0.5}
    """

    def decide(self, situation: Situation) -> Decision:
        return Decision(uniform(len(situation.arms)))


@dataclass(frozen=True, eq=False)
class Fixed(Policy):
    """Draw arms with fixed weights.

    The weight of a retired arm is distributed among the others in proportion to their weights.

    Parameters
    ----------
    weights : mapping of str to float
        Weight of each arm; the weights sum to 1. Arms that are not listed have weight 0.

    Raises
    ------
    InputError
        If the weights are not on the simplex.

    Examples
    --------
    >>> import genmix as gx
    >>> gx.Fixed({"a": 0.25, "b": 0.75})
    Fixed(weights={'a': 0.25, 'b': 0.75})
    """

    weights: Any

    def __post_init__(self) -> None:
        if not isinstance(self.weights, Mapping):
            raise InputError(
                f'the weights are {self.weights!r}; pass a map from arm to weight, e.g. {{"a": 1.0}}.'
            )
        shares = on_simplex(list(self.weights.values())).tolist()
        named = {str(arm): share for arm, share in zip(self.weights, shares, strict=True)}
        object.__setattr__(self, "weights", dict(sorted(named.items())))

    def check(self, known: Sequence[str], active: Sequence[str], objective: Objective) -> None:
        unknown = next((arm for arm in self.weights if arm not in known), None)
        if unknown is not None:
            raise InputError(f"{self} names an unknown arm {unknown!r}; use {', '.join(known)}.")
        if not self._of(active).any():
            raise InputError(
                f"{self} assigns no weight to any active arm; assign weight to {', '.join(active)}."
            )

    def _of(self, arms: Sequence[str]) -> Vector:
        return np.array([self.weights.get(arm, 0.0) for arm in arms])

    def decide(self, situation: Situation) -> Decision:
        return Decision(feasible(self._of(situation.arms)))


@dataclass(frozen=True, eq=False)
class MixtureOracle(Fixed):
    """Draw from the best mixture, which is known in advance.

    A baseline for comparisons: no policy over mixtures can do better in expectation.

    Parameters
    ----------
    weights : mapping of str to float
        The best mixture, e.g. ``optimal_mixture(...).weights`` for a large pool.

    Raises
    ------
    InputError
        If the weights are not on the simplex.

    Examples
    --------
    >>> import numpy as np
    >>> import genmix as gx
    >>> best = gx.optimal_mixture({"a": np.eye(3)[:1], "b": np.eye(3)[1:]}, gx.RKE(gx.Cosine()))
    >>> sorted(gx.MixtureOracle(best.weights).weights)
    ['a', 'b']
    """


@dataclass(frozen=True, eq=False)
class OneArmOracle(Policy):
    """Draw only from the best arm, which is known in advance.

    Parameters
    ----------
    arm : str
        Label of the arm.

    Examples
    --------
    >>> import genmix as gx
    >>> gx.OneArmOracle("sdxl")
    OneArmOracle(arm='sdxl')
    """

    arm: str

    def check(self, known: Sequence[str], active: Sequence[str], objective: Objective) -> None:
        if self.arm not in active:
            raise InputError(f"{self} names an arm that is not active; use {', '.join(active)}.")

    def decide(self, situation: Situation) -> Decision:
        return Decision(vertex(len(situation.arms), situation.arms.index(self.arm)))
