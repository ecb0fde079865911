"""Kernels: their closed forms, feature maps, bandwidths, and how they print and compare."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist, pdist
from sklearn.metrics.pairwise import cosine_similarity, polynomial_kernel, rbf_kernel

import genmix as gx
from genmix.kernels import balls, blocks, distances
from genmix.kernels.distances import median_distance
from genmix.kernels.kernels import Custom, Normalised, as_kernel
from tests.support.helpers import loss_of, named, pool_of


def batches(d: int = 4) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    return rng.standard_normal((7, d)) + 0.5, 1.5 * rng.standard_normal((5, d))


def min_kernel(x: Any, y: Any) -> Any:
    """Positive semidefinite on positive numbers, with k(x, x) = Σx."""
    return np.minimum(x[:, None, :], y[None, :, :]).sum(-1)


# --- closed forms ---------------------------------------------------------------------------------

CLOSED = [
    pytest.param(gx.Cosine(), cosine_similarity, id="cosine"),
    pytest.param(gx.Gaussian(0.7), lambda x, y: rbf_kernel(x, y, 1 / (2 * 0.7**2)), id="gaussian"),
    pytest.param(gx.Polynomial(), polynomial_kernel, id="kid"),
    pytest.param(
        gx.Polynomial(5, 0.2, 0.0), lambda x, y: polynomial_kernel(x, y, 5, 0.2, 0.0), id="degree 5"
    ),
    pytest.param(Custom(min_kernel), min_kernel, id="own"),
]


@pytest.mark.parametrize(("kernel", "judge"), CLOSED)
def test_a_kernel_is_its_formula(kernel: gx.Kernel, judge: Any) -> None:
    x, y = (np.abs(z) for z in batches())
    assert kernel(x, y) == pytest.approx(judge(x, y), rel=1e-12)
    assert kernel.diagonal(x) == pytest.approx(np.diag(judge(x, x)), rel=1e-12)


@pytest.mark.parametrize("columns", [1, 48, 50])
@pytest.mark.parametrize("rows", [0, 1, 2, 3, 8, 9])
def test_a_block_can_have_any_shape(
    rows: int, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The product takes other forms for few rows and many columns."""
    for name, value in {"WIDE": 1, "PART_VALUES": 24}.items():
        monkeypatch.setattr(blocks, name, value)
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((rows, 5)), rng.standard_normal((columns, 5))
    block = gx.Gaussian(2.0)(x, y)
    assert block.shape == (rows, columns)
    assert block == pytest.approx(np.exp(-(cdist(x, y) ** 2) / 8), rel=1e-13)
    cubes = gx.Polynomial(gamma=0.2)(x, y)
    assert cubes == pytest.approx((0.2 * x @ y.T + 1) ** 3, rel=1e-12, abs=1e-13)


def test_the_gaussian_of_close_points_that_are_far_from_the_origin() -> None:
    """Distances come from a matrix product: it must not be the distance from the origin that rounds."""
    x, y = batches()
    near, away = gx.Gaussian(1.0)(x, y), gx.Gaussian(1.0)(x + 2.0**24, y + 2.0**24)
    # Adding 2^24 itself rounds a coordinate at 2^-29, of which a distance of ~4 makes 1e-8.
    assert away == pytest.approx(near, rel=1e-7)


@pytest.mark.parametrize("size", [1e-200, 1e-160, 1.0, 1e150])
def test_cosine_does_not_see_the_length(size: float) -> None:
    x, y = batches()
    assert gx.Cosine()(size * x, y) == pytest.approx(gx.Cosine()(x, y), rel=1e-14)


