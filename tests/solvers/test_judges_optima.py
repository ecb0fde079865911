"""Best mixtures against CVXPY: quadratic, exponential-cone and semidefinite programs."""

from __future__ import annotations

import math
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from scipy.spatial.distance import cdist

import genmix as gx
from genmix.solvers.loss import Loss, QuadraticLoss
from tests.support.helpers import gaussian_arms, loss_of

WORLDS = range(6)


def laplace(x: Any, y: Any) -> Any:
    return 2 * np.exp(-cdist(x, y, "cityblock") / 4)


def weights_of(size: int) -> tuple[cp.Variable, list[Any]]:
    alpha = cp.Variable(size)
    return alpha, [alpha >= 0, cp.sum(alpha) == 1]


def onto_simplex(alpha: cp.Variable) -> Any:
    """An interior-point solution with its rounding removed."""
    positive = np.maximum(alpha.value, 0)
    return positive / positive.sum()


def assert_best(loss: Loss, judged: Any, least: float) -> None:
    """The default solver reaches the judge's optimum, and its certificate holds against the judge."""
    found = gx.solve(loss)
    scale = max(1.0, abs(found.loss), loss.scale)
    assert found.loss == pytest.approx(least, abs=1e-7 * scale)
    assert found.gap <= 1e-7 * scale
    assert found.loss - loss.value(judged) <= found.gap + 1e-9 * scale


# --- quadratic programs ---------------------------------------------------------------------------


def mean_kernel(kernel: Any, x: Any, y: Any, power: int, without_self: bool) -> float:
    values = np.asarray(kernel(x, y)) ** power
    return float(values[~np.eye(len(x), dtype=bool)].mean() if without_self else values.mean())


def quadratic_form(
    kernel: Any, arms: list[Any], reference: Any, power: int, unbiased: bool
) -> tuple[Any, Any, float]:
    """K, b and c from whole kernel matrices, K projected on the semidefinite cone if unbiased."""
    k = np.array(
        [
            [mean_kernel(kernel, x, y, power, unbiased and i == j) for j, y in enumerate(arms)]
            for i, x in enumerate(arms)
        ]
    )
    if unbiased:
        values, basis = np.linalg.eigh(k)
        k = (basis * np.maximum(values, 0)) @ basis.T
    if reference is None:
        return k, np.zeros(len(arms)), 0.0
    b = np.array([mean_kernel(kernel, x, reference, 1, False) for x in arms])
    return k, b, mean_kernel(kernel, reference, reference, 1, unbiased)


def least_quadratic(k: Any, b: Any, c: float) -> tuple[Any, float]:
    alpha, constraints = weights_of(len(b))
    form = cp.sum_squares(np.linalg.cholesky(k + 1e-14 * np.trace(k) * np.eye(len(k))).T @ alpha)
    problem = cp.Problem(cp.Minimize(form - 2 * b @ alpha), constraints)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    point = onto_simplex(alpha)
    return point, float(point @ k @ point - 2 * b @ point + c)


KERNELS = [
    pytest.param(gx.Gaussian(2.0), id="gaussian"),
    pytest.param(gx.Gaussian(2.0, features=6), id="random features"),
    pytest.param(gx.Cosine(), id="cosine"),
    pytest.param(laplace, id="own"),
]


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("kernel", [*KERNELS, pytest.param(gx.Polynomial(), id="polynomial")])
def test_kernel_distance_optimum_is_the_quadratic_programs(kernel: Any, unbiased: bool) -> None:
    for seed in WORLDS:
        rng = np.random.default_rng(seed)
        arms = gaussian_arms(rng, rng.integers(2, 12, 2 + 2 * seed), 4)
        reference = rng.standard_normal((15, 4))
        objective = gx.KernelDistance(reference, kernel, unbiased)
        fixed = objective.fix_bandwidths(arms).kernel
        form = quadratic_form(fixed, arms, reference, 1, unbiased)
        assert_best(loss_of(objective, arms), *least_quadratic(*form))


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
def test_rke_optimum_is_the_quadratic_programs(kernel: Any, unbiased: bool) -> None:
    for seed in WORLDS:
        rng = np.random.default_rng(10 + seed)
        arms = gaussian_arms(rng, rng.integers(2, 12, 2 + 2 * seed), 4)
        objective = gx.RKE(kernel, unbiased)
        form = quadratic_form(objective.fix_bandwidths(arms).kernel, arms, None, 2, unbiased)
        assert_best(loss_of(objective, arms), *least_quadratic(*form))


