"""Minimize a convex loss over the simplex: solution, solver protocol and certificate.

    minimize  L(α)   subject to   α ≥ 0,  Σ_i α_i = 1

Every solution has a Frank–Wolfe gap ``max_i ⟨∇L(α), α − e_i⟩ ≥ L(α) − min L``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from genmix.core.arrays import Vector
from genmix.errors import InputError
from genmix.solvers.loss import Loss, Matrix
from genmix.solvers.region import Region
from genmix.solvers.simplex import SIMPLEX, on_simplex, uniform

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
    """Any object whose ``solve`` maps a loss and a starting point to a feasible mixture.

    A solver that can also minimize over a region takes it as ``region=`` and sets ``accepts_regions = True``.
    """

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


def region_argument(solver: Solver, region: Region | None) -> dict[str, Any]:
    """Return the region as a keyword argument for the solver; refuse a solver that does not accept it."""
    if region is None:
        return {}
    if not getattr(solver, "accepts_regions", False):
        raise InputError(
            f"{type(solver).__name__} solves only over the whole simplex; use Newton() with groups, "
            "at_least, at_most or mean_cost."
        )
    return {"region": region}


def solve(
    loss: Loss,
    start: Vector | None = None,
    solver: Solver | None = None,
    *,
    region: Region | None = None,
) -> Solution:
    """Find the mixture with the smallest loss.

    Solves ``minimize L(α) subject to α ≥ 0, Σ_i α_i = 1`` and certifies the result. With a region, α must
    also be in the region.

    Parameters
    ----------
    loss : Loss
        A convex function of the weights, e.g. ``optimal_mixture(...).function``.
    start : array_like of shape (m,), optional
        Starting weights. Uniform by default.
    solver : Solver, optional
        The solver to use. ``Newton()`` by default.
    region : Region, optional
        A part of the simplex: bounds on the weights, sums of groups, and rows such as a budget.

    Returns
    -------
    Solution
        The weights, their loss, the gap and the number of iterations.

    Raises
    ------
    InputError
        If ``start`` is not a point on the simplex, or the solver does not accept a region.

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
    chosen = solver or Newton()
    return chosen.solve(loss, begin, **region_argument(chosen, region))


def certify(
    loss: Loss, alpha: Vector, iterations: int = 0, region: Region | None = None
) -> Solution:
    """Return ``alpha`` as a solution with its loss and gap."""
    if region is not None and len(region.usable) < loss.size:  # infinite slopes do not matter there
        arms, face = region.usable, region.face(region.usable)
        return replace(certify(loss.face(arms), alpha[arms], iterations, face), weights=alpha)
    within = SIMPLEX if region is None else region
    here = within.expand(loss, alpha, 0.0 if loss.smooth else FINAL_SMOOTHING)
    return Solution(alpha, here.value, here.gap, iterations)
