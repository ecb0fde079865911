"""Policies over mixtures with a confidence bonus: Mixture-UCB and Mixture-UCB-OGD."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genmix.objectives.objective import Objective
from genmix.policies.mixture_greedy import with_bonus
from genmix.policies.policy import Decision, Policy, Situation, exploration, nonnegative
from genmix.solvers.simplex import vertex


@dataclass(frozen=True, eq=False)
class MixtureUCB(Policy):
    """Mixture-UCB: minimize an optimistic estimate of the loss.

    ``α_t = argmin L̂(α) − Σ_i α_i (δ_L sqrt(β log t / n_i) + w δ_G / n_i)``, where w is the weight of the
    objective's fidelity terms. It was published for quadratic losses; with any other loss, it is an
    extension and is labeled "extended". If both coefficients are 0, it is Mixture-Greedy.

    Parameters
    ----------
    delta : float, default 0.6
        δ_L, the coefficient of the confidence bonus.
    delta_fidelity : float, default 0.4
        δ_G, the coefficient of the fidelity bonus.
    beta : float, default 1.0
        β, the factor inside the square root of the bonus.

    Raises
    ------
    InputError
        If a parameter is negative.

    References
    ----------
    Rezaei, P., Farnia, F., & Li, C. T. (2025). Be more diverse than the most diverse: Optimal mixtures
    of generative models via Mixture-UCB bandit algorithms. ICLR.

    Examples
    --------
    >>> import genmix as gx
    >>> gx.MixtureUCB(delta=0.2).label(gx.RKE())
    'MixtureUCB'
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
        return with_bonus(situation, bonus)


@dataclass(frozen=True, eq=False)
class MixtureOGD(Policy):
    """Mixture-UCB-OGD: draw the arm that most improves the running shares.

    Draws ``argmin_i ∇L̂(p)_i − δ_L sqrt(β log t / n_i)`` at the running shares ``p = n / t``. The policy
    reports p as its mixture; each drawn arm is only a step toward a better p.

    Parameters
    ----------
    delta : float, default 0.6
        δ_L, the coefficient of the confidence bonus.
    beta : float, default 1.0
        β, the factor inside the square root of the bonus.

    Raises
    ------
    InputError
        If a parameter is negative.

    References
    ----------
    Rezaei, P., Farnia, F., & Li, C. T. (2025). Be more diverse than the most diverse: Optimal mixtures
    of generative models via Mixture-UCB bandit algorithms. ICLR.

    Examples
    --------
    >>> import genmix as gx
    >>> gx.MixtureOGD(delta=0.3)
    MixtureOGD(delta=0.3, beta=1.0)
    """

    delta: float = 0.6
    beta: float = 1.0

    def __post_init__(self) -> None:
        nonnegative(self, "delta", "beta")

    def decide(self, situation: Situation) -> Decision:
        shares = situation.shares
        slope = situation.loss.expand(shares).gradient
        best = np.argmin(slope - self.delta * exploration(situation, self.beta))
        return Decision(vertex(len(shares), int(best)), mixture=shares)
