"""The samples of arms that are read in blocks: shards, and arrays that are used with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from genmix.core.arrays import Array, Vector, as_matrix, to_numpy
from genmix.data.shard_files import ShardFile
from genmix.data.shards import Shards, fits_in_memory
from genmix.data.streamed_rows import StreamedRows
from genmix.errors import InputError
from genmix.objectives import Objective
from genmix.objectives.validation import check_maps, check_objective, labels, sample_numbers
from genmix.shards.settings import current


@dataclass(frozen=True)
class StreamedArm:
    """The samples of one arm, with the quality and cost of every sample."""

    label: str
    shards: Shards
    quality: Vector | None
    cost: Vector | None

    def __len__(self) -> int:
        return len(self.shards)

    @property
    def rows(self) -> StreamedRows:
        return StreamedRows(self.shards)


def any_shards(arms: object) -> bool:
    """Return whether an arm is given as shards."""
    if isinstance(arms, Shards):
        return True
    return isinstance(arms, Mapping) and any(map(any_shards, arms.values()))


def loaded_if_small(arms: Any, quality: Any, cost: Any) -> tuple[Any, Any, Any]:
    """Return arms, quality and cost as arrays if all shards together fit in memory."""
    if not any_shards(arms) or not fits_in_memory(_size(arms), 1) or current().engine != "local":
        return arms, quality, cost
    return _loaded(arms), own_numbers(arms, quality, "quality"), own_numbers(arms, cost, "cost")


def _size(arms: Any) -> int:
    """Return how many numbers the shards contain."""
    if isinstance(arms, Shards):
        return arms.shape[0] * arms.shape[1]
    return sum(map(_size, arms.values())) if isinstance(arms, Mapping) else 0


def _loaded(arms: Any) -> Any:
    if isinstance(arms, Mapping):
        return {label: _loaded(arm) for label, arm in arms.items()}
    return arms.load() if isinstance(arms, Shards) else arms


def own_numbers(
    arms: Mapping[str, Any], given: Mapping[str, Any] | None, name: str
) -> dict[str, Any] | None:
    """Return the given quality or cost of the arms, or else what their shards contain."""
    found = dict(given or {})
    for label, arm in arms.items():
        if isinstance(arm, Mapping):
            inside = own_numbers(arm, found.get(label), name)
            if inside is not None:
                found[label] = inside
        if isinstance(arm, Shards) and label not in found:
            numbers = getattr(arm, name)
            if numbers is not None:
                found[label] = numbers
    return found or None


def streamed_arms(
    arms: Mapping[str, Any],
    objective: Objective,
    quality: Mapping[str, Any] | None,
    cost: Mapping[str, Any] | None,
) -> list[StreamedArm]:
    """Validate everything about the arms except the samples, which are checked when they are read."""
    check_objective(objective)
    check_maps(arms, quality, cost)
    numbers = {
        "quality": own_numbers(arms, quality, "quality"),
        "cost": own_numbers(arms, cost, "cost"),
    }
    found: list[StreamedArm] = []
    for name in labels(arms):
        where, shards = f"arm {name!r}", shards_of(arms[name], name)
        if found and shards.shape[1] != found[0].shards.shape[1]:
            raise InputError(
                f"{where} has dimension {shards.shape[1]}, but arm {found[0].label!r} has "
                f"{found[0].shards.shape[1]}; embed all arms with the same encoder."
            )
        if len(shards) < objective.least_samples:
            raise InputError(
                f"{where} has {len(shards)} sample, but the objective needs "
                f"{objective.least_samples}; pass more samples."
            )
        values = {
            what: sample_numbers((given or {}).get(name), where, len(shards), what)
            for what, given in numbers.items()
        }
        found.append(StreamedArm(name, shards, values["quality"], values["cost"]))
    objective.check_total(sum(map(len, found)))
    return found


def shards_of(value: Any, name: str) -> Shards:
    return (
        value if isinstance(value, Shards) else HeldShards(as_matrix(value, f"arm {name!r}"), name)
    )


class HeldShards(Shards):
    """An array that is used as an arm together with shards."""

    def __init__(self, rows: Array, name: str) -> None:
        held = _HeldFile(to_numpy(rows), f"arm {name!r}")
        self.files, self.sources = [held], []
        self.shape, self.ends = (held.rows, held.dimension), [held.rows]

    @property
    def quality(self) -> None:
        return None

    @property
    def cost(self) -> None:
        return None


class _HeldFile(ShardFile):
    is_packed = False

    def __init__(self, rows: Any, where: str) -> None:
        self.path, self.where, self._array = Path(where), where, rows
        self.rows, self.dimension = rows.shape
        self.dtype = rows.dtype

    def _stored(self, height: int) -> Iterator[Any]:
        for first in range(0, self.rows, height):
            yield self._array[first : first + height]

    def take(self, rows: Any) -> Any:
        return np.asarray(self._array[rows])

    def column(self, name: str) -> list[Any] | None:
        return None

    def identity(self) -> list[Any]:
        return [self.where, blake2b(np.ascontiguousarray(self._array).tobytes()).hexdigest()]
