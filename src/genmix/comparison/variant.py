"""What is compared: a policy with selector options, or an oracle that knows the population."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal

from genmix.core.description import Description
from genmix.errors import InputError
from genmix.objectives import Objective
from genmix.policies import Fixed, MixtureGreedy, MixtureOracle, OneArmOracle, Policy, Uniform
from genmix.solvers.solve import Solver

LABELS = {
    "MixtureGreedy": "Mixture-Greedy",
    "MixtureBonus": "Mixture-Bonus",
    "MixtureUCB": "Mixture-UCB",
    "MixtureUCBV": "Mixture-UCB-V",
    "MixtureOGD": "Mixture-OGD",
    "MixtureOracle": "Mixture oracle",
    "OneArmOracle": "One-arm oracle",
    "OneArmGreedy": "One-arm greedy",
    "EpsilonGreedy": "ε-greedy",
    "OneArmUCB": "One-arm UCB",
    "FrechetUCB": "FD-UCB",
    "PAKUCB": "PAK-UCB",
    "DAKUCB": "DAK-UCB",
    "MixtureDAKUCB": "Mixture-DAK-UCB",
    "SuccessiveHalving": "Successive halving",
    "Uniform": "Uniform",
}
"""Names of the policies in figures and tables."""

ORACLES = {"mixture-oracle": "Mixture oracle", "one-arm-oracle": "One-arm oracle"}
"""Policies that know the best mixture or the best arm of the world in advance."""

DEFAULT = (
    *("mixture-ucbv", "mixture-greedy", "mixture-ucb", "uniform"),
    *("mixture-oracle", "one-arm-oracle", "one-arm-greedy"),
)
"""The policies that are compared if none are named; the first is the default of studies."""


@dataclass(frozen=True, eq=False)
class Variant(Description):
    """One way to spend the budget in a comparison.

    Options that are None are taken from the comparison.

    Parameters
    ----------
    policy : Policy, optional
        How the next arm is chosen. None means ``MixtureGreedy()``.
    warm_start : int, optional
        Samples per arm before the first solve.
    draw : {"iid", "tracking"}, optional
        ``"iid"`` draws arms at random according to the weights; ``"tracking"`` picks the arm whose count
        lags furthest behind its weight.
    resolve_growth : float, optional
        Re-solve when the number of samples has grown by this fraction; 0 solves in every round.
    solver : Solver, optional
        How the loss is minimized.
    objective : Objective, optional
        The objective that the policy optimizes, if it differs from the one that scores all variants.
    oracle : {"mixture-oracle", "one-arm-oracle"}, optional
        Use the best mixture or the best arm of the world from the start, instead of a policy.
    groups : bool, default False
        Use a mixture for every group of the world's prompts, instead of one for all of them.
    pooling : float, optional
        κ, how much the groups share; see :class:`Selector`.

    Raises
    ------
    InputError
        If the oracle is unknown, the policy has the same weights for all groups, or there is pooling
        without groups.

    Examples
    --------
    >>> import genmix as gx
    >>> gx.Variant(gx.MixtureUCB(delta=0.6), draw="tracking").label
    'Mixture-UCB'
    >>> gx.Variant(oracle="mixture-oracle").label
    'Mixture oracle'
    >>> gx.Variant(gx.MixtureGreedy(), groups=True, pooling=3).label
    'Mixture-Greedy per group'
    """

    policy: Policy | None = None
    warm_start: int | None = None
    draw: Literal["iid", "tracking"] | None = None
    resolve_growth: float | None = None
    solver: Solver | None = None
    objective: Objective | None = None
    oracle: str | None = None
    groups: bool = False
    pooling: float | None = None

    def __post_init__(self) -> None:
        if self.oracle is not None and self.oracle not in ORACLES:
            raise InputError(f"unknown oracle {self.oracle!r}; pass {' or '.join(ORACLES)}.")
        if self.groups and not self._chooses_mixtures:
            raise InputError(
                f"{self._plain_label} has the same weights for all groups; remove groups=True."
            )
        if self.pooling is not None and (not self.groups or self.oracle is not None):
            raise InputError(
                "pooling applies only to a policy with groups; pass groups=True without an oracle, or remove "
                "pooling."
            )

    @property
    def _chooses_mixtures(self) -> bool:
        if self.oracle is not None:
            return self.oracle == "mixture-oracle"
        return self.policy is None or self.policy.solves_in_region

    @property
    def label(self) -> str:
        """The name of the policy or oracle in figures and tables."""
        return f"{self._plain_label} per group" if self.groups else self._plain_label

    @property
    def _plain_label(self) -> str:
        if self.oracle is not None:
            return ORACLES[self.oracle]
        if self.policy is None:
            return "Mixture-Greedy"
        name = type(self.policy).__name__
        return LABELS.get(name, name)

    @property
    def options(self) -> dict[str, Any]:
        """The selector options set by the variant."""
        names = ("warm_start", "draw", "resolve_growth", "solver", "pooling")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


def has_fixed_weights(variant: Variant) -> bool:
    """Return whether the weights of a variant are known in advance, so that it needs no warm start."""
    fixed = isinstance(variant.policy, Fixed | Uniform | OneArmOracle | MixtureOracle)
    return fixed or variant.oracle is not None


def read_variants(given: Any) -> dict[str, Variant]:
    """Return variants by label, given policies, names, variants, or a map from labels to any of these."""
    if given is None:
        given = DEFAULT
    if isinstance(given, Mapping) and given:
        return {str(label): _variant(each) for label, each in given.items()}
    if isinstance(given, str | Policy | Variant) or not isinstance(given, Iterable):
        raise InputError(
            f"policies is {given!r}; pass a list of policies, or a map from label to policy."
        )
    found: dict[str, Variant] = {}
    for each in given:
        variant = _variant(each)
        found[_unused_label(variant, found)] = variant
    if not found:
        raise InputError("there are no policies to compare; pass at least one.")
    return found


def find_label(name: str, variants: Mapping[str, Variant]) -> str:
    """Return the label of a variant, given its label or the name that a study has for its policy."""
    if name in variants:
        return name
    from genmix.study.components import hyphenated

    found = [
        label
        for label, each in variants.items()
        if hyphenated(name)
        == (each.oracle or hyphenated(type(each.policy or MixtureGreedy()).__name__))
    ]
    if len(found) != 1:
        raise InputError(f"{name!r} was not compared; use one of {', '.join(found or variants)}.")
    return found[0]


SYMBOLS = {"delta": "δ", "epsilon": "ε", "beta": "β"}


def _unused_label(variant: Variant, found: Mapping[str, Variant]) -> str:
    """Return the label of a variant, with its parameters if another variant already has that label."""
    label = variant.label
    if label not in found:
        return label
    parts = [f"{SYMBOLS.get(name, name)}={value:g}" for name, value in _changed(variant.policy)]
    parts += [f"{name}={value}" for name, value in variant.options.items()]
    longer = f"{label} {' '.join(parts)}".strip()
    if longer in found:
        raise InputError(f"{longer!r} is listed twice; pass a map from label to policy.")
    return longer


def _changed(policy: Policy | None) -> list[tuple[str, float]]:
    """Return the numeric parameters in which a policy differs from its defaults."""
    if policy is None or not is_dataclass(policy):
        return []
    values = [(f.name, getattr(policy, f.name), f.default) for f in fields(policy)]
    return [(name, now) for name, now, usual in values if isinstance(now, float) and now != usual]


def _variant(given: Any) -> Variant:
    if isinstance(given, Variant):
        return given
    if isinstance(given, Policy):
        return Variant(given)
    if isinstance(given, str) and given in ORACLES:
        return Variant(oracle=given)
    if isinstance(given, str | Mapping):
        from genmix.study.study import policy_from

        return Variant(policy_from(given))
    raise InputError(f"{given!r} is not a policy; pass one, e.g. MixtureGreedy(), or its name.")
