"""The paper's innovation gaps: does a direction set an arm apart from all others?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from genmix.core.arrays import Array, Vector, like, namespace, symmetric, to_numpy
from genmix.errors import InputError
from genmix.kernels.distances import norms
from genmix.kernels.kernels import Cosine
from genmix.objectives import Batch, Vendi


@dataclass(frozen=True)
class Innovation:
    """The direction v in which an arm differs most from all other arms together.

    ``gap`` is ``δ_i = λ_max(S_i − Σ_{j≠i} S_j)``, ``own`` is ``vᵀS_i v``, ``others`` is ``Σ_{j≠i} vᵀS_j v``.
    """

    gap: float
    own: float
    others: float
    direction: Vector = field(repr=False)


def innovation(arms: Mapping[str, Batch]) -> dict[str, Innovation]:
    """Compute ``δ_i = λ_max(S_i − Σ_{j≠i} S_j)`` and its eigenvector, on unit-norm embeddings."""
    return _innovations(*_second_moments(arms))


def innovation_of_moments(moments: Mapping[str, Array]) -> dict[str, Innovation]:
    """Compute the same from the second moments ``S_i`` of unit-norm embeddings."""
    return _innovations(moments, sum(moments.values()), None)


def _innovations(
    moments: Mapping[str, Array], total: Array, basis: Array | None
) -> dict[str, Innovation]:
    found = {}
    for name, moment in moments.items():
        values, vectors = namespace(moment).linalg.eigh(symmetric(2 * moment - total))
        direction = vectors[:, -1]
        own, everything = (float(direction @ part @ direction) for part in (moment, total))
        others = max(everything - own, 0.0)
        along = to_numpy(direction if basis is None else basis @ direction)
        found[name] = Innovation(float(values[-1]), own, others, along)
    return found


def innovation_gaps(arms: Mapping[str, Batch]) -> dict[str, float]:
    """Compute only the gaps, which is faster than :func:`innovation`."""
    moments, total, _ = _second_moments(arms)
    return {
        name: float(namespace(moment).linalg.eigvalsh(symmetric(2 * moment - total))[-1])
        for name, moment in moments.items()
    }


class HeldOut(NamedTuple):
    """An arm's innovation gap on one half of the samples, and along the same direction on the other half."""

    gap: float
    held_out: float


def held_out_innovation(
    first: Mapping[str, Batch], second: Mapping[str, Batch]
) -> dict[str, HeldOut]:
    """Compute the innovation gaps of the first half, and evaluate them on the second half as well.

    The direction maximizes the gap, so noise alone makes the gap positive if there are few samples relative
    to the dimension. Samples that had no influence on the direction yield an unbiased value.
    """
    units = {name: Cosine().feature_map(batch.embeddings) for name, batch in second.items()}
    found = {}
    for name, here in innovation(first).items():
        moments = {other: _moment_along(here.direction, unit) for other, unit in units.items()}
        found[name] = HeldOut(here.gap, 2 * moments[name] - sum(moments.values()))
    return found


def _moment_along(direction: Vector, unit: Array) -> float:
    """Return ``vᵀSv``; NaN if there are no samples."""
    if not len(unit):
        return math.nan
    return float(np.mean(to_numpy(unit @ like(direction, unit)) ** 2))


def _second_moments(arms: Mapping[str, Batch]) -> tuple[dict[str, Array], Array, Array | None]:
    """Return ``S_i`` for each arm, their sum, and the basis they refer to.

    With fewer samples than dimensions, the basis spans the samples and one direction that is orthogonal to
    all of them, in which every ``S_i`` is 0: the largest eigenvalues are the same, and far cheaper.
    """
    units = {name: _unit_rows(name, batch) for name, batch in arms.items()}
    first = next(iter(units.values()))
    units = {name: like(rows, first) for name, rows in units.items()}
    xp, size = namespace(first), first.shape[1]
    basis = None
    if sum(len(rows) for rows in units.values()) + 1 < size:
        spare = xp.astype(xp.arange(size) % 2, first.dtype)[:, None] + 0.5
        everything = xp.concat([*(rows.mT for rows in units.values()), like(spare, first)], axis=1)
        basis = xp.linalg.qr(everything)[0]
        units = {name: rows @ basis for name, rows in units.items()}
    moments = {name: rows.mT @ rows / len(rows) for name, rows in units.items()}
    return moments, sum(moments.values()), basis


def _unit_rows(name: str, batch: Batch) -> Array:
    _check_directions(batch, f"arm {name!r}")
    return Cosine().feature_map(batch.embeddings)


def _check_directions(batch: Batch, where: str) -> None:
    lengths = to_numpy(norms(batch.embeddings))
    if not lengths.all():
        raise InputError(
            f"{where}, sample {int(np.argmin(lengths))}: the embedding is the zero vector, "
            "so it has no direction for an innovation gap; leave that sample out."
        )


@dataclass(frozen=True, eq=False)
class Directions(Vendi):
    """The objective whose statistics are the second moments of unit-norm embeddings."""

    def check(self, batch: Batch, where: str) -> None:
        _check_directions(batch, where)
