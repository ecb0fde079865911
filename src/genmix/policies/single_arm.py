"""Policies that look for the best single arm: greedy, ε-greedy, UCB, FD-UCB."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from genmix.core.arrays import Vector, to_numpy
from genmix.errors import InputError, number
from genmix.objectives.frechet import FrechetDistance, FrechetTally
from genmix.objectives.objective import Objective
from genmix.policies.policy import Decision, Policy, Situation, exploration, nonnegative
from genmix.solvers.simplex import uniform, vertex


def _least(losses: Vector) -> Decision:
    """Put all weight on the arm with the smallest loss."""
    return Decision(vertex(len(losses), int(np.argmin(losses))))


@dataclass(frozen=True, eq=False)
class OneArmGreedy(Policy):
    """Draw the arm with the smallest loss, ``argmin_i L̂(e_i)``.

    Examples
    --------
    >>> import genmix as gx
    >>> gx.Selector(["a", "b"], gx.Vendi(), policy=gx.OneArmGreedy())
    <Selector: OneArmGreedy for vendi, 2 arms, 0 samples>
    """

    def decide(self, situation: Situation) -> Decision:
        return _least(situation.loss.singles())


@dataclass(frozen=True, eq=False)
class EpsilonGreedy(Policy):
    """Draw the arm with the smallest loss or, with probability ε, a uniformly random arm.

    Parameters
    ----------
    epsilon : float, default 0.1
        Probability of a uniform draw.

    Raises
    ------
    InputError
        If ``epsilon`` is not between 0 and 1.

    Examples
    --------
    >>> import genmix as gx
    >>> gx.EpsilonGreedy(0.2)
    EpsilonGreedy(epsilon=0.2)
    """

    epsilon: float = 0.1

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", number(self.epsilon, "epsilon", 0.0, 1.0))

    def decide(self, situation: Situation) -> Decision:
        best = OneArmGreedy().decide(situation).weights
        return Decision((1 - self.epsilon) * best + self.epsilon * uniform(len(best)))


@dataclass(frozen=True, eq=False)
class OneArmUCB(Policy):
    """Draw the arm with the smallest optimistic loss, ``argmin_i L̂(e_i) − δ_L sqrt(β log t / (2 n_i))``.

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

    Examples
    --------
    >>> import genmix as gx
    >>> gx.OneArmUCB()
    OneArmUCB(delta=0.6, beta=1.0)
    """

    delta: float = 0.6
    beta: float = 1.0

    def __post_init__(self) -> None:
        nonnegative(self, "delta", "beta")

    def decide(self, situation: Situation) -> Decision:
        bonus = self.delta * exploration(situation, self.beta / 2)
        return _least(situation.loss.singles() - bonus)


@dataclass(frozen=True, eq=False)
class FrechetUCB(Policy):
    """FD-UCB: draw the arm with the smallest optimistic Fréchet distance, ``argmin_i FD_i − bonus_i``.

    The bonus is implemented as published, and the policy is labeled "as published", because the bonus is
    not a valid confidence bound. The policy works only with :class:`FrechetDistance`.

    Parameters
    ----------
    delta : float, default 0.05
        Confidence level δ, between 0 and 1.
    kappa : float, default 1.0
        κ, the sub-Gaussian constant.
    threshold : float, default 0.0
        If positive, entries of an arm's covariance below ``threshold · sqrt(2 Σ_ii Σ_jj log d / n)`` are
        set to zero first.

    Raises
    ------
    InputError
        If a parameter is out of range.

    References
    ----------
    Hu, X., Leung, H., & Farnia, F. (2025). A multi-armed bandit approach to online selection and
    evaluation of generative models. AISTATS.

    Examples
    --------
    >>> import numpy as np
    >>> import genmix as gx
    >>> gx.FrechetUCB().label(gx.FrechetDistance(np.eye(3)))
    'FrechetUCB (as published)'
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
                "FrechetUCB works only with FrechetDistance; use OneArmUCB() with other objectives."
            )

    def remark(self, objective: Objective) -> str:
        return "as published"

    def decide(self, situation: Situation) -> Decision:
        tally = situation.tally
        assert isinstance(tally, FrechetTally)
        bonuses = [self._bonus(tally, arm) for arm in situation.indices]
        return _least(situation.loss.singles() - np.array(bonuses))

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
