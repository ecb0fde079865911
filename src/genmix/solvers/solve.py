"""Minimize a convex loss over the simplex: solution, solver protocol and certificate.

    minimize  L(α)   subject to   α ≥ 0,  Σ_i α_i = 1

Every solution has a Frank–Wolfe gap ``max_i ⟨∇L(α), α − e_i⟩ ≥ L(α) − min L``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from genmix.core.arrays import Vector
from genmix.solvers.loss import Loss, Matrix
from genmix.solvers.simplex import on_simplex, uniform

UNKNOWN_GAP = np.inf
"""The gap reported if no bound is known."""

FINAL_SMOOTHING = 1e-11
"""Smoothing at which a loss that is not differentiable is certified."""


@dataclass(frozen=True)
class Solution:
    """A mixture with its loss and a certificate.

    A solution unpacks as ``weights, loss, gap, iterations``.

    Attributes
    ----------
    weights : numpy.ndarray of shape (m,)
        The mixture: nonnegative weights that sum to 1.
    loss : float
        Loss of the mixture; NaN if the solver did not evaluate it.
    gap : float
        Upper bound on ``loss − min loss``; ∞ if no bound is known.
    iterations : int
        Number of steps taken.
    curvature : numpy.ndarray of shape (m, m) or None
        The last Hessian used. The next solve of a similar loss can start with it.

    Examples
    --------
    >>> import numpy as np
    >>> import genmix as gx
    >>> mix = gx.optimal_mixture({"a": np.eye(3)[:1], "b": np.eye(3)[1:]}, gx.Vendi())
    >>> weights, loss, gap, iterations = gx.solve(mix.function)
    >>> weights.round(4)
    array([0.3333, 0.6667])
    >>> bool(gap < 1e-7)
    True
    """

    weights: Vector
    loss: float
    gap: float
    iterations: int
    curvature: Matrix | None = field(default=None, repr=False)

    def __iter__(self) -> Iterator[Any]:
        return iter((self.weights, self.loss, self.gap, self.iterations))


class Solver(Protocol):
    """Any object whose ``solve`` maps a loss and a starting point to a feasible mixture."""

    @abstractmethod
    def solve(self, loss: Loss, start: Vector, curvature: Matrix | None = None) -> Solution: ...


class WarmSolver(Solver):
    """A solver with a cheaper method for solving again after a small change in the loss.

    The selector calls ``resolve`` only on subclasses of this class, so other solvers can have an
    unrelated method of that name.
    """

    @abstractmethod
    def resolve(self, loss: Loss, start: Vector, curvature: Matrix | None = None) -> Solution:
        """Solve again from the last solution; loss and gap are NaN and ∞ if not evaluated."""


def solve(loss: Loss, start: Vector | None = None, solver: Solver | None = None) -> Solution:
    """Find the mixture with the smallest loss.

    Solves ``minimize L(α) subject to α ≥ 0, Σ_i α_i = 1`` and certifies the result.

    Parameters
    ----------
    loss : Loss
        A convex function of the weights, e.g. ``optimal_mixture(...).function``.
    start : array_like of shape (m,), optional
        Starting weights. Uniform by default.
    solver : Solver, optional
        The solver to use. ``Newton()`` by default.

    Returns
    -------
    Solution
        The weights, their loss, the gap and the number of iterations.

    Raises
    ------
    InputError
        If ``start`` is not a point on the simplex.

    Examples
    --------
    >>> import numpy as np
    >>> import genmix as gx
    >>> mix = gx.optimal_mixture({"a": np.eye(4)[:1], "b": np.eye(4)[1:]}, gx.Vendi())
    >>> gx.solve(mix.function, start=[0.5, 0.5]).weights.round(4)
    array([0.25, 0.75])
    """
    from genmix.solvers.newton import Newton  # circular import

    begin = uniform(loss.size) if start is None else on_simplex(start, loss.size)
    return (solver or Newton()).solve(loss, begin)


def certify(loss: Loss, alpha: Vector, iterations: int = 0) -> Solution:
    """Return ``alpha`` as a solution with its loss and gap."""
    here = loss.expand(alpha, 0.0 if loss.smooth else FINAL_SMOOTHING)
    return Solution(alpha, here.value, here.gap, iterations)
