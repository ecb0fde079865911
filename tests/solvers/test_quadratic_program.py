"""The quadratic program of a Newton step: its optimality conditions, even if it is singular or large."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from genmix.solvers.quadratic_program import quadratic_program
from genmix.solvers.region import Region
from genmix.solvers.simplex import SIMPLEX


def program(size: int, rank: int, seed: int) -> tuple[Any, Any, Any]:
    """Return a gradient, a Hessian of this rank and a mixture; two of the arms are identical."""
    rng = np.random.default_rng(seed)
    factor = rng.standard_normal((size, rank)) + 1
    gradient = rng.standard_normal(size)
    factor[-1], gradient[-1] = factor[0], gradient[0]
    return gradient, factor @ factor.T, rng.dirichlet(np.full(size, 0.5))


def gap(gradient: Any, hessian: Any, alpha: Any, found: Any, floor: Any) -> float:
    """Return the Frank–Wolfe gap of the model relative to its decrease."""
    slope = gradient + hessian @ (found - alpha)
    decrease = -float((gradient + slope) @ (found - alpha)) / 2
    assert decrease > 0
    return float(slope @ (found - floor) - (1 - floor.sum()) * slope.min()) / decrease


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("size", "rank"), [(3, 1), (5, 2), (40, 1), (40, 20), (120, 60), (400, 200)]
)
def test_singular_programs_are_solved_to_full_precision(size: int, rank: int, seed: int) -> None:
    gradient, hessian, alpha = program(size, rank, seed)
    floor = np.zeros(size)
    found = quadratic_program(gradient, hessian, alpha, floor, SIMPLEX, np.zeros(size, bool))
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1, abs=1e-12)
    assert abs(gap(gradient, hessian, alpha, found, floor)) < 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_weights_stay_above_their_floor(seed: int) -> None:
    gradient, hessian, alpha = program(60, 30, seed)
    floor = alpha / 10
    found = quadratic_program(gradient, hessian, alpha, floor)
    assert np.all(found >= floor * (1 - 1e-12))
    assert abs(gap(gradient, hessian, alpha, found, floor)) < 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_a_budget_row_with_hundreds_of_arms_agrees_with_cvxpy(seed: int) -> None:
    cp = pytest.importorskip("cvxpy")
    gradient, hessian, _ = program(300, 150, seed)
    cost = np.random.default_rng(seed).uniform(1, 5, 300)
    region = Region(300, rows=[cost], limits=[1.5])
    alpha = region.center
    found = quadratic_program(gradient, hessian, alpha, np.zeros(300), region)
    assert region.contains(found)
    w = cp.Variable(300, nonneg=True)
    model = gradient @ (w - alpha) + cp.quad_form(w - alpha, cp.psd_wrap(hessian)) / 2
    problem = cp.Problem(cp.Minimize(model), [cp.sum(w) == 1, cost @ w <= 1.5])
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11)
    step = found - alpha
    value = float(gradient @ step + step @ hessian @ step / 2)
    assert value == pytest.approx(problem.value, rel=1e-7)


def test_a_linear_program_ends_at_the_cheapest_arm() -> None:
    gradient = np.array([3.0, 1.0, 2.0])
    found = quadratic_program(gradient, np.zeros((3, 3)), np.full(3, 1 / 3), np.zeros(3))
    assert found == pytest.approx([0, 1, 0], abs=1e-9)


def test_a_constant_model_keeps_the_mixture() -> None:
    alpha = np.array([0.2, 0.3, 0.5])
    found = quadratic_program(np.ones(3), np.zeros((3, 3)), alpha, np.zeros(3))
    assert found == pytest.approx(alpha, abs=1e-9)


def test_an_infinite_hessian_leads_to_the_cheapest_arm() -> None:
    hessian = np.diag([np.inf, 1.0])
    found = quadratic_program(np.array([1.0, 2.0]), hessian, np.full(2, 0.5), np.zeros(2))
    assert found == pytest.approx([1, 0])
