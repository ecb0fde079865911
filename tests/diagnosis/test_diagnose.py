"""Diagnoses against closed forms, independent numpy and CVXPY, and what must hold for any arms."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import cvxpy
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import genmix as gx
from genmix.diagnosis.diagnose import _subsample_rows
from genmix.diagnosis.diagnosis import Diagnosis
from genmix.diagnosis.innovation import innovation
from genmix.diagnosis.resampling import Spread, take_rows
from genmix.diagnosis.theory import TheoremInputs
from genmix.objectives import Batch
from genmix.solvers.loss import SliceLoss
from tests.offline.test_bad_input import refused
from tests.support.conformance import make_world
from tests.support.helpers import (
    Matrix,
    gaussian_arms,
    loss_of,
    named,
    orthonormal_blocks,
    simplex_points,
)


def second_moment(rows: Matrix) -> Matrix:
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return np.einsum("na,nb->ab", unit, unit) / len(rows)


def random_arms(seed: int, sizes: tuple[int, ...] = (30, 20, 25), d: int = 4) -> dict[str, Matrix]:
    return named(gaussian_arms(np.random.default_rng(seed), sizes, d, spread=2.0))


# -- closed forms ------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(1, 1), (2, 4), (3, 1, 5), (1, 2, 3, 4)])
@pytest.mark.parametrize("gamma", [None, 0.02])
def test_orthonormal_blocks_have_known_answers(sizes: tuple[int, ...], gamma: float | None) -> None:
    """Arm i uniform over k_i orthonormal embeddings of K: S_i = P_i/k_i, L = Σ α_i log(α_i/k_i)."""
    arms = [np.repeat(rows, 60, axis=0) for rows in orthonormal_blocks(sizes)]
    found = gx.diagnose(named(arms), gx.Vendi(), gamma=gamma)
    total, even = sum(sizes), 1 / len(sizes)
    level = 0.1 * even if gamma is None else gamma
    assert found.gamma == pytest.approx(level)
    for k, arm in zip(sizes, found.arms.values(), strict=True):
        assert arm.n == 60 * k
        assert arm.innovation.gap == pytest.approx(1 / k)
        assert arm.innovation.own == pytest.approx(1 / k)
        assert arm.innovation.others == pytest.approx(0, abs=1e-15)
        assert arm.weight == pytest.approx(k / total, abs=1e-4)
        assert arm.is_active
        assert arm.leave_one_out == pytest.approx(math.log(total / (total - k)), abs=1e-6)
        rest = level * math.log(level / k) + (1 - level) * math.log((1 - level) / (total - k))
        assert arm.margin == pytest.approx(rest + math.log(total), abs=1e-6)
    assert found.innovative == tuple(found.arms)
    assert {arm.role for arm in found.arms.values()} == {"needed"}
    assert found.separates
    assert found.is_interior
    assert (found.nu, found.epsilon) == pytest.approx((1 / max(sizes), 0), abs=1e-15)


def test_shared_directions_count_against_an_arm() -> None:
    """Arms on {1, 2} and {2, 3}: S_i − S_j has eigenvalues ½, 0, −½ on the axes."""
    found = gx.diagnose({"a": np.eye(3)[:2], "b": np.eye(3)[1:]}, gx.Vendi())
    for name, axis in (("a", 0), ("b", 2)):
        innovation = found.arms[name].innovation
        assert innovation.gap == pytest.approx(0.5)
        assert (innovation.own, innovation.others) == pytest.approx((0.5, 0.0))
        assert np.abs(innovation.direction) == pytest.approx(np.eye(3)[axis])


def test_frechet_distance_in_one_dimension() -> None:
    """Arms at ±1 with variance s², reference N(0, 1): FD = m² + (1 − √(1 + s² − m²))² at mean m = 2α−1."""
    s = 0.5
    arms = {"left": np.array([[-1 - s], [-1 + s]]), "right": np.array([[1 - s], [1 + s]])}
    objective = gx.FrechetDistance((np.zeros(1), np.eye(1)))

    def distance(alpha: float) -> float:
        mean = 2 * alpha - 1
        return mean**2 + (1 - math.sqrt(1 + s * s - mean**2)) ** 2

    found = gx.diagnose(arms, objective, gamma=0.2)
    for arm in found.arms.values():
        assert arm.weight == pytest.approx(0.5, abs=1e-4)
        assert arm.leave_one_out == pytest.approx(distance(0) - distance(0.5), rel=1e-6)
        assert arm.margin == pytest.approx(distance(0.2) - distance(0.5), rel=1e-6)
    # In one dimension there is one direction, and all have it.
    assert found.innovative == ()
    assert found.theory is None


# -- independent judges ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_innovation_is_what_plain_numpy_says(seed: int) -> None:
    arms = random_arms(seed)
    found = gx.diagnose(arms, gx.Vendi())
    moments = {name: second_moment(rows) for name, rows in arms.items()}
    for name, mine in moments.items():
        rest = sum(other for label, other in moments.items() if label != name)
        innovation = found.arms[name].innovation
        v = innovation.direction
        assert innovation.gap == pytest.approx(np.linalg.eigvals(mine - rest).real.max(), abs=1e-12)
        assert np.linalg.norm(v) == pytest.approx(1)
        assert innovation.own == pytest.approx(v @ mine @ v)
        assert innovation.others == pytest.approx(v @ rest @ v)
        assert innovation.gap == pytest.approx(innovation.own - innovation.others)
        probes = np.random.default_rng(seed).standard_normal((500, len(v)))
        probes /= np.linalg.norm(probes, axis=1, keepdims=True)
        values = np.einsum("na,ab,nb->n", probes, mine - rest, probes)
        assert values.max() <= innovation.gap + 1e-12


@pytest.mark.parametrize("seed", range(4))
def test_interiority_of_rke_is_what_cvxpy_says(seed: int) -> None:
    arms = random_arms(seed)
    units = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in arms.values()]
    matrix = np.array([[((x @ y.T) ** 2).mean() for y in units] for x in units])

    def least(arm: int, most: float) -> float:
        alpha = cvxpy.Variable(len(units))
        limits = [alpha >= 0, cvxpy.sum(alpha) == 1, alpha[arm] <= most]
        problem = cvxpy.Problem(
            cvxpy.Minimize(cvxpy.quad_form(alpha, cvxpy.psd_wrap(matrix))), limits
        )
        return float(problem.solve(solver=cvxpy.CLARABEL))

    gamma = 0.1
    found = gx.diagnose(arms, gx.RKE(gx.Cosine()), gamma=gamma)
    best = least(0, 1.0)
    for index, arm in enumerate(found.arms.values()):
        assert arm.leave_one_out == pytest.approx(least(index, 0.0) - best, abs=1e-6)
        assert arm.margin == pytest.approx(least(index, gamma) - best, abs=1e-6)


WORLDS = ["frechet", "kd", "vendi_one_cosine", "vendi_one_rff", "inception", "sum", "quality_vendi"]


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("gamma", [0.03, 0.3])
def test_margins_are_the_least_of_a_fine_grid(name: str, gamma: float) -> None:
    world = make_world(name)
    found = gx.diagnose(
        world.arms, world.objective, gamma=gamma, quality=world.quality, cost=world.cost
    )
    steps = np.linspace(0, 1, 201)
    for index, arm in enumerate(found.arms.values()):
        rest = [i for i in range(3) if i != index]
        grid = np.zeros((len(steps), 3))
        weight = min(gamma, arm.weight)
        grid[:, index] = weight
        grid[:, rest[0]], grid[:, rest[1]] = (1 - weight) * steps, (1 - weight) * (1 - steps)
        least = min(found.mixture.function.value(alpha) for alpha in grid) - found.mixture.loss
        assert arm.margin <= least + 1e-9
        assert arm.margin == pytest.approx(least, abs=1e-3 * max(1, abs(found.mixture.loss)))
        assert arm.margin <= arm.leave_one_out + 1e-9


@pytest.mark.parametrize("objective", [gx.Vendi(), gx.Vendi(2), gx.Vendi(math.inf)])
def test_a_slice_is_the_loss_with_a_weight_fixed(objective: gx.Objective) -> None:
    arms = random_arms(0)
    whole = loss_of(objective, arms)
    part = SliceLoss(whole, 1, 0.2)
    rng = np.random.default_rng(0)
    points = 0.9 * simplex_points(rng, 2, 20) + 0.05
    for beta in points:
        alpha = np.array([0.8 * beta[0], 0.2, 0.8 * beta[1]])
        assert part.value(beta) == pytest.approx(whole.value(alpha), rel=1e-12)
        here = part.expand(beta)
        assert here.gradient @ beta == pytest.approx(here.value, abs=1e-9)
        for other in points:
            assert np.max(here.planes @ other) <= part.value(other) + here.noise + 1e-9
        if part.smooth:
            tilt, step = np.array([1.0, -1.0]), 1e-5
            ahead, behind = part.expand(beta + step * tilt), part.expand(beta - step * tilt)
            slope = (ahead.value - behind.value) / (2 * step)
            hessian = (ahead.gradient - behind.gradient) @ tilt / (2 * step)
            assert here.gradient @ tilt == pytest.approx(slope, rel=1e-5, abs=1e-7)
            assert tilt @ here.hessian @ tilt == pytest.approx(hessian, rel=1e-4, abs=1e-6)


# -- what holds for any arms -------------------------------------------------------------------------


def numbers(found: Diagnosis) -> dict[str, list[float]]:
    return {
        name: [arm.innovation.gap, arm.weight, arm.leave_one_out, arm.margin]
        for name, arm in found.arms.items()
    }


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6), order=st.permutations(range(4)))
def test_the_order_of_the_arms_does_not_matter(seed: int, order: list[int]) -> None:
    arms = random_arms(seed, (12, 9, 15, 11))
    names = list(arms)
    turned = {names[i]: arms[names[i]] for i in order}
    first, second = (gx.diagnose(a, gx.RKE(gx.Cosine()), repeats=2) for a in (arms, turned))
    for name in names:
        assert numbers(first)[name] == pytest.approx(numbers(second)[name], abs=1e-6)
        one, other = first.arms[name].subsampled, second.arms[name].subsampled
        assert one.innovation.mean == pytest.approx(other.innovation.mean, abs=1e-12)
        assert one.weight.mean == pytest.approx(other.weight.mean, abs=1e-5)


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_neither_of_two_identical_arms_is_needed(seed: int) -> None:
    arms = random_arms(seed)
    arms["copy"] = arms["arm0"]
    found = gx.diagnose(arms, gx.Vendi())
    for name in ("arm0", "copy"):
        arm = found.arms[name]
        assert arm.innovation.gap <= 1e-12
        assert name not in found.innovative
        assert not arm.is_active
        assert (arm.leave_one_out, arm.margin) == (0.0, 0.0)
    assert not found.is_interior
    assert not found.separates


def gaps_of(arms: dict[str, Matrix]) -> dict[str, float]:
    found = innovation({name: Batch(rows) for name, rows in arms.items()})
    return {name: one.gap for name, one in found.items()}


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_innovation_knows_directions_only(seed: int) -> None:
    """Lengths of embeddings do not count, a rotation turns the directions, one more arm lowers every gap."""
    rng = np.random.default_rng(seed)
    arms = random_arms(seed)
    turn = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    before = gaps_of(arms)
    scaled = {n: rows * rng.uniform(0.1, 9, (len(rows), 1)) for n, rows in arms.items()}
    turned = {n: rows @ turn for n, rows in arms.items()}
    more = {**arms, "more": rng.standard_normal((9, 4))}
    for name, gap in before.items():
        for other in (scaled, turned):
            assert gaps_of(other)[name] == pytest.approx(gap)
        assert gaps_of(more)[name] <= gap + 1e-12
        assert -len(arms) <= gap <= 1 + 1e-12


def test_torch_says_the_same() -> None:
    arms = random_arms(1)
    tensors = {name: torch.from_numpy(rows) for name, rows in arms.items()}
    plain, other = (gx.diagnose(a, gx.Vendi(), repeats=2) for a in (arms, tensors))
    for name, values in numbers(plain).items():
        assert values == pytest.approx(numbers(other)[name], abs=1e-6)
        one, two = plain.arms[name].subsampled, other.arms[name].subsampled
        assert one.innovation.std == pytest.approx(two.innovation.std, rel=1e-6)
    assert type(other.arms["arm0"].innovation.direction) is np.ndarray
    json.dumps(other.as_dict(), allow_nan=False)


# -- subsamples --------------------------------------------------------------------------------------


def test_subsamples_of_everything_have_no_spread() -> None:
    arms = random_arms(2, (20, 20, 20))
    objective = gx.Vendi(kernel=gx.Gaussian(features=16))
    found = gx.diagnose(arms, objective, repeats=3, subsample=20)
    for arm in found.arms.values():
        over = arm.subsampled
        assert over.innovation.mean == pytest.approx(arm.innovation.gap, abs=1e-12)
        assert over.weight.mean == pytest.approx(arm.weight, abs=1e-6)
        assert over.leave_one_out.mean == pytest.approx(arm.leave_one_out, abs=1e-7)
        assert over.active == 3 * arm.is_active
        for spread in (over.innovation, over.weight, over.leave_one_out):
            assert spread.std < 1e-6


def test_subsamples_vary_and_repeat_with_their_seed() -> None:
    arms = random_arms(3)
    first, same, other = (
        gx.diagnose(arms, gx.Vendi(), repeats=4, subsample=10, seed=seed) for seed in (0, 0, 1)
    )
    assert first.as_dict() == same.as_dict()
    assert first.as_dict() != other.as_dict()
    assert all(arm.subsampled.innovation.std > 0 for arm in first.arms.values())


def test_a_kernel_is_that_of_the_whole_in_every_subsample() -> None:
    """With two equal arms on two points any bandwidth of its own would be seen in the weights."""
    rng = np.random.default_rng(0)
    arms = {"a": rng.standard_normal((40, 2)), "b": 5 * rng.standard_normal((40, 2))}
    objective = gx.RKE()
    found = gx.diagnose(arms, objective, repeats=3, subsample=20)
    sigma = found.mixture.objective.kernel.bandwidth
    fixed = gx.diagnose(arms, gx.RKE(gx.Gaussian(sigma)), repeats=3, subsample=20)
    for name, arm in found.arms.items():
        assert arm.subsampled == fixed.arms[name].subsampled


@pytest.mark.parametrize("size, count", [(None, 10), (7, 7)])
def test_a_subsample_keeps_rows_together(size: int | None, count: int) -> None:
    index = np.arange(20.0)
    batch = Batch(np.stack([index, index], axis=1), index, index)
    rows = [_subsample_rows({"a": 20}, 1, size, 0, repeat)["a"] for repeat in range(30)]
    draws = [take_rows(batch, each) for each in rows]
    for drawn in draws:
        assert len(drawn) == count
        assert len(set(drawn.quality)) == count, "without replacement"
        np.testing.assert_array_equal(drawn.embeddings[:, 0], drawn.quality)
        np.testing.assert_array_equal(drawn.quality, drawn.cost)
    assert {x for drawn in draws for x in drawn.quality} == set(index)


def test_quality_and_cost_go_along() -> None:
    arms = named(orthonormal_blocks((2, 2)))
    objective = gx.Vendi() + 0.5 * gx.Quality()
    quality = {"arm0": [1.0, 0.0], "arm1": 0.0}
    found = gx.diagnose(arms, objective, quality=quality, repeats=2, subsample=2)
    # α_i ∝ k_i exp(w θ_i)
    expected = math.exp(0.25) / (1 + math.exp(0.25))
    assert found.arms["arm0"].weight == pytest.approx(expected, abs=1e-5)
    assert found.arms["arm0"].subsampled.weight.mean == pytest.approx(expected, abs=1e-5)
    assert set(found.as_dict()["scores"]) == {"vendi", "quality"}


def test_an_arm_without_which_nothing_is_worth_anything() -> None:
    """Quality-weighted Vendi is −∞ on a logarithmic scale where no sample has quality."""
    arms = named(orthonormal_blocks((2, 2)))
    quality = {"arm0": 1.0, "arm1": 0.0}
    found = gx.diagnose(arms, gx.QualityVendi(), quality=quality, gamma=0.0)
    assert (found.arms["arm0"].leave_one_out, found.arms["arm0"].margin) == (math.inf, math.inf)
    json.dumps(found.as_dict(), allow_nan=False)


def test_progress_is_told() -> None:
    done: list[int] = []
    gx.diagnose(random_arms(0), gx.RKE(gx.Cosine()), repeats=3, progress=done.append)
    assert done == [1, 2, 3]


def test_the_spread_is_that_of_numpy() -> None:
    values = [0.1, 0.4, 0.9]
    assert Spread.of(values) == Spread(np.mean(values), np.std(values, ddof=1))
    assert str(Spread(0.25, 0.0123)) == "0.25 ± 0.012"


# -- theory ------------------------------------------------------------------------------------------


def test_the_floors_are_the_printed_formulas() -> None:
    m, d, nu, epsilon, horizon, delta, n = 2, 2, 0.9, 0.001, 50, 0.1, 10**7
    situation = TheoremInputs(m, d, nu, epsilon, horizon, delta)
    eta = 2 / math.sqrt(n) * (1 + math.sqrt(2 * math.log(m * (horizon + 1) / delta)))
    assert situation.radius(n) == pytest.approx(eta)
    depth, rest = d / math.e + math.log(m), epsilon + (m - 1) * eta
    printed = math.exp(-1 - depth / (nu - eta)) - rest
    tight = math.exp(-depth / (nu - eta)) - rest
    assert printed > 0
    assert situation.floor(eta, minus_one=True) == pytest.approx(printed)
    assert situation.floor(eta, minus_one=False) == pytest.approx(tight)
    beside = dataclasses.replace(situation, fidelity=0.3)
    linear = math.exp(-(depth + 0.3) / (nu - eta)) - rest
    assert beside.floor(eta, minus_one=False) == pytest.approx(linear)
    shape = (1 + math.sqrt(math.log(m * 51 / delta))) * math.sqrt(50) * (1 + math.log(50))
    assert situation.bound_shape() == pytest.approx(shape)


@pytest.mark.parametrize("m, d, nu", [(2, 2, 1.0), (3, 3, 1 / 3), (2, 6, 0.25), (1, 2, 0.5)])
def test_the_warm_start_is_the_least_that_is_enough(m: int, d: int, nu: float) -> None:
    situation = TheoremInputs(m, d, nu, 0.0, 2000, 0.05)
    least = situation.warm_start()
    assert situation.floor(situation.radius(least * (1 + 1e-9)), minus_one=False) > 0
    assert situation.floor(situation.radius(least * (1 - 1e-6) - 1), minus_one=False) == 0


@pytest.mark.parametrize("nu, epsilon, d", [(0.5, 0.6, 4), (0.0, 0.0, 4), (0.1, 0.0, 1024)])
def test_where_no_warm_start_is_enough_it_is_infinite(nu: float, epsilon: float, d: int) -> None:
    assert TheoremInputs(3, d, nu, epsilon, 2000, 0.05).warm_start() == math.inf


def test_beside_precision_no_floor_is_above_the_least_weight() -> None:
    """H = F + wG with one-hot arms, of which precision wants one: α is (e^w, 1)/(1 + e^w)."""
    good, bad = (np.repeat(rows, 10**5, axis=0) for rows in np.split(np.eye(2), 2))
    near = good[0] + 1e-3 * np.random.default_rng(0).standard_normal((30, 2))
    objective = gx.Vendi() + 5 * gx.Precision(near)
    options: dict[str, Any] = {"horizon": 1, "confidence": 1.0}
    found = gx.diagnose({"good": good, "bad": bad}, objective, **options)
    least = found.arms["bad"].weight
    assert least == pytest.approx(1 / (1 + math.exp(5)), rel=1e-3)
    assert found.theory.floor is None
    assert found.theory.floor_without_one <= least
    assert "every weight is at least 0 (vacuous);" in str(found.theory)
    assert json.loads(json.dumps(found.as_dict()))["theory"]["floor"] is None
    alone = gx.diagnose({"good": good, "bad": bad}, gx.Vendi(), **options).theory
    assert 0 < alone.floor < alone.floor_without_one <= 0.5
    assert "without the −1" in str(alone)


def test_the_theorem_is_about_log_vendi_only() -> None:
    arms, real = random_arms(0), np.random.default_rng(1).standard_normal((20, 4))
    for objective in (gx.Vendi(), gx.Vendi() + 0.3 * gx.Precision(real)):
        theory = gx.diagnose(arms, objective, horizon=99, confidence=0.2).theory
        assert (theory.horizon, theory.confidence) == (99, 0.2)
        assert theory.radius == TheoremInputs(3, 4, 1.0, 0.0, 99, 0.2).radius(20)
    for objective in (
        gx.RKE(),
        gx.Vendi(2),
        gx.Vendi(kernel=gx.Gaussian(features=8)),
        2 * gx.Vendi(),
        gx.Vendi() + gx.FrechetDistance(real),
    ):
        assert gx.diagnose(arms, objective).theory is None


# -- words -------------------------------------------------------------------------------------------


def test_the_verdict_names_the_roles() -> None:
    """dull has only what wide has too much of."""
    wide, other = np.eye(8)[[0, 0, 1, 2]], np.eye(8)[3:7]
    arms = {"wide": wide, "other": other, "twin": other, "dull": np.eye(8)[[0]]}
    arms = {name: np.repeat(rows, 60, axis=0) for name, rows in arms.items()}
    found = gx.diagnose(arms, gx.Vendi())
    assert found.verdict == (
        "The mixture needs wide.",
        "other and twin have weight, but the other arms can replace either of them at no loss.",
        "dull adds nothing.",
        "Innovation: the paper's condition fails, because no direction sets other or twin apart from "
        "all other arms together.",
        "Interiority: the paper assumes that every arm needs a weight above γ_0 = 0.025 in the best "
        "mixture, but on these samples other, twin and dull do not.",
    )


def test_the_verdict_says_what_of_the_assumptions_holds() -> None:
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((2, 1000, 3))
    near = {"a": noise[0] + 1, "b": noise[1] - [0, 3, 0]}
    lines = gx.diagnose(near, gx.RKE(gx.Cosine())).verdict
    assert lines[0] == "The mixture needs a and b."
    assert "ε_0 < ν_0/8 does not hold" in lines[1]
    assert "the paper's assumption holds beyond chance, with a margin of" in lines[2]
    blocks = [np.repeat(rows, 60, axis=0) for rows in orthonormal_blocks((2, 3))]
    apart = gx.diagnose(named(blocks), gx.Vendi(), gamma=0.5)
    assert any("ε_0 < ν_0/8 holds (ν_0 = 0.3333, ε_0 = 0)" in w for w in apart.verdict)
    # γ_0 = 1/m is more than the smaller arm needs.
    assert (
        "above γ_0 = 0.5 in the best mixture, but on these samples arm0 does not."
        in apart.verdict[-1]
    )


COPIES = [(400, 32, 3), (200, 8, 2), (40, 60, 3), (9, 4, 2), (1, 3, 2)]


def copies(n: int, d: int, m: int) -> tuple[dict[str, Matrix], Matrix]:
    """m arms of one distribution, and a reference of it."""
    rng = np.random.default_rng([n, d, m])
    scales = np.linspace(2, 0.2, d)
    drawn = [rng.standard_normal((n, d)) * scales + 0.3 for _ in range(m)]
    return named(drawn), rng.standard_normal((4 * n, d)) * scales + 0.3


@pytest.mark.parametrize("n, d, m", COPIES)
@pytest.mark.parametrize("kind", ["vendi", "rke", "fd"])
def test_chance_is_neither_need_nor_innovation(n: int, d: int, m: int, kind: str) -> None:
    """Also with fewer samples than dimensions, where a gap does not fall with their number."""
    arms, real = copies(n, d, m)
    objectives = {"vendi": gx.Vendi(), "rke": gx.RKE(), "fd": gx.FrechetDistance(real)}
    found = gx.diagnose(arms, objectives[kind])
    assert any(arm.is_active for arm in found.arms.values()), "the samples in hand say so"
    assert not any(arm.role == "needed" for arm in found.arms.values())
    assert found.innovative == ()
    assert not found.is_interior
    said = "\n".join(found.verdict)
    assert f"ith {n} sample" in said
    assert "it is unclear whether the mixture needs" in said
    assert ("stricter than the intervals of the weights" in said) == (n >= 10)
    claims = ("The mixture needs", "of its own", "assumption holds beyond chance")
    assert not any(claim in said for claim in claims)


@pytest.mark.parametrize("kind", ["vendi", "rke", "fd"])
def test_arms_that_differ_are_needed_beyond_chance(kind: str) -> None:
    rng = np.random.default_rng(0)
    arms = {f"on {i}": rng.standard_normal((100, 60)) + 9 * np.eye(60)[i] for i in range(3)}
    objectives = {
        "vendi": gx.Vendi(),
        "rke": gx.RKE(),
        "fd": gx.FrechetDistance(np.concatenate(list(arms.values()))),
    }
    found = gx.diagnose(arms, objectives[kind])
    assert found.verdict[0] == "The mixture needs on 0, on 1 and on 2."
    assert "every arm has a direction of its own, confirmed on held-out samples" in found.verdict[1]
    assert "holds beyond chance" in found.verdict[2]
    assert found.is_interior


def test_an_arm_among_copies_is_told_apart_from_them() -> None:
    """Two copies of one distribution and an arm elsewhere: only that one is needed."""
    arms, _ = copies(300, 16, 2)
    arms["else"] = np.random.default_rng(5).standard_normal((300, 16)) * 0.3 + 4 * np.eye(16)[-1]
    found = gx.diagnose(arms, gx.Vendi())
    assert {name: arm.role == "needed" for name, arm in found.arms.items()} == {
        "arm0": False,
        "arm1": False,
        "else": True,
    }
    assert found.innovative == ("else",)


def test_a_small_arm_does_not_silence_the_others() -> None:
    """One that has few samples can be told nothing of, the others' roles stand."""
    rng = np.random.default_rng(1)
    arms = {name: rng.standard_normal((200, 4)) + 9 * np.eye(4)[i] for i, name in enumerate("ab")}
    arms["few"] = rng.standard_normal((3, 4)) + 9 * np.eye(4)[2]
    found = gx.diagnose(arms, gx.Vendi())
    assert {name: arm.role for name, arm in found.arms.items()} == {
        "a": "needed",
        "b": "needed",
        "few": "unclear",
    }
    assert found.arms["few"].evidence is None
    assert "With 3 samples it is unclear whether the mixture needs few." in found.verdict