@pytest.mark.parametrize("columns", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("convert", [np.asarray, torch.from_numpy])
def test_cosine_names_the_first_zero_vector(columns: int, convert: Any) -> None:
    x = np.tile(np.eye(columns), (3, 1))  # most rows begin with zeros
    gx.Cosine().check(convert(x), "arm 'a'")
    x[[5 % len(x), len(x) - 1]] = -0.0
    with pytest.raises(gx.InputError, match=f"arm 'a', sample {min(5 % len(x), len(x) - 1)}: "):
        gx.Cosine().check(convert(x), "arm 'a'")


@pytest.mark.parametrize("kernel", [param.values[0] for param in CLOSED])
def test_numpy_and_torch_agree(kernel: gx.Kernel) -> None:
    x, y = (np.abs(z) for z in batches())
    if isinstance(kernel, Custom):
        kernel = Custom(lambda a, b: (a[:, None, :] * b[None, :, :]).sum(-1))
    found = kernel(torch.from_numpy(x), torch.from_numpy(y))
    assert isinstance(found, torch.Tensor)
    assert found.dtype == torch.float64
    assert found.numpy() == pytest.approx(np.asarray(kernel(x, y)), rel=1e-13)


def test_only_some_kernels_have_a_feature_map() -> None:
    x, y = batches()
    assert gx.Cosine().columns(4) == 4
    assert gx.Gaussian(1.0, features=9).columns(4) == 18
    for kernel in (gx.Gaussian(1.0), gx.Polynomial(), Custom(min_kernel)):
        assert kernel.columns(4) is None
        with pytest.raises(gx.InputError, match="feature map"):
            kernel.feature_map(x)
    unit = gx.Cosine().feature_map(x)
    assert np.linalg.norm(unit, axis=1) == pytest.approx(np.ones(7), rel=1e-15)
    assert unit @ gx.Cosine().feature_map(y).T == pytest.approx(gx.Cosine()(x, y), rel=1e-15)


# --- random Fourier features ----------------------------------------------------------------------


def fixed(kernel: gx.Gaussian, d: int = 4) -> gx.Gaussian:
    return kernel.fix_bandwidths([np.zeros((1, d))])


@pytest.mark.parametrize("features", [1, 7, 512])
def test_random_features_have_a_unit_diagonal(features: int) -> None:
    x, _ = batches()
    kernel = fixed(gx.Gaussian(0.3, features=features))
    assert np.diag(kernel(x, x)) == pytest.approx(np.ones(7), abs=1e-15)
    assert kernel.diagonal(x).tolist() == [1.0] * 7


def test_random_features_are_the_mean_of_cosines() -> None:
    x, y = batches()
    kernel = fixed(gx.Gaussian(0.8, features=11))
    assert kernel.frequencies.shape == (4, 11)
    phases = (x[:, None] - y[None, :]) / 0.8 @ kernel.frequencies
    assert kernel(x, y) == pytest.approx(np.cos(phases).mean(-1), abs=1e-14)


@pytest.mark.parametrize("features", [64, 4096])
def test_random_features_tend_to_the_gaussian(features: int) -> None:
    """A mean of R cosines with variance (1 − k²)²/2 ≤ ½: the error is 1/√(2R) at most, here three times."""
    x, y = batches()
    exact = gx.Gaussian(2.0)(x, y)
    kernel = fixed(gx.Gaussian(2.0, features=features, seed=5))
    error = np.sqrt(np.mean((kernel(x, y) - exact) ** 2))
    assert error < 3 / math.sqrt(2 * features)


def test_random_features_are_unbiased() -> None:
    x, y = batches()
    draws = [fixed(gx.Gaussian(2.0, features=32, seed=s))(x, y) for s in range(200)]
    deviation = 4 / math.sqrt(2 * 32 * 200)
    assert np.mean(draws, axis=0) == pytest.approx(gx.Gaussian(2.0)(x, y), abs=deviation)


def test_frequencies_come_from_the_kernels_own_seed() -> None:
    np.random.seed(0)  # noqa: NPY002 - the global generator must not matter
    one = fixed(gx.Gaussian(2.0, features=6, seed=3))
    np.random.seed(1)  # noqa: NPY002
    same, other = (fixed(gx.Gaussian(2.0, features=6, seed=s)) for s in (3, 4))
    assert one == same
    assert one.frequencies.tolist() == same.frequencies.tolist()
    assert one != other
    # Frequencies are for σ = 1: another bandwidth stretches the same ones.
    wide = fixed(gx.Gaussian(20.0, features=6, seed=3))
    assert wide.frequencies.tolist() == one.frequencies.tolist()
    x, y = batches()
    assert wide(10 * x, 10 * y) == pytest.approx(one(x, y), abs=1e-13)


def test_frequencies_are_the_same_for_torch() -> None:
    x, y = batches()
    kernel = gx.Gaussian(features=6, seed=3)
    plain = kernel.fix_bandwidths([x, y])
    tensors = kernel.fix_bandwidths([torch.from_numpy(x), torch.from_numpy(y)])
    assert tensors == plain
    found = tensors.feature_map(torch.from_numpy(x)).numpy()
    assert found == pytest.approx(plain.feature_map(x), abs=1e-15)


def test_a_resolved_kernel_stays_as_it_is() -> None:
    x, y = batches()
    kernel = gx.Gaussian(features=6).fix_bandwidths([x, y])
    assert kernel.fix_bandwidths([10 * x]) == kernel


@pytest.mark.parametrize("order", [0.5, 1, math.inf])
def test_nothing_jumps_where_samples_outnumber_columns(order: float) -> None:
    """2R = 12 columns: up to 11 samples are kept as they are, from 12 on their moments."""
    rows = np.random.default_rng(2).standard_normal((14, 3))
    for n in (10, 11, 12, 13, 14):
        pool = pool_of(gx.Vendi(order, gx.Gaussian(1.0, features=6)), [rows[:n]])
        values = np.linalg.svd(pool.objective.kernel.feature_map(rows[:n]), compute_uv=False) ** 2
        values = values[values > 1e-14] / n
        if order == 1:
            expected = math.exp(-np.sum(values * np.log(values)))
        else:
            expected = 1 / values.max() if order == math.inf else np.sum(np.sqrt(values)) ** 2
        assert float(pool.score(np.ones(1))) == pytest.approx(expected, rel=1e-9)


# --- bandwidth ------------------------------------------------------------------------------------


def test_the_median_bandwidth_is_the_median_distance_of_all_points_when_they_are_few() -> None:
    rng = np.random.default_rng(3)
    groups = [rng.standard_normal((40, 3)), rng.standard_normal((40, 3)) + 2]
    expected = np.median(pdist(np.concatenate(groups)))
    assert gx.Gaussian().fix_bandwidths(groups).bandwidth == pytest.approx(expected, rel=1e-12)


def test_every_group_gives_the_same_number_of_points() -> None:
    """Three of a hundred zeros, and 10, 12, 14: distances 0, 0, 0, 2, 2, 4, then 10, 12, 14 three times each,
    median 10. All 103 points would give 0, and 12 without the zeros."""
    crowd, few = np.zeros((100, 1)), np.array([[10.0], [12.0], [14.0]])
    assert median_distance([crowd, few], seed=0) == pytest.approx(10, rel=1e-12)


def test_the_reference_is_one_of_the_groups() -> None:
    objective = gx.KernelDistance(np.full((4, 1), 5.0))
    resolved = objective.fix_bandwidths([np.zeros((4, 1))])
    assert resolved.kernel.bandwidth == pytest.approx(5, rel=1e-12)
    assert objective.kernel.bandwidth == "median"


def test_at_most_two_thousand_points_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    real = distances.squared_distances
    monkeypatch.setattr(
        distances, "squared_distances", lambda x, y: (seen.append(len(x)), real(x, y))[1]
    )
    rng = np.random.default_rng(4)
    groups = [rng.standard_normal((900, 2)) for _ in range(3)]
    found = median_distance(groups, seed=0)
    assert seen == [3 * 666]
    assert median_distance(groups, seed=0) == found
    assert median_distance(groups, seed=1) != found
    # The median distance of two standard normal points in the plane is √(4 log 2).
    assert found == pytest.approx(math.sqrt(4 * math.log(2)), rel=0.05)


def test_a_median_of_zero_gives_way_to_that_of_the_other_distances() -> None:
    points = np.array([[0.0]] * 5 + [[3.0]])
    assert gx.Gaussian().fix_bandwidths([points]).bandwidth == pytest.approx(3, rel=1e-12)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e6 + 0.1])
