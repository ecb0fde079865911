"""Intervals, paired tests, regret and exponents, against SciPy and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import genmix as gx
from genmix.comparison.statistics import (
    bands,
    cumulative,
    exponent,
    holm,
    mean_interval,
    paired,
    settling_time,
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
    with pytest.raises(gx.InputError, match="increase repeats"):
        paired(np.ones(1), np.zeros(1))


def test_regret_is_exact_where_the_excess_is_a_line_between_the_times() -> None:
    """Σ_{s≤t} (a + b s) has a closed form, and a sparse grid must give it."""
    times = np.array([1, 4, 5, 17, 60])
    found, before = cumulative(times, 3.0 - 0.02 * times)
    assert before == 0
    assert found == pytest.approx(3.0 * times - 0.01 * times * (times + 1))


def test_regret_on_every_time_is_the_sum() -> None:
    excess = RNG.random((4, 50))
    found, _ = cumulative(np.arange(1, 51), excess)
    assert found == pytest.approx(np.cumsum(excess, axis=1))


@pytest.mark.parametrize("warm", [2, 30, 37, 100, 120])
def test_regret_keeps_the_warm_start_apart(warm: int) -> None:
    """The excess jumps where learning begins, which a line between two times would smear."""
    times = np.array([2, 10, 30, 60, 100])
    excess = np.where(np.arange(1, 101) <= warm, 5.0, 1.0)
    found, before = cumulative(times, excess[times - 1][None, :], warm)
    assert found[0] == pytest.approx(np.cumsum(excess)[times - 1])
    assert before == pytest.approx(5.0 * warm)


def test_infinite_excess_is_infinite_regret() -> None:
    times = np.array([1, 2, 5, 10])
    excess = np.array([[np.inf, np.inf, 1.0, 1.0], [np.inf] * 4])
    for warm in (0, 1, 2, 3):
        found, before = cumulative(times, excess, warm)
        assert np.all(found == np.inf)
        assert np.all(before == (np.inf if warm else 0.0))
    assert exponent(np.arange(1, 50), np.full((3, 49), np.inf)) is None


@pytest.mark.parametrize("rounds, warm", [(1000, 100), (2000, 200), (1000, 50)])
def test_the_exponent_is_counted_from_the_end_of_the_warm_start(rounds: int, warm: int) -> None:
    """Regret that grows as the root of the time since then, read at sparse times."""
    every = np.arange(1, rounds + 1)
    excess = np.where(every <= warm, 1.0, 0.5 * np.maximum(every - warm, 1.0) ** -0.5)
    exact = np.cumsum(np.tile(excess, (4, 1)), axis=1)
    times = np.unique(np.round(np.geomspace(2, rounds, 60)).astype(int))
    judge = exponent(every, exact, warm, exact[:, warm - 1])
    regret, before = cumulative(times, np.tile(excess[times - 1], (4, 1)), warm)
    found = exponent(times, regret, warm, before)
    assert judge is not None
    assert found is not None
    assert found.slope == pytest.approx(judge.slope, abs=0.03)


def test_the_exponents_interval_covers_it_with_few_repeats() -> None:
    times = np.unique(np.geomspace(2, 2000, 60).astype(int))
    rng = np.random.default_rng(5)
    covered = 0
    for _ in range(200):
        powers = rng.normal(0.5, 0.05, size=(5, 1))
        found = exponent(times, times**powers)
        truth = exponent(
            times, np.tile(np.mean(times ** rng.normal(0.5, 0.05, (4000, 1)), 0), (2, 1))
        )
        assert found is not None
        assert truth is not None
        covered += found.low <= truth.slope <= found.high
    assert covered / 200 > 0.88


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


def test_regret_that_one_repeat_has_alone_has_no_exponent() -> None:
    """Without that repeat there is no slope, so that no interval can be had."""
    regret = np.zeros((4, 49))
    regret[2] = np.sqrt(np.arange(1, 50))
    assert exponent(np.arange(1, 50), regret) is None
    regret[0] = regret[2]
    assert exponent(np.arange(1, 50), regret) is not None


def test_settled_means_from_then_on() -> None:
    times = np.array([1, 2, 5, 10])
    assert settling_time(times, np.array([True, False, True, True])) == 5
    assert settling_time(times, np.array([True, True, True, True])) == 1
    assert math.isinf(settling_time(times, np.array([True, True, True, False])))


def test_holm_adjusts_p_values_as_in_the_textbook() -> None:
    """Holm (1979): 0.005·4, 0.01·3, 0.03·2, and 0.04 cannot be below the one before."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.6]) == [1.0, 1.0]
    assert holm([]) == []


def test_holm_makes_a_false_claim_in_at_most_five_percent_of_tables() -> None:
    rng = np.random.default_rng(0)
    false = [min(holm(rng.uniform(size=20).tolist())) < 0.05 for _ in range(2000)]
    assert np.mean(false) == pytest.approx(0.049, abs=0.02)
