"""Mixture-Greedy, the algorithm of the paper, and a variant that corrects for small samples."""

from __future__ import annotations

from dataclasses import dataclass

from genmix.core.arrays import Vector
from genmix.policies.policy import Decision, Policy, Situation, nonnegative
from genmix.solvers.loss import LinearLoss, SumLoss


@dataclass(frozen=True, eq=False)
class MixtureGreedy(Policy):
    """Draw from the best mixture of the samples seen so far, ``α_t = argmin L̂(α)``.

    The paper's algorithm 1, and the default policy. It has no exploration bonus: mixtures that need
    several arms explore by themselves.

    Examples
    --------
    >>> import numpy as np
    >>> import genmix as gx
    >>> sel = gx.Selector(["a", "b"], gx.Vendi(), policy=gx.MixtureGreedy(), warm_start=3)
    >>> rows = {"a": np.eye(4)[:1], "b": np.eye(4)[1:]}
    >>> for k, ticket in enumerate(sel.ask(6)):
    ...     sel.tell(ticket, rows[ticket.arm][k // 2 % len(rows[ticket.arm])])
    >>> {arm: round(weight, 4) for arm, weight in sel.weights.items()}
    {'a': 0.25, 'b': 0.75}
    """

    def decide(self, situation: Situation) -> Decision:
        found = situation.solve(situation.loss)
        return Decision(found.weights, found.gap, found.curvature)


@dataclass(frozen=True, eq=False)
class MixtureBonus(Policy):
    """Mixture-Greedy with part of the small-sample bias given back.

    ``α_t = argmin L̂(α) − strength · Σ_i α_i b / n_i``, where ``b / n`` is the expected excess loss of n
    samples over their population. Few samples make an arm look worse than it is; the bonus corrects
    for a part of that. It is meant for ``draw="tracking"``, where the weights are shares to reach rather
    than probabilities.

    Parameters
    ----------
    strength : float, default 0.3
        Part of the bias that is given back; 0 is Mixture-Greedy.

    Raises
    ------
    InputError
        If ``strength`` is negative.

    Examples
    --------
    >>> import genmix as gx
    >>> gx.Selector(["a", "b"], gx.Vendi(), policy=gx.MixtureBonus(), draw="tracking").is_warm
    False
    """

    strength: float = 0.3

    def __post_init__(self) -> None:
        nonnegative(self, "strength")

    def decide(self, situation: Situation) -> Decision:
        inflation = self.strength * situation.loss.inflation(situation.shares)
        return with_bonus(situation, inflation / situation.counts)


def with_bonus(situation: Situation, bonus: Vector) -> Decision:
    """Minimize the empirical loss minus ``bonus·α``; without a bonus this is Mixture-Greedy."""
    if not bonus.any():
        return MixtureGreedy().decide(situation)
    found = situation.solve(SumLoss([(1.0, situation.loss), (1.0, LinearLoss(-bonus))]))
    return Decision(found.weights, curvature=found.curvature)
