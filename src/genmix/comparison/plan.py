"""The plan of a comparison: the world, what is optimum in it, and every run that is to be made."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from genmix import __version__
from genmix.comparison.variants import Variant, knows_its_shares
from genmix.comparison.worlds import World
from genmix.core.description import Description, from_plain, has_missing, to_plain
from genmix.errors import InputError, whole
from genmix.objectives.base import Objective, Sum
from genmix.offline.mixture import Mixture, optimal_mixture

POINTS = 60
"""About how many times t the curves are read at, evenly in log t."""


@dataclass(frozen=True)
class Options:
    """What all variants share unless they say otherwise."""

    rounds: int
    warm_start: int = 10
    draw: str = "iid"
    resolve_growth: float = 0.01
    seed: int = 0
    population: bool = True
    """Whether to follow the population score of the current mixture, and with it the regret."""
    points: int = POINTS


@dataclass(frozen=True)
class Plan:
    """All of a comparison but its results."""

    world: World
    objective: Objective
    """With bandwidths and frequencies fixed by the world's pools: all runs share one yardstick."""
    variants: dict[str, Variant]
    repeats: int
    options: Options

    @classmethod
    def of(
        cls,
        world: World,
        objective: Objective,
        variants: Mapping[str, Variant],
        repeats: int,
        options: Options,
    ) -> Plan:
        arms, pools = list(world.arms), list(world.arms.values())
        for variant in variants.values():
            if variant.policy is not None:
                variant.policy.check(arms, arms, variant.objective or objective)
        with threadpool_limits(1):  # the same bits, whoever computes them
            fixed = objective.resolve(pools)
            resolved = {label: _resolved(variant, pools) for label, variant in variants.items()}
        plan = cls(world, fixed, resolved, whole(repeats, "repeats", 1), options)
        learning = [v for v in resolved.values() if not knows_its_shares(v)]
        most = max((v.warm_start or options.warm_start for v in learning), default=0)
        least = most * len(world.arms)
        if options.rounds <= least:
            raise InputError(
                f"{options.rounds} samples are no more than the warm start of {len(pools)} arms "
                f"takes ({least}): raise the budget or lower warm_start."
            )
        return plan

    @cached_property
    def best(self) -> Mixture:
        """The best mixture of the pools, which are the population: no estimate is made of them."""
        world, objective = self.world, of_population(self.objective)
        with threadpool_limits(1):
            return optimal_mixture(world.arms, objective, world.qualities, world.costs)

    @cached_property
    def best_arm(self) -> str:
        alone = self.best.single_losses
        return min(alone, key=alone.__getitem__)

    @cached_property
    def times(self) -> NDArray[np.int64]:
        """When the curves are read: about 60 numbers of samples, evenly in their logarithm."""
        first = min(max(self.objective.least_samples, 2), self.options.rounds)
        spaced = np.geomspace(first, self.options.rounds, self.options.points)
        return np.unique(np.round(spaced).astype(np.int64))

    @property
    def cells(self) -> list[tuple[str, int]]:
        """Every run: a variant's label and the repeat; repeats outside, so that all grow together."""
        return [(label, r) for r in range(self.repeats) for label in self.variants]

    @cached_property
    def fingerprint(self) -> str:
        """Of all that a run depends on beside its variant and its repeat, up to rounding."""
        common = {key: value for key, value in self.plain().items() if key != "variants"}
        return digest({**common, "repeats": None, "genmix": __version__})

    def key(self, label: str, repeat: int) -> str:
        """Of one run: equal keys, equal results."""
        variant = to_plain(self.variants[label])
        named = {} if self.travels else {"label": label}  # what no key can tell apart
        return digest({"plan": self.fingerprint, "variant": variant, "repeat": repeat} | named)

    @cached_property
    def travels(self) -> bool:
        """Whether other processes know all that it names: no functions or classes of the user's."""
        return _is_ours(self.objective) and all(map(_is_ours, self.variants.values()))

    def plain(self) -> dict[str, Any]:
        """Arrays and JSON values, from which ``from_plain`` makes the plan again."""
        return {
            "world": {
                "name": self.world.name,
                "arms": list(self.world.arms),
                "pools": list(self.world.arms.values()),
                "costs": _floats(self.world.costs),
                "qualities": self.world.qualities,
                "encoder": self.world.encoder,
            },
            "objective": to_plain(self.objective),
            "variants": {label: to_plain(each) for label, each in self.variants.items()},
            "repeats": self.repeats,
            "options": vars(self.options),
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Plan:
        told = plain["world"]
        pools = dict(zip(told["arms"], told["pools"], strict=True))
        return cls(
            World(
                told["name"],
                pools,
                encoder=told["encoder"],
                costs=told["costs"],
                qualities=told["qualities"],
            ),
            from_plain(plain["objective"]),
            {label: from_plain(each) for label, each in plain["variants"].items()},
            plain["repeats"],
            Options(**plain["options"]),
        )


def of_population(objective: Objective) -> Objective:
    """The objective for pools that are the distribution itself, without corrections for few samples."""
    if isinstance(objective, Sum):
        return Sum(tuple((weight, of_population(term)) for weight, term in objective.terms))
    plain: dict[str, Any] = {"unbiased": False, "ddof": 0}
    found = {name: value for name, value in plain.items() if getattr(objective, name, value)}
    return replace(objective, **found) if found else objective  # type: ignore[type-var]


def _is_ours(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_is_ours, value))
    if isinstance(value, Description):
        ours = type(value).__module__.startswith("genmix.")
        return ours and all(_is_ours(part) for part in vars(value).values())
    return not callable(value) and has_missing(value) is None


def _floats(costs: Mapping[str, float] | None) -> dict[str, float] | None:
    return None if costs is None else {arm: float(cost) for arm, cost in costs.items()}


def _resolved(variant: Variant, pools: list[Any]) -> Variant:
    if variant.objective is None:
        return variant
    given = {**vars(variant), "objective": variant.objective.resolve(pools)}
    return Variant(**given)


def digest(value: Any) -> str:
    """A short name for nested plain data with arrays."""
    found = hashlib.blake2b(digest_size=16)
    _feed(value, found)
    return found.hexdigest()


def _feed(value: Any, into: Any) -> None:
    if isinstance(value, np.ndarray):
        into.update(f"{value.dtype.str}{value.shape}".encode())
        into.update(np.ascontiguousarray(value).data)
    elif isinstance(value, Mapping):
        for key in value:
            into.update(f"{key!r}:".encode())
            _feed(value[key], into)
        into.update(b"}")
    elif isinstance(value, list | tuple):
        for item in value:
            _feed(item, into)
            into.update(b",")
        into.update(b"]")
    else:
        into.update(json.dumps(value).encode())
