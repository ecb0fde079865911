"""Estimate what a study or the rest of a run costs and how long it takes, before any money is spent."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from genmix.core.text import counted, duration, listed_few, number
from genmix.generators.base import Generator
from genmix.journal.reader import JournalReader
from genmix.runs.spending.budget import ROUNDING
from genmix.runs.spending.planning import MIN_WARM_START, WarmStart, fit_warm_start
from genmix.runs.spending.prices import (
    Price,
    cheapest,
    number_covered,
    number_expected,
    reserve,
    worth_trying,
)
from genmix.solvers.knapsack import fill
from genmix.solvers.weight_limits import bounds_of
from genmix.study.components import trial_objective
from genmix.study.study import Study

NOTICEABLE = 1.05
"""A run that continues warns if what is left is by this factor too little at the mean cost so far."""


@dataclass(frozen=True)
class Mixed:
    """A number for the cheapest arm, for equal shares of all arms, and for the most expensive arm."""

    cheapest: float
    even: float
    dearest: float


@dataclass(frozen=True)
class Estimate:
    """What to expect of a study, estimated before it runs."""

    samples: int | None
    """The number of samples that the study asks for."""
    budget: float | None
    """The cost that it allows."""
    costs: Mapping[str, float | None]
    """Cost of one sample by arm: that of a sample that was drawn, or the price; None if unknown."""
    most: Mapping[str, float | None]
    """The largest possible cost of a sample by arm; None if it is unknown."""
    bounded: Collection[str]
    """The arms of which most samples cost less than the largest possible cost."""
    seconds: float | None
    """Time to generate the samples in equal shares; None if it is unknown."""
    warm_start: WarmStart
    is_shorter: bool
    """Whether the warm start is shorter than in the study."""
    supply: Mapping[str, int | None]
    """The number of samples that each arm can deliver; None if it never runs out."""
    tried: Collection[str] = ()
    """The arms of which the run pays a sample to learn its cost if the money does not suffice otherwise."""
    bounded_cost: float | None = None
    """The cost of the samples with the cheapest weights that the study allows; None without bounds."""

    @property
    def cost(self) -> Mixed | None:
        """The cost of the samples; None if it is unknown or the number of samples is not given."""
        each = _each(self.costs)
        if self.samples is None or each is None:
            return None
        low, high = (sign * self._lowest(self.costs, sign) for sign in (1, -1))
        return Mixed(low, min(max(self.samples * each[1], low), high), high)

    def _lowest(self, costs: Mapping[str, float | None], sign: int = 1) -> float:
        """Return the cost of the samples from the cheapest arms, as far as these can deliver them."""
        offers = ((sign * (c or 0.0), _limit(self.supply[arm])) for arm, c in costs.items())
        return cheapest(offers, self.samples or 0)

    def _source(self, arm: str) -> str:
        """Say from where the samples come if as many as possible come from this arm."""
        is_enough = _limit(self.supply[arm]) >= (self.samples or math.inf)
        return f"all from {arm}" if is_enough else f"{self.supply[arm]:,} from {arm}"

    @property
    def covered(self) -> Mixed | None:
        """The number of samples that the budget covers; None if it is unknown or unlimited."""
        return self._covered_at(self.costs)

    @property
    def expected(self) -> int | None:
        """The number of samples to expect from a run that does not know their costs at first, if known."""
        covered, money = self.covered, self.budget
        if covered is None or self.samples is None or money is None:
            return None
        if None in self.most.values():
            return int(min(covered.cheapest, self.samples))
        bounds = {
            arm: Price(most, most, _limit(self.supply[arm]), bool(most), arm in self.tried)
            for arm, most in self.most.items()
        }
        return number_expected(bounds, self.costs, money * (1 + ROUNDING), self.samples)

    def _covered_at(self, costs: Mapping[str, float | None]) -> Mixed | None:
        each = _each(costs)
        if self.budget is None or each is None:
            return None
        most = self._number_at(costs, self.budget * (1 + ROUNDING))
        if math.isinf(most):
            return None
        even, least = (self.budget / value if value > 0 else math.inf for value in each[1:])
        return Mixed(most, *(min(_whole(number), most) for number in (even, least)))

    def _number_at(self, costs: Mapping[str, float | None], money: float) -> float:
        """Return how many samples the money covers if they come from the cheapest arms.

        The last one starts only if its largest possible cost is left.
        """
        found: float = 0
        prices = {
            arm: Price(self.most[arm], cost, _limit(self.supply[arm]))
            for arm, cost in costs.items()
        }
        total = money
        for cost, supply in sorted(
            (c or 0.0, _limit(self.supply[arm])) for arm, c in costs.items()
        ):
            taken = min(supply, math.inf if cost <= 0 else math.floor(money / cost))
            if math.isinf(taken):
                return taken
            found, money = found + taken, money - taken * cost
        return number_covered(prices, total, int(found))

    def _cheapest(self, costs: Mapping[str, float | None], samples: float) -> str:
        """Name the arms that supply this many samples at the lowest cost."""
        first = min(costs, key=lambda arm: costs[arm] or 0.0)
        return "the cheapest arm" if _limit(self.supply[first]) >= samples else "the cheapest arms"

    @property
    def warnings(self) -> list[str]:
        """What the budget does not cover, one sentence each.

        Those that follow from the largest possible costs are the same with and without drawn samples.
        """
        found = self._shortfall or self._unaffordable_weights
        size, left_out = self.warm_start.size, self.warm_start.left_out
        if self.is_shorter:
            found.append(
                f"The warm start is shortened to {counted(size, 'sample')} per arm, because the cost "
                "budget does not cover more."
            )
        if left_out:
            arms, which = ("arm", "its") if len(left_out) == 1 else ("arms", "their")
            found.append(
                f"The {arms} {listed_few(map(repr, left_out))} will not be used unless samples cost less "
                f"than their upper bound, because the cost budget does not cover {which} warm start; raise "
                "budget.cost or lower budget.samples."
            )
        return found

    @property
    def _shortfall(self) -> list[str]:
        """Say whether the money suffices for the samples: at the largest costs, then at those drawn."""
        if self.samples is None:
            return []
        found, samples = [], counted(self.samples, "sample")
        at_most, each = self._covered_at(self.most), _each(self.most)
        is_short = at_most is not None and at_most.cheapest < self.samples
        if at_most and each and is_short and self.bounded:
            found.append(
                f"The budget of {number(self.budget)} guarantees only {at_most.cheapest:,} of the {samples}, "
                f"because a sample from the cheapest arm can cost up to {number(each[0])}. Most cost less; "
                "for a guarantee, lower max_tokens."
            )
        elif at_most and each and is_short:
            found.append(
                f"{samples} cost at least {number(self._lowest(self.most))}; the budget is "
                f"{number(self.budget)}: expect about {at_most.cheapest:,}, "
                f"all from {self._cheapest(self.most, at_most.cheapest)}."
            )
        if self.costs == self.most or self.covered is None:
            return found
        if (expected := self.expected) is not None and expected < self.samples:
            found.append(
                f"At the costs of the samples that were drawn, expect about {expected:,}, "
                f"all from {self._cheapest(self.costs, expected)}."
            )
        elif is_short:
            found.append(
                f"At the costs of the samples that were drawn, all {samples} fit, but this is not guaranteed."
            )
        return found

    @property
    def _unaffordable_weights(self) -> list[str]:
        """Say that the bounds on the weights need more money than there is."""
        cost, budget = self.bounded_cost, self.budget
        if cost is None or budget is None or cost <= budget * (1 + ROUNDING):
            return []
        return [
            f"{counted(self.samples or 0, 'sample')} with the shares in weights cost at least "
            f"{number(cost)}; the budget is {number(budget)}: raise budget.cost, or expect other shares."
        ]

    @property
    def lines(self) -> list[str]:
        """The expected cost and time, one sentence each."""
        return [*self._cost_lines, self._time_line]

    @property
    def _cost_lines(self) -> list[str]:
        unknown = [arm for arm, cost in self.costs.items() if cost is None]
        if unknown:
            return [f"The cost is unknown, because {_these(unknown)} no price."]
        ranked = sorted(self.costs, key=lambda arm: self.costs[arm] or 0.0)
        first, last = ranked[0], ranked[-1]
        found = []
        if self.cost is not None:
            low, even, high = (number(v) for v in vars(self.cost).values())
            at_most = any(self.costs[arm] == self.most[arm] for arm in self.bounded)
            verb = "costs" if self.samples == 1 else "cost"
            price = f"{'up to ' if at_most else ''}{low}" if self.cost.dearest else "nothing"
            text = f"{counted(self.samples or 0, 'sample')} {verb} {price}"
            if low != high:
                text += f" ({self._source(first)}) to {high} ({self._source(last)}); {even} in equal shares"
            found.append(f"{text}.")
        elif self.covered is not None:
            most, even, low = (f"{v:,}" for v in vars(self.covered).values())
            text = f"The cost budget of {number(self.budget)} covers {low}"
            if low != most:
                text += f" (all from {last}) to {most} (all from {first})"
                text += f" samples; {even} in equal shares"
            else:
                text += " samples"
            found.append(f"{text}.")
        return found

    @property
    def _time_line(self) -> str:
        if self.seconds is None:
            return "The time is unknown without a sample from every arm."
        return f"Generating the samples in equal shares takes about {duration(self.seconds)}, plus embedding."

    def as_dict(self) -> dict[str, Any]:
        return {
            "samples": self.samples,
            "budget": self.budget,
            "cost": None if self.cost is None else vars(self.cost),
            "covered": None if self.covered is None else vars(self.covered),
            "seconds": self.seconds,
            "warm_start": self.warm_start.size,
            "left_out": list(self.warm_start.left_out),
            "warnings": self.warnings,
        }


def _each(costs: Mapping[str, float | None]) -> tuple[float, float, float] | None:
    """Return the smallest, the mean and the largest cost; None if one is unknown."""
    known = [cost for cost in costs.values() if cost is not None]
    if len(known) < len(costs):
        return None
    return min(known), math.fsum(known) / len(known), max(known)


def _whole(number: float) -> float:
    return number if math.isinf(number) else math.floor(number * (1 + ROUNDING))


def _limit(supply: int | None) -> float:
    return math.inf if supply is None else supply


def _these(arms: Sequence[str]) -> str:
    if len(arms) == 1:
        return f"the arm {arms[0]!r} has"
    return f"the arms {listed_few(map(repr, arms))} have"


def estimate(
    study: Study,
    generators: Mapping[str, Generator],
    drawn: Mapping[str, float | None] | None = None,
    seconds: Mapping[str, float] | None = None,
) -> Estimate:
    """Estimate what a study costs and how long it takes.

    ``drawn`` and ``seconds`` are the cost and the duration of one sample per arm, where there is one.
    """
    budget, drawn, seconds = study.budget, drawn or {}, seconds or {}
    most = {label: generator.most_cost() for label, generator in generators.items()}
    supply = {label: generator.available() for label, generator in generators.items()}
    fitted = WarmStart(study.warm_start)
    if budget.cost is not None:
        least = max(trial_objective(study).least_samples, MIN_WARM_START)
        fitted = fit_warm_start(study.warm_start, least, most, budget.samples, budget.cost, supply)
    costs = {label: most[label] if drawn.get(label) is None else drawn[label] for label in most}
    return Estimate(
        samples=budget.samples,
        budget=budget.cost,
        costs=costs,
        most=most,
        bounded=[a for a, s in study.arms.items() if getattr(s, "max_tokens", None) is not None],
        seconds=_time(study, costs, seconds),
        warm_start=fitted,
        is_shorter=fitted.size < study.warm_start,
        supply=supply,
        tried=worth_trying(generators, budget.cost or 0.0),
        bounded_cost=_bounded_cost(study, most),
    )


def _bounded_cost(study: Study, most: Mapping[str, float | None]) -> float | None:
    """Return the cost of the samples with the cheapest weights that the study allows, if it is known."""
    limits, samples, costs = study.weights, study.budget.samples, list(most.values())
    if limits is None or samples is None or None in costs:
        return None
    known = np.array(costs, dtype=float)
    bounds = bounds_of(list(most), limits.at_least, limits.at_most)
    return samples * float(known @ fill(known, bounds))


def _time(
    study: Study, costs: Mapping[str, float | None], seconds: Mapping[str, float]
) -> float | None:
    """Return the time to generate equal shares: limited by all requests in flight, and by each arm's."""
    known = [cost for cost in costs.values() if cost is not None]
    samples: float | None = study.budget.samples
    if samples is None and study.budget.cost is not None and len(known) == len(costs):
        mean = math.fsum(known) / len(known)
        samples = study.budget.cost / mean if mean > 0 else None
    if samples is None or set(seconds) != set(costs):
        return None
    each = samples / len(costs)
    busy = {label: each * seconds[label] for label in costs}
    slowest = max(busy[label] / study.calls(label) for label in costs)
    return max(math.fsum(busy.values()) / study.in_flight, slowest)


