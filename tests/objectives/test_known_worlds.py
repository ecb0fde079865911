"""Worlds whose best mixture is known in closed form."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import ortho_group

import genmix as gx
from genmix.kernels.balls import Balls, scores_against
from tests.support.helpers import named, orthonormal_blocks

ORDERS = [0.5, 1, 2, 3, math.inf]
TIGHT = gx.Newton(tolerance=1e-12)


def best(arms: Any, objective: gx.Objective, **extra: Any) -> gx.Mixture:
    extra = {key: named(value) for key, value in extra.items()}
    return gx.optimal_mixture(named(arms), objective, solver=TIGHT, **extra)


def weights(mixture: gx.Mixture) -> Any:
    return np.array(list(mixture.weights.values()))


def share(values: Any) -> Any:
    values = np.asarray(values, dtype=float)
    return values / values.sum()


def assert_known(
    mixture: gx.Mixture, alpha: Any, loss: float, within: float = 1e-5, gap: float = 1e-9
) -> None:
    """The loss to ten digits, certified. A gap g leaves the weights of a 1-strongly convex loss free by
    √(2g), 1.4e-6 at the tolerance used here."""
    scale = max(1.0, abs(loss))
    assert mixture.loss == pytest.approx(loss, abs=1e-10 * scale)
    assert mixture.gap <= gap * scale
    assert weights(mixture) == pytest.approx(np.asarray(alpha), abs=within)


# --- disjoint orthonormal blocks ------------------------------------------------------------------
#
# C_α has the eigenvalue α_i/k_i, k_i times, so that every objective on these worlds is a function of
# the weights alone: at order 1 the loss is Σ α_i log(α_i/k_i).

SIZES = (1, 3, 6, 2)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("copies", [1, 4])
@pytest.mark.parametrize("padding", [0, 30])
def test_orthonormal_blocks(order: float, copies: int, padding: int) -> None:
    """α_i = k_i/Σk and Vendi = Σk for every order, above and below the dimension, in any basis."""
    turn = ortho_group.rvs(12 + padding, random_state=1)[:12]
    arms = [np.repeat(block @ turn, copies, axis=0) for block in orthonormal_blocks(SIZES)]
    found = best(arms, gx.Vendi(order))
    assert weights(found) == pytest.approx(share(SIZES), abs=1e-5)
    # Order ∞ is not smooth and ends a little earlier.
    assert found.score == pytest.approx(12, rel=1e-7 if order == math.inf else 1e-9)
    assert [found.single_scores[name] for name in found.weights] == pytest.approx(SIZES, rel=1e-9)


@pytest.mark.parametrize("kernel", [gx.Cosine(), gx.Gaussian(0.05)])
def test_rke_on_orthonormal_blocks(kernel: gx.Kernel) -> None:
    """The Gaussian of two orthonormal vectors at σ = 0.05 is e^−400: the blocks are disjoint again."""
    found = best(orthonormal_blocks(SIZES), gx.RKE(kernel))
    assert_known(found, share(SIZES), 1 / 12)
    assert found.score == pytest.approx(12, rel=1e-9)


@pytest.mark.parametrize("weight", [0.3, 2.0])
def test_fidelity_tilts_the_blocks(weight: float) -> None:
    """α_i ∝ k_i exp(w θ_i), and the least loss is minus the logarithm of the normalizer."""
    arms, levels = orthonormal_blocks(SIZES), np.array([0.9, 0.1, 0.5, 0.0])
    quality = [np.full(k, level) for k, level in zip(SIZES, levels, strict=True)]
    found = best(arms, gx.Vendi() + weight * gx.Quality(), quality=quality)
    tilted = np.array(SIZES) * np.exp(weight * levels)
    assert_known(found, share(tilted), -math.log(tilted.sum()))
    assert found.score["quality"] == pytest.approx(share(tilted) @ levels, rel=1e-5)


@pytest.mark.parametrize("objective", [gx.Precision, gx.Density])
def test_fidelity_to_a_reference_tilts_the_blocks(objective: Any) -> None:
    """All points are √2 apart, and so are the reference points, block 2 itself: their strict balls hold
    each its own point and nothing else. θ is 1 for precision and 1/k for density, or 0."""
    arms = orthonormal_blocks(SIZES)
    found = best(arms, gx.Vendi() + 0.7 * objective(arms[2], k=5))
    level = 1.0 if objective is gx.Precision else 1 / 5
    tilted = np.array(SIZES) * np.exp(0.7 * level * np.array([0, 0, 1, 0]))
    assert_known(found, share(tilted), -math.log(tilted.sum()))


@pytest.mark.parametrize("weight", [0.2, 1.5])
def test_cost_tilts_the_blocks_the_other_way(weight: float) -> None:
    """α_i ∝ k_i exp(−w c_i)."""
    prices = np.array([0.1, 2.0, 1.0, 0.0])
    cost = [np.full(k, price) for k, price in zip(SIZES, prices, strict=True)]
    found = best(orthonormal_blocks(SIZES), gx.Vendi() + weight * gx.Cost(), cost=cost)
    tilted = np.array(SIZES) * np.exp(-weight * prices)
    assert_known(found, share(tilted), -math.log(tilted.sum()))


@pytest.mark.parametrize(
    "objective", [gx.Vendi(), gx.Vendi(kernel=gx.Gaussian(0.05)), gx.InceptionScore()]
)
@pytest.mark.parametrize("price", [20.0, 60.0, 500.0])
def test_a_cost_so_high_that_the_weight_vanishes(objective: gx.Objective, price: float) -> None:
    """The exact weight of arm 1 is 3 exp(−price): the least loss is known, and the gap must not ask for
    the logarithm of a weight that no double could hold."""
    cost = [np.zeros(1), np.full(3, price), np.full(6, 0.5), np.full(2, 2 * price)]
    found = best(orthonormal_blocks(SIZES), objective + gx.Cost(), cost=cost)
    tilted = np.array(SIZES) * np.exp(-np.array([0, price, 0.5, 2 * price]))
    assert_known(found, share(tilted), -math.log(tilted.sum()))


def test_fidelity_at_order_two_fills_like_water() -> None:
    """minimize Σ α_i²/k_i − 1 − w θ·α: α_i = k_i (ν + w θ_i)/2 where that is positive. With these numbers
    ν = (2 − 4·3·0.6 − 4·2·0.5)/5 < 0 over the arms of high θ, and the others get exactly nothing."""
    levels = np.array([0.0, 0.6, 0.0, 0.5])
    quality = [np.full(k, level) for k, level in zip(SIZES, levels, strict=True)]
    found = best(orthonormal_blocks(SIZES), gx.Vendi(2) + 4 * gx.Quality(), quality=quality)
    nu = (2 - 4 * 3 * 0.6 - 4 * 2 * 0.5) / 5
    expected = np.array([0, 3 * (nu + 2.4) / 2, 0, 2 * (nu + 2.0) / 2])
    loss = np.sum(expected**2 / SIZES) - 1 - 4 * levels @ expected
    assert_known(found, expected, loss)
    assert found.weights["arm0"] == found.weights["arm2"] == 0.0


def test_quality_vendi_on_blocks() -> None:
    """minimize Σ α_i log(α_i/k_i) − log(q·α). Stationary: log(α_i/k_i) = λ + q_i/Q with Q = q·α, that is
    α_i ∝ k_i exp(q_i/Q), where Q solves Q = Σ q_i k_i e^{q_i/Q} / Σ k_i e^{q_i/Q}."""
    sizes, levels = np.array(SIZES), np.array([0.9, 0.2, 0.4, 0.05])

    def tilted(mean: float) -> Any:
        return share(sizes * np.exp(levels / mean))

    mean = brentq(lambda q: tilted(q) @ levels - q, 0.05, 0.9, xtol=1e-15)
    expected = tilted(mean)
    quality = [np.full(k, level) for k, level in zip(SIZES, levels, strict=True)]
    found = best(orthonormal_blocks(SIZES), gx.QualityVendi(), quality=quality)
    diversity = -np.sum(expected * np.log(expected / sizes))
    assert_known(found, expected, -diversity - math.log(mean))
    assert found.score == pytest.approx(mean * math.exp(diversity), rel=1e-9)


def test_quality_vendi_of_one_good_arm() -> None:
    """With quality 0 elsewhere Q = q_0 α_0: α_0/k_0 ∝ e^{1/α_0}, so some weight goes to the others."""
    found = best(orthonormal_blocks((2, 5)), gx.QualityVendi(), quality=[np.ones(2), np.zeros(5)])

    def slope(a: float) -> float:
        return math.log(a / 2) - math.log((1 - a) / 5) - 1 / a

    alpha = brentq(slope, 0.05, 0.99, xtol=1e-15)
    loss = alpha * math.log(alpha / 2) + (1 - alpha) * math.log((1 - alpha) / 5) - math.log(alpha)
    assert_known(found, [alpha, 1 - alpha], loss)


# --- Inception Score ------------------------------------------------------------------------------


def test_inception_score_of_disjoint_confident_arms() -> None:
    """Arm i draws one-hot rows over k_i classes of its own: α_i = k_i/Σk, score Σk."""
    found = best(orthonormal_blocks(SIZES), gx.InceptionScore())
    assert_known(found, share(SIZES), -math.log(12))
    assert found.score == pytest.approx(12, rel=1e-9)


def test_inception_score_of_disjoint_unsure_arms() -> None:
    """Arm i's rows are all uniform over its k_i classes: the entropy log k_i of a row takes away what the
    classes give, the loss is Σ α_i log α_i, and m arms count as m."""
    arms = [np.tile(block.mean(0), (4, 1)) for block in orthonormal_blocks(SIZES)]
    found = best(arms, gx.InceptionScore())
    assert_known(found, np.full(4, 0.25), -math.log(4))
    assert found.score == pytest.approx(4, rel=1e-9)


# --- kernel distance over one-hot embeddings ------------------------------------------------------


def one_hot(counts: Any) -> Any:
    return np.repeat(np.eye(len(counts)), counts, axis=0)


def test_one_hot_kernel_distance_finds_the_weights_that_make_the_reference() -> None:
    """KD is ‖Σ α_i P_i − p‖², which is 0 at 0.2 P_0 + 0.5 P_1 + 0.3 P_2 = p."""
    arms = [(5, 5, 0, 0), (0, 2, 6, 2), (0, 0, 0, 10)]
    target = np.array([0.2, 0.5, 0.3]) @ (np.array(arms) / 10)
    found = best(
        [one_hot(a) for a in arms], gx.KernelDistance(one_hot([10, 20, 30, 40]), gx.Cosine())
    )
    assert target == pytest.approx([0.1, 0.2, 0.3, 0.4])
    # A quadratic with least curvature κ leaves √(gap/κ).
    assert_known(found, [0.2, 0.5, 0.3], 0.0, within=1e-4)


def test_one_hot_kernel_distance_outside_the_hull_is_the_projection() -> None:
    """Arms at classes 0 and 1, a reference that is half in class 2: p − P_α is least at (3/8, 5/8)."""
    found = best(np.eye(3)[:2, None, :], gx.KernelDistance(one_hot([1, 3, 4]), gx.Cosine()))
    assert_known(found, [3 / 8, 5 / 8], 0.25 + 2 * 0.25**2)


# --- Fréchet distance -----------------------------------------------------------------------------

STANDARD = (np.zeros(1), np.eye(1))


def two_points(mean: float, deviation: float) -> Any:
    return np.array([[mean - deviation], [mean + deviation]])


@pytest.mark.parametrize(("a", "s"), [(0.5, 0.5), (2.0, 0.3), (0.8, 0.6), (1.0, 0.0)])
def test_frechet_distance_in_one_dimension(a: float, s: float) -> None:
    """Arms at ±a with variance s²: α = ½ and FD = (1 − √(s²+a²))²."""
    found = best([two_points(-a, s), two_points(a, s)], gx.FrechetDistance(STANDARD))
    assert_known(found, [0.5, 0.5], (1 - math.hypot(a, s)) ** 2)


@pytest.mark.parametrize("dimension", [6, 50])
def test_frechet_distance_of_arms_with_directions_of_their_own(dimension: int) -> None:
    """Arm j is ±c_j e_j and the reference N(0, I): FD = Σ α_j c_j² + d − 2 Σ c_j √α_j. Stationary:
    √α_j = c_j/(c_j² − λ), with λ < min c_j² such that Σ α_j = 1. No arm is ever left out."""
    sizes = np.array([0.4, 1.0, 2.5, 1.7])
    arms = [c * np.array([[1.0], [-1.0]]) * np.eye(dimension)[j] for j, c in enumerate(sizes)]

    def roots(multiplier: float) -> Any:
        return sizes / (sizes**2 - multiplier)

    multiplier = brentq(lambda x: np.sum(roots(x) ** 2) - 1, -100, 0.16 - 1e-9, xtol=1e-15)
    alpha = roots(multiplier) ** 2
    loss = alpha @ sizes**2 + dimension - 2 * sizes @ np.sqrt(alpha)
    found = best(arms, gx.FrechetDistance((np.zeros(dimension), np.eye(dimension))))
    assert_known(found, alpha, loss)


# --- published examples ---------------------------------------------------------------------------


def test_the_example_of_the_vendi_score_package() -> None:
    samples = np.array([0, 0, 10, 10, 20, 20], dtype=float)[:, None]
    kernel = lambda x, y: np.exp(-np.abs(x - y.T))  # noqa: E731
    table = gx.score({"all": samples}, gx.Vendi(kernel=kernel))
    # 3 − 4e-9, of which the package prints four digits without rounding up.
    assert math.floor(1e4 * table.pooled["vendi"]) / 1e4 == 2.9999


def test_density_and_coverage_of_two_samples_of_one_law() -> None:
    """A fresh point falls into the ball around one of N points with probability k/N for any law: expected
    density is 1. A ball stays empty if the k nearest of the N−1+M others are all from the N−1."""
    rng = np.random.default_rng(2)
    n, k = 1500, 5
    balls = Balls.around(rng.standard_normal((n, 3)), k)
    found = scores_against(balls, rng.standard_normal((n, 3)))
    empty = math.prod((n - 1 - j) / (2 * n - 1 - j) for j in range(k))
    # Over draws these deviate by 0.018 and 0.006.
    assert found["density"] == pytest.approx(1, abs=0.06)
    assert found["coverage"] == pytest.approx(1 - empty, abs=0.02)


@pytest.mark.drill
def test_the_example_of_the_prdc_package() -> None:
    """10,000 Gaussian points in 1000 dimensions and k = 5 as in the package's example, where 10,000 others
    give P 0.4772 and D 1.0555; 1,000 others here, to be quick: they deviate by 0.02 and 0.09."""
    rng = np.random.default_rng(3)
    balls = Balls.around(rng.standard_normal((10_000, 1000)), 5)
    hits = np.asarray(balls.hits(rng.standard_normal((1000, 1000))))
    assert np.mean(hits > 0) == pytest.approx(0.4772, abs=0.06)
    assert np.mean(hits) / 5 == pytest.approx(1.0555, abs=0.25)


# --- odd arms -------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
def test_a_collapsed_arm_that_repeats_what_another_has_gets_nothing(order: float) -> None:
    """Arm 0 yields only e_1, arm 1 all of e_1…e_5: any weight on arm 0 unbalances arm 1."""
    arms = [np.tile(np.eye(5)[0], (40, 1)), np.tile(np.eye(5), (3, 1))]
    found = best(arms, gx.Vendi(order))
    assert found.weights["arm0"] <= 1e-6
    assert found.score == pytest.approx(5, rel=1e-6)


@pytest.mark.parametrize("copies", [1, 25])
def test_a_collapsed_arm_with_something_new_counts_as_one(copies: int) -> None:
    arms = [np.tile(np.eye(5)[0], (copies, 1)), np.eye(5)[1:]]
    assert_known(best(arms, gx.Vendi()), [0.2, 0.8], -math.log(5))


def test_a_collapsed_arm_shrinks_a_variance_that_is_too_large() -> None:
    """Arm 0 sits on the mean, arm 1 has variance 4: FD = (1 − √(4 α_1))² is 0 at α_1 = ¼."""
    found = best([np.zeros((7, 1)), two_points(0, 2)], gx.FrechetDistance(STANDARD))
    assert_known(found, [0.75, 0.25], 0.0)


@pytest.mark.parametrize(
    "objective",
    [
        gx.Vendi(),
        gx.Vendi(0.5),
        gx.Vendi(2),
        gx.RKE(gx.Gaussian(1.0)),
        gx.KernelDistance(np.eye(3), gx.Gaussian(1.0)),
        gx.FrechetDistance(np.eye(3)),
    ],
)
def test_two_identical_arms_share_the_weight_of_one(objective: gx.Objective) -> None:
    rng = np.random.default_rng(4)
    one, two = rng.standard_normal((6, 3)), 0.5 * rng.standard_normal((9, 3)) + 1
    alone, doubled = best([one, two], objective), best([one, two, two], objective)
    assert doubled.loss == pytest.approx(alone.loss, abs=1e-9)
    assert doubled.gap <= 1e-8
    total = doubled.weights["arm1"] + doubled.weights["arm2"]
    assert total == pytest.approx(alone.weights["arm1"], abs=1e-4)
    # Either copy can be left out: neither is active alone.
    assert "arm1" not in doubled.active
    assert "arm2" not in doubled.active


@pytest.mark.parametrize(
    "objective",
    [gx.Vendi(), gx.Vendi(math.inf), gx.FrechetDistance(np.eye(3)), gx.InceptionScore()],
)
def test_a_single_arm_is_the_mixture(objective: gx.Objective) -> None:
    rows = np.random.default_rng(5).dirichlet(np.ones(3), 4)
    found = best({"only": rows}, objective)
    assert found.weights == {"only": 1.0}
    assert found.gap == 0
    assert found.score == found.single_scores["only"]
    assert found.leave_one_out == {"only": math.inf}


@pytest.mark.parametrize("m", [80, pytest.param(200, marks=pytest.mark.drill)])
def test_many_blocks(m: int) -> None:
    sizes = np.random.default_rng(6).integers(1, 4, m)
    arms = [np.pad(x, ((0, 0), (0, 10))) for x in orthonormal_blocks(sizes)]
    assert_known(best(arms, gx.Vendi()), share(sizes), -math.log(sizes.sum()))


def test_two_hundred_arms_of_forty_kinds() -> None:
    """Five copies of each block: only the sum of their weights is determined."""
    sizes = np.random.default_rng(7).integers(1, 3, 40)
    found = best([block for block in orthonormal_blocks(sizes) for _ in range(5)], gx.Vendi())
    assert found.loss == pytest.approx(-math.log(sizes.sum()), abs=1e-10)
    assert weights(found).reshape(40, 5).sum(1) == pytest.approx(share(sizes), abs=1e-5)


def test_two_hundred_classes_reproduce_any_reference() -> None:
    counts = np.random.default_rng(7).integers(1, 9, 200)
    found = best(np.eye(200)[:, None, :], gx.KernelDistance(one_hot(counts), gx.Cosine()))
    assert_known(found, share(counts), 0.0, within=1e-4)


def test_two_hundred_points_reproduce_a_mean_and_a_variance() -> None:
    """Σ α x = 0 and Σ α x² = 1 leave FD = 0, in many ways."""
    points = np.random.default_rng(8).uniform(-3, 3, 200)
    found = best(points[:, None, None], gx.FrechetDistance(STANDARD))
    assert found.loss == pytest.approx(0, abs=1e-9)
    assert weights(found) @ points == pytest.approx(0, abs=1e-4)
    assert weights(found) @ points**2 == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("order", ORDERS)
def test_one_sample_an_arm(order: float) -> None:
    found = best(np.eye(7)[:, None, :], gx.Vendi(order))
    assert weights(found) == pytest.approx(np.full(7, 1 / 7), abs=1e-5)
    assert found.score == pytest.approx(7, rel=1e-8)


def test_one_sample_an_arm_under_an_unbiased_estimator_is_an_error() -> None:
    with pytest.raises(gx.InputError, match="arm0"):
        best(np.eye(3)[:, None, :], gx.RKE(unbiased=True))


@pytest.mark.parametrize("shift", [0.0, 3.0])
def test_constant_coordinates_add_their_distance_and_nothing_else(shift: float) -> None:
    """Coordinates in which neither arms nor reference vary: FD gains shift² each, at the same weights."""
    rng = np.random.default_rng(9)
    arms = [rng.standard_normal((12, 3)) + 1, 2 * rng.standard_normal((15, 3)) - 1]
    reference = rng.standard_normal((30, 3))
    plain = best(arms, gx.FrechetDistance(reference))
    padded = best(
        [np.hstack([x, np.full((len(x), 4), 1.7 + shift)]) for x in arms],
        gx.FrechetDistance(np.hstack([reference, np.full((30, 4), 1.7)])),
    )
    assert_known(padded, weights(plain), plain.loss + 4 * shift**2)


def test_a_coordinate_in_which_only_the_reference_varies_adds_its_variance() -> None:
    rng = np.random.default_rng(10)
    arms = [rng.standard_normal((12, 3)) + 1, 2 * rng.standard_normal((15, 3)) - 1]
    reference = rng.standard_normal((30, 4))
    plain = best(arms, gx.FrechetDistance(reference[:, :3]))
    padded = best(
        [np.hstack([x, np.full((len(x), 1), reference[:, 3].mean())]) for x in arms],
        gx.FrechetDistance(reference),
    )
    # The other coordinates are correlated with the last one in the sample; its residual variance is
    # not what counts: Σ_α is 0 there, so Tr(Σ^½ Σ_0 Σ^½)^½ sees the first three alone.
    # In Σ_0^½ Σ_α Σ_0^½ that direction is an eigenvalue of 0 up to rounding, whose root the gap includes.
    assert_known(padded, weights(plain), plain.loss + reference[:, 3].var(), gap=1e-7)


def test_arms_that_are_all_one_point() -> None:
    """Σ_α = 0 for every mixture: FD is the constant ‖x−μ_0‖² + Tr Σ_0, and every mixture is optimal."""
    reference = np.random.default_rng(11).standard_normal((5, 2))
    expected = np.sum((1 - reference.mean(0)) ** 2) + reference.var(0).sum()
    found = best([np.ones((n, 2)) for n in (1, 3, 7, 5)], gx.FrechetDistance(reference))
    assert found.loss == pytest.approx(expected, rel=1e-12)
    assert found.gap <= 1e-8
