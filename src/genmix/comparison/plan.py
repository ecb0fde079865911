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
from genmix.comparison.variant import Variant, has_fixed_weights
from genmix.comparison.worlds import World
from genmix.core.arrays import Vector
from genmix.core.description import Description, has_missing, to_plain
from genmix.core.streams import VERSION
from genmix.core.text import listed
from genmix.errors import InputError, whole
from genmix.objectives import Objective, Sum
from genmix.offline.grouped import GroupedMixture
from genmix.offline.mixture import Mixture, optimal_mixture
from genmix.policies import MixtureGreedy
from genmix.selector.groups import pooling_of
from genmix.selector.prompts import prompt_columns
from genmix.shards.processes import one_thread

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
    record_at: tuple[int, ...] = ()
    """Further sample counts at which curves are recorded."""


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
        for label, variant in variants.items():
            _check_prompts(label, variant, world)
            if variant.policy is not None:
                arms = list(world.arms)
                variant.policy.check(arms, arms, variant.objective or objective)
        objectives = [objective, *(v.objective for v in variants.values() if v.objective)]
        world = _with_pairs(world, objectives)
        pools = list(world.arms.values())
        with one_thread():
            fixed = objective.fix_bandwidths(pools)
            variants = {label: _fix_bandwidths(each, pools) for label, each in variants.items()}
        plan = cls(world, fixed, variants, whole(repeats, "repeats", 1), options)
        longest = max(plan.variants, key=plan.warm_samples)
        samples = plan.warm_samples(longest)
        if options.rounds <= samples:
            each = variants[longest].warm_start or options.warm_start
            units = "pairs of a group and an arm" if plan.warms_cells(longest) else "arms"
            raise InputError(
                f"the budget of {options.rounds} samples does not exceed the warm start of "
                f"{samples} ({each} for each of {samples // each} {units}); "
                "raise the budget or lower warm_start."
            )
        return plan

    def warm_samples(self, label: str) -> int:
        """Return the number of samples in a variant's warm start."""
        variant = self.variants[label]
        if has_fixed_weights(variant):
            return 0
        cells = self.world.prompts if self.warms_cells(label) else None
        units = len(self.arms) * (1 if cells is None else len(cells.group_names))
        return (variant.warm_start or self.options.warm_start) * units

    def warms_cells(self, label: str) -> bool:
        """Return whether a variant's warm start is per group and arm, instead of per arm."""
        variant = self.variants[label]
        if not variant.groups or has_fixed_weights(variant):
            return False
        policy = MixtureGreedy() if variant.policy is None else variant.policy
        return pooling_of(variant.pooling, policy, variant.objective or self.objective) == 0

    def __getstate__(self) -> dict[str, Any]:
        """Omit the cached values, which worker processes compute themselves."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def arms(self) -> list[str]:
        return list(self.world.arms)

    @cached_property
    def best(self) -> Mixture:
        """The best mixture of the population, which consists of the pools; with prompts, one per group."""
        world, objective = self.world, _without_corrections(self.objective)
        with one_thread():
            if world.prompts is None:
                return optimal_mixture(world.arms, objective, world.qualities, world.costs)
            shares = world.prompts.group_shares
            return optimal_mixture(
                world.prompts.cells(world.arms),
                objective,
                None if world.qualities is None else world.prompts.cells(world.qualities),
                None if world.costs is None else dict.fromkeys(shares, world.costs),
                groups=shares,
                pooling=0.0,
            )

    @property
    def best_for_all(self) -> dict[str, float]:
        """The weights of the best mixture that is the same for all prompts."""
        best = self.best
        return best.one_for_all.weights if isinstance(best, GroupedMixture) else best.weights

    @property
    def group_count(self) -> int:
        """The number of groups of prompts; 1 without prompts."""
        return 1 if self.world.prompts is None else len(self.world.prompts.group_names)

    def cell_weights(self, weights: NDArray[np.float64]) -> Vector:
        """Return the weights of all cells, given those of the arms in every group."""
        prompts = self.world.prompts
        shares = [1.0] if prompts is None else list(prompts.group_shares.values())
        found: Vector = (np.array(shares)[:, None] * weights).ravel()
        return found

    def arm_weights(self, cells: Vector) -> Vector:
        """Return the weights of the arms over all groups, given those of all cells."""
        found: Vector = cells.reshape(self.group_count, len(self.arms)).sum(axis=0)
        return found

    @cached_property
    def best_arm(self) -> str:
        alone = self.best.single_losses
        return min(alone, key=alone.__getitem__)

    @cached_property
    def times(self) -> NDArray[np.int64]:
        """Sample counts at which curves are recorded."""
        first = min(max(self.objective.least_samples, 2), self.options.rounds)
        spaced = np.geomspace(first, self.options.rounds, self.options.points)
        also = [t for t in self.options.record_at if first <= t <= self.options.rounds]
        return np.unique([*np.round(spaced).astype(np.int64), *also]).astype(np.int64)

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
                }
                | _plain_prompts(world),
                "objective": to_plain(self.objective),
                "repeats": None,
                "options": _without(vars(self.options), "record_at", ()),
                "genmix": __version__,
                "streams": VERSION,
            }
        )

    def key(self, label: str, repeat: int) -> str:
        """Return the key of a trial: trials with equal keys have equal results."""
        parts = {
            "plan": self.fingerprint,
            "variant": _plain_variant(self.variants[label]),
            "repeat": repeat,
        }
        return digest(parts if self.has_stable_keys else parts | {"label": label})

    @cached_property
    def has_stable_keys(self) -> bool:
        """Whether equal keys imply equal results; the code of custom functions and classes can change."""
        return _is_ours(self.objective) and all(map(_is_ours, self.variants.values()))


def _plain_variant(variant: Variant) -> Any:
    """Describe a variant. Without groups, as before there were any, so that stored trials keep their keys."""
    plain = to_plain(variant)
    return plain if variant.groups else _without(_without(plain, "groups", False), "pooling", None)


def _without(values: Mapping[str, Any], name: str, usual: Any) -> dict[str, Any]:
    """Leave out a value that is the usual one."""
    return {key: value for key, value in values.items() if key != name or value != usual}


def _check_prompts(label: str, variant: Variant, world: World) -> None:
    if world.prompts is None and variant.policy is not None and variant.policy.needs_prompts:
        raise InputError(
            f"{label} chooses an arm for every prompt, but the samples of {world.name!r} have no prompts; "
            "pass a World with prompts."
        )
    if world.prompts is None and variant.groups:
        raise InputError(
            f"{label} has a mixture for every group of prompts, but the samples of {world.name!r} have no "
            "prompts; pass a World with prompts, or remove groups=True."
        )


def _with_pairs(world: World, objectives: list[Objective]) -> World:
    """Put the embedding of its prompt in front of every output, if the objectives are on pairs."""
    if world.prompts is None:
        return world
    needed = {prompt_columns(objective) for objective in objectives}
    embeddings, answered = world.prompts.embeddings, world.prompts.answered
    if needed == {0}:
        return world
    if needed != {embeddings.shape[1]}:
        raise InputError(
            f"the prompts of {world.name!r} have dimension {embeddings.shape[1]}, but the objectives expect "
            f"{listed(sorted(needed))}; pass Joint({embeddings.shape[1]}) to all of them, with prompt=None "
            "to compare only the outputs."
        )
    pairs = {arm: np.hstack([embeddings[answered[arm]], pool]) for arm, pool in world.arms.items()}
    return replace(world, arms=pairs)


def _plain_prompts(world: World) -> dict[str, Any]:
    if world.prompts is None:
        return {}
    prompts = world.prompts
    return {
        "prompts": {
            "embeddings": prompts.embeddings,
            "groups": list(prompts.groups),
            "answered": dict(prompts.answered),
            "shares": prompts.group_shares,
        }
    }


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
