"""The arithmetic of a cost budget: every sample that can be guaranteed is delivered, none is overpaid."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genmix.runs.spending.planning import WarmStart, fit_warm_start, left_out_for_now
from genmix.runs.spending.prices import Price, affordable, number_covered, reserve, reserves_without

TINY = 1e-9


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[float], float, int, int]:
    """The largest costs of a few arms, the money, the samples and a seed."""
    most = draw(st.lists(st.floats(0.01, 10.0), min_size=1, max_size=5))
    samples = draw(st.integers(1, 40))
    return most, draw(st.floats(0.0, 2.0)) * samples * min(most), samples, draw(st.integers(0, 99))


@given(worlds(), st.booleans(), st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_the_rule_never_overspends_and_delivers_what_the_cheapest_arm_can(
    world: tuple[list[float], float, int, int], random_costs: bool, in_flight: int
) -> None:
    """Arms are drawn at random; samples cost up to their bound, and some fail at no cost."""
    most, budget, samples, seed = world
    rng = np.random.default_rng(seed)
    paid, told = [0.0], 0
    spent, made, flying = np.zeros(len(most)), np.zeros(len(most)), list[int]()
    while told + len(flying) < samples or flying:
        mean = [s / n if n else m for s, n, m in zip(spent, made, most, strict=True)]
        prices = {str(i): Price(m, mean[i]) for i, m in enumerate(most)}
        left = budget - math.fsum(paid) - math.fsum(most[i] for i in flying)
        owed = samples - told - len(flying)
        arms = affordable(prices, left, owed, TINY * budget) if owed else []
        if arms and len(flying) < in_flight:
            flying.append(int(rng.choice(arms)))
            continue
        if not flying:
            break
        arm = flying.pop(rng.integers(len(flying)))
        if rng.random() < 0.1:
            continue
        cost = most[arm] * (rng.uniform(0.2, 1.0) if random_costs else 1.0)
        paid, told = [*paid, cost], told + 1
        spent[arm], made[arm] = spent[arm] + cost, made[arm] + 1
        assert math.fsum(paid) <= budget * (1 + 2 * TINY)
    if samples * min(most) <= budget:
        assert told == samples
    elif not random_costs:
        assert told == math.floor(budget / min(most) * (1 + TINY))


def price(most: float | None, mean: float | None = None) -> Price:
    return Price(most, most if mean is None else mean)


@pytest.mark.parametrize(
    ("prices", "money", "samples", "expected"),
    [
        ({"a": price(5.0), "b": price(1.0)}, 14.0, 10, "ab"),
        ({"a": price(5.0), "b": price(1.0)}, 13.9, 10, "b"),
        ({"a": price(5.0), "b": price(1.0)}, 13.9, None, "ab"),
        ({"a": price(5.0), "b": price(1.0)}, 4.9, None, "b"),
        ({"a": price(5.0), "b": price(1.0)}, 0.5, None, ""),
        ({"a": price(5.0), "b": price(1.0)}, 0.5, 3, ""),
        ({"a": price(5.0), "b": price(1.0)}, 5.0, 10, "b"),  # not all can be delivered
        ({"a": price(5.0, 2.0), "b": price(1.0, 0.2)}, 7.7, 10, "ab"),  # they can on average
        ({"a": price(5.0, 2.0), "b": price(1.0, 0.2)}, 7.5, 10, "b"),  # the last one may cost 1
        ({"a": price(1.0), "b": price(3.0, 0.5)}, 6.5, 10, "ab"),  # the reserve counts on b
        ({"a": price(5.0), "free": price(0.0)}, 5.0, 10, "a free"),
        ({"a": price(5.0), "free": price(0.0)}, 0.0, 10, "free"),
        ({"a": price(None), "b": price(1.0)}, 10.0, 10, "ab"),  # a may cost anything
        ({"a": price(None), "b": price(1.0)}, 10.0, 11, "a"),
        ({"a": price(None)}, 0.0, 3, "a"),
        ({"a": price(None)}, 1.0, 3, "a"),
    ],
)
def test_which_arms_are_affordable(
    prices: dict[str, Price], money: float, samples: int | None, expected: str
) -> None:
    found = affordable(prices, money, samples)
    assert found == [label for label in prices if label in expected]


@pytest.mark.parametrize(
    ("prices", "samples", "expected"),
    [
        ({"a": price(1.0, 0.2)}, 0, 0.0),
        ({"a": price(1.0, 0.2)}, 1, 1.0),
        ({"a": price(1.0, 0.2)}, 10, 9 * 0.2 + 1.0),
        ({"a": price(1.0, 0.2), "b": price(0.5)}, 10, 9 * 0.2 + 0.5),
        ({"a": price(0.1)}, 10, 1.0),
        ({"a": price(1.0, 0.2), "free": Price(0.0, 0.0, 3)}, 10, 6 * 0.2 + 1.0),
    ],
)
def test_the_last_sample_needs_its_bound(
    prices: dict[str, Price], samples: int, expected: float
) -> None:
    assert reserve(prices, samples, False) == pytest.approx(expected)
    assert number_covered(prices, expected + TINY, 20) == samples
    assert number_covered(prices, expected - TINY, 20) == max(samples - 1, 0)


@pytest.mark.parametrize(
    ("most", "samples", "money", "expected"),
    [
        ({"a": 5.0, "b": 1.0}, 100, 140.0, WarmStart(10)),
        ({"a": 5.0, "b": 1.0}, 100, 139.0, WarmStart(9)),
        ({"a": 5.0, "b": 1.0}, 100, 112.0, WarmStart(3)),
        ({"a": 5.0, "b": 1.0}, 100, 111.0, WarmStart(10, ("a",))),
        ({"a": 5.0, "b": 1.0, "c": 2.0}, 100, 111.0, WarmStart(10, ("a",))),
        ({"a": 5.0, "b": 1.0, "c": 2.0}, 100, 105.0, WarmStart(5, ("a",))),
        ({"a": 5.0, "b": 1.0, "c": 2.0}, 100, 100.0, WarmStart(10, ("a", "c"))),
        ({"a": 5.0, "b": 1.0}, 100, 99.0, WarmStart(10)),  # the first samples show what is possible
        ({"a": 5.0, "b": 1.0}, None, 60.0, WarmStart(10)),
        ({"a": 5.0, "b": 1.0}, None, 30.0, WarmStart(5)),
        ({"a": 5.0, "b": 1.0}, None, 12.0, WarmStart(10, ("a",))),
        ({"a": 5.0, "b": 1.0}, None, 2.0, WarmStart(3, ("a",))),
        ({"a": 5.0, "b": None}, 100, 200.0, WarmStart(10)),
        ({"a": 0.0, "b": 0.0}, 100, 0.0, WarmStart(10)),
        ({"a": 0.2, "b": 0.1}, 300, 31.0, WarmStart(10)),  # exact up to rounding
    ],
)
def test_the_warm_start_fits_the_budget(
    most: dict[str, float | None], samples: int | None, money: float, expected: WarmStart
) -> None:
    assert fit_warm_start(10, 3, most, samples, money) == expected


def test_a_short_warm_start_stays_as_it_is() -> None:
    assert fit_warm_start(2, 3, {"a": 1.0}, None, 100.0) == WarmStart(2)
    assert fit_warm_start(2, 3, {"a": 5.0, "b": 1.0}, 10, 14.0) == WarmStart(2, ("a",))


OFFERS = st.builds(
    Price,
    most=st.none() | st.sampled_from([0.0, 0.5, 1.0, 2.5]),
    mean=st.none() | st.sampled_from([0.0, 0.25, 1.0]),
    supply=st.sampled_from([0.0, 1.0, 2.0, 5.0, math.inf]),
)


@given(
    st.dictionaries(st.sampled_from("abcdef"), OFFERS, min_size=1), st.integers(0, 9), st.booleans()
)
def test_the_reserve_without_a_sample_of_an_arm_is_that_of_a_smaller_supply(
    prices: dict[str, Price], samples: int, is_guaranteed: bool
) -> None:
    found = reserves_without(prices, samples, is_guaranteed)
    for arm, price in prices.items():
        smaller = prices | {arm: replace(price, supply=price.supply - 1)}
        expected = reserve(smaller, samples, is_guaranteed)
        # On average, the last sample may need the bound of another arm if this one has run out.
        bound = 0.0 if is_guaranteed else max(p.most or 0.0 for p in prices.values())
        assert found[arm] == pytest.approx(expected, abs=bound + 1e-12)


def test_many_arms_are_left_out_in_one_note() -> None:
    reason = "because the cost budget does not cover"
    assert left_out_for_now(["a"]) == f"arm 'a' is left out for now, {reason} its warm start"
    assert left_out_for_now([f"a{i}" for i in range(1200)]) == (
        f"1,200 arms are left out for now, {reason} their warm starts: "
        "a0, a1, a2, a3, a4, a5, a6, a7 and 1,192 others"
    )
