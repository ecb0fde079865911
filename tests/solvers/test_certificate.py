"""The certificate never lies: no mixture is better than a solution by more than its gap."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.spatial.distance import cdist

import genmix as gx
from genmix.solvers.loss import Loss, QuadraticLoss
from tests.support.helpers import (
    gaussian_arms,
    loss_of,
    orthonormal_blocks,
    safe_dirichlet,
    simplex_points,
    vertices_and_pairs,
)

ROUNDING = 1e-9


EXAMPLES = pytest.mark.parametrize("examples", [12, pytest.param(200, marks=pytest.mark.long)])
"""A few random worlds in every run of the tests, many in the drills."""


def stable(examples: int) -> settings:
    return settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )


# --- random worlds --------------------------------------------------------------------------------


@dataclass(frozen=True)
class World:
    """Arms of one kind, a reference that may have fewer points than dimensions, some worthless arms."""

    kind: Callable[..., list[Any]]
    size: int
    d: int
    seed: int

    @cached_property
    def arms(self) -> list[Any]:
        rng = np.random.default_rng(self.seed)
        return self.kind(rng, rng.integers(1, 6, self.size).tolist(), self.d)

    @cached_property
    def reference(self) -> Any:
        rng = self.rng(1)
        return 2 * rng.standard_normal((int(rng.choice([2, 6, 40])), self.arms[0].shape[1])) + 0.3

    @cached_property
    def quality(self) -> list[Any]:
        rng = self.rng(2)
        return [rng.uniform(0, 1, len(x)) * (rng.random() < 0.7) for x in self.arms]

    def rng(self, stream: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, stream])


def flat(rng: np.random.Generator, sizes: Any, d: int) -> list[Any]:
    """Samples in half of the dimensions, rotated."""
    rank = max(1, d // 2)
    basis = rng.standard_normal((rank, d))
    return [x @ basis for x in gaussian_arms(rng, sizes, rank)]


def duplicated(rng: np.random.Generator, sizes: Any, d: int) -> list[Any]:
    kinds = gaussian_arms(rng, sizes[: max(1, len(sizes) // 3)], d)
    return [kinds[i % len(kinds)] for i in range(len(sizes))]


def collapsed(rng: np.random.Generator, sizes: Any, d: int) -> list[Any]:
    arms = gaussian_arms(rng, sizes, d)
    return [np.repeat(x[:1], len(x), axis=0) if rng.random() < 0.6 else x for x in arms]


def far(rng: np.random.Generator, sizes: Any, d: int) -> list[Any]:
    return gaussian_arms(rng, sizes, d, spread=10.0 ** rng.uniform(1, 4))


def one_hot(rng: np.random.Generator, sizes: Any, d: int) -> list[Any]:
    return [np.eye(d)[rng.integers(0, d, n)] for n in sizes]


def grid(rng: np.random.Generator, sizes: Any, d: int) -> list[Any]:
    return [rng.integers(-1, 2, (n, d)) + 0.5 for n in sizes]


def one_point(rng: np.random.Generator, sizes: Any, d: int) -> list[Any]:
    return [np.tile(rng.standard_normal(d), (n, 1)) for n in (sizes[0],)] * len(sizes)


def few_in_many(rng: np.random.Generator, sizes: Any, d: int) -> list[Any]:
    """More dimensions than samples."""
    return gaussian_arms(rng, sizes, int(np.sum(sizes)) + d)


def singles(rng: np.random.Generator, sizes: Any, d: int) -> list[Any]:
    return gaussian_arms(rng, [1] * len(sizes), d)


def plain(rng: np.random.Generator, sizes: Any, d: int) -> list[Any]:
    return gaussian_arms(rng, np.asarray(sizes) + 3, d)


KINDS = [
    plain,
    flat,
    duplicated,
    collapsed,
    far,
    one_hot,
    grid,
    one_point,
    few_in_many,
    singles,
]


def worlds(most: int = 50) -> st.SearchStrategy[World]:
    sizes = st.one_of(st.integers(1, min(6, most)), st.integers(1, most))
    seeds = st.integers(0, 2**31)
    return st.builds(World, st.sampled_from(KINDS), sizes, st.integers(1, 12), seeds)


def laplace(x: Any, y: Any) -> Any:
    return 2 * np.exp(-cdist(x, y, "cityblock") / 3)


def softmax(x: Any) -> Any:
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def vendi(order: float, kernel: Any = gx.Cosine()) -> Callable[[World], Loss]:  # noqa: B008
    return lambda world: loss_of(gx.Vendi(order, kernel), world.arms)


def distance(kernel: Any) -> Callable[[World], Loss]:
    return lambda world: loss_of(gx.KernelDistance(world.reference, kernel), world.arms)


def frechet(world: World) -> Loss:
    return loss_of(gx.FrechetDistance(world.reference), world.arms)


def quality_vendi(world: World) -> Loss:
    return loss_of(gx.QualityVendi(), world.arms, world.quality)


def inception(world: World) -> Loss:
    return loss_of(gx.InceptionScore(), [softmax(3 * x) for x in world.arms])


def total(world: World) -> Loss:
    objective = gx.Vendi() + 0.2 * gx.FrechetDistance(world.reference) + 0.5 * gx.Quality()
    return loss_of(objective, world.arms, world.quality)


FIXED_MEMORY: dict[str, Callable[[World], Loss]] = {
    "frechet": frechet,
    "quality vendi": quality_vendi,
    "inception": inception,
    "sum": total,
    "kernel distance, cosine": distance(gx.Cosine()),
    "kernel distance, polynomial": distance(gx.Polynomial()),
    "rke, random features": lambda world: loss_of(gx.RKE(gx.Gaussian(1.5, features=5)), world.arms),
    "vendi 1, random features": vendi(1, gx.Gaussian(1.5, features=5)),
    **{f"vendi {q}": vendi(q) for q in (0.5, 0.9, 1, 1.2, 2, 4)},
}
EXACT: dict[str, Callable[[World], Loss]] = {
    "vendi 1, gaussian": vendi(1, gx.Gaussian(1.5)),
    "vendi 0.5, gaussian": vendi(0.5, gx.Gaussian(1.5)),
    "vendi 1, own": vendi(1, laplace),
    "rke, gaussian": lambda world: loss_of(gx.RKE(gx.Gaussian(1.5)), world.arms),
    "kernel distance, gaussian": distance(gx.Gaussian(1.5)),
}


# --- the search for something better --------------------------------------------------------------


def allowance(world: World, value: float) -> float:
    return ROUNDING * max(1.0, abs(value), float(world.reference.var(0).sum()))


def quadratic_minimum(loss: QuadraticLoss) -> Any:
    unit = max(loss.scale, 1e-300)
    values, basis = np.linalg.eigh(loss.matrix / unit)
    alpha = cp.Variable(loss.size)
    root = (basis * np.sqrt(np.maximum(values, 0))).T
    form = cp.sum_squares(root @ alpha) - 2 * (loss.linear / unit) @ alpha
    cp.Problem(cp.Minimize(form), [alpha >= 0, cp.sum(alpha) == 1]).solve(solver=cp.CLARABEL)
    found = np.maximum(alpha.value, 0)
    return found / found.sum()


def around(rng: np.random.Generator, alpha: Any, count: int) -> list[Any]:
    """Mixtures near α: weights scaled, and weights added where there are none."""
    near = []
    for size in 10.0 ** rng.uniform(-8, -0.5, count):
        moved = alpha * np.exp(size * rng.standard_normal(len(alpha)))
        moved += size * rng.random(len(alpha)) * (rng.random(len(alpha)) < 0.3)
        near.append(moved / moved.sum())
    return near


def candidates(world: World, loss: Loss, found: Any, thorough: bool) -> list[Any]:
    rng = world.rng(3)
    points = [*np.eye(loss.size), *simplex_points(rng, loss.size, 30), *around(rng, found, 20)]
    if loss.size <= 8:
        points += list(vertices_and_pairs(loss.size)[loss.size :])
    if thorough:
        slow = gx.EG(step=0.2 / max(1.0, loss.scale), steps=100)
        points.append(gx.solve(loss, solver=slow).weights)
        vertex = np.eye(loss.size)[rng.integers(loss.size)]
        points += [gx.solve(loss, start).weights for start in (points[-3], vertex)]
    if isinstance(loss, QuadraticLoss):
        points.append(quadratic_minimum(loss))
    return points


def assert_feasible(alpha: Any) -> None:
    assert np.all(np.isfinite(alpha))
    assert alpha.min() >= 0
    assert abs(alpha.sum() - 1) <= 1e-12


def assert_honest(world: World, loss: Loss, thorough: bool = True) -> gx.Solution:
    """The gap bounds the distance to the best mixture found, at the solution and anywhere else."""
    found = gx.solve(loss)
    assert_feasible(found.weights)
    assert found.gap >= 0
    rounding = loss.expand(found.weights).noise + 1e-12 * loss.scale
    assert found.loss == pytest.approx(loss.value(found.weights), rel=0, abs=rounding)
    points = candidates(world, loss, found.weights, thorough)
    losses = [loss.value(point) for point in points]
    least = min(found.loss, *losses)
    assert found.loss - least <= found.gap + allowance(world, found.loss)
    for point, value in zip(points[-40:] + points[:5], losses[-40:] + losses[:5], strict=True):
        gap = loss.expand(point).gap
        assert value == math.inf == gap or value - least <= gap + allowance(world, value)
    return found


def assert_certified(world: World, loss: Loss, truncated: bool = False) -> None:
    """``truncated`` adds what the directions treated as rounding may contribute to the loss."""
    found = assert_honest(world, loss)
    # An earlier step can have the smallest gap, because truncation grows as weights shrink. So the gap can
    # exceed the tolerance by more than the truncation at the final weights: by 1.4 times that truncation
    # in the worst world found so far.
    extra = 2 * loss.expand(found.weights).truncation if truncated else 0.0
    assert found.gap <= 1e-7 * max(1.0, abs(found.loss), loss.scale) + extra


@EXAMPLES
@pytest.mark.parametrize("name", FIXED_MEMORY)
def test_the_gap_is_true_and_small(name: str, examples: int) -> None:
    @stable(examples)
    @given(worlds())
    def check(world: World) -> None:
        assert_certified(world, FIXED_MEMORY[name](world), truncated=name == "vendi 0.5")

    check()


@EXAMPLES
@pytest.mark.parametrize("name", EXACT)
def test_the_gap_is_true_and_small_with_an_exact_kernel(name: str, examples: int) -> None:
    @stable(examples)
    @given(worlds(most=10))
    def check(world: World) -> None:
        assert_certified(world, EXACT[name](world), truncated=name == "vendi 0.5, gaussian")

    check()


def test_truncation_does_not_hide_the_gap_of_weights_without_negligible_ones() -> None:
    world = World(one_hot, 4, 4, 0)
    loss = EXACT["vendi 0.5, gaussian"](world)
    found = assert_honest(world, loss)
    assert found.gap - loss.expand(found.weights).truncation <= 1e-7


@EXAMPLES
def test_the_gap_is_true_at_order_infinity(examples: int) -> None:
    """λ_max is not differentiable, so no gap is guaranteed; the solver reaches 1e-7."""

    @stable(examples)
    @given(worlds())
    def check(world: World) -> None:
        found = assert_honest(world, vendi(math.inf)(world))
        assert found.gap <= 1e-7

    check()


@EXAMPLES
@pytest.mark.parametrize("order", [0.1, 0.25])
def test_the_gap_is_true_at_very_small_orders(order: float, examples: int) -> None:
    """There the rounding of an eigenvalue near 0 moves the loss by its power: the gap says so, and no
    size is promised."""

    @stable(examples)
    @given(worlds(most=20))
    def check(world: World) -> None:
        assert_honest(world, vendi(order)(world))

    check()


@pytest.mark.parametrize("step", [0.01, 1.0, 1e3])
def test_exponentiated_gradient_stays_on_the_simplex_however_long_its_step(step: float) -> None:
    """Slopes of 1e4 overshoot: one arm's weight underflows, and the next step reverses."""
    rng = np.random.default_rng(1)
    arms = [rng.standard_normal((5, 1)) + far_off for far_off in (40, -80, 300)]
    for objective in (
        gx.FrechetDistance(rng.standard_normal((9, 1))),
        gx.KernelDistance(rng.standard_normal((9, 1)), gx.Polynomial()),
    ):
        loss = loss_of(objective, arms)
        found = gx.solve(loss, solver=gx.EG(step=step, steps=50))
        assert_feasible(found.weights)
        assert found.loss - gx.solve(loss).loss <= found.gap * (1 + 1e-9)


