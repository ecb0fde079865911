"""Hundreds of arms in groups: programs without expensive arms, averages over slices, pooled cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.objectives import eigenbasis
from genmix.solvers import quadratic_program
from genmix.solvers.loss import QuadraticLoss
from genmix.solvers.newton import Newton
from genmix.solvers.pooling import PooledLoss
from genmix.solvers.region import Region
from tests.support.helpers import loss_of

GROUPS = np.repeat(np.arange(50), 4)


def cells(seed: int, good: int = 60) -> dict[str, Any]:
    """One-hot modes: most arms have only the common ones."""
    rng = np.random.default_rng(seed)
    return {
        f"a{i}": np.eye(40)[rng.integers(0, 40 if i < good else 3, 3)] + 0.01 * rng.random((3, 40))
        for i in range(len(GROUPS))
    }


@pytest.mark.parametrize("seed", range(3))
def test_quadratics_with_group_sums_agree_with_cvxpy(seed: int) -> None:
    cp = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(seed)
    m = len(GROUPS)
    factor = rng.standard_normal((30, m))
    linear, sums = rng.standard_normal(m), rng.dirichlet(np.ones(50))
    loss = QuadraticLoss(factor.T @ factor / 30, linear, 0.0)
    found = Newton().solve(loss, np.full(m, 1 / m), region=Region(m, groups=GROUPS, sums=sums))
    w = cp.Variable(m, nonneg=True)
    objective = cp.sum_squares(factor @ w) / 30 - 2 * linear @ w
    rows = [cp.sum(w[g == GROUPS]) == sums[g] for g in range(50)]
    problem = cp.Problem(cp.Minimize(objective), rows)
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11)
    assert found.loss == pytest.approx(problem.value, abs=1e-7)
    assert found.loss - found.gap <= problem.value + 1e-9
    assert found.gap < 1e-7


def test_programs_without_expensive_arms_find_the_same_optimum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    function = gx.optimal_mixture(cells(0), gx.Vendi()).function
    region = Region(len(GROUPS), groups=GROUPS, sums=np.full(50, 0.02))
    start = np.full(len(GROUPS), 1 / len(GROUPS))
    small = Newton().solve(function, start, region=region)
    monkeypatch.setattr(quadratic_program, "MANY_ARMS", 10_000)
    full = Newton().solve(function, start, region=region)
    assert small.loss == pytest.approx(full.loss, abs=small.gap + full.gap + 1e-12)
    assert small.gap < 1e-6
    assert region.contains(small.weights)


@pytest.mark.parametrize("objective", [gx.Vendi(), gx.FrechetDistance(np.eye(40))], ids=str)
def test_averages_over_slices_are_the_averages(
    objective: gx.Objective, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    alpha = np.random.default_rng(1).dirichlet(np.ones(len(GROUPS)))
    tensors = {arm: torch.tensor(rows) for arm, rows in cells(1).items()}
    found = [loss_of(objective, arms.values()).expand(alpha) for arms in (cells(1), tensors)]
    monkeypatch.setattr(eigenbasis, "MANY_ARMS", 10_000)
    plain = loss_of(objective, cells(1).values()).expand(alpha)
    for sliced in found:
        assert sliced.gradient == pytest.approx(plain.gradient, rel=1e-9)
        assert sliced.value == pytest.approx(plain.value, rel=1e-12)


def test_derivatives_and_faces_of_pooled_cells() -> None:
    rng = np.random.default_rng(2)
    inner = gx.optimal_mixture(
        {f"a{i}": rng.standard_normal((5, 4)) for i in range(6)}, gx.Vendi()
    ).function
    components = np.vstack([np.eye(6), [[0.5, 0.5, 0, 0, 0, 0]], [[0, 0, 0.25, 0.25, 0.25, 0.25]]])
    shares = np.zeros((4, 8))
    shares[[0, 1, 2, 3], [0, 1, 2, 3]] = 0.6
    shares[[0, 1, 2, 3], [6, 6, 7, 7]] = 0.4
    loss = PooledLoss(inner, components, shares)
    alpha, step = rng.dirichlet(np.ones(4)), np.array([1.0, -1.0, 0.5, -0.5])
    h, here = 1e-4, loss.expand(alpha)
    ahead, behind = loss.value(alpha + h * step), loss.value(alpha - h * step)
    assert (ahead - behind) / (2 * h) == pytest.approx(here.gradient @ step, rel=1e-6)
    second = (ahead - 2 * here.value + behind) / h**2
    assert second == pytest.approx(step @ here.hessian @ step, rel=1e-4)
    face = loss.face([0, 1])
    assert face.size == 2
    assert face.value(np.array([0.3, 0.7])) == pytest.approx(loss.value(np.array([0.3, 0.7, 0, 0])))
