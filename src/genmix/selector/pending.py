"""Samples that have been reported but not yet added to the statistics, which grow in blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from genmix.core.arrays import Array, like, namespace, to_numpy
from genmix.objectives import Batch, Tally


@dataclass(frozen=True)
class PendingSample:
    """A reported sample that has not yet been added to the statistics."""

    arm: int
    row: Array
    """The embedding, of shape ``(1, d)``."""
    quality: float | None
    cost: float | None


def stack_rows(rows: Sequence[Array]) -> Array:
    return namespace(rows[0]).concat(list(rows), axis=0)


def to_batch(samples: Sequence[PendingSample]) -> Batch:
    quality = [sample.quality for sample in samples]
    cost = [sample.cost for sample in samples]
    return Batch(
        stack_rows([sample.row for sample in samples]),
        None if None in quality else np.array(quality, dtype=np.float64),
        None if None in cost else np.array(cost, dtype=np.float64),
    )


def add_all(tally: Tally, samples: Sequence[PendingSample]) -> None:
    """Add the samples to the statistics, one block per arm."""
    for arm in sorted({sample.arm for sample in samples}):
        tally.add(arm, to_batch([sample for sample in samples if sample.arm == arm]))


def pack(samples: Sequence[PendingSample]) -> dict[str, Any]:
    """Convert the samples to plain arrays and JSON values; :func:`unpack` restores them."""
    return {
        "arms": [sample.arm for sample in samples],
        "rows": [np.array(to_numpy(sample.row[0, :])) for sample in samples],
        "quality": [sample.quality for sample in samples],
        "cost": [sample.cost for sample in samples],
    }


def unpack(packed: Mapping[str, Any], template: Array) -> list[PendingSample]:
    """Restore packed samples, using the array library and device of ``template``."""
    columns = (packed["arms"], packed["rows"], packed["quality"], packed["cost"])
    return [
        PendingSample(arm, like(np.asarray(row)[None, :], template), quality, cost)
        for arm, row, quality, cost in zip(*columns, strict=True)
    ]
