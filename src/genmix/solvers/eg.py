"""Exponentiated gradient, the solver used in the paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from genmix.core.arrays import Vector
from genmix.core.description import Description
from genmix.errors import InputError, positive, whole
from genmix.solvers.loss import Loss, Matrix
from genmix.solvers.simplex import feasible, lifted, uniform
from genmix.solvers.solve import Solution, certify

MIN_LOG_WEIGHT = -690.0
"""Lower bound on the logarithm of a weight, so that any weight can grow again."""

SMOOTHING = 1e-3
"""Smoothing applied to a loss that is not differentiable."""


@dataclass(frozen=True, eq=False)
class EG(Description):
    """Exponentiated gradient: ``α_i ← α_i exp(−step · ∇L(α)_i) / Z``.

    The solver used in the paper. It minimizes ``L(α)`` over the simplex with a fixed number of
    first-order steps. :class:`Newton` is faster and more accurate.

    Parameters
    ----------
    step : float, default 0.1
        Step size η.
    steps : int, default 1000
        Number of steps.
    start : {"warm", "uniform"}, default "warm"
        Start from the last weights, or from equal weights as in the paper's experiments.

    Raises
    ------
    InputError
        If a parameter is out of range.

    References
    ----------
    Kivinen, J., & Warmuth, M. K. (1997). Exponentiated gradient versus gradient descent for linear
    predictors. Information and Computation, 132(1), 1–63.

    Examples
    --------
    >>> import numpy as np
    >>> import genmix as gx
    >>> arms = {"a": np.eye(3)[:1], "b": np.eye(3)[1:]}
    >>> mix = gx.optimal_mixture(arms, gx.Vendi(), solver=gx.EG(step=0.5, steps=200))
    >>> {arm: round(weight, 4) for arm, weight in mix.weights.items()}
    {'a': 0.3333, 'b': 0.6667}
    """

    step: float = 0.1
    steps: int = 1000
    start: Literal["warm", "uniform"] = "warm"

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", positive(self.step, "step"))
        object.__setattr__(self, "steps", whole(self.steps, "steps", 1))
        if self.start not in ("warm", "uniform"):
            raise InputError(f'start is {self.start!r}; pass "warm" or "uniform".')

    def solve(self, loss: Loss, start: Vector, curvature: Matrix | None = None) -> Solution:
        """Take all steps from ``start`` and certify the last iterate.

        Parameters
        ----------
        loss : Loss
            A convex function of the weights.
        start : numpy.ndarray of shape (m,)
            Starting weights; ignored if ``start="uniform"``.
        curvature : numpy.ndarray of shape (m, m), optional
            Not used.

        Returns
        -------
        Solution
        """
        smoothing = 0.0 if loss.smooth else SMOOTHING
        alpha = lifted(start if self.start == "warm" else uniform(loss.size))
        logs = np.log(alpha)
        for _ in range(self.steps):
            logs = logs - self.step * loss.expand(alpha, smoothing).gradient
            logs = np.maximum(logs - logs.max(), MIN_LOG_WEIGHT)
            alpha = feasible(np.exp(logs))
        return certify(loss, alpha, self.steps)
