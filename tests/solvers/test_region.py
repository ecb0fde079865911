"""Minima over bounds, group sums and rows: against CVXPY, with a certificate that never lies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import genmix as gx
from genmix.solvers.knapsack import linear_minimum
from genmix.solvers.loss import LinearLoss, Loss, QuadraticLoss, SumLoss
from genmix.solvers.nonconvex import solve_reported
from genmix.solvers.region import Region
from genmix.solvers.solve import certify
from tests.support.helpers import gaussian_arms
from tests.support.regions import TIGHT, conditions, least_quadratic, points_of, random_region

LONG = pytest.mark.long
QUICK_AND_LONG = pytest.mark.parametrize(
    "seeds", [range(25), pytest.param(range(25, 325), marks=LONG)], ids=["quick", "long"]
)


def quadratic(rng: np.random.Generator, m: int) -> tuple[Any, Any]:
    """A factor, often without full rank, and a linear part."""
    return rng.standard_normal((int(rng.integers(1, m + 3)), m)), rng.standard_normal(m)


@QUICK_AND_LONG
def test_quadratic_minima_agree_with_cvxpy(seeds: range) -> None:
    for seed in seeds:
        rng = np.random.default_rng(seed)
        m = int(rng.integers(1, 13))
        region = random_region(rng, m)
        factor, linear = quadratic(rng, m)
        loss = QuadraticLoss(factor.T @ factor, linear, 1.0)
        found = gx.solve(loss, region=region)
        least = least_quadratic(factor, linear, region) + 1.0
        scale = max(1.0, loss.scale)
        assert region.contains(found.weights), seed
        assert abs(found.weights.sum() - 1) <= 1e-12
        assert np.all(found.weights >= region.lo), seed
        assert np.all(found.weights <= region.hi), seed
        assert found.loss == pytest.approx(least, abs=1e-7 * scale), seed
        assert found.gap <= 1e-7 * scale, seed
        assert found.loss - least <= found.gap + 1e-9 * scale, seed


OBJECTIVES: dict[str, Callable[[Any], gx.Objective]] = {
    "vendi": lambda real: gx.Vendi(),
    "vendi 0.5": lambda real: gx.Vendi(order=0.5),
    "vendi 2": lambda real: gx.Vendi(order=2),
    "vendi inf": lambda real: gx.Vendi(order=np.inf),
    "frechet": gx.FrechetDistance,
    "sum": lambda real: gx.Vendi() + 0.3 * gx.FrechetDistance(real),
}


def world(seed: int, name: str) -> tuple[Loss, Region, np.random.Generator]:
    """Arms with few samples (rank-deficient), an objective, and a region."""
    rng = np.random.default_rng([seed, 1])
    m, d = int(rng.integers(2, 8)), 5
    arms = gaussian_arms(rng, rng.integers(2, 6, m).tolist(), d)
    if rng.random() < 0.5:  # a direction that only one arm has
        arms = [np.hstack([x, np.full((len(x), 1), float(i == 0))]) for i, x in enumerate(arms)]
    real = rng.standard_normal((40, arms[0].shape[1]))
    named = {str(i): x for i, x in enumerate(arms)}
    loss = gx.optimal_mixture(named, OBJECTIVES[name](real)).function
    return loss, random_region(rng, m, int(rng.integers(0, 3))), rng


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize(
    "seeds", [range(3), pytest.param(range(3, 40), marks=LONG)], ids=["quick", "long"]
)
def test_no_feasible_point_beats_a_solution_by_more_than_its_gap(name: str, seeds: range) -> None:
    for seed in seeds:
        loss, region, rng = world(seed, name)
        found = gx.solve(loss, region=region)
        assert region.contains(found.weights), seed
        assert found.gap <= 1e-6 * max(1.0, abs(found.loss), loss.scale), seed
        best = min(loss.value(point) for point in points_of(region, rng, 6))
        assert found.loss - best <= found.gap + 1e-9 * max(1.0, loss.scale), seed
        again = certify(loss, found.weights, region=region)
        assert found.loss - again.gap <= best + 1e-9 * max(1.0, loss.scale), seed


@pytest.mark.parametrize(
    "seeds", [range(3), pytest.param(range(3, 30), marks=LONG)], ids=["quick", "long"]
)
def test_the_gap_of_any_point_covers_its_true_distance_to_the_minimum(seeds: range) -> None:
    for seed in seeds:
        for name in ("vendi", "frechet"):
            loss, region, rng = world(seed, name)
            tight = gx.Newton(tolerance=1e-11).solve(loss, region.center, region=region)
            scale = max(1.0, abs(tight.loss), loss.scale)
            for point in [region.center, *points_of(region, rng, 2)]:
                inside = region.clean(point)
                assert region.contains(inside)
                claimed = certify(loss, inside, region=region)
                assert claimed.gap >= loss.value(inside) - tight.loss - 1e-12 * scale, (seed, name)


@pytest.mark.parametrize(
    "seeds", [range(4), pytest.param(range(4, 40), marks=LONG)], ids=["quick", "long"]
)
def test_vendi_of_order_1_agrees_with_an_exponential_cone_program(seeds: range) -> None:
    """Arms of one-hot samples: the loss is Σ q log q of the mixed histogram q."""
    for seed in seeds:
        rng = np.random.default_rng([seed, 2])
        m, d = int(rng.integers(2, 7)), 6
        arms = {str(i): np.eye(d)[rng.integers(0, d, 7)] for i in range(m)}
        loss = gx.optimal_mixture(arms, gx.Vendi()).function
        region = random_region(rng, m, int(rng.integers(0, 2)))
        x = cp.Variable(m)
        histogram = np.array([rows.mean(axis=0) for rows in arms.values()])
        seen = histogram.sum(axis=0) > 0
        entropy = cp.sum(cp.entr(histogram.T[seen] @ x))
        problem = cp.Problem(cp.Maximize(entropy), conditions(region, x))
        problem.solve(solver=cp.CLARABEL, **TIGHT)
        found = gx.solve(loss, region=region)
        assert found.loss == pytest.approx(-problem.value, abs=1e-7), seed
        assert found.loss + problem.value <= found.gap + 1e-8, seed


@pytest.mark.parametrize("seed", range(6))
def test_linear_minima_agree_with_linear_programs(seed: int) -> None:
    from scipy.optimize import linprog

    rng = np.random.default_rng([seed, 3])
    m = int(rng.integers(2, 30))
    region = random_region(rng, m, rows=1)
    prices = rng.standard_normal(m)
    found = linear_minimum(prices, region._bounds, region._rows, region._limits, region.center)
    members = (region.groups[None, :] == np.arange(len(region.sums))[:, None]).astype(float)
    judged = linprog(
        prices,
        A_ub=region.rows,
        b_ub=region.limits,
        A_eq=members,
        b_eq=region.sums,
        bounds=list(zip(region.lo, region.hi, strict=True)),
    )
    assert found.value == pytest.approx(judged.fun, abs=1e-8)
    assert prices @ found.point == pytest.approx(found.value, abs=1e-10)
    assert region.contains(region.clean(found.point))


def test_the_multiplier_is_the_derivative_with_respect_to_the_limit() -> None:
    loss, _, rng = world(1, "vendi")
    m = loss.size
    costs = rng.uniform(1, 5, m)
    free = gx.solve(loss).weights
    limit = 0.5 * float(costs @ free) + 0.5 * float(costs.min())

    def least(b: float) -> gx.Solution:
        region = Region(m, rows=[costs], limits=[b])
        return gx.Newton(tolerance=1e-12).solve(loss, region.center, region=region)

    here, step = least(limit), 1e-4
    slope = (least(limit - step).loss - least(limit + step).loss) / (2 * step)
    region = Region(m, rows=[costs], limits=[limit])
    found = region.multipliers(loss.expand(here.weights).gradient, here.weights)
    assert found[0] == pytest.approx(slope, rel=1e-3)
    assert slope > 0.01


# --- degenerate regions ---------------------------------------------------------------------------


def test_a_region_without_limits_has_the_minimum_of_the_simplex() -> None:
    loss, _, _ = world(3, "vendi")
    free, limited = gx.solve(loss), gx.solve(loss, region=Region(loss.size))
    assert limited.loss == pytest.approx(free.loss, abs=1e-9)
    assert limited.weights == pytest.approx(free.weights, abs=1e-5)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_single_point_is_its_own_minimum(name: str) -> None:
    loss, _, rng = world(4, name)
    point = rng.dirichlet(np.ones(loss.size))
    for region in (
        Region(loss.size, lo=point, hi=point),
        Region(loss.size, lo=point),
        Region(loss.size, groups=range(loss.size), sums=point),
    ):
        found = gx.solve(loss, region=region)
        assert found.weights == pytest.approx(point, abs=1e-12)
        assert found.gap <= 1e-9 * max(1.0, loss.scale) + loss.expand(point).truncation


def test_one_arm() -> None:
    loss = QuadraticLoss(np.eye(1), np.zeros(1), 0.0)
    assert gx.solve(loss, region=Region(1, lo=0.3)).weights.tolist() == [1.0]


@pytest.mark.parametrize("name", ["vendi", "vendi 0.5", "frechet"])
def test_arms_that_must_be_zero_are_left_out_although_their_slope_is_infinite(name: str) -> None:
    loss, _, _ = world(5, name)
    m = loss.size
    hi = np.ones(m)
    hi[0] = 0.0
    found = gx.solve(loss, region=Region(m, hi=hi))
    face = gx.solve(loss.face(range(1, m)))
    assert found.weights[0] == 0
    assert found.loss == pytest.approx(face.loss, abs=1e-9)
    assert found.gap <= 1e-6 * max(1.0, loss.scale)


def test_a_budget_that_only_the_cheapest_arms_meet_leaves_these() -> None:
    loss, _, _ = world(6, "vendi")
    costs = np.full(loss.size, 2.0)
    costs[:2] = 1.0
    found = gx.solve(loss, region=Region(loss.size, rows=[costs], limits=[1.0]))
    assert np.all(found.weights[2:] == 0)
    assert found.loss == pytest.approx(gx.solve(loss.face([0, 1])).loss, abs=1e-9)
    assert costs @ found.weights <= 1 + 1e-12


def test_negligible_weights_are_exactly_zero_although_the_budget_binds() -> None:
    k = np.diag([1.0, 1.0, 1.0, 50.0])
    loss = SumLoss([(1.0, QuadraticLoss(k, np.zeros(4), 0.0)), (1.0, LinearLoss(9 * np.eye(4)[3]))])
    region = Region(4, rows=[[3.0, 2.0, 1.0, 1.0]], limits=[1.4])
    found = gx.solve(loss, region=region)
    assert found.weights[3] == 0
    assert region.contains(found.weights)
    assert region.rows[0] @ found.weights == pytest.approx(1.4, abs=1e-9)


def test_weights_that_are_removed_stay_zero_with_many_arms_and_a_budget() -> None:
    cost = np.arange(1000) % 5 + 1.0
    region = Region(1000, rows=[cost], limits=[2.5])
    for seed in range(20):
        rng = np.random.default_rng([seed, 5])
        alpha = np.where((cost <= 2) & (rng.random(1000) < 0.3), rng.random(1000), 1e-6)
        alpha /= alpha.sum()
        negligible = region.negligible(alpha, 1e-5)
        assert negligible.sum() > 500
        found = region.without(alpha, negligible)
        assert not np.any(found[negligible]), seed
        assert region.contains(found)


def test_starting_points_outside_of_the_region_are_moved_into_it() -> None:
    for seed in range(20):
        rng = np.random.default_rng([seed, 4])
        m = int(rng.integers(1, 9))
        region = random_region(rng, m)
        for start in (np.eye(m)[0], rng.dirichlet(np.ones(m)), np.full(m, 1 / m), region.corner(0)):
            assert region.contains(region.enter(start)), seed
            assert region.contains(region.clean(start)), seed


def test_feasible_points_stay_where_they_are() -> None:
    region = Region(3, hi=[0.5, 1, 1], rows=[[3.0, 2.0, 1.0]], limits=[1.6])
    for point in ([0.0, 0.6, 0.4], [0.3, 0.0, 0.7], [0.1, 0.2, 0.7]):
        assert region.clean(np.array(point)).tolist() == point


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"lo": [0.5, 0.6, 0.1]}, "lo of group 0 adds up to 1.2; lower it to at most 1."),
        ({"hi": 0.3}, "hi of group 0 adds up to 0.9; raise it to at least 1."),
        (
            {"lo": [0.3, 0, 0], "hi": [0.2, 1, 1]},
            "lo of arm 0 is 0.3, but hi is 0.2; lower lo to at most that.",
        ),
        (
            {"rows": [[1, 2, 3]], "limits": [0.5]},
            "the limit of row 0 is 0.5, but the row is at least 1; raise it to that.",
        ),
        (
            {"groups": [0, 0, 1], "sums": [0.3, 0.7], "hi": [1, 1, 0.5]},
            "hi of group 1 adds up to 0.5; raise it to at least 0.7.",
        ),
        (
            {"rows": np.eye(3)[:2], "limits": [0.2, 0.3], "hi": [1, 1, 0.4]},
            "the limit of row 1 is 0.3, but with the rows before it",
        ),
        ({"groups": [0, 0, 2]}, "groups does not match sums"),
        ({"lo": np.nan}, "lo of the region is not finite"),
        ({"sums": [0.5]}, "lo or sums is not part of the simplex"),
    ],
)
def test_infeasible_regions_are_refused_by_name(limits: Any, message: str) -> None:
    with pytest.raises(gx.InputError, match=message.replace("(", r"\(")):
        Region(3, **limits)


class CustomSolver:
    def solve(self, loss: Loss, start: Any, curvature: Any = None) -> gx.Solution:
        return gx.Newton().solve(loss, start)


@pytest.mark.parametrize("solver", [gx.EG(), CustomSolver()])
def test_solvers_without_regions_are_refused_only_with_a_region(solver: Any) -> None:
    loss = QuadraticLoss(np.eye(2), np.zeros(2), 0.0)
    assert gx.solve(loss, solver=solver).gap < 1e-3
    with pytest.raises(gx.InputError, match="solves only over the whole simplex; use Newton"):
        gx.solve(loss, solver=solver, region=Region(2, lo=[0.2, 0.0]))


# --- losses that are not convex -------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_losses_that_are_not_convex_stay_in_the_region_with_a_valid_gap(seed: int) -> None:
    rng = np.random.default_rng([seed, 5])
    m = int(rng.integers(2, 5))
    factor = rng.standard_normal((m, m))
    noise = np.diag(rng.uniform(0.2, 2.0, m))
    loss = QuadraticLoss(factor.T @ factor, rng.standard_normal(m), 0.0, concave_part=noise)
    region = random_region(rng, m, int(rng.integers(0, 2)))
    for thorough in (True, False):
        found = solve_reported(loss, gx.Newton(), np.full(m, 1 / m), thorough, region)
        assert region.contains(found.weights)
        points = points_of(region, rng, 12)
        best = min(loss.reported(point) for point in points)
        assert found.loss - best <= found.gap + 1e-9
