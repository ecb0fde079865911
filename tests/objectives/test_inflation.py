"""The excess loss of n samples: closed forms, and the mean over many small sets of samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import genmix as gx
from tests.support.helpers import loss_of

ONE = np.ones(1)


def inflation(objective: gx.Objective, rows: Any) -> float:
    return loss_of(objective, [rows]).inflation(ONE)


def test_rke_of_modes() -> None:
    rows = np.repeat(np.eye(3), [5, 3, 2], axis=0)
    assert inflation(gx.RKE(gx.Cosine()), rows) == pytest.approx(1 - 0.25 - 0.09 - 0.04)


def test_kernel_distance_counts_a_samples_value_with_itself() -> None:
    rows, reference = np.array([[1.0], [3.0]]), np.ones((2, 1))
    kernel = lambda x, y: x @ y.T  # noqa: E731
    assert inflation(gx.KernelDistance(reference, kernel), rows) == pytest.approx(5 - 4)


def test_vendi_of_equal_modes_is_miller_and_madows() -> None:
    assert inflation(gx.Vendi(), np.eye(6)) == pytest.approx((6 - 1) / 2)


def test_vendi_of_order_2_is_that_of_rke() -> None:
    rows = np.repeat(np.eye(4), [4, 3, 2, 1], axis=0)
    assert inflation(gx.Vendi(order=2.0), rows) == pytest.approx(
        inflation(gx.RKE(gx.Cosine()), rows)
    )


def test_an_unbiased_loss_is_not_inflated() -> None:
    rows = np.repeat(np.eye(3), [5, 3, 2], axis=0)
    assert inflation(gx.RKE(gx.Cosine(), unbiased=True), rows) == 0
    assert inflation(gx.KernelDistance(rows, gx.Cosine(), unbiased=True), rows) == 0


def test_frechet_of_a_standard_cloud() -> None:
    d = 5
    rows = np.sqrt(d) * np.vstack([np.eye(d), -np.eye(d)])
    assert inflation(gx.FrechetDistance(rows), rows) == pytest.approx(d * (d + 1) / 4 + d)


@pytest.mark.parametrize("rows", [np.ones((4, 3)), np.ones((1, 3))], ids=["collapsed", "single"])
@pytest.mark.parametrize("make", [gx.RKE, gx.FrechetDistance, gx.KernelDistance, gx.Vendi])
def test_it_is_finite_where_there_is_no_spread(make: Any, rows: Any) -> None:
    reference = np.random.default_rng(0).standard_normal((9, 3))
    given = [reference] if make in (gx.FrechetDistance, gx.KernelDistance) else []
    options = {} if make in (gx.FrechetDistance, gx.Vendi) else {"kernel": gx.Gaussian(1.0)}
    found = inflation(make(*given, **options), rows)
    assert 0 <= found < 1


def test_a_sum_adds_the_weighted_terms_and_a_linear_one_adds_nothing() -> None:
    rows = np.random.default_rng(0).standard_normal((9, 3))
    both = 3 * gx.RKE(gx.Cosine()) + 2 * gx.Vendi() + gx.Cost()
    found = loss_of(both, [rows], cost=[np.ones(9)]).inflation(ONE)
    expected = 3 * inflation(gx.RKE(gx.Cosine()), rows) + 2 * inflation(gx.Vendi(), rows)
    assert found == pytest.approx(expected)


def test_of_a_mixture_is_that_of_its_pooled_rows() -> None:
    rng = np.random.default_rng(3)
    arms = [rng.standard_normal((6, 3)), rng.standard_normal((18, 3)) + 1]
    reference = rng.standard_normal((20, 3))
    kernel = gx.Gaussian(2.0)
    for objective in (
        gx.RKE(kernel),
        gx.KernelDistance(reference, kernel),
        gx.Vendi(),
        gx.FrechetDistance(reference),
    ):
        apart = loss_of(objective, arms).inflation(np.array([0.25, 0.75]))
        assert apart == pytest.approx(inflation(objective, np.concatenate(arms)))


REFERENCE = np.random.default_rng(5).standard_normal((300, 6))

OBJECTIVES: dict[str, tuple[Callable[[], gx.Objective], float]] = {
    "rke": (lambda: gx.RKE(gx.Gaussian(2.0)), 0.05),
    "kd": (lambda: gx.KernelDistance(REFERENCE, gx.Gaussian(2.0)), 0.05),
    "fd": (lambda: gx.FrechetDistance(REFERENCE), 0.25),
    "vendi": (lambda: gx.Vendi(), 0.25),
}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_n_samples_have_that_much_more_loss(name: str) -> None:
    make, allowed = OBJECTIVES[name]
    rng = np.random.default_rng(1)
    pool = rng.standard_normal((1000, 6)) * np.linspace(0.5, 1.5, 6)
    whole = loss_of(make(), [pool])
    # The parts of a partition average to the mean of the pool, so only the excess is left.
    parts = [part for _ in range(10) for part in np.split(rng.permutation(pool), 8)]
    excess = np.mean([loss_of(make(), [part]).value(ONE) for part in parts]) - whole.value(ONE)
    assert excess == pytest.approx(whole.inflation(ONE) * (1 / 125 - 1 / 1000), rel=allowed)
