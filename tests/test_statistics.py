"""Intervals, paired tests, regret and exponents, against SciPy and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import genmix as gx
from genmix.experiments.statistics import (
    bands,
    cumulated,
    exponent,
    mean_interval,
    paired,
    settled,
)

RNG = np.random.default_rng(0)


def test_intervals_are_students() -> None:
    values = RNG.normal(3, 2, size=17)
    expected = stats.t.interval(0.95, 16, loc=values.mean(), scale=stats.sem(values))
    found = mean_interval(values)
    assert (found.low, found.high) == pytest.approx(expected)
    assert found.mean == values.mean()


def test_intervals_cover_the_mean_as_often_as_they_say() -> None:
    draws = RNG.normal(1.0, 1.0, size=(8, 4000))
    _, low, high = bands(draws)
    assert np.mean((low <= 1) & (high >= 1)) == pytest.approx(0.95, abs=0.015)


def test_a_single_repeat_has_no_interval() -> None:
    found = mean_interval(np.array([2.0]))
    assert found.mean == 2.0
    assert math.isnan(found.low)
    assert not found.excludes_zero


def test_paired_tests_are_scipys() -> None:
    a, b = RNG.normal(size=(2, 30))
    a += b + 0.3
    found = paired(a, b)
    assert found.t_test == pytest.approx(stats.ttest_rel(a, b).pvalue)
    assert found.wilcoxon == pytest.approx(stats.wilcoxon(a - b).pvalue)
    assert found.difference.mean == pytest.approx(np.mean(a - b))


def test_equal_pairs_differ_by_nothing() -> None:
    found = paired(np.arange(5.0), np.arange(5.0))
    assert (found.t_test, found.wilcoxon) == (1.0, 1.0)
    assert not found.difference.excludes_zero


def test_a_constant_difference_is_certain() -> None:
    found = paired(np.arange(8.0) + 1, np.arange(8.0))
    assert found.difference.excludes_zero
    assert found.t_test == 0.0


def test_one_pair_is_refused() -> None:
    with pytest.raises(gx.InputError, match="raise repeats"):
        paired(np.ones(1), np.zeros(1))


def test_regret_is_exact_where_the_excess_is_a_line_between_the_times() -> None:
    """Σ_{s≤t} (a + b s) has a closed form, and a sparse grid must give it."""
    times = np.array([1, 4, 5, 17, 60])
    found = cumulated(times, 3.0 - 0.02 * times)
    assert found == pytest.approx(3.0 * times - 0.01 * times * (times + 1))


def test_regret_on_every_time_is_the_sum() -> None:
    excess = RNG.random((4, 50))
    found = cumulated(np.arange(1, 51), excess)
    assert found == pytest.approx(np.cumsum(excess, axis=1))


@pytest.mark.parametrize("power", [0.5, 1.0, 0.25])
def test_the_exponent_of_a_power_is_the_power(power: float) -> None:
    times = np.unique(np.geomspace(2, 2000, 60).astype(int))
    regret = RNG.uniform(1, 2, size=(10, 1)) * times**power
    found = exponent(times, regret)
    assert found is not None
    assert (found.slope, found.low, found.high) == pytest.approx((power,) * 3)


def test_the_exponents_interval_grows_with_the_noise() -> None:
    times = np.unique(np.geomspace(2, 2000, 60).astype(int))
    noisy = times**0.5 * RNG.uniform(0.2, 3, size=(10, len(times)))
    found = exponent(times, noisy)
    assert found is not None
    assert found.low < found.slope < found.high


def test_no_regret_has_no_exponent() -> None:
    assert exponent(np.arange(1, 50), np.zeros((3, 49))) is None


def test_settled_means_from_then_on() -> None:
    times = np.array([1, 2, 5, 10])
    assert settled(times, np.array([True, False, True, True])) == 5
    assert settled(times, np.array([True, True, True, True])) == 1
    assert math.isinf(settled(times, np.array([True, True, True, False])))
