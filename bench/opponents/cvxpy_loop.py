"""One CVXPY solve per round of ``αᵀKα − 2 b·α`` over the simplex, as in published code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from bench.timing import median_seconds

Array = NDArray[np.float64]
Solve = Callable[[Array, Array], Array]

SOLVERS = ("OSQP", "CLARABEL", "DAQP", "SCS")


def rebuilt(matrix: Array, linear: Array) -> Array:
    """Builds the problem in every round, for the solver that CVXPY chooses."""
    alpha = cp.Variable(len(linear), nonneg=True)
    form = cp.quad_form(alpha, cp.psd_wrap(matrix)) - 2 * linear @ alpha
    cp.Problem(cp.Minimize(form), [cp.sum(alpha) == 1]).solve()
    return _feasible(alpha.value)


class Parametrized:
    """The problem built once, with a root of K and b as parameters."""

    def __init__(self, arms: int, solver: str) -> None:
        self._alpha = cp.Variable(arms, nonneg=True)
        self._root, self._linear = cp.Parameter((arms, arms)), cp.Parameter(arms)
        form = cp.sum_squares(self._root @ self._alpha) - 2 * self._linear @ self._alpha
        self._problem = cp.Problem(cp.Minimize(form), [cp.sum(self._alpha) == 1])
        self._solver = solver

    def __call__(self, matrix: Array, linear: Array) -> Array:
        values, basis = np.linalg.eigh(matrix)
        self._root.value = np.sqrt(np.maximum(values, 0.0))[:, None] * basis.T
        self._linear.value = linear
        self._problem.solve(solver=self._solver)
        return _feasible(self._alpha.value)


def fastest(matrix: Array, linear: Array, repeats: int) -> tuple[str, dict[str, float], Solve]:
    """The fastest variant that solves the problem on this machine, and the seconds of all."""
    ways: dict[str, Solve] = {"rebuilt": rebuilt}
    for solver in SOLVERS:
        if solver in cp.installed_solvers():
            ways[f"parametrized, {solver}"] = Parametrized(len(linear), solver)
    losses = {name: _loss(matrix, linear, solve(matrix, linear)) for name, solve in ways.items()}
    least = min(losses.values())
    scale = abs(least) + float(np.max(np.abs(matrix)))
    good = {name: ways[name] for name, loss in losses.items() if loss - least <= 1e-6 * scale}
    taken = {name: median_seconds(repeats, solve, matrix, linear) for name, solve in good.items()}
    best = min(taken, key=taken.__getitem__)
    return best, taken, ways[best]


def _loss(matrix: Array, linear: Array, alpha: Array) -> float:
    return float(alpha @ matrix @ alpha - 2 * linear @ alpha)


def _feasible(alpha: Any) -> Array:
    positive: Array = np.maximum(alpha, 0.0)
    total: float = positive.sum()
    return positive / total