def test_beside_a_small_arm_alone_nothing_can_be_told() -> None:
    """There are too few samples to stand in."""
    rng = np.random.default_rng(1)
    arms = {"many": rng.standard_normal((200, 4)), "few": rng.standard_normal((3, 4)) + 9}
    found = gx.diagnose(arms, gx.Vendi())
    assert {arm.role for arm in found.arms.values()} == {"unclear"}
    json.dumps(found.as_dict(), allow_nan=False)


def test_more_samples_are_no_need() -> None:
    """An arm of many samples beside a copy of few: stand-ins are few too, and so are its own then."""
    arms, _ = copies(400, 8, 2)
    arms["arm1"] = arms["arm1"][:40]
    found = gx.diagnose(arms, gx.Vendi())
    assert found.arms["arm0"].is_active
    assert found.arms["arm0"].role == "unclear"


def test_the_evidence_repeats_with_its_seed_and_prints() -> None:
    arms, _ = copies(40, 3, 2)
    first, same, other = (gx.diagnose(arms, gx.Vendi(), seed=seed) for seed in (0, 0, 1))
    assert first.as_dict() == same.as_dict()
    assert first.arms["arm0"].evidence != other.arms["arm0"].evidence
    plain = json.loads(json.dumps(first.as_dict(), allow_nan=False))["arms"]["arm0"]
    shown = first.arms["arm0"].evidence
    assert plain["evidence"]["leave_one_out"] == dataclasses.asdict(shown.leave_one_out)
    assert plain["role"] == "unclear"
    assert str(first).count(str(shown.margin)) == 1
    assert "a mean above 3 standard deviations" in str(first)


