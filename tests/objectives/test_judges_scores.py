"""Scores against independent implementations, or against the textbook formula."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import ot
import prdc
import pytest
import scipy.linalg
import scipy.special
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import polynomial_kernel
from vendi_score import vendi

import genmix as gx
from tests.support.helpers import gaussian_arms, loss_of, named, pool_of

pytestmark = pytest.mark.filterwarnings("ignore:Please import `csr_matrix`:DeprecationWarning")

WEIGHTS = np.array([0.5, 0.2, 0.3])


def sample_weights(arms: list[Any], alpha: Any) -> Any:
    """The weight of each sample of the mixture: α_i/n_i."""
    return np.concatenate([np.full(len(x), a / len(x)) for x, a in zip(arms, alpha, strict=True)])


def mixture_score(
    arms: list[Any], objective: gx.Objective, alpha: Any = WEIGHTS, **extra: Any
) -> Any:
    """The score of a mixture through the public table."""
    weights = dict(zip(named(arms), alpha, strict=True))
    extra = {key: named(value) for key, value in extra.items()}
    return gx.score(named(arms), objective, weights=weights, **extra).mixture[objective.name]


# --- Fréchet distance ---------------------------------------------------------------------------


def weighted_moments(arms: list[Any], alpha: Any, ddof: int = 0) -> tuple[Any, Any]:
    rows, weights = np.concatenate(arms), sample_weights(arms, alpha)
    return weights @ rows, np.cov(rows.T, aweights=weights, ddof=ddof)


def textbook_frechet(mean: Any, cov: Any, mean_0: Any, cov_0: Any) -> float:
    root = scipy.linalg.sqrtm(cov_0 @ cov)
    return float(np.sum((mean - mean_0) ** 2) + np.trace(cov + cov_0 - 2 * np.real(root)))


def singular_frechet(arms: list[Any], alpha: Any, reference: Any) -> float:
    """With A and B the weighted, centered samples (Σ = AᵀA, Σ_0 = BᵀB), Tr(Σ_0^½ Σ Σ_0^½)^½ is the
    nuclear norm of ABᵀ: no root of a singular matrix is taken, which sqrtm could not do."""
    rows, weights = np.concatenate(arms), sample_weights(arms, alpha)
    mean, mean_0 = weights @ rows, reference.mean(0)
    a = np.sqrt(weights)[:, None] * (rows - mean)
    b = (reference - mean_0) / math.sqrt(len(reference))
    overlap = np.linalg.svd(a @ b.T, compute_uv=False).sum()
    return float(np.sum((mean - mean_0) ** 2) + np.sum(a * a) + np.sum(b * b) - 2 * overlap)


@pytest.mark.parametrize("ddof", [0, 1])
def test_frechet_distance_is_the_textbook_one_above_the_dimension(ddof: int) -> None:
    rng = np.random.default_rng(1)
    arms, reference = gaussian_arms(rng, (30, 50, 80), 12), rng.standard_normal((90, 12))
    moments = weighted_moments(arms, WEIGHTS, ddof)
    expected = textbook_frechet(*moments, reference.mean(0), np.cov(reference.T, ddof=ddof))
    found = mixture_score(arms, gx.FrechetDistance(reference, ddof=ddof))
    assert found == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("ddof", [0, 1])
def test_frechet_distance_is_pots_bures_wasserstein_squared(ddof: int) -> None:
    rng = np.random.default_rng(2)
    arms, reference = gaussian_arms(rng, (20, 25, 35), 9), 2 * rng.standard_normal((40, 9)) + 1
    mean, cov = weighted_moments(arms, WEIGHTS, ddof)
    cov_0 = np.cov(reference.T, ddof=ddof)
    distance = ot.gaussian.bures_wasserstein_distance(mean, reference.mean(0), cov, cov_0)
    found = mixture_score(arms, gx.FrechetDistance(reference, ddof=ddof))
    assert found == pytest.approx(distance**2, rel=1e-8)


@pytest.mark.parametrize("sizes", [(3, 4, 5), (1, 1, 6), (10, 20, 29)])
@pytest.mark.parametrize("reference_size", [7, 200])
def test_frechet_distance_below_the_dimension(sizes: Any, reference_size: int) -> None:
    rng = np.random.default_rng(3)
    arms = gaussian_arms(rng, sizes, 60)
    reference = rng.standard_normal((reference_size, 60)) + 0.3
    expected = singular_frechet(arms, WEIGHTS, reference)
    assert mixture_score(arms, gx.FrechetDistance(reference)) == pytest.approx(expected, rel=1e-8)


def test_frechet_distance_of_few_points_through_dense_moments() -> None:
    """Many samples on a few points: N > d, and every covariance is singular."""
    rng = np.random.default_rng(4)
    arms = [np.repeat(x, 30, axis=0) for x in gaussian_arms(rng, (2, 3, 4), 20)]
    reference = rng.standard_normal((40, 20))
    expected = singular_frechet(arms, WEIGHTS, reference)
    assert mixture_score(arms, gx.FrechetDistance(reference)) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("ddof", [0, 1])
def test_frechet_distance_of_the_pooled_samples_uses_their_covariance(ddof: int) -> None:
    rng = np.random.default_rng(5)
    arms, reference = gaussian_arms(rng, (15, 30, 45), 8), rng.standard_normal((50, 8))
    rows = np.concatenate(arms)
    moments = (rows.mean(0), np.cov(rows.T, ddof=ddof))
    expected = textbook_frechet(*moments, reference.mean(0), np.cov(reference.T, ddof=ddof))
    table = gx.score(named(arms), gx.FrechetDistance(reference, ddof=ddof))
    assert table.pooled["frechet_distance"] == pytest.approx(expected, rel=1e-8)


def test_frechet_distance_keeps_its_digits_under_a_large_common_mean() -> None:
    rng = np.random.default_rng(6)
    arms, reference = gaussian_arms(rng, (30, 40, 50), 6), rng.standard_normal((60, 6))
    near = mixture_score(arms, gx.FrechetDistance(reference))
    far = mixture_score([x + 2.0**20 for x in arms], gx.FrechetDistance(reference + 2.0**20))
    # Adding 2^20 itself rounds the samples at 1e-10.
    assert far == pytest.approx(near, rel=1e-8)


def as_tuple(reference: Any, folder: Any) -> Any:
    return reference.mean(0), np.cov(reference.T), len(reference)


def as_npy(reference: Any, folder: Any) -> Any:
    np.save(folder / "reference.npy", reference)
    return folder / "reference.npy"


def as_npz(name: str) -> Any:
    def write(reference: Any, folder: Any) -> Any:
        np.savez(folder / "reference.npz", **{name: reference})
        return str(folder / "reference.npz")

    return write


def as_statistics(reference: Any, folder: Any) -> Any:
    stats = {"mu": reference.mean(0), "sigma": np.cov(reference.T), "n": len(reference)}
    np.savez(folder / "stats.npz", **stats)
    return folder / "stats.npz"


FORMS = [
    pytest.param(as_tuple, id="tuple"),
    pytest.param(as_npy, id="npy"),
    pytest.param(as_npz("reps"), id="dgm-eval"),
    pytest.param(as_npz("feats"), id="clean-fid"),
    pytest.param(as_npz("features"), id="features"),
    pytest.param(as_npz("ffhq_features"), id="mixture-ucb"),
    pytest.param(as_statistics, id="statistics"),
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ddof", [0, 1])
def test_a_reference_means_the_same_in_every_form(form: Any, ddof: int, tmp_path: Any) -> None:
    rng = np.random.default_rng(7)
    arms, reference = gaussian_arms(rng, (10, 20, 30), 5), rng.standard_normal((25, 5))
    expected = mixture_score(arms, gx.FrechetDistance(reference, ddof=ddof))
    found = mixture_score(arms, gx.FrechetDistance(form(reference, tmp_path), ddof=ddof))
    assert found == pytest.approx(expected, rel=1e-12)


def test_moments_without_a_count_are_taken_as_they_are() -> None:
    rng = np.random.default_rng(8)
    arms, reference = gaussian_arms(rng, (20, 20, 20), 4), rng.standard_normal((30, 4))
    cov_0 = np.cov(reference.T)
    expected = textbook_frechet(*weighted_moments(arms, WEIGHTS), reference.mean(0), cov_0)
    found = mixture_score(arms, gx.FrechetDistance((reference.mean(0), cov_0)))
    assert found == pytest.approx(expected, rel=1e-8)


def test_frechet_distance_to_itself_is_zero() -> None:
    rng = np.random.default_rng(9)
    rows = rng.standard_normal((50, 6))
    found = mixture_score([rows[:20], rows[20:]], gx.FrechetDistance(rows), [0.4, 0.6])
    assert found == pytest.approx(0, abs=1e-12 * 6)


def test_an_unbiased_covariance_of_one_sample_is_refused_in_words() -> None:
    """1/(n−1) does not exist for n = 1: an arm of one sample, and a reference of one."""
    rng = np.random.default_rng(10)
    arms, reference = (
        {"a": rng.standard_normal((1, 3)), "b": rng.standard_normal((9, 3))},
        np.eye(3),
    )
    with pytest.raises(gx.InputError):
        gx.score(arms, gx.FrechetDistance(reference, ddof=1))
    with pytest.raises(gx.InputError):
        gx.score({"b": arms["b"]}, gx.FrechetDistance(reference[:1], ddof=1))


# --- Vendi --------------------------------------------------------------------------------------

ORDERS = [0.5, 1, 1.5, 2, 5, math.inf]


def cosine_gram(rows: Any) -> Any:
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit @ unit.T


def gaussian_gram(sigma: float) -> Any:
    return lambda rows: np.exp(-cdist(rows, rows, "sqeuclidean") / (2 * sigma**2))


def laplace(x: Any, y: Any) -> Any:
    """A custom kernel with k(x, x) = 4."""
    return 4 * np.exp(-cdist(x, y, "cityblock") / 3)


def judged_vendi(gram: Any, order: float, weights: Any) -> float:
    return float(
        vendi.score_K(gram, q="inf" if order == math.inf else order, p=weights, normalize=True)
    )


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("kernel", "gram", "dimension"),
    [
        pytest.param(gx.Cosine(), cosine_gram, 40, id="cosine"),
        pytest.param(gx.Gaussian(2.0), gaussian_gram(2.0), 5, id="gaussian"),
        pytest.param(laplace, lambda rows: laplace(rows, rows), 5, id="own"),
    ],
)
def test_vendi_of_a_mixture(order: float, kernel: Any, gram: Any, dimension: int) -> None:
    rng = np.random.default_rng(11)
    arms = gaussian_arms(rng, (6, 10, 14), dimension)
    rows = np.concatenate(arms)
    expected = judged_vendi(gram(rows), order, sample_weights(arms, WEIGHTS))
    assert mixture_score(arms, gx.Vendi(order, kernel)) == pytest.approx(expected, rel=1e-9)


def test_vendi_of_clusters_a_thousand_bandwidths_apart() -> None:
    rng = np.random.default_rng(19)
    arms = [rng.standard_normal((n, 3)) + offset for n, offset in ((6, 0), (10, 1000), (14, -1000))]
    gram = gaussian_gram(1.0)(np.concatenate(arms))
    expected = judged_vendi(gram, 1, sample_weights(arms, WEIGHTS))
    found = mixture_score(arms, gx.Vendi(kernel=gx.Gaussian(1.0)))
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("order", ORDERS)
def test_vendi_above_the_dimension(order: float) -> None:
    """The judge gets the d×d moment, of which it takes d·S/d: the spectrum of the kernel matrix without
    the N−d zeros, whose rounding would dominate small orders."""
    rng = np.random.default_rng(12)
    arms = gaussian_arms(rng, (30, 60, 90), 8)
    unit = np.concatenate([x / np.linalg.norm(x, axis=1, keepdims=True) for x in arms])
    moment = unit.T @ (sample_weights(arms, WEIGHTS)[:, None] * unit)
    expected = vendi.score_K(8 * moment, q="inf" if order == math.inf else order)
    assert mixture_score(arms, gx.Vendi(order)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("frequencies", [8, 64])
def test_vendi_with_random_features(order: float, frequencies: int) -> None:
    """N = 30 samples lie above 16 columns and below 128."""
    rng = np.random.default_rng(13)
    arms = gaussian_arms(rng, (6, 10, 14), 5)
    pool = pool_of(gx.Vendi(order, gx.Gaussian(2.0, features=frequencies)), arms)
    phase = np.concatenate(arms) / 2.0 @ pool.objective.kernel.frequencies
    columns = np.hstack([np.cos(phase), np.sin(phase)]) / math.sqrt(frequencies)
    weights = sample_weights(arms, WEIGHTS)
    if len(columns) < columns.shape[1]:
        expected = judged_vendi(columns @ columns.T, order, weights)
    else:
        moment = columns.T @ (weights[:, None] * columns)
        expected = vendi.score_K(len(moment) * moment, q="inf" if order == math.inf else order)
    assert float(pool.score(WEIGHTS)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("order", ORDERS)
def test_vendi_of_the_pooled_samples_is_that_of_their_kernel_matrix(order: float) -> None:
    rng = np.random.default_rng(14)
    arms = gaussian_arms(rng, (5, 9, 13), 30)
    expected = judged_vendi(cosine_gram(np.concatenate(arms)), order, None)
    table = gx.score(named(arms), gx.Vendi(order))
    assert table.pooled["vendi"] == pytest.approx(expected, rel=1e-9)
    singles = [judged_vendi(cosine_gram(x), order, None) for x in arms]
    assert [row["vendi"] for row in table.arms.values()] == pytest.approx(singles, rel=1e-9)


@pytest.mark.parametrize("order", [0.999999, 1.000001])
def test_vendi_is_continuous_in_its_order(order: float) -> None:
    arms = gaussian_arms(np.random.default_rng(15), (6, 10, 14), 5)
    near, at = (mixture_score(arms, gx.Vendi(q)) for q in (order, 1))
    # d log Vendi/dq is minus half the variance of −log λ under λ: less than 1 here.
    assert near == pytest.approx(at, rel=1e-6)
    losses = [loss_of(gx.Vendi(q), arms).value(WEIGHTS) for q in (order, 1)]
    assert losses[0] == pytest.approx(losses[1], rel=3e-6)


@pytest.mark.parametrize(
    "kernel", [gx.Cosine(), gx.Gaussian(2.0), gx.Gaussian(2.0, features=9), laplace]
)
def test_rke_is_vendi_of_order_two(kernel: Any) -> None:
    arms = gaussian_arms(np.random.default_rng(16), (6, 10, 14), 5)
    expected = mixture_score(arms, gx.Vendi(2, kernel))
    assert mixture_score(arms, gx.RKE(kernel)) == pytest.approx(expected, rel=1e-12)


def test_rke_is_the_judges_order_two() -> None:
    arms = gaussian_arms(np.random.default_rng(17), (6, 10, 14), 5)
    gram = gaussian_gram(1.5)(np.concatenate(arms))
    expected = judged_vendi(gram, 2, sample_weights(arms, WEIGHTS))
    assert mixture_score(arms, gx.RKE(gx.Gaussian(1.5))) == pytest.approx(expected, rel=1e-9)


def test_quality_vendi_is_mean_quality_times_vendi() -> None:
    rng = np.random.default_rng(18)
    arms = gaussian_arms(rng, (6, 10, 14), 30)
    quality = [rng.uniform(0, 2, len(x)) for x in arms]
    weights = sample_weights(arms, WEIGHTS)
    diversity = judged_vendi(cosine_gram(np.concatenate(arms)), 1, weights)
    expected = weights @ np.concatenate(quality) * diversity
    found = mixture_score(arms, gx.QualityVendi(), quality=quality)
    assert found == pytest.approx(expected, rel=1e-9)


# --- precision, recall, density, coverage ---------------------------------------------------------


def random_sets(rng: np.random.Generator) -> tuple[Any, Any]:
    return rng.standard_normal((60, 4)), 1.2 * rng.standard_normal((75, 4)) + 0.3


def duplicated_sets(rng: np.random.Generator) -> tuple[Any, Any]:
    """Points on a coarse dyadic grid, each up to nine times, some in both sets: all distances exact."""
    points = rng.integers(-8, 9, (25, 3)) / 4
    return points[rng.integers(0, 15, 70)], points[rng.integers(8, 25, 90)]


def grid_sets(rng: np.random.Generator) -> tuple[Any, Any]:
    return rng.integers(0, 4, (80, 2)).astype(float), rng.integers(-1, 5, (60, 2)).astype(float)


def wide_grid_sets(rng: np.random.Generator) -> tuple[Any, Any]:
    return rng.integers(0, 3, (50, 30)).astype(float), rng.integers(0, 3, (40, 30)).astype(float)


def far_grid_sets(rng: np.random.Generator) -> tuple[Any, Any]:
    """Ties far from the origin, where a matrix product alone would lose them; integers stay exact."""
    real, fake = grid_sets(rng)
    return real + 100_000, fake + 100_000


SETS = [random_sets, duplicated_sets, grid_sets, wide_grid_sets, far_grid_sets]


@pytest.mark.parametrize("sets", SETS)
@pytest.mark.parametrize("k", [1, 3, 5, 10])
def test_prdc_exactly(sets: Any, k: int) -> None:
    for seed in range(4):
        real, fake = sets(np.random.default_rng(seed))
        judged = prdc.compute_prdc(real, fake, k)
        row = gx.score({"fake": fake}, gx.Precision(real, k), k=k).arms["fake"]
        for name in ("precision", "recall", "coverage"):
            assert row[name] == judged[name], name
        # The judge multiplies by 1/k where genmix divides by k: one rounding apart, the same count.
        assert row["density"] == pytest.approx(judged["density"], rel=1e-15)


@pytest.mark.parametrize("sets", SETS)
def test_precision_and_density_as_objectives_are_the_judges_per_arm(sets: Any) -> None:
    rng = np.random.default_rng(20)
    real, fake = sets(rng)
    arms = [fake[:20], fake[20:27], fake[27:]]
    judged = [prdc.compute_prdc(real, arm, 5) for arm in arms]
    for objective in (gx.Precision(real), gx.Density(real)):
        singles = np.array([scores[objective.name] for scores in judged])
        found = mixture_score(arms, objective)
        assert found == pytest.approx(WEIGHTS @ singles, rel=1e-14)
        assert loss_of(objective, arms).singles() == pytest.approx(-singles, rel=1e-14)


def test_density_can_exceed_one() -> None:
    rng = np.random.default_rng(21)
    real = rng.standard_normal((60, 3))
    crowded = 0.01 * rng.standard_normal((20, 3))
    judged = prdc.compute_prdc(real, crowded, 5)["density"]
    assert judged > 1
    assert mixture_score([crowded], gx.Density(real), [1.0]) == pytest.approx(judged, rel=1e-15)


def test_the_ball_is_strict() -> None:
    """Reference 0, 1, 3 with k = 1: radii 1, 1, 2. The point 5 lies on the last sphere, 4.9 inside."""
    real = np.array([[0.0], [1.0], [3.0]])
    row = gx.score({"a": [[5.0], [-1.0]]}, gx.Precision(real, k=1), k=1).arms["a"]
    assert row["precision"] == 0
    row = gx.score({"a": [[4.9], [-1.0]]}, gx.Precision(real, k=1), k=1).arms["a"]
    assert row["precision"] == 0.5


# --- Inception Score ------------------------------------------------------------------------------


def test_inception_score_directly() -> None:
    rng = np.random.default_rng(22)
    arms = [rng.dirichlet(np.full(6, shape), n) for shape, n in ((0.1, 8), (1, 12), (5, 20))]
    arms[0][0] = np.eye(6)[2]  # 0 log 0 = 0
    rows, weights = np.concatenate(arms), sample_weights(arms, WEIGHTS)
    marginal = weights @ rows
    divergence = scipy.special.rel_entr(rows, marginal).sum(1)
    expected = math.exp(weights @ divergence)
    assert mixture_score(arms, gx.InceptionScore()) == pytest.approx(expected, rel=1e-12)


# --- kernel distance ------------------------------------------------------------------------------


def looped_kernel_distance(kernel: Any, arms: list[Any], reference: Any, unbiased: bool) -> float:
    """Every pair of samples, one by one; within a set, self-pairs are left out when unbiased."""

    def mean(x: Any, y: Any, within: bool) -> float:
        values = [
            kernel(a[None], b[None]).item()
            for (i, a), (j, b) in itertools.product(enumerate(x), enumerate(y))
            if not (within and unbiased and i == j)
        ]
        return math.fsum(values) / len(values)

    total = mean(reference, reference, True)
    for i, x in enumerate(arms):
        total -= 2 * WEIGHTS[i] * mean(x, reference, False)
        for j, y in enumerate(arms):
            total += WEIGHTS[i] * WEIGHTS[j] * mean(x, y, i == j)
    return total


KERNELS = [
    pytest.param(
        gx.Gaussian(1.7), lambda x, y: np.exp(-(cdist(x, y) ** 2) / (2 * 1.7**2)), id="gaussian"
    ),
    pytest.param(gx.Cosine(), lambda x, y: 1 - cdist(x, y, "cosine"), id="cosine"),
    pytest.param(gx.Polynomial(), polynomial_kernel, id="kid"),
    pytest.param(
        gx.Polynomial(2, gamma=0.3, coef0=2.0),
        lambda x, y: polynomial_kernel(x, y, degree=2, gamma=0.3, coef0=2.0),
        id="polynomial",
    ),
    pytest.param(laplace, laplace, id="own"),
]


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize(("kernel", "judge"), KERNELS)
def test_kernel_distance_pair_by_pair(kernel: Any, judge: Any, unbiased: bool) -> None:
    rng = np.random.default_rng(23)
    arms, reference = gaussian_arms(rng, (3, 5, 7), 4), rng.standard_normal((6, 4))
    expected = looped_kernel_distance(judge, arms, reference, unbiased)
    objective = gx.KernelDistance(reference, kernel, unbiased=unbiased)
    assert mixture_score(arms, objective) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("unbiased", [False, True])
def test_kernel_distance_with_random_features_is_that_of_the_feature_kernel(unbiased: bool) -> None:
    rng = np.random.default_rng(24)
    arms, reference = gaussian_arms(rng, (3, 5, 7), 4), rng.standard_normal((6, 4))
    objective = gx.KernelDistance(reference, gx.Gaussian(2.0, features=16), unbiased)
    omega = pool_of(objective, arms).objective.kernel.frequencies / 2.0

    def judge(x: Any, y: Any) -> Any:  # cos(a−b) = cos a cos b + sin a sin b
        return np.cos((x[:, None] - y[None, :]) @ omega).mean(-1)

    expected = looped_kernel_distance(judge, arms, reference, unbiased)
    assert mixture_score(arms, objective) == pytest.approx(expected, rel=1e-11)


def test_self_pairs_count_once() -> None:
    """Sets of two orthogonal points: E k(X,X') is ½ with self-pairs and 0 without, on both sides."""
    arm, reference = np.eye(4)[:2], np.eye(4)[2:]
    biased = gx.KernelDistance(reference, gx.Cosine())
    unbiased = gx.KernelDistance(reference, gx.Cosine(), unbiased=True)
    assert float(pool_of(biased, [arm]).score(np.ones(1))) == pytest.approx(0.5 + 0.5)
    assert float(pool_of(unbiased, [arm]).score(np.ones(1))) == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("kernel", [gx.Gaussian(1.7), gx.Cosine(), gx.Gaussian(1.7, features=8)])
def test_rke_pair_by_pair(kernel: Any, unbiased: bool) -> None:
    arms = gaussian_arms(np.random.default_rng(25), (3, 5, 7), 4)
    pool = pool_of(gx.RKE(kernel, unbiased=unbiased), arms)
    fixed = pool.objective.kernel
    total = 0.0
    for (i, x), (j, y) in itertools.product(enumerate(arms), repeat=2):
        square = np.asarray(fixed(x, y)) ** 2
        if i == j and unbiased:
            square = square[~np.eye(len(x), dtype=bool)]
        total += WEIGHTS[i] * WEIGHTS[j] * square.mean()
    assert float(pool.score(WEIGHTS)) == pytest.approx(1 / total, rel=1e-11)


# --- means of numbers -----------------------------------------------------------------------------


def test_quality_and_cost_are_means_over_the_mixture() -> None:
    rng = np.random.default_rng(26)
    arms = gaussian_arms(rng, (3, 5, 7), 2)
    numbers = [rng.uniform(0, 9, len(x)) for x in arms]
    expected = sample_weights(arms, WEIGHTS) @ np.concatenate(numbers)
    assert mixture_score(arms, gx.Quality(), quality=numbers) == pytest.approx(expected, rel=1e-14)
    assert mixture_score(arms, gx.Cost(), cost=numbers) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("order", [1 - 1e-9, 1 + 1e-9, 1.4, 1.6, 6.0, 10.0, 50.0])
def test_orders_near_one_and_large_orders_keep_their_digits(order: float) -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((60, 20))
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    spectrum = np.linalg.eigvalsh(unit.T @ unit / 60)
    # The Rényi entropy in logarithms; at 1 ± 1e-9 it differs from Shannon's by some 1e-9.
    if abs(order - 1) < 1e-6:
        expected = np.exp(-np.sum(spectrum * np.log(spectrum)))
    else:
        logs = order * np.log(spectrum)
        expected = np.exp((logs.max() + np.log(np.exp(logs - logs.max()).sum())) / (1 - order))
    found = gx.score({"a": rows}, gx.Vendi(order)).pooled["vendi"]
    assert float(found) == pytest.approx(expected, rel=1e-8 if abs(order - 1) < 1e-6 else 1e-12)


@pytest.mark.parametrize("order", [5, 6, 10, 50])
def test_large_orders_find_the_weights_of_orthonormal_blocks(order: float) -> None:
    arms = {"a": np.eye(20)[:4], "b": np.eye(20)[4:10], "c": np.eye(20)[10:]}
    found = gx.optimal_mixture(arms, gx.Vendi(order))
    assert float(found.score) == pytest.approx(20, rel=1e-6)
    assert list(found.weights.values()) == pytest.approx([0.2, 0.3, 0.5], abs=1e-4)


def test_a_file_of_dgm_eval_is_read_past_its_pickled_member(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).standard_normal((9, 3))
    path = tmp_path / "reps_real.npz"
    np.savez(path, model="dinov2", reps=rows, hparams=np.array({"a": 1}, dtype=object))
    assert np.array_equal(gx.read_features(path).points, rows)