@pytest.mark.parametrize("d", [12, 100])
def test_a_direction_lost_to_rounding_costs_the_gap_its_root_at_order_one_half(d: int) -> None:
    """All arms are one point and N ≥ d: d−1 eigenvalues are rounding, up to eps, and any might be real,
    with 2 √eps of the loss each. The loss itself is exact: Vendi is 1."""
    arms = [np.tile(np.random.default_rng(1).standard_normal(d), (5, 1))] * 50
    loss = loss_of(gx.Vendi(0.5), arms)
    found = gx.solve(loss)
    assert found.loss == pytest.approx(0, abs=1e-14)
    assert found.gap <= 2 * math.sqrt(np.finfo(float).eps) * (d - 1) + 1e-9
    assert found.gap - loss.expand(found.weights).truncation <= 1e-9


@EXAMPLES
@pytest.mark.parametrize("steps", [1, 30])
def test_the_gap_of_exponentiated_gradient_is_true_after_any_number_of_steps(
    steps: int, examples: int
) -> None:
    @stable(examples)
    @given(worlds(most=12), st.sampled_from(["frechet", "vendi 1", "vendi 0.5", "inception"]))
    def check(world: World, name: str) -> None:
        loss = FIXED_MEMORY[name](world)
        early = gx.solve(loss, solver=gx.EG(step=0.1, steps=steps))
        assert_feasible(early.weights)
        best = gx.solve(loss)
        assert early.loss - best.loss <= early.gap + allowance(world, early.loss)

    check()