@pytest.mark.parametrize("name", WORLDS)
def test_every_objective_has_evidence(name: str) -> None:
    world = make_world(name)
    found = gx.diagnose(world.arms, world.objective, quality=world.quality, cost=world.cost)
    for arm in found.arms.values():
        for spread in (arm.evidence.innovation, arm.evidence.leave_one_out, arm.evidence.margin):
            assert math.isfinite(spread.mean)
            assert math.isfinite(spread.std)


def test_without_an_arm_there_is_nothing_on_any_half() -> None:
    quality = {"a": 1.0, "b": 0.0}
    arms = {name: np.repeat(np.eye(4)[[i]], 20, axis=0) for i, name in enumerate("ab")}
    found = gx.diagnose(arms, gx.QualityVendi(), quality=quality, gamma=0.0)
    assert found.arms["a"].evidence.leave_one_out == Spread(math.inf, 0.0)
    assert found.arms["a"].role == "needed"


def test_a_single_arm_has_nothing_to_mix() -> None:
    found = gx.diagnose({"only": np.eye(3)}, gx.Vendi(), repeats=2)
    arm = found.arms["only"]
    assert (arm.weight, arm.leave_one_out, arm.margin) == (1.0, math.inf, math.inf)
    assert found.verdict == ("There is only one arm, so there is nothing to mix.",)
    plain = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert plain["arms"]["only"]["leave_one_out"] is None
    assert "only" in str(found)


