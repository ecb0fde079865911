"""Estimate what a study costs and how long it takes, before any money is spent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from genmix.core.text import duration, listed, number
from genmix.generators.base import Generator
from genmix.runs.budget import ROUNDING
from genmix.runs.planning import MIN_WARM_START, WarmStart, fit_warm_start
from genmix.study.components import trial_objective
from genmix.study.study import Study


@dataclass(frozen=True)
class Mixed:
    """A number for the cheapest arm, for equal parts of all arms, and for the most expensive arm."""

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
    seconds: float | None
    """Time to generate the samples in equal parts; None if it is unknown."""
    warm_start: WarmStart
    is_shorter: bool
    """Whether the warm start is shorter than in the study."""
    can_be_cheaper: bool
    """Whether the costs are upper bounds that most samples stay below."""

    @property
    def cost(self) -> Mixed | None:
        """The cost of the samples; None if it is unknown or the number of samples is not given."""
        each = self._each
        if self.samples is None or each is None:
            return None
        return Mixed(*(self.samples * value for value in each))

    @property
    def covered(self) -> Mixed | None:
        """The number of samples that the budget covers; None if it is unknown or unlimited."""
        each = self._each
        if self.budget is None or each is None or each[0] <= 0:
            return None
        return Mixed(*(math.floor(self.budget / value * (1 + ROUNDING)) for value in each))

    @property
    def _each(self) -> tuple[float, float, float] | None:
        costs = [cost for cost in self.costs.values() if cost is not None]
        if len(costs) < len(self.costs):
            return None
        return min(costs), math.fsum(costs) / len(costs), max(costs)

    @property
    def warnings(self) -> list[str]:
        """What the budget does not cover, one sentence each."""
        found, (size, left_out) = [], (self.warm_start.size, self.warm_start.left_out)
        covered = self.covered
        if self.cost and covered and self.samples and covered.cheapest < self.samples:
            least, budget = number(self.cost.cheapest), number(self.budget)
            found.append(
                f"{self.samples:,} samples can cost {least} even if all come from the cheapest arm; the "
                f"budget is {budget}: expect at least {covered.cheapest:,}."
                if self.can_be_cheaper
                else f"{self.samples:,} samples cost at least {least}; the budget is {budget}: expect "
                f"about {covered.cheapest:,}, all from the cheapest arm."
            )
        if self.is_shorter:
            found.append(
                f"The warm start is shortened to {size} samples per arm, because the cost budget does not "
                "cover more."
            )
        if left_out:
            arms, which = ("arm", "its") if len(left_out) == 1 else ("arms", "their")
            found.append(
                f"The {arms} {listed(map(repr, left_out))} will not be used, because the cost budget does "
                f"not cover {which} warm start; raise budget.cost or lower budget.samples."
            )
        return found

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
            text = f"{self.samples:,} samples cost {low}"
            if low != high:
                text += f" (all from {first}) to {high} (all from {last}); {even} in equal parts"
            found.append(f"{text}.")
        elif self.covered is not None:
            most, even, low = (f"{v:,}" for v in vars(self.covered).values())
            text = f"The cost budget of {number(self.budget)} covers {low}"
            if low != most:
                text += f" (all from {last}) to {most} (all from {first})"
                text += f" samples; {even} in equal parts"
            else:
                text += " samples"
            found.append(f"{text}.")
        return found

    @property
    def _time_line(self) -> str:
        if self.seconds is None:
            return "The time is unknown without a sample from every arm."
        return (
            f"Generating them in equal parts takes about {duration(self.seconds)}, plus embedding."
        )

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


def _these(arms: Sequence[str]) -> str:
    if len(arms) == 1:
        return f"the arm {arms[0]!r} has"
    return f"the arms {listed(map(repr, arms))} have"


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
    fitted = WarmStart(study.warm_start)
    if budget.cost is not None:
        least = max(trial_objective(study).least_samples, MIN_WARM_START)
        fitted = fit_warm_start(study.warm_start, least, most, budget.samples, budget.cost)
    costs = {label: most[label] if drawn.get(label) is None else drawn[label] for label in most}
    return Estimate(
        samples=budget.samples,
        budget=budget.cost,
        costs=costs,
        seconds=_time(study, costs, seconds),
        warm_start=fitted,
        is_shorter=fitted.size < study.warm_start,
        can_be_cheaper=any(
            drawn.get(label) is None and getattr(arm, "max_tokens", None) is not None
            for label, arm in study.arms.items()
        ),
    )


def _time(
    study: Study, costs: Mapping[str, float | None], seconds: Mapping[str, float]
) -> float | None:
    """Return the time to generate equal parts: limited by all requests in flight, and by each arm's."""
    known = [cost for cost in costs.values() if cost is not None]
    samples: float | None = study.budget.samples
    if samples is None and study.budget.cost is not None and len(known) == len(costs):
        mean = math.fsum(known) / len(known)
        samples = study.budget.cost / mean if mean > 0 else None
    if samples is None or set(seconds) != set(costs):
        return None
    each = samples / len(costs)
    busy = {label: each * seconds[label] for label in costs}
    slowest = max(busy[label] / study.arms[label].concurrency for label in costs)
    return max(math.fsum(busy.values()) / study.in_flight, slowest)