def test_an_indefinite_unbiased_form_is_projected_for_the_solve_and_reported_as_measured() -> None:
    """Two samples per arm: pairs without self-pairs are as noisy as single draws, and K is indefinite."""
    rng = np.random.default_rng(20)
    arms = [rng.standard_normal((2, 6)) for _ in range(6)]
    loss = loss_of(gx.RKE(gx.Gaussian(2.0), unbiased=True), arms)
    measured = quadratic_form_measured(gx.Gaussian(2.0), arms)
    assert np.linalg.eigvalsh(measured)[0] < -1e-3
    assert isinstance(loss, QuadraticLoss)
    assert np.linalg.eigvalsh(loss.matrix)[0] > -1e-12
    alpha = np.full(6, 1 / 6)
    assert loss.score(alpha) == pytest.approx(1 / (alpha @ measured @ alpha), rel=1e-12)


def quadratic_form_measured(kernel: Any, arms: list[Any]) -> Any:
    return np.array(
        [
            [mean_kernel(kernel, x, y, 2, i == j) for j, y in enumerate(arms)]
            for i, x in enumerate(arms)
        ]
    )


# --- Vendi ----------------------------------------------------------------------------------------


def unit_moments(arms: list[Any]) -> Any:
    unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in arms]
    return [x.T @ x / len(x) for x in unit]


def mixed(matrices: Any, alpha: cp.Variable) -> Any:
    total = sum(alpha[i] * matrix for i, matrix in enumerate(matrices))
    return (total + total.T) / 2