def test_it_prints_two_aligned_tables() -> None:
    arms = {"a rather long label": np.eye(5)[:2], "b": np.eye(5)[2:]}
    arms = {name: np.repeat(rows, 60, axis=0) for name, rows in arms.items()}
    found = gx.diagnose(arms, gx.Vendi(), repeats=2, encoder="clip")
    text = str(found)
    lines = text.splitlines()
    assert lines[1].split() == ["arm", "n", "gap", "own", "others", "held", "out", "gap", "±"]
    assert lines[2].split()[4:8] == ["120", "0.5", "0.5", "0"]
    for first in (1, 6):
        table = lines[first : first + 3]
        assert len({len(line) for line in table}) == 1
        assert [line[:19].strip() for line in table] == ["arm", "a rather long label", "b"]
    assert "encoder clip" in text
    assert "half of each arm" in text
    assert "as printed" not in text
    assert str(found.theory).count("as printed") == 3
    assert text.splitlines()[-1].startswith(
        "Interiority: at γ_0 = 0.05 the paper's assumption holds"
    )


def test_without_repeats_nothing_is_said_of_them() -> None:
    found = gx.diagnose({"a": np.eye(5)[:2], "b": np.eye(5)[2:]}, gx.Vendi())
    assert "±" not in str(found)
    assert found.arms["a"].subsampled is None
    assert found.as_dict()["arms"]["a"]["subsampled"] is None


