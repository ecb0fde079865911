"""Newton steps in a part of many arms: judged by CVXPY, closed forms and steps with all arms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.objectives import Batch
from genmix.solvers import many_arms
from genmix.solvers.loss import Loss, QuadraticLoss
from genmix.solvers.newton import Newton
from genmix.solvers.pooling import PooledLoss
from genmix.solvers.region import Region
from tests.support.helpers import loss_of

M = 240
GROUPS = np.repeat(np.arange(24), 10)
REFERENCE = np.random.default_rng(9).standard_normal((60, 12)) + 0.3

OBJECTIVES = {
    "vendi": gx.Vendi(),
    "order 2": gx.Vendi(order=2),
    "order 1/2": gx.Vendi(order=0.5),
    "fd": gx.FrechetDistance(REFERENCE),
    "kd": gx.KernelDistance(REFERENCE, gx.Gaussian(3.0)),
    "rke": gx.RKE(gx.Gaussian(3.0)),
    "sum": gx.Vendi() + 0.1 * gx.FrechetDistance(REFERENCE),
}

REGIONS: dict[str, Any] = {
    "simplex": lambda rng: None,
    "groups": lambda rng: Region(M, groups=GROUPS, sums=rng.dirichlet(np.full(24, 5.0))),
    "bounds": lambda rng: Region(M, lo=np.where(np.arange(M) < 5, 0.01, 0.0), hi=0.05),
    "budget": lambda rng: Region(
        M, groups=GROUPS, sums=np.full(24, 1 / 24), rows=[rng.uniform(1, 9, M)], limits=[4.0]
    ),
}


def arms(seed: int, each: int = 4, count: int = M) -> list[Any]:
    """Arms with up to ``each`` of 30 modes; half of the arms are noise around zero."""
    rng = np.random.default_rng(seed)
    modes = rng.standard_normal((30, 12))
    return [
        modes[rng.choice(30, each)] * (rng.random() < 0.5) + 0.4 * rng.standard_normal((each, 12))
        for _ in range(count)
    ]


def uniform() -> Any:
    return np.full(M, 1 / M)


def with_all_arms(monkeypatch: pytest.MonkeyPatch, loss: Loss, region: Region | None) -> Any:
    with monkeypatch.context() as patch:
        patch.setattr(many_arms, "MANY", 10**9)
        return Newton().solve(loss, uniform(), region=region)


def assert_certified(loss: Loss, found: Any, judge: Any, region: Region | None) -> None:
    """The same loss as the judge, a small gap, and a bound below what the judge found."""
    assert found.weights.min() >= 0
    assert abs(found.weights.sum() - 1) < 1e-12
    assert region is None or region.contains(found.weights)
    assert found.loss == pytest.approx(loss.value(found.weights), abs=1e-12)
    assert found.loss - found.gap <= judge.loss + 1e-13
    assert judge.loss - judge.gap <= found.loss + 1e-13
    assert found.gap <= 1e-6 * max(abs(found.loss), 1.0)


# -- the optimum -------------------------------------------------------------------------------------


QUICK = [("vendi", "groups"), ("fd", "simplex"), ("kd", "budget"), ("rke", "bounds")]


@pytest.mark.parametrize(
    "name, where",
    [
        pytest.param(name, where, marks=[] if (name, where) in QUICK else [pytest.mark.drill])
        for name in OBJECTIVES
        for where in REGIONS
    ],
)
def test_a_part_finds_what_all_arms_find(
    name: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loss = loss_of(OBJECTIVES[name], arms(0))
    region = REGIONS[where](np.random.default_rng(1))
    judge = with_all_arms(monkeypatch, loss, region)
    assert_certified(loss, Newton().solve(loss, uniform(), region=region), judge, region)


@pytest.mark.parametrize("where", REGIONS)
def test_quadratics_agree_with_cvxpy(where: str) -> None:
    cp = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(2)
    region: Any = REGIONS[where](rng)
    factor, linear = rng.standard_normal((40, M)), rng.standard_normal(M)
    found = Newton().solve(
        QuadraticLoss(factor.T @ factor / 40, linear, 0.0), uniform(), region=region
    )
    w = cp.Variable(M, nonneg=True)
    limits = [cp.sum(w) == 1]
    if region is not None:
        limits += [w >= region.lo, w <= region.hi]
        limits += [cp.sum(w[region.groups == g]) == s for g, s in enumerate(region.sums)]
        limits += [region.rows @ w <= region.limits] if len(region.limits) else []
    problem = cp.Problem(cp.Minimize(cp.sum_squares(factor @ w) / 40 - 2 * linear @ w), limits)
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11)
    assert found.loss == pytest.approx(problem.value, abs=1e-7)
    assert found.loss - found.gap <= problem.value + 1e-8
    assert found.gap < 1e-7


@pytest.mark.parametrize("start", ["uniform", pytest.param("vertex", marks=pytest.mark.drill)])
def test_disjoint_modes_have_a_closed_form(start: str) -> None:
    """Every arm has directions of its own, so that the slope is infinite at a weight of zero."""
    sizes = np.where(np.arange(200) < 10, 3, 1)
    eye, ends = np.eye(int(sizes.sum())), np.cumsum(sizes)
    loss = loss_of(gx.Vendi(), [eye[end - k : end] for k, end in zip(sizes, ends, strict=True)])
    begin = np.full(200, 1 / 200) if start == "uniform" else np.eye(200)[0]
    found = Newton().solve(loss, begin)
    assert found.weights == pytest.approx(sizes / sizes.sum(), abs=1e-6)
    assert found.gap < 1e-6


# -- starts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, where",
    [
        ("vendi", "simplex"),
        ("kd", "groups"),
        pytest.param("vendi", "groups", marks=pytest.mark.drill),
        pytest.param("fd", "simplex", marks=pytest.mark.drill),
        pytest.param("fd", "groups", marks=pytest.mark.drill),
    ],
)
def test_arms_enter_and_leave_from_any_start(
    name: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The starts: the best mixture of other samples, a vertex outside of the region, the best mixture."""
    region = REGIONS[where](np.random.default_rng(3))
    loss, other = (loss_of(OBJECTIVES[name], arms(seed)) for seed in (4, 5))
    judge = with_all_arms(monkeypatch, loss, region)
    last = Newton().solve(other, uniform(), region=region)
    moved = np.count_nonzero((last.weights > 0) != (judge.weights > 0))
    assert moved >= 10
    for start, curvature in (
        (last.weights, last.curvature),
        (np.eye(M)[7], None),
        (judge.weights, judge.curvature),
    ):
        for solve in (Newton().solve, Newton().resolve):
            found = solve(loss, start, curvature, region=region)
            assert_certified(loss, found, judge, region)