@pytest.mark.parametrize("seed", range(6))
def test_vendi_optimum_is_the_von_neumann_entropy_programs(seed: int) -> None:
    rng = np.random.default_rng(30 + seed)
    d = 2 + seed % 4
    arms = gaussian_arms(rng, rng.integers(1, 9, 2 + seed // 2), d)
    alpha, constraints = weights_of(len(arms))
    moment = cp.Variable((d, d), symmetric=True)
    constraints.append(moment == mixed(unit_moments(arms), alpha))
    problem = cp.Problem(cp.Maximize(cp.von_neumann_entr(moment)), constraints)
    problem.solve(solver=cp.CLARABEL)
    assert_best(loss_of(gx.Vendi(), arms), onto_simplex(alpha), -problem.value)


@pytest.mark.parametrize("seed", range(8))
def test_vendi_of_order_infinity_is_the_semidefinite_programs(seed: int) -> None:
    """minimize t over α with C_α ⪯ tI."""
    rng = np.random.default_rng(40 + seed)
    arms = gaussian_arms(rng, rng.integers(1, 9, 2 + seed), 2 + seed)
    alpha, constraints = weights_of(len(arms))
    top = cp.Variable()
    slack = top * np.eye(arms[0].shape[1]) - mixed(unit_moments(arms), alpha)
    problem = cp.Problem(cp.Minimize(top), [*constraints, slack >> 0])
    problem.solve(solver=cp.CLARABEL)
    assert_best(loss_of(gx.Vendi(math.inf), arms), onto_simplex(alpha), problem.value)


# --- Fréchet distance -----------------------------------------------------------------------------


def least_frechet(arms: list[Any], reference: Any) -> tuple[Any, float]:
    """Tr(Σ_0^½ Σ Σ_0^½)^½ is the largest Tr W with [[Σ_0, W], [Wᵀ, Σ]] ⪰ 0. Σ_α is concave in α and enters
    through Y ⪯ S_α − μ_α μ_αᵀ, a Schur complement.

    All is written in an orthonormal basis R of the directions that the samples have among each other:
    with Σ = R s Rᵀ the root's trace is that of s and RᵀΣ_0R, and the program keeps an interior."""
    mean_0 = reference.mean(0)
    cov_0 = np.atleast_2d(np.cov(reference.T, ddof=0))
    squares = np.array([np.sum((x - mean_0) ** 2) / len(x) for x in arms])
    rows = np.concatenate(arms)
    _, sizes, basis = np.linalg.svd(rows - rows.mean(0), full_matrices=False)
    basis = basis[sizes > 1e-9 * sizes[0]]
    r = len(basis)
    turned = [(x - rows.mean(0)) @ basis.T for x in arms]
    means = np.array([x.mean(0) for x in turned])
    alpha, constraints = weights_of(len(arms))
    w, y = cp.Variable((r, r)), cp.Variable((r, r), symmetric=True)
    mean = cp.reshape(means.T @ alpha, (r, 1), order="C")
    second = mixed([x.T @ x / len(x) for x in turned], alpha)
    coupling = cp.bmat([[basis @ cov_0 @ basis.T, w], [w.T, y]])
    schur = cp.bmat([[second - y, mean], [mean.T, np.eye(1)]])
    value = squares @ alpha + np.trace(cov_0) - 2 * cp.trace(w)
    problem = cp.Problem(cp.Minimize(value), [*constraints, coupling >> 0, schur >> 0])
    problem.solve(solver=cp.CLARABEL)
    return onto_simplex(alpha), float(problem.value)


@pytest.mark.parametrize("d", range(1, 9))
def test_frechet_optimum_is_the_semidefinite_programs(d: int) -> None:
    rng = np.random.default_rng(50 + d)
    arms = gaussian_arms(rng, rng.integers(d + 1, 3 * d + 6, 3 + d % 3), d, spread=0.8)
    reference = rng.standard_normal((40, d))
    loss = loss_of(gx.FrechetDistance(reference), arms)
    assert_best(loss, *least_frechet(arms, reference))


@pytest.mark.parametrize("d", range(3, 9))
def test_frechet_optimum_below_the_dimension(d: int) -> None:
    """Fewer samples than dimensions: every Σ_α is singular, and the slope at the boundary infinite."""
    rng = np.random.default_rng(60 + d)
    arms = gaussian_arms(rng, [1, 1] if d < 5 else [1, 2, 1], d, spread=0.8)
    reference = rng.standard_normal((40, d))
    loss = loss_of(gx.FrechetDistance(reference), arms)
    assert_best(loss, *least_frechet(arms, reference))


# --- sums and the rest ----------------------------------------------------------------------------


def test_a_sum_is_optimal_for_the_sum_of_the_programs() -> None:
    rng = np.random.default_rng(70)
    arms = gaussian_arms(rng, (5, 7, 9, 6), 3)
    reference = rng.standard_normal((20, 3))
    cost = [np.full(len(x), c) for x, c in zip(arms, (1.0, 0.2, 0.7, 0.1), strict=True)]
    kernel = gx.Gaussian(2.0)
    objective = gx.KernelDistance(reference, kernel) + 0.5 * gx.RKE(kernel) + 0.05 * gx.Cost()
    k, b, c = quadratic_form(kernel, arms, reference, 1, False)
    inverse_rke, _, _ = quadratic_form(kernel, arms, None, 2, False)
    price = 0.05 * np.array([x[0] for x in cost])
    judged = least_quadratic(k + 0.5 * inverse_rke, b - price / 2, c)
    assert_best(loss_of(objective, arms, cost=cost), *judged)


def test_inception_score_optimum_is_the_entropy_programs() -> None:
    for seed in WORLDS:
        rng = np.random.default_rng(80 + seed)
        arms = [rng.dirichlet(np.full(5, 0.3), int(n)) for n in rng.integers(1, 9, 4)]
        means = np.array([x.mean(0) for x in arms])
        noise = np.array([-np.sum(x * np.log(np.maximum(x, 1e-300)), axis=1).mean() for x in arms])
        alpha, constraints = weights_of(4)
        value = -cp.sum(cp.entr(means.T @ alpha)) + noise @ alpha
        problem = cp.Problem(cp.Minimize(value), constraints)
        problem.solve(solver=cp.CLARABEL)
        judged = onto_simplex(alpha)
        assert_best(loss_of(gx.InceptionScore(), arms), judged, problem.value)