@EXAMPLES
def test_the_gap_is_true_for_unbiased_kernel_sums(examples: int) -> None:
    """The bound is for the convex loss that is solved."""

    @stable(examples)
    @given(worlds(most=12))
    def check(world: World) -> None:
        arms = [np.concatenate([x, x[:1] + 0.1]) for x in world.arms]
        assert_certified(world, loss_of(gx.RKE(gx.Gaussian(1.5), unbiased=True), arms))
        objective = gx.KernelDistance(world.reference, gx.Gaussian(1.5), unbiased=True)
        assert_certified(world, loss_of(objective, arms))

    check()


# --- where naive code lies ------------------------------------------------------------------------


def fine_minimum(function: Callable[[float], float]) -> float:
    """The least value of a convex function on (0, 1)."""
    logs = minimize_scalar(lambda t: function(math.exp(t)), bounds=(-60, -1e-9), method="bounded")
    straight = minimize_scalar(function, bounds=(1e-12, 1 - 1e-12), method="bounded")
    return min(float(logs.fun), float(straight.fun))


def tsallis(values: Any, order: float) -> float:
    values = np.array([v for v in values if v > 0])
    if order == 1:
        return float(np.sum(values * np.log(values)))
    return float((np.sum(values**order) - 1) / (order - 1))


