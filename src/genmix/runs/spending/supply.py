"""Whether the arms, the money and the objective can deliver what the budget asks for."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping

from genmix.core.text import counted, number
from genmix.errors import InputError
from genmix.generators.base import Generator
from genmix.objectives.vendi import EXACT_LIMIT
from genmix.runs.spending.budget import ROUNDING
from genmix.study.components import trial_objective
from genmix.study.study import Study


def check_supply(
    study: Study, generators: Mapping[str, Generator], told: Mapping[str, int] | None = None
) -> None:
    """Refuse arms that may run out of samples before the budget is spent.

    ``told`` counts the samples that a run already has, by arm, including arms that were removed.
    """
    told, budget = told or {}, study.budget.samples
    if not told:
        _check_cost_covers_a_sample(study, generators)
    supply = {label: generator.available() for label, generator in generators.items()}
    if budget is None:
        _check_budget_ends(study, generators)
        _check_sample_limit(study, list(supply.values()))
        return
    budget -= sum(count for label, count in told.items() if label not in supply)
    limited = {label: count for label, count in supply.items() if count is not None}
    if len(limited) == len(supply) and sum(limited.values()) < budget:
        raise InputError(
            f"the arms have {counted(sum(limited.values()), 'sample')} in total, but the budget asks for "
            f"{budget:,}; lower budget.samples, or add samples."
        )
    least = {label: max(study.warm_start, told.get(label, 0)) for label in supply}
    for label, count in limited.items():
        most = budget - sum(least.values()) + least[label]
        may_run_out = getattr(study.arms[label], "exhausted", "refuse") == "retire"
        if count < max(most, study.warm_start) and not may_run_out:
            raise InputError(
                f"arm {label!r} has {counted(count, 'sample')}, but the budget may need {most:,} from it; "
                "lower budget.samples, add samples, or set 'exhausted: retire' to continue without it."
            )


def _check_cost_covers_a_sample(study: Study, generators: Mapping[str, Generator]) -> None:
    """Refuse a cost budget that does not cover even one sample."""
    costs = [generator.most_cost() for generator in generators.values()]
    cheapest = min((math.inf if cost is None else cost for cost in costs), default=0.0)
    limit = study.budget.cost
    if limit is not None and None not in costs and cheapest > limit * (1 + ROUNDING):
        raise InputError(
            f"the cost budget of {number(limit)} does not cover a single sample, because one from the "
            f"cheapest arm can cost up to {number(cheapest)}; raise budget.cost to at least that, or lower "
            "max_tokens."
        )


def _check_budget_ends(study: Study, generators: Mapping[str, Generator]) -> None:
    """Refuse a budget that would never be spent."""
    free = all(generator.most_cost() == 0 for generator in generators.values())
    endless = any(generator.available() is None for generator in generators.values())
    if study.budget.time is None and free and endless:
        raise InputError(
            "the budget limits only the cost, but no arm costs anything; set prices, budget.samples or "
            "budget.time."
        )


def max_samples(study: Study) -> int | None:
    """Return the number of samples at which a run ends: its budget, or what the objective allows."""
    if study.budget.samples is not None:
        return study.budget.samples
    try:
        trial_objective(study).check_total(sys.maxsize)
    except InputError:
        return EXACT_LIMIT
    return None


def _check_sample_limit(study: Study, supply: list[int | None]) -> None:
    """Refuse a budget under which the samples could outgrow the objective after they are paid for."""
    limit = max_samples(study)
    most = sum(supply) if None not in supply else None  # type: ignore[arg-type]
    if limit is not None and (most is None or most > limit):
        raise InputError(
            f"the budget does not limit the number of samples, but an exact kernel allows at most {limit}; "
            f"add 'features: 512' to the kernel, or set budget.samples to at most {limit}."
        )