# -- the rest of a run -------------------------------------------------------------------------------


def warnings_on_resume(
    study: Study, generators: Mapping[str, Generator], journal: JournalReader, is_changed: bool
) -> list[str]:
    """Return what the money that is left does not cover, one sentence each.

    ``is_changed`` says whether the study has changed. If not, a run that spends less per sample than before
    does so by its plan.
    """
    told, spent, paid = journal.told_counts(), journal.cost_by_arm(), math.fsum(journal.costs())
    done = sum(told.values()) + sum(sample is not None for _, sample in journal.open_tickets())
    if not done:
        return estimate(study, generators).warnings
    prices = {
        label: _price_so_far(generator, told.get(label, 0), spent.get(label, 0.0))
        for label, generator in generators.items()
    }
    prices = {label: price for label, price in prices.items() if price.supply > 0}
    costs = {label: price.mean for label, price in prices.items()}
    each, budget = _each(costs) if costs else None, study.budget
    if budget.samples is None or budget.cost is None or each is None or budget.samples <= done:
        return []
    lowest, _, dearest = each
    more, left = budget.samples - done, max(budget.cost - paid, 0.0)
    at_means = cheapest(((p.mean, p.supply) for p in prices.values()), more)
    expected = more * paid / done
    needed = expected + reserve(prices, more, False) - at_means
    enough = f"a total cost of {(total := _rounded_up(paid + needed))} (--cost {total})"
    begin = f"{number(left)} is left for {counted(more, 'more sample')}"
    covered = number_covered(prices, left * (1 + ROUNDING), more)
    if covered < more and lowest < dearest:
        supply = generators[min(costs, key=lambda label: costs[label] or 0.0)].available()
        arms = "the cheapest arm" if supply is None else "the cheapest arms"
        return [f"{begin}: expect about {covered:,}, all from {arms}; {enough} keeps the mixture."]
    if covered < more:
        return [f"{begin}: expect about {covered:,}; {enough} covers all of them."]
    if is_changed and expected > NOTICEABLE * left:
        return [
            f"{begin}, which cost {number(expected)} at the mean cost so far: expect more samples from "
            f"cheap arms than before; {enough} keeps the mixture."
        ]
    return []


def _price_so_far(generator: Generator, told: int, spent: float) -> Price:
    most, supply = generator.most_cost(), _limit(generator.available())
    return Price(most, spent / told if told else most, supply - told)


def _rounded_up(cost: float) -> str:
    """Round a cost up to three digits."""
    unit = 10.0 ** (math.floor(math.log10(cost)) - 2) if cost > 0 else 1.0
    return f"{math.ceil(cost / unit * (1 - ROUNDING)) * unit:.10g}"
