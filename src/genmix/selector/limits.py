"""Limits on a selector's weights: bounds per arm, and a mean cost that can change while it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from genmix.errors import InputError, number
from genmix.policies import Policy
from genmix.solvers.knapsack import Bounds, fill
from genmix.solvers.region import Region
from genmix.solvers.solve import Solver, region_argument
from genmix.solvers.weight_limits import check_shares, region_of, shares

Spent = Mapping[str, tuple[int, float]]
"""Number of samples of each arm whose cost was told, and the sum of their costs."""


@dataclass(frozen=True)
class Limits:
    """What a user asks of the weights; see :class:`Selector` for the parameters."""

    at_least: dict[str, float] = field(default_factory=dict)
    at_most: dict[str, float] = field(default_factory=dict)
    mean_cost: float | None = None
    prices: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls, arms: Sequence[str], at_least: Any, at_most: Any, mean_cost: Any, prices: Any
    ) -> Limits:
        """Validate the parameters."""
        least, most = shares(at_least, "at_least", arms), shares(at_most, "at_most", arms)
        check_shares(least, most, arms)
        return cls(least, most).planned(arms, mean_cost, prices)

    def planned(self, arms: Sequence[str], mean_cost: Any, prices: Any) -> Limits:
        """Return the limits with another mean cost and further prices."""
        if mean_cost is not None:
            mean_cost = number(mean_cost, "mean_cost", 0.0)
        if prices is not None and not isinstance(prices, Mapping):
            raise InputError(
                f'prices is {prices!r}; pass a map from arm to cost, e.g. {{"a": 0.01}}.'
            )
        unknown = next((arm for arm in prices or () if arm not in arms), None)
        if unknown is not None:
            raise InputError(f"prices names an unknown arm {unknown!r}; use {', '.join(arms)}.")
        new = {
            arm: number(cost, f"the price of {arm!r}", 0.0) for arm, cost in (prices or {}).items()
        }
        return Limits(self.at_least, self.at_most, mean_cost, self.prices | new)

    @property
    def any(self) -> bool:
        """Whether anything is limited."""
        return bool(self.at_least or self.at_most or self.mean_cost is not None)

    def check(self, policy: Policy, solver: Solver) -> None:
        """Refuse a policy or a solver that cannot keep the limits."""
        if not self.any:
            return
        if not policy.solves_in_region:
            raise InputError(
                f"{type(policy).__name__} does not keep at_least, at_most or mean_cost; use a policy over "
                "mixtures, e.g. MixtureUCBV()."
            )
        region_argument(solver, Region(1))

    def cost_of(self, arm: str, spent: Spent) -> float | None:
        """Return the mean cost told for an arm, or its price; None if neither is known."""
        count, total = spent.get(arm, (0, 0.0))
        return total / count if count else self.prices.get(arm)

    def check_cost(self, arm: str, spent: Spent, where: str) -> None:
        """Refuse a sample without a cost if nothing else says what its arm costs."""
        if self.mean_cost is not None and self.cost_of(arm, spent) is None:
            raise InputError(
                f"{where}: mean_cost needs the cost of each sample; pass cost=, or prices= to the selector."
            )

    def region(self, arms: Sequence[str], spent: Spent) -> Region | None:
        """Return the region of the weights of active arms.

        If the cheapest weights cost more than the mean cost, the region consists of these. An arm of unknown
        cost counts as the most expensive one.
        """
        known = [self.cost_of(arm, spent) for arm in arms]
        most = max((cost for cost in known if cost is not None), default=0.0)
        costs = np.array([most if cost is None else cost for cost in known])
        return region_of(arms, self.at_least, self.at_most, costs, self.mean_cost, relax=True)

    def plain(self) -> dict[str, Any]:
        """Return the limits as JSON values."""
        return asdict(self)


def can_save(region: Region) -> bool:
    """Return whether weights in the region can cost less than its first row allows.

    If not, the mean cost was below that of the cheapest weights, and the row says nothing about its worth.
    """
    bounds = Bounds(region.lo, region.hi, region.groups, region.sums)
    cheapest = float(region.rows[0] @ fill(region.rows[0], bounds))
    return cheapest < float(region.limits[0]) * (1 - 1e-12)


def saved_region(region: Region | None) -> dict[str, Any] | None:
    """Return what :func:`loaded_region` needs."""
    if region is None:
        return None
    names = ["lo", "hi", "rows", "limits"] + (["groups", "sums"] if len(region.sums) > 1 else [])
    return {name: getattr(region, name).copy() for name in names}


def loaded_region(saved: Mapping[str, Any] | None, size: int) -> Region | None:
    if saved is None:
        return None
    return Region(
        size,
        saved["lo"],
        saved["hi"],
        saved.get("groups"),  # missing without groups, like the next one
        saved.get("sums", (1.0,)),
        saved["rows"],
        saved["limits"],
    )


def loaded_spent(saved: Mapping[str, Any]) -> dict[str, tuple[int, float]]:
    found = {arm: (int(count), float(total)) for arm, (count, total) in saved.items()}
    if not all(count >= 0 and 0 <= total < np.inf for count, total in found.values()):
        raise InputError(
            "the costs of the saved state are not valid; pass what state_dict() returned."
        )
    return found
