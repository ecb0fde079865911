"""Has an arm a direction of its own? The paper's innovation gaps, and what other samples say of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from genmix.core.arrays import Array, Vector, like, namespace, symmetric, to_numpy
from genmix.errors import InputError
from genmix.kernels.kernels import Cosine, norms
from genmix.objectives import Batch


@dataclass(frozen=True)
class Innovation:
    """The direction v in which an arm stands out most from all others together.

    ``gap`` is ``δ_i = λ_max(S_i − Σ_{j≠i} S_j)``, ``own`` is ``vᵀS_i v``, ``others`` is ``Σ_{j≠i} vᵀS_j v``.
    """

    gap: float
    own: float
    others: float
    direction: Vector = field(repr=False)


def innovation(arms: Mapping[str, Batch]) -> dict[str, Innovation]:
    """``δ_i = λ_max(S_i − Σ_{j≠i} S_j)`` and its eigenvector, on unit-norm embeddings."""
    moments, total = _second_moments(arms)
    found = {}
    for name, mine in moments.items():
        values, vectors = namespace(mine).linalg.eigh(symmetric(2 * mine - total))
        direction = vectors[:, -1]
        own, all_of_them = (float(direction @ part @ direction) for part in (mine, total))
        others = max(all_of_them - own, 0.0)
        found[name] = Innovation(float(values[-1]), own, others, to_numpy(direction))
    return found


def innovation_gaps(arms: Mapping[str, Batch]) -> dict[str, float]:
    """The gaps without the directions, in less time."""
    moments, total = _second_moments(arms)
    return {
        name: float(namespace(mine).linalg.eigvalsh(symmetric(2 * mine - total))[-1])
        for name, mine in moments.items()
    }


class HeldOut(NamedTuple):
    """An arm's innovation gap on one half of the samples, and along the same direction on the other."""

    gap: float
    held_out: float


def held_out_innovation(
    first: Mapping[str, Batch], second: Mapping[str, Batch]
) -> dict[str, HeldOut]:
    """The innovation gaps of the first half, and what the second says of them.

    The direction is chosen to make the gap large, so that noise alone makes it positive where there
    are few samples for the dimension; samples that had no part in the choice tell.
    """
    units = {name: Cosine().feature_map(batch.embeddings) for name, batch in second.items()}
    found = {}
    for name, here in innovation(first).items():
        moments = {other: _moment_along(here.direction, unit) for other, unit in units.items()}
        found[name] = HeldOut(here.gap, 2 * moments[name] - sum(moments.values()))
    return found


def _moment_along(direction: Vector, unit: Array) -> float:
    """``vᵀSv``; there is none without samples."""
    if not len(unit):
        return math.nan
    return float(np.mean(to_numpy(unit @ like(direction, unit)) ** 2))


def _second_moments(arms: Mapping[str, Batch]) -> tuple[dict[str, Array], Array]:
    """``S_i`` of every arm, and their sum."""
    first = next(iter(arms.values())).embeddings
    moments = {}
    for name, batch in arms.items():
        lengths = to_numpy(norms(batch.embeddings))
        if not lengths.all():
            raise InputError(
                f"arm {name!r}, sample {int(np.argmin(lengths))}: the embedding is the zero vector, "
                "which has no direction for an innovation gap; leave that sample out."
            )
        unit = like(Cosine().feature_map(batch.embeddings), first)
        moments[name] = unit.mT @ unit / len(batch)
    return moments, sum(moments.values())
