"""Policies over mixtures with a confidence bonus: Mixture-UCB, Mixture-UCB-V and Mixture-UCB-OGD."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genmix.objectives.objective import Objective
from genmix.policies.mixture_greedy import with_bonus
from genmix.policies.policy import Decision, Policy, Situation, exploration, nonnegative
from genmix.solvers.newton import Newton
from genmix.solvers.simplex import vertex

ROUGH = Newton(tolerance=1e-4)
"""Solver for weights that only guide the exploration."""


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
    solves_in_region = True

    def __post_init__(self) -> None:
        nonnegative(self, "delta", "delta_fidelity", "beta")

    def remark(self, objective: Objective) -> str:
        return "" if objective.quadratic else "extended"

    def decide(self, situation: Situation) -> Decision:
        bonus = self.delta * exploration(situation, self.beta)
        bonus += self.delta_fidelity * situation.objective.fidelity / situation.counts
        return with_bonus(situation, bonus)


@dataclass(frozen=True, eq=False)
class MixtureUCBV(Policy):
    """Mixture-UCB with a bonus the size of the measured error; the default policy.

    The mixture is that of Mixture-Greedy, ``argmin L̂(α)``. Arms are drawn from the optimistic weights
    ``argmin L̂(α) − Σ_i α_i (errors · s_i sqrt(log(t / n_i) / n_i) + bias · b / n_i)``, where ``s_i`` is the
    standard deviation, over the samples of arm i, of their contributions to the gradient, and ``b / n`` is
    the expected excess loss of n samples (see :class:`MixtureBonus`). An arm that looks poor only because of
    an unlucky warm start is therefore drawn again, while the bonus of an arm with many samples is small.
    By default, arms are drawn by tracking, where the weights are target shares.

    Parameters
    ----------
    errors : float, default 1.5
        Coefficient of the standard errors. If both coefficients are 0, this is Mixture-Greedy.
    bias : float, default 0.2
        Fraction of the small-sample bias to correct.

    Raises
    ------
    InputError
        If a parameter is negative.

    References
    ----------
    Audibert, J.-Y., Munos, R., & Szepesvári, C. (2009). Exploration–exploitation tradeoff using variance
    estimates in multi-armed bandits. Theoretical Computer Science.

    Audibert, J.-Y., & Bubeck, S. (2009). Minimax policies for adversarial and stochastic bandits. COLT.

    Examples
    --------
    >>> import genmix as gx
    >>> gx.Selector(["a", "b"], gx.Vendi(), policy=gx.MixtureUCBV(errors=2)).is_warm
    False
    """

    errors: float = 1.5
    bias: float = 0.2
    draw = "tracking"
    needs_deviations = True
    solves_in_region = True

    def __post_init__(self) -> None:
        nonnegative(self, "errors", "bias")

    def decide(self, situation: Situation) -> Decision:
        counts = situation.counts
        assert situation.deviations is not None  # because of needs_deviations
        total = situation.total if situation.competitors is None else situation.competitors
        rates = np.log(np.maximum(total / counts, 1.0)) / counts
        bonus = self.errors * situation.deviations * np.sqrt(rates)
        bonus += self.bias * situation.loss.inflation(situation.shares) / counts
        found = situation.solve(situation.loss)
        start = found.weights if situation.targets is None else situation.targets
        loss = situation.loss.tilted(bonus)
        targets = ROUGH.resolve(loss, start, found.curvature, situation.region).weights
        return Decision(found.weights, found.gap, found.curvature, targets=targets)


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
