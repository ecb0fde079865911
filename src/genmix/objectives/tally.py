"""Streaming statistics for m arms: samples in, a loss on the simplex out."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from genmix.core.arrays import Array, Rows, Vector, is_torch, like, to_numpy
from genmix.errors import InputError
from genmix.solvers.loss import Loss, RestrictedLoss, SumLoss
from genmix.solvers.solve import FINAL_SMOOTHING


@dataclass(frozen=True)
class Batch:
    """Samples from one arm: embeddings ``(n, d)`` and optional quality and cost ``(n,)``."""

    embeddings: Array
    quality: Vector | None = None
    cost: Vector | None = None

    def __len__(self) -> int:
        return int(self.embeddings.shape[0])

    def __getitem__(self, part: slice) -> Batch:
        quality, cost = (v if v is None else v[part] for v in (self.quality, self.cost))
        return Batch(self.embeddings[part, :], quality, cost)


class Tally(ABC):
    """Streaming float64 statistics for m arms, which can be merged and converted to a loss."""

    STATE: ClassVar[tuple[str, ...]] = ()
    """Attributes that make up the saved state: arrays, Rows, tallies, plain values, or lists of them.

    Arrays are replaced, never modified in place, because forks share them.
    """

    def __init__(self, arms: int, sample: Array) -> None:
        self.sample = sample[:0, :]
        """An empty array that records the library, the device and the dimension."""
        self.counts: list[int] = [0] * arms

    @property
    def dimension(self) -> int:
        return int(self.sample.shape[1])

    def add(self, arm: int, batch: Batch) -> None:
        """Add a batch of samples from one arm."""
        self._add(arm, batch)
        self.counts[arm] += len(batch)

    def flush(self) -> None:  # noqa: B027 - most tallies have nothing to do
        """Do deferred work now, so that later reads do not modify the tally."""

    def merge(self, other: Tally, arms: Sequence[int] | None = None) -> None:
        """Add the statistics of another part of the same stream.

        ``arms`` says which arm of this tally each arm of the other one is, if the other one has only some of
        them.
        """
        arms = range(len(other.counts)) if arms is None else arms
        self._merge(other, arms)
        self.counts = added(self.counts, other.counts, arms)

    def grow(self) -> None:
        """Add an arm without samples."""
        self._grow()
        self.counts.append(0)

    @abstractmethod
    def _add(self, arm: int, batch: Batch) -> None: ...

    @abstractmethod
    def _merge(self, other: Any, arms: Sequence[int]) -> None: ...

    @abstractmethod
    def _grow(self) -> None: ...

    @abstractmethod
    def loss(self, arms: Sequence[int]) -> Loss:
        """Return the loss as a function of the weights of these arms; each must have a sample."""

    def sample_plane(
        self, loss: Any, arms: Sequence[int], alpha: Vector, batch: Batch, complete: bool = False
    ) -> Vector:
        """Return the values ``(n,)`` of the tangent plane of ``loss(arms)`` at ``alpha`` for single samples.

        The mean over all samples of an arm is the arm's entry of the gradient. The samples must be part of
        the statistics; elsewhere the slope can be infinite. Each sample is treated as an arm of its own with
        weight 0, which works for every tally; subclasses are faster.

        If ``complete``, the batch contains all samples of these arms, arm by arm and in the order in which
        they were added. Tallies that keep the samples then need no probe.
        """
        probe, added = self.with_samples_as_arms(batch)
        padded = np.concatenate([alpha, np.zeros(len(batch))])
        wider = probe.loss([*arms, *added])
        return wider.expand(padded, FINAL_SMOOTHING).gradient[len(alpha) :]

    def with_samples_as_arms(self, batch: Batch) -> tuple[Self, range]:
        """Return a fork in which each sample is also an arm of its own, and the new arms."""
        fork, first = self.fork(), len(self.counts)
        for k in range(len(batch)):
            fork.grow()
            fork.add(first + k, batch[k : k + 1])
        return fork, range(first, first + len(batch))

    def pooled(self) -> Loss:
        """Return the loss of all samples as one set, as a function of a single weight (1)."""
        arms = [i for i, count in enumerate(self.counts) if count]
        shares = self.counts_of(arms) / sum(self.counts)
        return RestrictedLoss(self.loss(arms), shares[None, :])

    def fork(self) -> Self:
        """Return a copy that shares arrays with this tally. Add samples to only one of the two."""
        fork = copy.copy(self)
        fork.counts = list(self.counts)
        for key in self.STATE:
            setattr(fork, key, _copied(getattr(self, key)))
        return fork

    def state_dict(self) -> dict[str, Any]:
        """Return the statistics as plain numpy arrays."""
        return {"counts": list(self.counts)} | {k: _pack(getattr(self, k)) for k in self.STATE}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.counts = [int(n) for n in state["counts"]]
        for key in self.STATE:
            setattr(self, key, _unpack(state[key], getattr(self, key), self.sample))

    def counts_of(self, arms: Sequence[int]) -> Any:
        return np.array([self.counts[arm] for arm in arms], dtype=np.int64)

    def zeros(self, *shape: int) -> Array:
        """Return zeros with the same library and device as the samples."""
        return like(np.zeros(shape), self.sample)

    def rows(self, columns: int | None = None) -> Rows:
        """Return an empty, growing matrix with the same library and device as the samples."""
        return Rows(self.sample, self.dimension if columns is None else columns)


class SummedTally(Tally):
    """Statistics that are sums over each arm's samples. ``STATE`` names lists with one sum per arm."""

    def _merge(self, other: SummedTally, arms: Sequence[int]) -> None:
        for key in self.STATE:
            setattr(self, key, added(getattr(self, key), getattr(other, key), arms))

    def _grow(self) -> None:
        for key in self.STATE:
            sums = getattr(self, key)
            sums.append(0.0 * sums[0])


