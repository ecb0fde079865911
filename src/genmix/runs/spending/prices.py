"""What the next samples need, given the price of each arm: which arms are affordable, and how many fit."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate

from genmix.generators.base import Generator
from genmix.runs.spending.budget import ROUNDING

TRIALS = 0.1
"""The part of a cost budget that all trials may cost together: samples that show what an arm really costs."""


@dataclass(frozen=True)
class Price:
    """What one sample from an arm costs, and how many there are."""

    most: float | None
    """An upper bound; None if it is unknown."""
    mean: float | None
    """The mean so far, or the upper bound before the first sample; None if it is unknown."""
    supply: float = math.inf
    """The number of samples that the arm can still deliver."""
    is_vague: bool = False
    """Whether only the upper bound is known, because no sample has been paid."""
    is_trial: bool = False
    """Whether one sample should show what the arm costs if the money does not suffice otherwise."""


def cheapest(offers: Iterable[tuple[float | None, float]], samples: float) -> float:
    """Return the smallest cost of this many samples, given the cost and the supply of each arm.

    Arms of unknown cost are ignored. Samples that the others cannot supply cost nothing.
    """
    parts, left = [], samples
    for cost, supply in sorted((cost, supply) for cost, supply in offers if cost is not None):
        if left <= 0:
            break
        taken = max(min(supply, left), 0.0)
        parts.append(taken * cost)
        left -= taken
    return math.fsum(parts)


def affordable(
    prices: Mapping[str, Price], money: float, samples: int | None, tolerance: float = 0.0
) -> list[str]:
    """Return the arms from which the next sample may be drawn.

    If this many samples are still owed, an arm is affordable if its largest possible cost plus a reserve
    for all other samples fits into the money. The reserve is what the others can cost at most if they come
    from the cheapest arms, if the money guarantees that many samples. Otherwise it is what they cost on
    average, with the largest possible cost for the last one. The arms with the smallest mean cost are then
    affordable as well, because the reserve counts on them. If no arm fits, only they are, as they deliver the
    most samples; if they do not suffice, others are tried that may cost less than their bounds. Without a
    number of samples, every arm is affordable whose largest possible cost fits.

    An arm of unknown cost fits as long as there is money beyond the reserve. If no arm fits, it comes first.
    """

    def fits(price: Price, reserved: float) -> bool:
        if price.most is None:
            return reserved < money or money == 0 == reserved
        return price.most + reserved <= money + tolerance

    covered = {arm: price for arm, price in prices.items() if fits(price, 0.0)}
    if samples is None:
        return list(covered)
    is_guaranteed = reserve(prices, samples, True) <= money + tolerance
    others = reserves_without(prices, samples - 1, is_guaranteed)
    found = [arm for arm, price in covered.items() if fits(price, others[arm])]
    if not covered or (found and is_guaranteed):
        return found
    means = {arm: price.mean or 0.0 for arm, price in covered.items()}
    least = min(means.values()) * (1 + ROUNDING)
    is_tried = is_short(prices, money, samples, tolerance) and not any(
        price.is_vague for arm, price in covered.items() if means[arm] <= least
    )
    drawn = {a for a, p in covered.items() if means[a] <= least or (is_tried and p.is_trial)}
    drawn |= set(found)
    return [arm for arm in covered if arm in drawn]


def is_short(
    prices: Mapping[str, Price], money: float, samples: int, tolerance: float = 0.0
) -> bool:
    """Return whether the money does not suffice for these samples, even at their mean costs."""
    return reserve(prices, samples, False) > money + tolerance


def reserve(prices: Mapping[str, Price], samples: float, is_guaranteed: bool) -> float:
    """Return the money that these samples need if they come from the cheapest arms.

    If it is not guaranteed, all but one cost their mean. The last one needs the largest possible cost of
    some arm, because it does not start otherwise.
    """
    if is_guaranteed:
        return cheapest(((p.most, p.supply) for p in prices.values()), samples)
    means = [(p.mean, p.supply) for p in prices.values()]
    before_last = cheapest(means, samples - 1)
    return max(cheapest(means, samples), before_last + _last_bound(prices, samples))


def _last_bound(prices: Mapping[str, Price], samples: float) -> float:
    """Return the smallest upper bound on a cost among the arms that can still supply the last sample."""
    found, left = [0.0] if samples < 1 else [], samples - 1
    offers = ((p.mean, p.supply, p.most) for p in prices.values() if p.mean is not None)
    for _, supply, most in sorted(offers, key=lambda offer: offer[:2]):
        taken = max(min(supply, left), 0.0)
        left -= taken
        if supply > taken and most is not None:
            found.append(most)
    return min(found, default=0.0)


def number_covered(prices: Mapping[str, Price], money: float, most: int) -> int:
    """Return how many samples the money covers at their mean costs, all from the cheapest arms."""
    return bisect_right(range(1, most + 1), money, key=lambda n: reserve(prices, n, False))


def reserves_without(
    prices: Mapping[str, Price], samples: float, is_guaranteed: bool
) -> dict[str, float]:
    """Return, for each arm, what these samples cost if it supplies one sample less.

    This matters only for an arm whose whole supply is used. The next cheapest arm then supplies one more, so
    the result is the cost of ``samples + 1`` minus the cost of one sample of the arm. On average, this
    ignores that the last sample may need the arm's bound.
    """
    whole, one_more = (reserve(prices, n, is_guaranteed) for n in (samples, samples + 1))
    found, left = dict.fromkeys(prices, whole), samples
    known = {arm: p.most if is_guaranteed else p.mean for arm, p in prices.items()}
    for cost, supply, arm in sorted(
        (cost, prices[arm].supply, arm) for arm, cost in known.items() if cost is not None
    ):
        if 0 < supply <= left:
            found[arm] = one_more - cost
        left -= max(min(supply, left), 0.0)
    return found


def worth_trying(generators: Mapping[str, Generator], money: float) -> set[str]:
    """Return the arms of which one sample is paid to learn its cost if the money does not suffice otherwise.

    These are the arms with the smallest bound, and others that may cost less than their bounds, as far as
    one sample each is a small expense.
    """
    found = {label: generator.most_cost() for label, generator in generators.items()}
    bounds = {label: most for label, most in found.items() if most is not None}
    least = min(bounds.values(), default=0.0) * (1 + ROUNDING)
    first = {label for label, most in bounds.items() if most <= least}
    others = [a for a in bounds if a not in first and _may_cost_less(generators[a], bounds[a])]
    others.sort(key=lambda arm: bounds[arm])
    totals = accumulate(bounds[arm] for arm in others)
    return first.union(others[: sum(total <= TRIALS * money for total in totals)])


def _may_cost_less(generator: Generator, most: float) -> bool:
    """Return whether a sample's cost depends on its length; then few cost as much as the longest."""
    expected = getattr(generator, "expected_cost", lambda *tokens: most)(0.0, 0.0)
    return expected is not None and expected < most


def number_expected(
    bounds: Mapping[str, Price], costs: Mapping[str, float | None], money: float, samples: int
) -> int:
    """Return how many samples a run can expect that knows only upper bounds at first.

    ``costs`` are what the samples really cost. The run learns those of the cheapest arms, and of the arms
    that it tries, from one sample each. The other arms count with their bounds.
    """
    known, made, paid = dict(bounds), 0, 0.0
    while made < samples and is_short(known, money - paid, samples - made):
        fitting = affordable(known, money - paid, samples - made)
        tried = [arm for arm in fitting if known[arm].is_vague]
        if not tried:
            break
        for arm in tried[: samples - made]:
            cost, price = costs[arm] or 0.0, known[arm]
            known[arm], made = Price(price.most, cost, price.supply - 1), made + 1
            paid += cost
    return made + number_covered(known, money - paid, samples - made)
