"""Mixture-Greedy, the paper's policy, and a variant that corrects for small samples."""

from __future__ import annotations

from dataclasses import dataclass

from genmix.core.arrays import Vector
from genmix.policies.policy import Decision, Policy, Situation, nonnegative


@dataclass(frozen=True, eq=False)
class MixtureGreedy(Policy):
    """Draw from the best mixture given the samples seen so far, ``α_t = argmin L̂(α)``.

    This is Algorithm 1 of the paper. It has no exploration bonus, because
    a mixture of several arms keeps sampling all of them.

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

    solves_in_region = True

    def decide(self, situation: Situation) -> Decision:
        found = situation.solve(situation.loss)
        return Decision(found.weights, found.gap, found.curvature)


@dataclass(frozen=True, eq=False)
class MixtureBonus(Policy):
    """Mixture-Greedy with a partial correction for small-sample bias.

    ``α_t = argmin L̂(α) − strength · Σ_i α_i b / n_i``, where ``b / n`` is the expected excess loss of n
    samples relative to their population. An arm with few samples looks worse than it is; the bonus corrects
    part of this bias. Use it with ``draw="tracking"``, where the weights are target shares rather than
    probabilities.

    Parameters
    ----------
    strength : float, default 0.3
        Fraction of the bias to correct; 0 is Mixture-Greedy.

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
    solves_in_region = True

    def __post_init__(self) -> None:
        nonnegative(self, "strength")

    def decide(self, situation: Situation) -> Decision:
        inflation = self.strength * situation.loss.inflation(situation.shares)
        return with_bonus(situation, inflation / situation.counts)


def with_bonus(situation: Situation, bonus: Vector) -> Decision:
    """Minimize the empirical loss minus ``bonus·α``; with a zero bonus, this is Mixture-Greedy."""
    if not bonus.any():
        return MixtureGreedy().decide(situation)
    found = situation.solve(situation.loss.tilted(bonus))
    return Decision(found.weights, curvature=found.curvature)
