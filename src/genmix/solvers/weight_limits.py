"""Limits on the weights of named arms: at_least, at_most and the mean cost, as a region."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from genmix.core.arrays import Vector
from genmix.errors import InputError, number, positive, unique_names
from genmix.solvers.knapsack import Bounds, fill
from genmix.solvers.region import Region
from genmix.solvers.region_interior import ROUNDING, at_least_text

WEIGHTS = Mapping[str, float]


def shares(limits: Any, what: str, arms: Sequence[str]) -> dict[str, float]:
    """Validate a map from arms to shares between 0 and 1; None is an empty map."""
    if limits is None:
        return {}
    if not isinstance(limits, Mapping):
        raise InputError(f'{what} is {limits!r}; pass a map from arm to share, e.g. {{"a": 0.1}}.')
    unknown = next((arm for arm in limits if arm not in arms), None)
    if unknown is not None:
        raise InputError(f"{what} names an unknown arm {unknown!r}; use {', '.join(arms)}.")
    return {
        str(arm): number(share, f"{what} of {arm!r}", 0.0, 1.0) for arm, share in limits.items()
    }


def check_shares(least: WEIGHTS, most: WEIGHTS, arms: Sequence[str]) -> None:
    """Refuse shares that no mixture of the arms satisfies."""
    total = sum(least.values())
    if total > 1 + ROUNDING:
        raise InputError(f"at_least adds up to {total:.6g}; lower it to at most 1.")
    for arm, share in least.items():
        if share > most.get(arm, 1.0):
            raise InputError(
                f"at_least of {arm!r} is {share:g}, but at_most is {most[arm]:g}; lower at_least to "
                f"at most {most[arm]:g}."
            )
    total = sum(most.get(arm, 1.0) for arm in arms)
    if total < 1 - ROUNDING:
        raise InputError(f"at_most adds up to {total:.6g}; raise it to at least 1.")


def bounds_of(arms: Sequence[str], least: WEIGHTS, most: WEIGHTS) -> Bounds:
    """Return the bounds of these arms. If their at_most add up to less than 1, they are scaled up to 1.

    That happens only if other arms have been retired; see :func:`check_shares`.
    """
    lo = np.array([least.get(arm, 0.0) for arm in arms])
    hi = np.array([most.get(arm, 1.0) for arm in arms])
    total = float(hi.sum())
    if total == 0:
        hi = np.ones(len(arms))
    elif total < 1:
        hi = hi / total
    return Bounds(lo, hi, np.zeros(len(arms), np.int64), np.ones(1))


def region_of(
    arms: Sequence[str],
    least: WEIGHTS,
    most: WEIGHTS,
    costs: Vector | None = None,
    mean_cost: float | None = None,
    relax: bool = False,
) -> Region | None:
    """Return the region of the arms' weights, or None if nothing limits them.

    A mean cost below that of the cheapest weights is refused, or raised to it if ``relax``.
    """
    bounds = bounds_of(arms, least, most)
    if mean_cost is None or costs is None:
        if not any(least.values()) and all(share >= 1 for share in bounds.hi):
            return None
        return Region(len(arms), bounds.lo, bounds.hi)
    cheapest = float(costs @ fill(costs, bounds))
    if cheapest > mean_cost and relax:
        mean_cost = cheapest
    if cheapest > mean_cost * (1 + ROUNDING):
        allowed = " that at_least and at_most allow" if least or most else ""
        raise InputError(
            f"mean_cost is {mean_cost:g}, but the cheapest weights{allowed} cost "
            f"{at_least_text(cheapest)}; raise it to at least that."
        )
    return Region(len(arms), bounds.lo, bounds.hi, rows=[costs], limits=[mean_cost])


def binding(region: Region | None, arms: Sequence[str], weights: Vector) -> tuple[str, ...]:
    """Name the limits that hold with equality, e.g. ``("at_least a", "mean_cost")``."""
    if region is None:
        return ()
    close = 1e-9
    found = []
    for arm, weight, lo, hi in zip(arms, weights, region.lo, region.hi, strict=True):
        if lo > 0 and weight <= lo + close:
            found.append(f"at_least {arm}")
        if hi < 1 and weight >= hi - close:
            found.append(f"at_most {arm}")
    spent = region.rows @ weights
    sizes = np.max(np.abs(region.rows), axis=1, initial=0.0)
    if np.any(spent >= region.limits - close * sizes):
        found.append("mean_cost")
    return tuple(found)


# -- groups --------------------------------------------------------------------------------------


def group_names(groups: Any) -> tuple[str, ...]:
    try:
        names = tuple(groups)
    except TypeError as error:
        raise InputError(
            f"groups is {groups!r}; pass a map from group to share, or a list of names."
        ) from error
    unique_names(names, "group")
    return names


def group_shares(groups: Mapping[str, Any]) -> tuple[float, ...]:
    if not groups:
        raise InputError('groups is empty; name the groups, or pass "learned".')
    found = [positive(share, f"the share of group {name!r}") for name, share in groups.items()]
    if abs(sum(found) - 1) > 1e-6:
        raise InputError(
            f"the shares of the groups add up to {sum(found):.6g}; make them add up to 1."
        )
    return tuple(share / sum(found) for share in found)


def grouped_region(
    places: Sequence[tuple[str, str]], shares: WEIGHTS, whole: Region | None
) -> Region:
    """Return the region of the weights of cells, each given by its group and its arm.

    The weights of each group sum to its share, and those of each arm satisfy the limits ``whole``, whose
    arms are in the order in which the cells name them. The first row is that of the mean cost, if any.
    """
    groups = list(dict.fromkeys(group for group, _ in places))
    arms = list(dict.fromkeys(arm for _, arm in places))
    sums = np.array([shares[group] for group in groups])
    parts: dict[str, Any] = {
        "groups": [groups.index(group) for group, _ in places],
        "sums": sums / sums.sum(),
    }
    if whole is None:
        return Region(len(places), **parts)
    members = np.array([[float(arm == own) for _, own in places] for arm in arms])
    complete = members.sum(axis=1) == len(groups)
    low, high = (whole.lo > 0) & complete, (whole.hi < 1) & complete
    rows = np.vstack([whole.rows @ members, -members[low], members[high]])
    limits = np.concatenate([whole.limits, -whole.lo[low], whole.hi[high]])
    try:
        return Region(len(places), **parts, rows=rows, limits=limits)
    except InputError:  # an arm that the limits need is missing from a group
        return Region(len(places), **parts)
