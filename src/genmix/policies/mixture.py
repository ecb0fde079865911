"""Policies over mixtures: Mixture-Greedy, with a bonus, Mixture-UCB, Mixture-UCB-OGD."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genmix.objectives.base import Objective
from genmix.policies.base import (
    Decision,
    Policy,
    Situation,
    exploration,
    nonnegative,
    vertex,
)
from genmix.solvers.loss import LinearLoss, SumLoss


@dataclass(frozen=True, eq=False)
class MixtureGreedy(Policy):
    """``α_t = argmin L̂(α)``: the paper's algorithm, no exploration bonus."""

    def decide(self, situation: Situation) -> Decision:
        found = situation.solve(situation.loss)
        return Decision(found.weights, found.gap, found.curvature)


@dataclass(frozen=True, eq=False)
class MixtureBonus(Policy):
    """``α_t = argmin L̂(α) − strength · Σ α_i b / n_i``, with b/n what n samples put on top of the loss.

    An arm of which little is known looks worse than it is, because few samples inflate a loss; b, the
    loss's inflation at the running shares, says how much, and the bonus gives a part of that back.
    Meant for ``draw="tracking"``, where weights are shares to have, not rates to draw with.
    """

    strength: float = 0.3

    def __post_init__(self) -> None:
        nonnegative(self, "strength")

    def decide(self, situation: Situation) -> Decision:
        shares = situation.counts / situation.counts.sum()
        inflation = self.strength * situation.loss.inflation(shares)
        if not inflation:
            return MixtureGreedy().decide(situation)
        bonus = inflation / situation.counts
        found = situation.solve(SumLoss([(1.0, situation.loss), (1.0, LinearLoss(-bonus))]))
        return Decision(found.weights, curvature=found.curvature)


@dataclass(frozen=True, eq=False)
class MixtureUCB(Policy):
    """``α_t = argmin L̂(α) − Σ α_i (δ_L sqrt(β log t / n_i) + w δ_G / n_i)`` (Rezaei et al. 2025).

    w is the weight of the fidelity terms. Published for quadratic losses; used with any other it is
    an extension. With both coefficients 0 it is Mixture-Greedy.
    """

    delta: float = 0.6
    delta_fidelity: float = 0.4
    beta: float = 1.0

    def __post_init__(self) -> None:
        nonnegative(self, "delta", "delta_fidelity", "beta")

    def remark(self, objective: Objective) -> str:
        return "" if objective.quadratic else "extended"

    def decide(self, situation: Situation) -> Decision:
        bonus = self.delta * exploration(situation, self.beta)
        bonus += self.delta_fidelity * situation.objective.fidelity / situation.counts
        if not np.any(bonus):
            return MixtureGreedy().decide(situation)
        optimistic = SumLoss([(1.0, situation.loss), (1.0, LinearLoss(-bonus))])
        found = situation.solve(optimistic)
        return Decision(found.weights, curvature=found.curvature)


@dataclass(frozen=True, eq=False)
class MixtureOGD(Policy):
    """Pulls ``argmin_i ∇L̂(p)_i − δ_L sqrt(β log t / n_i)`` at the running shares p (Rezaei et al. 2025).

    p is its mixture, which every pull moves a little; the arm that it pulls is but a step on the way.
    """

    delta: float = 0.6
    beta: float = 1.0

    def __post_init__(self) -> None:
        nonnegative(self, "delta", "beta")

    def decide(self, situation: Situation) -> Decision:
        shares = situation.counts / situation.counts.sum()
        slope = situation.loss.expand(shares).gradient
        best = np.argmin(slope - self.delta * exploration(situation, self.beta))
        return Decision(vertex(len(shares), int(best)), mixture=shares)