def test_a_new_direction_of_an_arm_without_weight_is_found() -> None:
    """The last weights exclude an arm whose new samples have a direction that no other arm has."""
    rows = [np.pad(x, ((0, 0), (0, 1))) for x in arms(6)]
    last = Newton().solve(loss_of(gx.Vendi(), rows), uniform())
    new = int(np.argmin(last.weights))
    assert last.weights[new] == 0
    rows[new] = np.vstack([rows[new], np.eye(13)[12]])
    found = Newton().resolve(loss_of(gx.Vendi(), rows), last.weights, last.curvature)
    assert found.weights[new] > 1e-3
    assert found.gap < 1e-6


def test_a_start_of_infinite_loss_is_left() -> None:
    quality = np.where(np.arange(M) < 3, 0.0, 0.5)
    tally = gx.QualityVendi().tally(M, np.empty((0, 12)))
    for arm, rows in enumerate(arms(7)):
        tally.add(arm, Batch(rows, np.full(len(rows), quality[arm])))
    found = Newton().solve(tally.loss(range(M)), np.eye(M)[0])
    assert found.weights[0] < 1e-6
    assert found.gap < 1e-6


@pytest.mark.drill
@pytest.mark.parametrize("seed", range(25))
def test_no_mixture_beats_the_bound(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    name = list(OBJECTIVES)[seed % len(OBJECTIVES)]
    region = REGIONS[list(REGIONS)[seed % len(REGIONS)]](rng)
    loss = loss_of(OBJECTIVES[name], arms(100 + seed, each=int(rng.integers(1, 12))))
    judge = with_all_arms(monkeypatch, loss, region)
    start = rng.dirichlet(np.full(M, 0.02))
    assert_certified(loss, Newton().solve(loss, start, region=region), judge, region)
    assert_certified(loss, Newton().resolve(loss, start, region=region), judge, region)


# -- parts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("each", [3, 90])
@pytest.mark.parametrize("name", ["vendi", "order 1/2", "fd", "kd", "sum"])
def test_the_hessian_of_mixtures(name: str, each: int) -> None:
    """From few samples, which are kept, and from many, whose moments are matrices."""
    rng = np.random.default_rng(8)
    loss = loss_of(OBJECTIVES[name], arms(8, each, count=7))
    points = np.vstack([np.eye(7)[[1, 4, 5]], rng.dirichlet(np.ones(7), 2)])
    here = loss.expand(rng.dirichlet(np.ones(7)))
    expected = points @ here.hessian @ points.T
    assert here.hessian_at(points) == pytest.approx(expected, rel=1e-9, abs=1e-9 * np.max(expected))
    shares = rng.dirichlet(np.ones(5), 4)
    pooled = PooledLoss(loss, points, shares).expand(rng.dirichlet(np.ones(4)))
    expected = pooled.hessian[np.ix_([0, 2], [0, 2])]
    assert pooled.hessian_at(np.eye(4)[[0, 2]]) == pytest.approx(expected, rel=1e-9)


def test_a_part_survives_as_a_matrix() -> None:
    hessian = np.array([[2.0, 1.0], [1.0, 3.0]])
    part = many_arms.Part(np.array([True, False, True]), hessian)
    again = many_arms.Part.of(part.full())
    assert again is not None
    assert again.known.tolist() == [True, False, True]
    assert np.array_equal(again.hessian, hessian)
    assert many_arms.Part.of(None) is None


def test_hessians_contain_few_arms(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    at = many_arms.Part.at.__func__  # type: ignore[attr-defined]
    monkeypatch.setattr(
        many_arms.Part,
        "at",
        classmethod(
            lambda cls, here, known: sizes.append(int(known.sum())) or at(cls, here, known)
        ),
    )
    rng = np.random.default_rng(10)
    factor = rng.standard_normal((M, M))
    loss = QuadraticLoss(factor.T @ factor / M, np.where(np.arange(M) < 30, 2.0, 0.0), 0.0)
    last = Newton().solve(loss, uniform())
    sizes.clear()
    start = np.maximum(last.weights * rng.uniform(0.9, 1.1, M), 1e-7)
    Newton().solve(loss, start / start.sum())
    assert sizes
    assert max(sizes) < M / 2


def test_fewer_arms_are_solved_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_arms, "descend", None)
    assert (
        Newton().solve(loss_of(gx.Vendi(), arms(11, count=199)), np.full(199, 1 / 199)).gap < 1e-6
    )


def test_a_selector_with_many_cells_resumes_bit_for_bit() -> None:
    groups = {f"g{i}": 1 / 21 for i in range(21)}
    names = [f"a{i}" for i in range(10)]
    selector = gx.Selector(names, gx.Vendi(), groups=groups, warm_start=3, resolve_growth=0.5)
    pool = arms(12, each=30, count=210)

    def tell(which: gx.Selector, count: int) -> None:
        for _ in range(count):
            [ticket] = which.ask(1)
            row = pool[10 * int(str(ticket.group)[1:]) + int(ticket.arm[1:])]
            which.tell(ticket, row[ticket.id % 30])

    tell(selector, 60)
    again = gx.Selector.from_state_dict(selector.state_dict())
    for each in (selector, again):
        tell(each, 40)
    assert selector.weights_by_group == again.weights_by_group
    assert selector.gap == again.gap < 1e-6
