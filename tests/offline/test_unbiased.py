"""Unbiased kernel estimates: what is optimized is what is reported, also where it is not convex."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import genmix as gx
from genmix.solvers.nonconvex import solve_reported
from tests.support.helpers import loss_of

KERNEL = gx.Gaussian(2.0)


def world(seed: int, n: int = 5) -> tuple[dict[str, Any], Any]:
    rng = np.random.default_rng(seed)
    arms = {
        f"a{i}": rng.normal(size=(n, 3)) * rng.uniform(0.5, 1.5) + 0.3 * rng.normal(size=3)
        for i in range(int(rng.choice([2, 3, 5])))
    }
    return arms, rng.normal(size=(30, 3))


def objectives(reference: Any) -> list[gx.Objective]:
    return [
        gx.KernelDistance(reference, KERNEL, unbiased=True),
        gx.RKE(KERNEL, unbiased=True),
        gx.KernelDistance(reference, gx.Cosine(), unbiased=True) + 0.2 * gx.Quality(),
    ]


def mean_kernel(x: Any, y: Any, power: int, is_same: bool) -> float:
    """E k(X, Y)^power, pair by pair, without the pairs of a sample with itself."""
    values = np.exp(-((x[:, None] - y[None]) ** 2).sum(-1) / 8) ** power
    return float(values[~np.eye(len(x), dtype=bool)].mean() if is_same else values.mean())


def forms(arms: dict[str, Any], reference: Any) -> list[tuple[Any, Any, float]]:
    """K, b and c of the unbiased kernel distance and of RKE, by definition."""
    pools = list(arms.values())

    def matrix(power: int) -> Any:
        return np.array(
            [
                [mean_kernel(x, y, power, i == j) for j, y in enumerate(pools)]
                for i, x in enumerate(pools)
            ]
        )

    cross = np.array([mean_kernel(x, reference, 1, False) for x in pools])
    return [
        (matrix(1), cross, mean_kernel(reference, reference, 1, True)),
        (matrix(2), np.zeros(len(pools)), 0.0),
    ]


def least(form: tuple[Any, Any, float], rng: np.random.Generator) -> float:
    """The smallest value of a quadratic form on the simplex, by brute force."""
    k, b, c = form
    m = len(b)
    points = np.concatenate([np.eye(m), rng.dirichlet(np.full(m, 0.4), 20_000)])
    return float((np.einsum("ki,ij,kj->k", points, k, points) - 2 * points @ b).min() + c)


@pytest.mark.parametrize("seeds", [range(8), pytest.param(range(8, 300), marks=pytest.mark.long)])
def test_a_mixture_is_never_worse_than_one_of_its_arms(seeds: range) -> None:
    for seed in seeds:
        arms, reference = world(seed)
        rng = np.random.default_rng([seed, 1])
        quality = {name: float(rng.uniform()) for name in arms}
        for objective in objectives(reference):
            mix = gx.optimal_mixture(arms, objective, quality=quality)
            assert mix.loss <= min(mix.single_losses.values()) + 1e-14
            if objective.name == "kernel_distance":
                assert mix.score <= min(mix.single_scores.values()) + 1e-14  # type: ignore[type-var]
            if objective.name == "rke":
                assert mix.score >= max(mix.single_scores.values()) - 1e-12  # type: ignore[type-var]


@pytest.mark.parametrize("seeds", [range(4), pytest.param(range(4, 100), marks=pytest.mark.long)])
def test_the_loss_is_the_reported_one_and_its_gap_holds_against_brute_force(seeds: range) -> None:
    is_convex = []
    for seed in seeds:
        arms, reference = world(seed)
        for objective, form in zip(objectives(reference)[:2], forms(arms, reference), strict=True):
            mix = gx.optimal_mixture(arms, objective)
            alpha = np.array(list(mix.weights.values()))
            k, b, c = form
            assert mix.loss == pytest.approx(alpha @ k @ alpha - 2 * b @ alpha + c, abs=1e-13)
            assert mix.single_losses == pytest.approx(
                dict(zip(arms, np.diag(k) - 2 * b + c, strict=True)), abs=1e-13
            )
            assert least(form, np.random.default_rng(seed)) >= mix.loss - mix.gap - 1e-12
            is_convex.append(mix.is_convex)
            assert mix.is_convex == (np.linalg.eigvalsh(k)[0] >= -1e-13 * np.abs(k).max())
            assert ("not convex" in str(mix)) == (not mix.is_convex)
    assert not all(is_convex)


def test_the_convex_part_is_the_semidefinite_projection_as_cvxpy_solves_it() -> None:
    """The solvers see the projected form; the mixture then improves on its minimum."""
    arms, reference = world(3)
    k, b, c = forms(arms, reference)[0]
    values, basis = np.linalg.eigh(k)
    assert values[0] < -1e-3
    root = (basis * np.sqrt(np.maximum(values, 0))) @ basis.T
    alpha = cp.Variable(len(b))
    loss = cp.sum_squares(root @ alpha) - 2 * b @ alpha
    problem = cp.Problem(cp.Minimize(loss), [alpha >= 0, cp.sum(alpha) == 1])
    problem.solve(solver=cp.CLARABEL)
    objective = gx.KernelDistance(reference, KERNEL, unbiased=True)
    function = loss_of(objective, list(arms.values()))
    assert gx.solve(function).loss == pytest.approx(problem.value + c, abs=1e-7)
    measured = float(alpha.value @ k @ alpha.value - 2 * b @ alpha.value + c)
    assert gx.optimal_mixture(arms, objective).loss <= measured + 1e-9


def test_enough_samples_make_the_loss_convex_and_the_gap_small() -> None:
    rng = np.random.default_rng(0)
    arms = {"a": rng.normal(size=(200, 3)), "b": rng.normal(size=(200, 3)) + 2.0}
    mix = gx.optimal_mixture(arms, gx.RKE(KERNEL, unbiased=True))
    assert mix.is_convex
    assert mix.gap < 1e-9


def test_a_selector_reports_a_mixture_that_is_not_worse_than_an_arm() -> None:
    arms, reference = world(5, n=20)
    objective = gx.KernelDistance(reference, KERNEL, unbiased=True)
    for policy in (gx.MixtureGreedy(), gx.MixtureUCB(delta=0.0, delta_fidelity=0.0)):
        selector = gx.Selector(list(arms), objective, policy, warm_start=2, draw="tracking")
        for ticket in selector.ask(3 * len(arms)):
            selector.tell(ticket, arms[ticket.arm][selector.counts[ticket.arm]])
        assert selector._learner.loss.concave_part is not None
        singles: Any = selector.single_scores
        assert selector.score <= min(singles.values()) + 1e-14  # type: ignore[operator]
        assert 0 <= selector.gap < 1


def test_a_first_order_solver_finds_a_mixture_that_is_not_worse_than_an_arm() -> None:
    arms, reference = world(2)
    function = loss_of(gx.KernelDistance(reference, KERNEL, unbiased=True), list(arms.values()))
    assert function.concave_part is not None
    found = solve_reported(function, gx.EG(steps=50), np.full(len(arms), 1 / len(arms)))
    assert found.loss <= function.singles().min() + 1e-14
    assert found.loss == pytest.approx(function.reported(found.weights), abs=1e-15)
    better = solve_reported(function, gx.Newton(), np.full(len(arms), 1 / len(arms)))
    assert better.loss >= found.loss - found.gap
