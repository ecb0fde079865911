"""Told samples that wait for the statistics, which take them in blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from genmix.core.arrays import Array, like, namespace, to_numpy
from genmix.objectives.base import Batch, Tally


@dataclass(frozen=True)
class Told:
    """A told sample that the statistics do not hold yet."""

    arm: int
    row: Array
    quality: float | None
    cost: float | None


def stacked(rows: Sequence[Array]) -> Array:
    return namespace(rows[0]).concat(list(rows), axis=0)


def batch_of(told: Sequence[Told]) -> Batch:
    quality = [t.quality for t in told]
    cost = [t.cost for t in told]
    return Batch(
        stacked([t.row for t in told]),
        None if None in quality else np.array(quality, dtype=np.float64),
        None if None in cost else np.array(cost, dtype=np.float64),
    )


def add_all(tally: Tally, told: Sequence[Told]) -> None:
    """One block an arm."""
    for arm in sorted({t.arm for t in told}):
        tally.add(arm, batch_of([t for t in told if t.arm == arm]))


def packed(told: Sequence[Told]) -> dict[str, Any]:
    """Plain arrays and JSON values, from which ``unpacked`` makes them again."""
    return {
        "arms": [t.arm for t in told],
        "rows": [np.array(to_numpy(t.row[0, :])) for t in told],
        "quality": [t.quality for t in told],
        "cost": [t.cost for t in told],
    }


def unpacked(plain: Mapping[str, Any], sample: Array) -> list[Told]:
    """Told samples whose rows live where ``sample`` does."""
    parts = (plain["arms"], plain["rows"], plain["quality"], plain["cost"])
    return [
        Told(arm, like(np.asarray(row)[None, :], sample), quality, cost)
        for arm, row, quality, cost in zip(*parts, strict=True)
    ]
