"""The groups of prompts: their shares, given or learned, and which one comes next."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from genmix.core.streams import private_stream
from genmix.errors import InputError, number
from genmix.kernels.joint import uses_pairs
from genmix.objectives import Objective
from genmix.policies import Policy
from genmix.selector.arms import draw_iid
from genmix.solvers.pooling import POOLING
from genmix.solvers.weight_limits import group_names, group_shares

LEARNED = "learned"
"""The shares are estimated from the groups that arrive."""


@dataclass(frozen=True)
class Groups:
    """The names of the groups, their shares, and the number of prompts that arrived of each."""

    names: tuple[str, ...]
    given: tuple[float, ...] | None
    """The shares that the user gave; None if they are learned."""
    arrived: tuple[int, ...]

    @classmethod
    def of(cls, groups: Any) -> Groups | None:
        """Validate the groups that a user passed: a map to shares, a list of names, or "learned"."""
        if groups is None:
            return None
        if isinstance(groups, Mapping):
            names, given = group_names(list(groups)), group_shares(groups)
            return cls(names, given, (0,) * len(names))
        if isinstance(groups, str):
            if groups != LEARNED:
                raise InputError(
                    f'groups is {groups!r}; pass a map from group to share, a list of names, or "learned".'
                )
            return cls((), None, ())
        names = group_names(groups)
        if not names:
            raise InputError('groups is empty; name the groups, or pass "learned".')
        return cls(names, None, (0,) * len(names))

    @property
    def shares(self) -> dict[str, float]:
        """The share of each group. A learned share counts each known group as if it had arrived once more."""
        if self.given is not None:
            return dict(zip(self.names, self.given, strict=True))
        total = sum(self.arrived) + len(self.names)
        return {name: (n + 1) / total for name, n in zip(self.names, self.arrived, strict=True)}

    def with_arrivals(self, groups: Sequence[str]) -> Groups:
        """Return the groups after more prompts have arrived. Only learned shares admit new groups."""
        counts = dict(zip(self.names, self.arrived, strict=True))
        for name in groups:
            if name not in counts:
                if self.given is not None:
                    raise InputError(
                        f"unknown group {name!r}; the groups are {', '.join(self.names)}."
                    )
                group_names([name])
            counts[name] = counts.get(name, 0) + 1
        return replace(self, names=tuple(counts), arrived=tuple(counts.values()))

    def draw(self, rng: np.random.Generator) -> str:
        """Draw a group by its share."""
        if not self.names:
            raise InputError("there are no groups yet; pass group= to ask.")
        return self.names[draw_iid(np.array(list(self.shares.values())), rng)[0]]

    def plain(self) -> dict[str, Any]:
        """Return the groups as JSON values."""
        given = None if self.given is None else list(self.given)
        return {"names": list(self.names), "given": given, "arrived": list(self.arrived)}

    @classmethod
    def from_plain(cls, saved: Mapping[str, Any]) -> Self:
        names = group_names(saved["names"])
        arrived = tuple(int(n) for n in saved["arrived"])
        given = saved["given"]
        if given is not None:
            given = group_shares(dict(zip(names, given, strict=True)))
        if len(arrived) != len(names) or min(arrived, default=0) < 0:
            raise InputError(
                "the groups of the saved state are not valid; pass what state_dict() returned."
            )
        return cls(names, given, arrived)


def pooling_of(pooling: Any, policy: Policy, objective: Objective) -> float:
    """Validate the pooling constant κ, or choose it: see :class:`Selector`."""
    if pooling is None:
        if not policy.solves_in_region:
            return math.inf
        return 0.0 if uses_pairs(objective) or objective.least_samples > 1 else POOLING
    if pooling != math.inf:
        pooling = number(pooling, "pooling", 0.0)
        if not policy.solves_in_region:
            raise InputError(
                f"{type(policy).__name__} has one set of weights for all groups; leave pooling out, or use "
                "a policy over mixtures, e.g. MixtureUCBV()."
            )
    if 0 < pooling < math.inf and objective.least_samples > 1:
        raise InputError(
            f"{objective.name} needs {objective.least_samples} samples of each arm in each group, so it "
            "cannot be pooled; pass pooling=0."
        )
    return float(pooling)


def group_stream(seed: Any) -> np.random.Generator:
    """Return the stream from which groups are drawn; it leaves the stream of the arms as it is."""
    if isinstance(seed, np.random.Generator):
        seed = int(copy.deepcopy(seed).integers(2**62))
    return private_stream(seed, "groups")
