"""The plan of a comparison: the world, its best mixture, and every trial to run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genmix import __version__
from genmix.shards.processes import one_thread
from genmix.comparison.variant import Variant, has_fixed_weights
from genmix.comparison.worlds import World
from genmix.core.description import Description, has_missing, to_plain
from genmix.core.streams import VERSION
from genmix.errors import InputError, whole
from genmix.objectives import Objective, Sum
from genmix.offline.mixture import Mixture, optimal_mixture
from genmix.policies import Policy

POINTS = 60
"""Approximate number of times at which curves are recorded, evenly spaced in log t."""


@dataclass(frozen=True)
class Options:
    """Options for every variant that does not override them."""

    rounds: int
    warm_start: int = 10
    draw: str | None = None
    resolve_growth: float = 0.01
    seed: int = 0
    population: bool = True
    """Whether to record the population score of the current mixture, which is needed for regret."""
    points: int = POINTS


@dataclass(frozen=True)
class Plan:
    """Everything about a comparison except its results."""

    world: World
    objective: Objective
    """The objective with bandwidths and frequencies fixed from the pools, the same for all trials."""
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
        for label, variant in variants.items():
            if variant.policy is not None:
                _check_prompts(label, variant.policy, world)
                variant.policy.check(arms, arms, variant.objective or objective)
        with one_thread():
            fixed = objective.fix_bandwidths(pools)
            variants = {label: _fix_bandwidths(each, pools) for label, each in variants.items()}
        plan = cls(world, fixed, variants, whole(repeats, "repeats", 1), options)
        learning = [v for v in variants.values() if not has_fixed_weights(v)]
        warm_start = max((v.warm_start or options.warm_start for v in learning), default=0)
        if options.rounds <= warm_start * len(arms):
            raise InputError(
                f"the budget of {options.rounds} samples does not exceed the warm start of "
                f"{warm_start * len(arms)} ({warm_start} for each of {len(arms)} arms); "
                "raise the budget or lower warm_start."
            )
        return plan

    def __getstate__(self) -> dict[str, Any]:
        """Omit the cached values, which worker processes compute themselves."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def arms(self) -> list[str]:
        return list(self.world.arms)

    @cached_property
    def best(self) -> Mixture:
        """The best mixture of the population, which consists of the pools."""
        world, objective = self.world, _without_corrections(self.objective)
        with one_thread():
            return optimal_mixture(world.arms, objective, world.qualities, world.costs)

    @cached_property
    def best_arm(self) -> str:
        alone = self.best.single_losses
        return min(alone, key=alone.__getitem__)

    @cached_property
    def times(self) -> NDArray[np.int64]:
        """Sample counts at which curves are recorded."""
        first = min(max(self.objective.least_samples, 2), self.options.rounds)
        spaced = np.geomspace(first, self.options.rounds, self.options.points)
        return np.unique(np.round(spaced).astype(np.int64))

    @property
    def trials(self) -> list[tuple[str, int]]:
        """The label and repeat of every trial, ordered by repeat."""
        return [(label, r) for r in range(self.repeats) for label in self.variants]

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything a trial depends on except its variant and its repeat."""
        world = self.world
        costs = world.costs and {arm: float(cost) for arm, cost in world.costs.items()}
        return digest(
            {
                "world": {
                    "name": world.name,
                    "arms": self.arms,
                    "pools": list(world.arms.values()),
                    "costs": costs,
                    "qualities": world.qualities,
                    "encoder": world.encoder,
                },
                "objective": to_plain(self.objective),
                "repeats": None,
                "options": vars(self.options),
                "genmix": __version__,
                "streams": VERSION,
            }
        )

    def key(self, label: str, repeat: int) -> str:
        """Return the key of a trial: trials with equal keys have equal results."""
        parts = {
            "plan": self.fingerprint,
            "variant": to_plain(self.variants[label]),
            "repeat": repeat,
        }
        return digest(parts if self.has_stable_keys else parts | {"label": label})

    @cached_property
    def has_stable_keys(self) -> bool:
        """Whether equal keys imply equal results; the code of custom functions and classes can change."""
        return _is_ours(self.objective) and all(map(_is_ours, self.variants.values()))


def _check_prompts(label: str, policy: Policy, world: World) -> None:
    if policy.needs_prompts:
        raise InputError(
            f"{label} chooses an arm for every prompt, but the samples of {world.name!r} have no prompts; "
            "compare it in a loop of your own, with Selector.ask(prompt=…)."
        )


def _without_corrections(objective: Objective) -> Objective:
    """Remove the small-sample corrections, because the pools are the whole distribution."""
    if isinstance(objective, Sum):
        return Sum(tuple((weight, _without_corrections(term)) for weight, term in objective.terms))
    plain: dict[str, Any] = {"unbiased": False, "ddof": 0}
    changed = {name: value for name, value in plain.items() if getattr(objective, name, value)}
    return replace(objective, **changed) if changed else objective  # type: ignore[type-var]


def _fix_bandwidths(variant: Variant, pools: list[Any]) -> Variant:
    if variant.objective is None:
        return variant
    return replace(variant, objective=variant.objective.fix_bandwidths(pools))


def _is_ours(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_is_ours, value))
    if isinstance(value, Description):
        ours = type(value).__module__.startswith("genmix.")
        return ours and all(_is_ours(part) for part in vars(value).values())
    return not callable(value) and has_missing(value) is None


def digest(value: Any) -> str:
    """Hash nested plain data that can contain arrays."""
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
        for part in value:
            _feed(part, into)
            into.update(b",")
        into.update(b"]")
    else:
        into.update(json.dumps(value).encode())
