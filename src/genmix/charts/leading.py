"""Choose what to show of many arms: the leading ones, the sum of the others, and sums by parts of names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from genmix.core.text import percent

MAX_COLORS = 12
"""Maximum number of arms with their own colors."""

MAX_ROWS = 30
"""Maximum number of arms in a table before the others are summed up."""

MAX_VALUES = 8
"""Maximum number of rows for one part of the names."""

OTHERS = "other arms"


def leading(
    arms: Sequence[str],
    weights: Mapping[str, float | None],
    counts: Mapping[str, int],
    most: int = MAX_ROWS,
) -> list[str]:
    """Return the arms with the most weight and samples, in original order; all if there are few.

    One more than ``most`` is shown, because a line that sums up a single arm would gain nothing.
    """
    if len(arms) <= most + 1:
        return list(arms)
    ranked = sorted(arms, key=lambda arm: (-(weights.get(arm) or 0.0), -counts.get(arm, 0)))
    kept = set(ranked[:most])
    return [arm for arm in arms if arm in kept]


@dataclass(frozen=True)
class Total:
    """Some arms together."""

    name: str
    arms: int
    weight: float
    samples: int

    @classmethod
    def of(
        cls,
        name: str,
        arms: Iterable[str],
        weights: Mapping[str, float | None],
        counts: Mapping[str, int],
    ) -> Total:
        found = list(arms)
        weight = sum(weights.get(arm) or 0.0 for arm in found)
        return cls(name, len(found), weight, sum(counts.get(arm, 0) for arm in found))

    @property
    def text(self) -> str:
        """E.g. ``and 950 others: 3% together``."""
        return f"and {self.arms:,} others: {percent(self.weight)} together"


def name_parts(
    arms: Sequence[str], weights: Mapping[str, float | None], counts: Mapping[str, int]
) -> list[list[Total]]:
    """Sum up many arms by the parts of their names, e.g. the model in ``gemma/p017/t0.7``.

    Returns one list for each part that several arms share, with the values of most weight first. There is
    none if the arms are few, or if their names do not have the same number of parts.
    """
    return [_totals(members, weights, counts) for members in _parts(arms).values()]


Members = Mapping[str, Sequence[str]]
"""The arms whose names have each value of a part."""


def _parts(arms: Sequence[str]) -> dict[int, Members]:
    """Return the arms by the values of each part that several arms share; parts are counted from 1."""
    split = {arm: arm.split("/") for arm in arms}
    lengths = {len(parts) for parts in split.values()}
    if len(arms) <= MAX_COLORS or len(lengths) != 1 or lengths == {1}:
        return {}
    found: dict[int, Members] = {}
    for position in range(lengths.pop()):
        members: dict[str, list[str]] = {}
        for arm, parts in split.items():
            members.setdefault(parts[position], []).append(arm)
        if 2 <= len(members) <= len(arms) // 2:
            found[position + 1] = members
    return found


@dataclass(frozen=True)
class Stack:
    """What a chart of weights stacks: arms, or sums of arms."""

    members: Mapping[str, Sequence[str]]
    """The arms of each layer."""
    part: int | None = None
    """The part of the names that the layers are, counted from 1; None if they are arms."""

    def weights(self, of: Mapping[str, float | None]) -> dict[str, float]:
        """Return the weight of each layer."""
        return {name: sum(of.get(a) or 0.0 for a in arms) for name, arms in self.members.items()}


def stack(
    arms: Sequence[str],
    weights: Mapping[str, float | None],
    counts: Mapping[str, int],
    most: int = MAX_COLORS,
) -> Stack:
    """Choose the layers of a chart of weights: the leading arms, and the others together.

    If the others have more than half of the weight, the layers are the values of the first part of the names
    that has few values, if there is one.
    """
    shown = leading(arms, weights, counts, most)
    if len(shown) == len(arms):
        return Stack({arm: [arm] for arm in arms})
    rest = [arm for arm in arms if arm not in set(shown)]
    if Total.of("", rest, weights, counts).weight > 0.5:
        for part, members in _parts(arms).items():
            if len(members) <= MAX_COLORS:
                return Stack(members, part)
    name = OTHERS
    while name in shown:
        name += " *"
    return Stack({arm: [arm] for arm in shown} | {name: rest})


def _totals(
    members: Members,
    weights: Mapping[str, float | None],
    counts: Mapping[str, int],
) -> list[Total]:
    totals = [Total.of(name, arms, weights, counts) for name, arms in members.items()]
    totals.sort(key=lambda total: (-total.weight, -total.samples))
    if len(totals) <= MAX_VALUES + 1:
        return totals
    rest = [arm for total in totals[MAX_VALUES:] for arm in members[total.name]]
    name = f"{len(totals) - MAX_VALUES} others"
    return [*totals[:MAX_VALUES], Total.of(name, rest, weights, counts)]


def plain(total: Total) -> dict[str, Any]:
    """Return a total as JSON values."""
    return {
        "name": total.name,
        "arms": total.arms,
        "weight": total.weight,
        "count": total.samples,
    }