def test_points_that_are_all_alike_have_no_bandwidth(value: float) -> None:
    with pytest.raises(gx.InputError, match=r"identical.*bandwidth"):
        gx.Gaussian().fix_bandwidths([np.full((5, 3), value), np.full((7, 3), value)])


def test_a_kernel_without_a_bandwidth_says_so() -> None:
    x, y = batches()
    for kernel in (gx.Gaussian(), gx.Gaussian(1.0, features=3)):
        with pytest.raises(gx.InputError, match="fix its bandwidth"):
            kernel(x, y)


def test_the_bandwidth_is_printed_with_the_score() -> None:
    x, y = batches()
    score = gx.score(named([x, y]), gx.RKE()).pooled["rke"]
    sigma = gx.Gaussian().fix_bandwidths([x, y]).bandwidth
    assert f"bandwidth={sigma:.4g}," in str(score)
    assert score.details["n"] == 12


# --- the user's own kernel ------------------------------------------------------------------------


def test_any_function_of_two_batches_is_a_kernel() -> None:
    kernel = as_kernel(min_kernel)
    assert isinstance(kernel, Custom)
    assert as_kernel(kernel) is kernel
    for nothing in (3, "gaussian", None, gx.Gaussian):
        with pytest.raises(gx.InputError, match="not a kernel"):
            as_kernel(nothing)