@pytest.mark.parametrize("order", [0.5, 0.9, 1])
@pytest.mark.parametrize("copies", [1, 4, 9, 99, 999])
@pytest.mark.parametrize("padding", [0, 1100])
def test_a_vertex_is_not_certified_against_an_arm_with_a_direction_of_its_own(
    order: float, copies: int, padding: int
) -> None:
    """Arm 0 is diag(0.9, 0.1), arm 1 mostly repeats its heavy direction and has a little of a third:
    diag(1−p, 0, p). A logarithm that leaves the third direction out sees the loss rise towards arm 1 and
    certifies arm 0; the true slope there is −∞."""
    p = 1 / (copies + 1)
    axes = np.eye(3 + padding)
    arms = [np.repeat(axes[:2], (9, 1), axis=0), np.repeat(axes[[0, 2]], (copies, 1), axis=0)]
    loss = loss_of(gx.Vendi(order), arms)

    def along(e: float) -> float:
        return tsallis([0.9 * (1 - e) + (1 - p) * e, 0.1 * (1 - e), p * e], order)

    least = fine_minimum(along)
    vertex = loss.expand(np.array([1.0, 0.0]))
    assert vertex.value == pytest.approx(tsallis([0.9, 0.1], order), abs=1e-14)
    without = vertex.value - sum(b * s for b, s in zip((1 - p, 0), np.log([0.9, 0.1]), strict=True))
    assert order != 1 or without < 0  # what a pseudo-inverse would call optimal
    # Of p the best takes about exp(−0.22/p) at order 1: nothing to speak of at 0.01.
    assert copies > 9 or vertex.value - least > 1e-3
    assert vertex.gap >= vertex.value - least - 1e-13
    for start in (None, [1.0, 0.0], [0.0, 1.0]):
        found = gx.solve(loss, start)
        assert found.loss <= least + found.gap + 1e-12
        assert found.gap <= 1e-7