def test_the_plain_form_is_strict_json() -> None:
    found = gx.diagnose(random_arms(0), gx.Vendi(), repeats=2)
    plain = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert plain["arms"]["arm1"]["innovation"] == {
        "gap": found.arms["arm1"].innovation.gap,
        "own": found.arms["arm1"].innovation.own,
        "others": found.arms["arm1"].innovation.others,
    }
    assert plain["arms"]["arm1"]["subsampled"]["weight"]["mean"] == pytest.approx(
        found.arms["arm1"].subsampled.weight.mean
    )
    assert plain["scores"]["vendi"]["value"] == float(found.mixture.score)
    assert plain["verdict"] == list(found.verdict)
    assert plain["theory"]["nu"] == plain["nu"]


def test_a_diagnosis_does_not_change() -> None:
    found = gx.diagnose(random_arms(0), gx.Vendi())
    for thing in (found, found.arms["arm0"], found.arms["arm0"].innovation, found.theory):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(thing, dataclasses.fields(thing)[0].name, None)


def test_the_input_is_left_alone() -> None:
    arms = random_arms(0)
    before = {name: rows.copy() for name, rows in arms.items()}
    gx.diagnose(arms, gx.Vendi(), repeats=2)
    for name, rows in before.items():
        np.testing.assert_array_equal(arms[name], rows)


