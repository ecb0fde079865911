"""Gradients and Hessians against finite differences, and tangent planes against the loss itself.

Directions stay on the simplex. A step is a fraction of the smallest weight that it moves, so that
the same stencil serves in the middle and at a weight of 1e-6.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import genmix as gx
from genmix.solvers.loss import Loss
from tests.support.helpers import gaussian_arms, loss_of, simplex_points, vertices_and_pairs

STEP = 0.02
SMALL = {"interior": None, "1e-3": 1e-3, "1e-6": 1e-6}
SHAPES = {"N>d": ((6, 9, 7, 8), 4), "N<d": ((3, 4, 2, 5), 40)}


def laplace(x: Any, y: Any) -> Any:
    return 2 * np.exp(-cdist(x, y, "cityblock") / (2 * x.shape[1]))


KERNELS = {
    "cosine": gx.Cosine(),
    "gaussian": gx.Gaussian(),
    "few random features": gx.Gaussian(features=4),
    "many random features": gx.Gaussian(features=40),
    "own": laplace,
}


def case(make: Callable[[Any], gx.Objective], arms: Any = None) -> Callable[[str], Loss]:
    """The loss of an objective (of a reference) on random arms of the given shape."""

    def loss(shape: str) -> Loss:
        rng = np.random.default_rng(1)
        sizes, dimension = SHAPES[shape]
        rows = gaussian_arms(rng, sizes, dimension, spread=0.7)
        reference = rng.standard_normal((25, dimension)) + 0.2
        quality = [rng.uniform(0.2, 2, len(x)) for x in rows]
        cost = [rng.uniform(0, 3, len(x)) for x in rows]
        return loss_of(make(reference), rows if arms is None else arms(rows), quality, cost)

    return loss


def softmax(rows: list[Any]) -> list[Any]:
    return [np.exp(x) / np.exp(x).sum(1, keepdims=True) for x in rows]


CASES: dict[str, Callable[[str], Loss]] = {
    "frechet": case(gx.FrechetDistance),
    "inception": case(lambda _: gx.InceptionScore(), softmax),
    "precision": case(gx.Precision),
    "density": case(gx.Density),
    "quality": case(lambda _: gx.Quality()),
    "cost": case(lambda _: gx.Cost()),
    "sum": case(
        lambda reference: (
            gx.Vendi()
            + 0.4 * gx.FrechetDistance(reference)
            + (-0.2) * gx.Quality()
            + 0.1 * gx.Cost()
        )
    ),
    "kernel distance, polynomial": case(lambda r: gx.KernelDistance(r, gx.Polynomial())),
}
for kernel_name, kernel in KERNELS.items():
    CASES |= {
        f"vendi {q}, {kernel_name}": case(lambda _, q=q, k=kernel: gx.Vendi(q, k))
        for q in (0.5, 0.9, 1, 1.5, 2, 5)
    }
    CASES |= {
        f"quality vendi, {kernel_name}": case(lambda _, k=kernel: gx.QualityVendi(k)),
        f"rke, {kernel_name}": case(lambda _, k=kernel: gx.RKE(k)),
        f"unbiased rke, {kernel_name}": case(lambda _, k=kernel: gx.RKE(k, unbiased=True)),
        f"kernel distance, {kernel_name}": case(lambda r, k=kernel: gx.KernelDistance(r, k)),
        f"unbiased kernel distance, {kernel_name}": case(
            lambda r, k=kernel: gx.KernelDistance(r, k, unbiased=True)
        ),
    }


def point(size: int, small: float | None) -> Any:
    """A mixture in the middle, or one with a first weight of ``small``."""
    alpha = np.random.default_rng(2).dirichlet(np.full(size, 5.0))
    if small is not None:
        alpha[1:] *= (1 - small) / alpha[1:].sum()
        alpha[0] = small
    return alpha


def directions(alpha: Any) -> list[Any]:
    """One direction into the first (smallest) weight, one between others, and one that moves all weights."""
    unit = np.eye(len(alpha))
    everywhere = alpha * (np.array([1.0, -0.6, 0.8, -0.9])[: len(alpha)])
    everywhere -= alpha * everywhere.sum()
    return [alpha[0] * (unit[0] - unit[1]), 0.1 * (unit[1] - unit[2]), everywhere]


def difference(function: Callable[[Any], Any], alpha: Any, delta: Any) -> Any:
    """The derivative along delta, to fourth order in the step."""
    near = function(alpha + STEP * delta) - function(alpha - STEP * delta)
    far = function(alpha + 2 * STEP * delta) - function(alpha - 2 * STEP * delta)
    return (8 * near - far) / (12 * STEP)


def assert_derivatives(loss: Loss, alpha: Any, smoothing: float) -> None:
    here = loss.expand(alpha, smoothing)
    assert here.hessian is not None
    scale = max(1.0, loss.scale, abs(here.value))
    slopes = np.abs(here.gradient - here.gradient @ alpha)
    for delta in directions(alpha):
        assert abs(delta.sum()) < 1e-15
        found = difference(lambda a: loss.value(a, smoothing), alpha, delta)
        # Truncation is 4·STEP⁴ ~ 6e-7 of the slope for f ∝ √α; rounding is that of the loss over the step.
        allowed = 2e-6 * (np.abs(delta) @ slopes) + 4e-14 * scale / STEP
        assert found == pytest.approx(here.gradient @ delta, rel=0, abs=allowed)
        hessian = difference(lambda a: loss.expand(a, smoothing).gradient, alpha, delta)
        for other in directions(alpha):
            sizes = [math.sqrt(max(v @ here.hessian @ v, 0)) for v in (delta, other)]
            # Gradients round at eps times their own size, which at small weights is large.
            noise = 1e-13 / STEP * (np.abs(other) @ np.abs(here.gradient) + scale * 1e-3)
            allowed = 1e-5 * sizes[0] * sizes[1] + noise
            assert hessian @ other == pytest.approx(
                delta @ here.hessian @ other, rel=0, abs=allowed
            )


@pytest.mark.parametrize("small", SMALL)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", CASES)
def test_gradient_and_hessian(name: str, shape: str, small: str) -> None:
    loss = CASES[name](shape)
    assert_derivatives(loss, point(loss.size, SMALL[small]), 0.0)


@pytest.mark.parametrize("smoothing", [0.5, 0.05, 0.01])
@pytest.mark.parametrize("small", SMALL)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["cosine", "gaussian", "few random features"])
def test_order_infinity_has_the_derivatives_of_its_smooth_neighbour(
    name: str, shape: str, small: str, smoothing: float
) -> None:
    loss = case(lambda _: gx.Vendi(math.inf, KERNELS[name]))(shape)
    assert_derivatives(loss, point(loss.size, SMALL[small]), smoothing)


@pytest.mark.parametrize("shape", SHAPES)
def test_order_infinity_has_a_gradient_where_the_largest_eigenvalue_is_single(shape: str) -> None:
    loss = case(lambda _: gx.Vendi(math.inf))(shape)
    alpha = point(loss.size, None)
    for delta in directions(alpha):
        # A shorter step than elsewhere: eigenvalues repel each other, so curvature depends on distance.
        found = difference(loss.value, alpha, 0.01 * delta)
        assert found == pytest.approx(loss.expand(alpha).gradient @ (0.01 * delta), abs=1e-10)


PLANES = {**CASES, "vendi inf": case(lambda _: gx.Vendi(math.inf))}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", PLANES)
def test_the_gradient_is_a_plane_below_the_loss_that_touches_it(name: str, shape: str) -> None:
    """``gradient·β ≤ loss(β)`` for every mixture β, from the middle, from near the boundary and from the
    boundary itself; equality at α where the loss has a slope."""
    loss = PLANES[name](shape)
    rng = np.random.default_rng(3)
    mixtures = np.concatenate([simplex_points(rng, loss.size, 40), vertices_and_pairs(loss.size)])
    losses = np.array([loss.value(beta) for beta in mixtures])
    scale = max(1.0, loss.scale)
    inside = [point(loss.size, small) for small in SMALL.values()]
    for alpha in inside:
        here = loss.expand(alpha)
        assert here.noise <= 1e-9 * scale
        assert here.value == pytest.approx(loss.value(alpha), abs=here.noise + 1e-13 * scale)
        assert here.gradient @ alpha == pytest.approx(here.value, abs=here.noise + 1e-12 * scale)
    for alpha in [*inside, *vertices_and_pairs(loss.size)]:
        here = loss.expand(alpha)
        planes = np.concatenate([here.gradient[None, :], here.planes])
        assert np.max(planes @ mixtures.T - losses) <= here.noise + 1e-12 * scale


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", PLANES)
def test_the_loss_is_convex(name: str, shape: str) -> None:
    loss = PLANES[name](shape)
    rng = np.random.default_rng(4)
    for one, other in zip(*simplex_points(rng, loss.size, 60).reshape(2, 30, -1), strict=True):
        middle = loss.value((one + other) / 2)
        ends = (loss.value(one) + loss.value(other)) / 2
        assert middle <= ends + 1e-12 * max(1.0, loss.scale)
    hessian = loss.expand(point(loss.size, None)).hessian
    if name != "vendi inf":
        assert np.linalg.eigvalsh(hessian)[0] >= -1e-12 * max(1.0, np.abs(hessian).max())