def test_a_diagonal_is_taken_in_blocks() -> None:
    x = np.abs(np.random.default_rng(5).standard_normal((200, 2)))
    assert Custom(min_kernel).diagonal(x) == pytest.approx(x.sum(1), rel=1e-15)


def test_vendi_and_rke_normalise_a_kernel_without_unit_diagonal() -> None:
    x = np.abs(batches()[0])
    kernel = gx.Vendi(kernel=min_kernel).kernel
    assert kernel == Normalised(Custom(min_kernel))
    root = np.sqrt(x.sum(1))
    assert kernel(x, x) == pytest.approx(min_kernel(x, x) / np.outer(root, root), rel=1e-14)
    assert kernel.diagonal(x).tolist() == [1.0] * 7
    assert gx.RKE(min_kernel).kernel == kernel
    assert gx.Vendi(kernel=gx.Gaussian(1.0)).kernel == gx.Gaussian(1.0)
    assert gx.KernelDistance(x, min_kernel).kernel == Custom(min_kernel)


@pytest.mark.parametrize("objective", [gx.Vendi, gx.RKE, gx.QualityVendi])
def test_a_polynomial_is_for_the_kernel_distance_only(objective: Any) -> None:
    with pytest.raises(gx.InputError, match="KernelDistance"):
        objective(kernel=gx.Polynomial())


def test_a_kernel_of_the_wrong_shape_is_refused() -> None:
    x, y = batches()
    with pytest.raises(gx.InputError, match=r"shape \(7,\).*7 and 5"):
        Custom(lambda a, b: a[:, 0])(x, y)


def test_a_sample_that_cannot_be_normalised_is_named() -> None:
    rows = np.array([[1.0], [0.0]])
    with pytest.raises(gx.InputError, match="arm 'arm0', sample 1"):
        loss_of(gx.Vendi(kernel=lambda a, b: a @ b.T), [rows])