# -- bad input ---------------------------------------------------------------------------------------

TWO = {"a": np.eye(4)[:2], "b": np.eye(4)}

BAD: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "one repeat": ({"repeats": 1}, ("repeats=0", "2")),
    "negative repeats": ({"repeats": -1}, ("repeats is -1",)),
    "half a repeat": ({"repeats": 2.5}, ("repeats is 2.5",)),
    "subsample alone": ({"subsample": 2}, ("repeats=50",)),
    "subsample too large": ({"repeats": 2, "subsample": 3}, ("'a' has 2 samples", "at most")),
    "subsample of nothing": ({"repeats": 2, "subsample": 0}, ("subsample is 0",)),
    "seed": ({"seed": -1}, ("seed is -1",)),
    "gamma beyond an even share": ({"gamma": 0.6}, ("gamma is 0.6", "0.5")),
    "horizon": ({"horizon": 0}, ("horizon is 0",)),
    "confidence": ({"confidence": 0.0}, ("confidence is 0.0",)),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_options_are_refused(case: str) -> None:
    options, parts = BAD[case]
    refused(lambda: gx.diagnose(TWO, gx.Vendi(), **options), *parts)


def test_bad_arms_are_refused_as_everywhere() -> None:
    refused(lambda: gx.diagnose({}, gx.Vendi()), "no arms")
    refused(lambda: gx.diagnose({"a": np.eye(3), "b": np.eye(4)}, gx.Vendi()), "dimension 4")
    refused(lambda: gx.diagnose(TWO, "vendi"), "not an objective")  # type: ignore[arg-type]


def test_a_zero_vector_has_no_direction() -> None:
    arms = {"a": np.eye(3), "b": np.array([[1.0, 0, 0], [0, 0, 0]])}
    refused(lambda: gx.diagnose(arms, gx.RKE(gx.Gaussian(1.0))), "'b', sample 1", "zero vector")