@pytest.mark.parametrize("size", [2.0, 10.0, 100.0])
@pytest.mark.parametrize("copies", [1, 10])
def test_frechet_does_not_certify_a_rank_deficient_vertex(size: float, copies: int) -> None:
    """Arm 0 is ±e_1, arm 1 is ±c e_2 and the reference N(0, I) in 8 dimensions (above and below N):
    FD = (1−ε) + ε c² + 8 − 2 √(1−ε) − 2 c √ε. With the second direction left out the slope at ε = 0 is c²;
    in truth it is −∞, and the least loss is lower by about 1, whatever c."""
    axes = np.eye(8)[:2]
    arms = [np.tile([axes[0], -axes[0]], (copies, 1)), np.tile([axes[1], -axes[1]], (copies, 1))]
    arms[1] = size * arms[1]
    loss = loss_of(gx.FrechetDistance((np.zeros(8), np.eye(8))), arms)

    def along(e: float) -> float:
        return 1 - e + e * size**2 + 8 - 2 * math.sqrt(1 - e) - 2 * size * math.sqrt(e)

    least = fine_minimum(along)
    vertex = loss.expand(np.array([1.0, 0.0]))
    assert vertex.value == pytest.approx(7.0, abs=1e-12)
    assert vertex.value - least > 0.9
    assert vertex.gap >= vertex.value - least
    for start in (None, [1.0, 0.0], [0.0, 1.0]):
        found = gx.solve(loss, start)
        assert found.loss == pytest.approx(least, abs=1e-7 * size**2)
        assert found.gap <= 1e-7 * loss.scale


@pytest.mark.parametrize("order", [0.5, 1, 1.5])
def test_every_vertex_and_face_of_disjoint_blocks_knows_how_far_it_is_from_the_best(
    order: float,
) -> None:
    """Without arm i the best is Σk − k_i instead of Σk: the gap at any face is at least that."""
    sizes = (1, 2, 4)
    loss = loss_of(gx.Vendi(order), orthonormal_blocks(sizes))
    best = tsallis(np.full(7, 1 / 7), order)
    for point in vertices_and_pairs(3):
        here = loss.expand(point)
        spectrum = np.repeat(point / sizes, sizes)
        assert here.value == pytest.approx(tsallis(spectrum, order), abs=1e-14)
        assert here.gap >= here.value - best - 1e-12


def test_an_arm_of_vanishing_novelty_is_weighed_correctly() -> None:
    """The second arm differs from the first by an angle of 1e-6: its novelty is an eigenvalue of 1e-12
    at most, far above rounding in a factor and below it in a moment; either way the gap is true."""
    for copies in (1, 5):
        near = np.array([[1.0, 1e-6]])
        arms = [np.tile([[1.0, 0.0]], (copies, 1)), np.tile(near, (copies, 1))]
        loss = loss_of(gx.Vendi(), arms)
        half = math.sin(math.atan(1e-6) / 2) ** 2  # the smaller eigenvalue at ½, ½
        best = tsallis([half, 1 - half], 1)
        found = gx.solve(loss)
        assert found.loss - best <= found.gap + 1e-13
        assert loss.expand(np.array([1.0, 0.0])).gap >= -best - 1e-13