@pytest.mark.parametrize(
    "objective",
    [
        gx.Vendi(kernel=lambda a, b: 1 - cdist(a, b)),
        gx.KernelDistance(np.zeros((2, 1)), lambda a, b: -np.exp(-cdist(a, b))),
    ],
)
def test_a_kernel_that_is_not_positive_semidefinite_is_refused(objective: gx.Objective) -> None:
    with pytest.raises(gx.InputError, match="positive semidefinite"):
        loss_of(objective, [np.array([[0.0], [5.0]]), np.array([[9.0]])]).value(np.full(2, 0.5))


def test_an_exact_kernel_beyond_4000_samples_is_for_sums_only() -> None:
    rows = np.random.default_rng(6).standard_normal((4001, 1))
    with pytest.raises(gx.InputError, match="features=512"):
        loss_of(gx.Vendi(kernel=gx.Gaussian(1.0)), [rows])
    loss_of(gx.Vendi(kernel=gx.Gaussian(1.0, features=8)), [rows])
    found = loss_of(gx.RKE(gx.Gaussian(1.0)), [rows]).value(np.ones(1))
    # E exp(−(x−y)²) = 1/√5 for independent standard normals; a V-statistic deviates by O(1/√n).
    assert found == pytest.approx(1 / math.sqrt(5), abs=0.02)


# --- balls ----------------------------------------------------------------------------------------


def test_balls_in_blocks_are_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(8)
    real, fake = rng.integers(0, 4, (60, 2)), rng.integers(0, 5, (45, 2))

    def scores() -> dict[str, float]:
        return balls.scores_against(balls.Balls.around(real.astype(float), 4), fake.astype(float))

    whole = scores()
    monkeypatch.setattr(balls, "BLOCK_BYTES", 1)
    assert scores() == whole


# --- descriptions ---------------------------------------------------------------------------------


def test_kernels_print_what_they_are() -> None:
    assert repr(gx.Cosine()) == "Cosine()"
    assert repr(gx.Gaussian()) == "Gaussian(bandwidth='median', features=None, seed=0)"
    assert repr(gx.Polynomial(2, 0.5)) == "Polynomial(degree=2, gamma=0.5, coef0=1.0)"
    # A million frequencies belong into a state, not on the screen.
    assert "frequencies" not in repr(fixed(gx.Gaussian(2.0, features=3)))


def test_kernels_compare_by_content() -> None:
    assert gx.Gaussian(2) == gx.Gaussian(2.0)
    assert hash(gx.Gaussian(2)) == hash(gx.Gaussian(2.0))
    assert gx.Gaussian(2.0) != gx.Gaussian(3.0)
    assert gx.Gaussian(2.0) != gx.Cosine()
    assert gx.Polynomial() == gx.Polynomial(3)
    assert Custom(min_kernel) == Custom(min_kernel)
    assert Custom(min_kernel) != Custom(cosine_similarity)
    resolved = fixed(gx.Gaussian(2.0, features=3))
    assert resolved != gx.Gaussian(2.0, features=3)
    assert resolved == fixed(gx.Gaussian(2.0, features=3))
    assert len({resolved, fixed(gx.Gaussian(2.0, features=3)), gx.Cosine(), gx.Cosine()}) == 2


def test_kernels_do_not_change() -> None:
    for kernel, name in ((gx.Gaussian(2.0), "bandwidth"), (gx.Polynomial(), "degree")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(kernel, name, 5)


@pytest.mark.parametrize(
    "make",
    [
        lambda: gx.Gaussian(0),
        lambda: gx.Gaussian(-1.0),
        lambda: gx.Gaussian(math.nan),
        lambda: gx.Gaussian(math.inf),
        lambda: gx.Gaussian("mean"),
        lambda: gx.Gaussian(1.0, features=0),
        lambda: gx.Gaussian(1.0, features=2.5),
        lambda: gx.Polynomial(0),
        lambda: gx.Polynomial(1.5),
    ],
)
def test_parameters_that_make_no_kernel_are_refused(make: Any) -> None:
    with pytest.raises(gx.InputError, match="pass a"):
        make()
