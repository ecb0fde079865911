"""What is compared: a policy with the selector's options, or an oracle that the world itself tells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal

import genmix as gx
from genmix.core.description import Description
from genmix.errors import InputError
from genmix.policies import Fixed, MixtureOracle, OneArmOracle, Policy, Uniform
from genmix.solvers.simplex import Solver

LABELS = {
    "MixtureGreedy": "Mixture-Greedy",
    "MixtureBonus": "Mixture-Bonus",
    "MixtureUCB": "Mixture-UCB",
    "MixtureOGD": "Mixture-OGD",
    "MixtureOracle": "Mixture oracle",
    "OneArmOracle": "One-arm oracle",
    "OneArmGreedy": "One-arm greedy",
    "EpsilonGreedy": "ε-greedy",
    "OneArmUCB": "One-arm UCB",
    "FrechetUCB": "FD-UCB",
    "Uniform": "Uniform",
}
"""What the policies are called in figures and tables."""

ORACLES = {"mixture-oracle": "Mixture oracle", "one-arm-oracle": "One-arm oracle"}
"""Policies that are told in advance what the world's samples say in all."""

DEFAULT = ("mixture-greedy", "mixture-ucb", "mixture-oracle", "one-arm-oracle", "one-arm-greedy")


@dataclass(frozen=True, eq=False)
class Variant(Description):
    """One way to spend the budget. What is None is taken from the comparison.

    ``objective`` is what the policy learns with, where that differs from what all are scored by.
    """

    policy: Policy | None = None
    """None: Mixture-Greedy."""
    warm_start: int | None = None
    draw: Literal["iid", "tracking"] | None = None
    resolve_growth: float | None = None
    solver: Solver | None = None
    objective: gx.Objective | None = None
    oracle: str | None = None
    """mixture-oracle or one-arm-oracle, whose weights the world tells."""

    def __post_init__(self) -> None:
        if self.oracle is not None and self.oracle not in ORACLES:
            raise InputError(f"unknown oracle {self.oracle!r}: give {' or '.join(ORACLES)}.")

    @property
    def label(self) -> str:
        if self.oracle is not None:
            return ORACLES[self.oracle]
        if self.policy is None:
            return "Mixture-Greedy"
        name = type(self.policy).__name__
        return LABELS.get(name, name)

    @property
    def options(self) -> dict[str, Any]:
        """What it sets of the selector's options."""
        names = ("warm_start", "draw", "resolve_growth", "solver")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


def knows_its_shares(variant: Variant) -> bool:
    """Whether its weights are known beforehand, so that it needs no warm start."""
    known = isinstance(variant.policy, Fixed | Uniform | OneArmOracle | MixtureOracle)
    return known or variant.oracle is not None


def read_variants(given: Any) -> dict[str, Variant]:
    """Labelled variants from policies, their names, variants, or a map from label to any of these."""
    if given is None:
        given = DEFAULT
    if isinstance(given, Mapping) and given:
        return {str(label): _variant(each) for label, each in given.items()}
    if isinstance(given, str | Policy | Variant) or not isinstance(given, Iterable):
        raise InputError(f"policies is {given!r}: give a list of policies, or a map from label.")
    found: dict[str, Variant] = {}
    for each in given:
        variant = _variant(each)
        label = _unused(variant, found)
        found[label] = variant
    if not found:
        raise InputError("there are no policies to compare: give at least one.")
    return found


SYMBOLS = {"delta": "δ", "epsilon": "ε", "beta": "β"}


def _changed(policy: Policy | None) -> list[tuple[str, float]]:
    """The numbers in which a policy differs from its default."""
    if policy is None or not is_dataclass(policy):
        return []
    given = [(f.name, getattr(policy, f.name), f.default) for f in fields(policy)]
    return [(name, now) for name, now, usual in given if isinstance(now, float) and now != usual]


def _unused(variant: Variant, found: Mapping[str, Variant]) -> str:
    """Its label, with the parameters if another has that label already."""
    label = variant.label
    if label not in found:
        return label
    said = [f"{SYMBOLS.get(name, name)}={value:g}" for name, value in _changed(variant.policy)]
    said += [f"{name}={value}" for name, value in variant.options.items()]
    longer = f"{label} {' '.join(said)}".strip()
    if longer in found:
        raise InputError(f"{longer!r} is there twice: give a map from label to policy.")
    return longer


def _variant(given: Any) -> Variant:
    if isinstance(given, Variant):
        return given
    if isinstance(given, Policy):
        return Variant(given)
    if isinstance(given, str) and given in ORACLES:
        return Variant(oracle=given)
    if isinstance(given, str | Mapping):
        from genmix.study.terms import policy_from

        return Variant(policy_from(given))
    raise InputError(f"{given!r} is no policy: give one such as MixtureGreedy(), or its name.")