@EXAMPLES
def test_a_warm_start_with_zeros_reaches_the_same_optimum(examples: int) -> None:
    @stable(examples)
    @given(worlds(most=10), st.sampled_from(["frechet", "vendi 1", "vendi 0.9", "sum"]))
    def check(world: World, name: str) -> None:
        loss = FIXED_MEMORY[name](world)
        cold = gx.solve(loss)
        for start in np.eye(loss.size)[:3]:
            warm = gx.solve(loss, start)
            slack = cold.gap + warm.gap + allowance(world, cold.loss)
            assert abs(warm.loss - cold.loss) <= slack
            assert warm.gap <= 1e-7 * max(1.0, abs(warm.loss), loss.scale)

    check()


STUBBORN = [
    # many arms on few directions: the quadratic program is singular
    ("kernel distance, cosine", World(grid, 50, 2, 477)),
    ("kernel distance, cosine", World(grid, 50, 2, 832)),
    # weights of 1e-9 whose curvature dwarfs that of all others
    ("sum", World(few_in_many, 6, 10, 109)),
    ("sum", World(few_in_many, 12, 10, 112)),
    ("sum", World(few_in_many, 50, 2, 279)),
    ("sum", World(far, 12, 7, 97)),
    # optimal weights of exp(−50)
    ("sum", World(few_in_many, 50, 10, 258)),
    ("sum", World(few_in_many, 30, 10, 388)),
    ("vendi 1, gaussian", World(flat, 5, 4, 431)),
    ("vendi 1, gaussian", World(flat, 7, 3, 437)),
    ("vendi 1, gaussian", World(singles, 7, 2, 346)),
    ("vendi 1, gaussian", World(collapsed, 8, 1, 404)),
]


@pytest.mark.parametrize(("name", "world"), STUBBORN)
def test_stubborn_worlds_are_solved_from_a_vertex(name: str, world: World) -> None:
    loss = (FIXED_MEMORY | EXACT)[name](world)
    corners = np.eye(loss.size)
    sparse = safe_dirichlet(world.rng(4), np.full(loss.size, 0.05))
    cold = gx.solve(loss)
    for start in (corners[0], corners[-1], sparse):
        found = gx.solve(loss, start)
        scale = max(1.0, abs(found.loss), loss.scale)
        assert found.gap <= 1e-7 * scale
        assert abs(found.loss - cold.loss) <= found.gap + cold.gap + ROUNDING * scale


def direct_frechet(arms: list[Any], reference: Any, alpha: Any) -> float:
    """The Fréchet distance of a mixture from its raw rows, by singular values, without genmix."""
    each = np.concatenate([np.full(len(x), a / len(x)) for x, a in zip(arms, alpha, strict=True)])
    rows = np.concatenate(arms)
    mean = each @ rows
    mine = np.sqrt(each)[:, None] * (rows - mean)
    theirs = (reference - reference.mean(0)) / np.sqrt(len(reference))
    # A product of triangular factors keeps small directions that a product of covariances loses.
    overlap = np.linalg.svd(np.linalg.qr(mine)[1] @ np.linalg.qr(theirs)[1].T, compute_uv=False)
    distance = np.sum((mean - reference.mean(0)) ** 2)
    return float(distance + np.sum(mine**2) + np.sum(theirs**2) - 2 * overlap.sum())


@pytest.mark.parametrize("small", [1e-2, 4e-4, 1e-4])
@pytest.mark.parametrize("n", [20, 60])
def test_the_gap_is_true_to_a_loss_computed_without_genmix(n: int, small: float) -> None:
    """Spectra that decay far: some directions are lost to rounding, and the gap must include them."""
    rng = np.random.default_rng(0)
    d = 32
    spread = np.where(np.arange(d) < 4, 1.0, small)
    reference = rng.standard_normal((200, d)) * spread
    arms = [reference[:n] * (np.arange(d) < 4), reference[:n], rng.standard_normal((n, d)) * spread]
    found = gx.optimal_mixture(dict(zip("abc", arms, strict=True)), gx.FrechetDistance(reference))
    alpha = np.array(list(found.weights.values()))
    mine = direct_frechet(arms, reference, alpha)
    others = [*np.eye(3), *rng.dirichlet(np.ones(3), 200), *rng.dirichlet(np.full(3, 0.1), 200)]
    least = min(direct_frechet(arms, reference, beta) for beta in others)
    assert mine - least <= found.gap + 1e-9 * max(1.0, np.sum(spread**2))
    assert mine == pytest.approx(found.loss, abs=found.gap + 1e-9)