def added(mine: Iterable[Any], theirs: Iterable[Any], arms: Iterable[int]) -> list[Any]:
    """Add each of their elements to my element of this arm."""
    total = list(mine)
    for arm, value in zip(arms, theirs, strict=True):
        total[arm] = total[arm] + value
    return total


def _copied(value: Any) -> Any:
    if isinstance(value, Rows | Tally):
        return value.fork()
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _pack(value: Any) -> Any:
    if isinstance(value, Rows):
        return np.array(to_numpy(value.array))
    if isinstance(value, Tally):
        return value.state_dict()
    if isinstance(value, list):
        return [_pack(item) for item in value]
    return np.array(to_numpy(value)) if isinstance(value, np.ndarray) or is_torch(value) else value


def _unpack(plain: Any, now: Any, sample: Array) -> Any:
    if isinstance(now, Rows):
        if np.ndim(plain) != 2 or np.shape(plain)[1] != now.array.shape[1]:
            raise InputError(
                f"the saved statistics have rows of shape {np.shape(plain)} instead of "
                f"(n, {now.array.shape[1]}); pass what state_dict() returned."
            )
        rows = Rows(sample, now.array.shape[1])
        rows.append(like(plain, sample))
        return rows
    if isinstance(now, Tally):
        now.load_state_dict(plain)
        return now
    if isinstance(now, list) and now and isinstance(now[0], Tally):
        return [_unpack(item, tally, sample) for item, tally in zip(plain, now, strict=True)]
    if isinstance(now, list):
        kind = now[0] if now else None
        return [_unpack(item, kind, sample) for item in plain]
    if isinstance(plain, np.ndarray):
        return like(plain.copy(), sample)
    if isinstance(plain, Mapping | str):
        raise ValueError("a statistic is neither a number nor an array")
    return plain


class CompositeTally(Tally):
    """Several tallies of the same stream, named in ``STATE``."""

    parts: list[Tally]

    def _add(self, arm: int, batch: Batch) -> None:
        for part in self.parts:
            part.add(arm, batch)

    def _merge(self, other: CompositeTally, arms: Sequence[int]) -> None:
        for mine, theirs in zip(self.parts, other.parts, strict=True):
            mine.merge(theirs, arms)

    def _grow(self) -> None:
        for part in self.parts:
            part.grow()

    def flush(self) -> None:
        for part in self.parts:
            part.flush()


class SumTally(CompositeTally):
    """The tallies of a sum's terms."""

    STATE = ("parts",)

    def __init__(self, terms: Sequence[tuple[float, Tally]], arms: int, sample: Array) -> None:
        super().__init__(arms, sample)
        self.weights = [weight for weight, _ in terms]
        self.parts = [part for _, part in terms]

    def loss(self, arms: Sequence[int]) -> SumLoss:
        return self._sum([part.loss(arms) for part in self.parts])

    def sample_plane(
        self, loss: Any, arms: Sequence[int], alpha: Vector, batch: Batch, complete: bool = False
    ) -> Vector:
        planes = [
            part.sample_plane(term, arms, alpha, batch, complete)
            for part, (_, term) in zip(self.parts, loss.terms, strict=True)
        ]
        return np.asarray(self.weights) @ np.stack(planes)

    def pooled(self) -> SumLoss:
        return self._sum([part.pooled() for part in self.parts])

    def _sum(self, losses: Sequence[Loss]) -> SumLoss:
        return SumLoss(list(zip(self.weights, losses, strict=True)))
