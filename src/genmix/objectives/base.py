"""What an objective is: a description, streaming statistics over m arms, and a loss on the simplex."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from genmix.core.arrays import Array, Rows, Vector, is_torch, like, to_numpy
from genmix.core.description import Description
from genmix.errors import InputError
from genmix.solvers.loss import Loss, PooledLoss, SumLoss


@dataclass(frozen=True)
class Batch:
    """Samples of one arm: embeddings ``(n, d)``, and quality and cost ``(n,)`` where they are given."""

    embeddings: Array
    quality: Vector | None = None
    cost: Vector | None = None

    def __len__(self) -> int:
        return int(self.embeddings.shape[0])


class Score(float):
    """A number that says what it is: ``name``, ``maximise`` and the ``details`` it depends on."""

    name: str
    maximise: bool
    details: dict[str, Any]

    def __new__(cls, value: float, name: str, maximise: bool, details: dict[str, Any]) -> Score:
        score = super().__new__(cls, value)
        score.name, score.maximise, score.details = name, maximise, details
        return score

    def __repr__(self) -> str:
        arrow = "↑" if self.maximise else "↓"
        details = ", ".join(f"{key} {value}" for key, value in self.details.items())
        return f"{self.name} {float(self):.6g} {arrow} ({details})"

    __str__ = __repr__

    def __reduce__(self) -> tuple[Any, ...]:
        return Score, (float(self), self.name, self.maximise, self.details)


Scores = Score | dict[str, Score]


def score_context(alpha: Vector, counts: Sequence[int], encoder: str | None) -> dict[str, Any]:
    """What a score depends on beside its objective: n, how much of it the weights use, the encoder."""
    used = alpha > 0
    effective = round(1 / float(np.sum(alpha[used] ** 2 / np.asarray(counts)[used])))
    n: dict[str, Any] = {"n": int(sum(counts))}
    if effective != n["n"]:
        n["effective n"] = effective
    return n | {"encoder": encoder or "unstated"}


class Tally(ABC):
    """Streaming float64 statistics of m arms: additive, mergeable, and read as a loss."""

    STATE: ClassVar[tuple[str, ...]]
    """Names of the attributes that are the state: arrays, lists of arrays, Rows, or plain values.

    Arrays are replaced, never changed in place, because forks share them.
    """

    def __init__(self, arms: int, sample: Array) -> None:
        self.sample = sample[:0, :]
        """An empty array that says library, device and dimension."""
        self.counts: list[int] = [0] * arms

    @property
    def dimension(self) -> int:
        return int(self.sample.shape[1])

    def add(self, arm: int, batch: Batch) -> None:
        """Take in a batch of one arm."""
        self._add(arm, batch)
        self.counts[arm] += len(batch)

    def settle(self) -> None:  # noqa: B027 - for most there is none
        """Do the work that waits for the next reading, so that reading changes nothing."""

    def merge(self, other: Tally) -> None:
        """Take in another part of the same stream: the result is the tally of the whole."""
        self._merge(other)
        self.counts = [a + b for a, b in zip(self.counts, other.counts, strict=True)]

    def grow(self) -> None:
        """Make room for one more arm."""
        self._grow()
        self.counts.append(0)

    @abstractmethod
    def _add(self, arm: int, batch: Batch) -> None: ...

    @abstractmethod
    def _merge(self, other: Any) -> None: ...

    @abstractmethod
    def _grow(self) -> None: ...

    @abstractmethod
    def loss(self, arms: Sequence[int]) -> Loss:
        """The loss as a function of the weights of these arms, each with at least one sample."""

    def pooled(self) -> Loss:
        """The loss of all samples as one set: a function of the single weight 1."""
        arms = [i for i, count in enumerate(self.counts) if count]
        shares = np.array([self.counts[i] for i in arms]) / sum(self.counts)
        return PooledLoss(self.loss(arms), shares)

    def fork(self) -> Tally:
        """A copy to go on with while this one stays as it is, until one of the two is dropped."""
        fork = copy.copy(self)
        fork.counts = list(self.counts)
        for key in self.STATE:
            setattr(fork, key, _copied(getattr(self, key)))
        return fork

    def state_dict(self) -> dict[str, Any]:
        """The statistics as plain numpy arrays."""
        return {"counts": list(self.counts)} | {k: _pack(getattr(self, k)) for k in self.STATE}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.counts = [int(n) for n in state["counts"]]
        for key in self.STATE:
            setattr(self, key, _unpack(state[key], getattr(self, key), self.sample))

    def sums(self, *shape: int) -> Array:
        """Zeros where the statistics live."""
        return like(np.zeros(shape), self.sample)

    def rows(self, columns: int | None = None) -> Rows:
        return Rows(self.sample, self.dimension if columns is None else columns)


def _copied(value: Any) -> Any:
    if isinstance(value, Rows):
        return value.fork()
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _pack(value: Any) -> Any:
    if isinstance(value, Rows):
        return np.array(to_numpy(value.array))
    if isinstance(value, list):
        return [_pack(item) for item in value]
    return np.array(to_numpy(value)) if isinstance(value, np.ndarray) or is_torch(value) else value


def _unpack(plain: Any, now: Any, sample: Array) -> Any:
    if isinstance(now, Rows):
        rows = Rows(sample, now.array.shape[1])
        rows.append(like(plain, sample))
        return rows
    if isinstance(now, list):
        kind = now[0] if now else None
        return [_unpack(item, kind, sample) for item in plain]
    return like(plain.copy(), sample) if isinstance(plain, np.ndarray) else plain


class Objective(Description):
    """Base of the objectives: what is optimised, which way, and how its statistics are kept."""

    name: ClassVar[str]
    maximise: ClassVar[bool]
    linear: ClassVar[bool] = False
    """Whether the loss is linear in the weights, so that a negative weight keeps it convex."""
    quadratic: bool = False
    """Whether the loss is at most quadratic, as Mixture-UCB was published for."""
    fidelity: float = 0.0
    """The weight of its fidelity terms, to which Mixture-UCB gives a bonus of their own."""

    @property
    def least_samples(self) -> int:
        """How many samples every arm needs before the loss is defined."""
        return 1

    @property
    def dimension(self) -> int | None:
        """The dimension of embedding that it asks for, if it does."""
        return None

    def resolve(self, groups: Sequence[Array]) -> Objective:
        """The objective with what depends on the data (bandwidth, frequencies) fixed."""
        return self

    def check(self, batch: Batch, where: str) -> None:
        """Refuse samples that it is not defined on; ``where`` names the arm."""
        if self.dimension is not None and batch.embeddings.shape[1] != self.dimension:
            raise InputError(
                f"{where}: the embedding has dimension {batch.embeddings.shape[1]} and the reference "
                f"of {self.name} has {self.dimension}; use the same encoder for both."
            )

    def check_total(self, total: int) -> None:
        """Refuse to hold this many samples."""

    @abstractmethod
    def tally(self, arms: int, sample: Array) -> Tally:
        """Empty statistics for ``arms`` arms of embeddings like ``sample`` ``(n, d)``."""

    def details(self) -> dict[str, Any]:
        """What its number depends on, beside the samples."""
        return {}

    def scores(self, loss: Loss, alpha: Vector, context: dict[str, Any]) -> Scores:
        """The score of a mixture, with all that it depends on."""
        return Score(loss.score(alpha), self.name, self.maximise, self.details() | context)

    def __add__(self, other: object) -> Objective:
        if not isinstance(other, Objective):
            return NotImplemented
        return Sum(_terms(self) + _terms(other))

    def __sub__(self, other: object) -> Objective:
        raise InputError("objectives are added: a positive weight already rewards what is good.")

    def __radd__(self, other: object) -> Objective:
        return self if other == 0 else NotImplemented  # so that sum([...]) works

    def __mul__(self, weight: object) -> Objective:
        if isinstance(weight, bool) or not isinstance(weight, int | float | np.number):
            return NotImplemented
        return Sum(tuple((float(weight) * w, term) for w, term in _terms(self)))

    __rmul__ = __mul__


def _terms(objective: Objective) -> tuple[tuple[float, Objective], ...]:
    return objective.terms if isinstance(objective, Sum) else ((1.0, objective),)


@dataclass(frozen=True, eq=False, repr=False)
class Sum(Objective):
    """``Σ_k w_k objective_k``: minimises the weighted sum of the losses; its score is a map by name.

    A positive weight always rewards what is good. A negative one is refused unless the term is
    linear, because the sum would no longer be convex.
    """

    terms: tuple[tuple[float, Objective], ...]
    name = "sum"

    def __post_init__(self) -> None:
        for weight, term in self.terms:
            if not np.isfinite(weight):
                raise InputError(f"the weight of {term.name} is {weight}: give a finite number.")
            if weight < 0 and not term.linear:
                raise InputError(
                    f"the weight of {term.name} is {weight:g}, which is not convex: "
                    "give a positive weight; it already rewards what is good."
                )

    def __repr__(self) -> str:
        return " + ".join(f"{w:g} * {term!r}" if w != 1 else repr(term) for w, term in self.terms)

    @property
    def quadratic(self) -> bool:  # type: ignore[override]
        return all(term.quadratic for _, term in self.terms)

    @property
    def fidelity(self) -> float:  # type: ignore[override]
        return sum(w * term.fidelity for w, term in self.terms)

    @property
    def least_samples(self) -> int:
        return max(term.least_samples for _, term in self.terms)

    def resolve(self, groups: Sequence[Array]) -> Sum:
        return Sum(tuple((w, term.resolve(groups)) for w, term in self.terms))

    def check(self, batch: Batch, where: str) -> None:
        for _, term in self.terms:
            term.check(batch, where)

    def check_total(self, total: int) -> None:
        for _, term in self.terms:
            term.check_total(total)

    def tally(self, arms: int, sample: Array) -> SumTally:
        return SumTally([(w, term.tally(arms, sample)) for w, term in self.terms], arms, sample)

    @property
    def names(self) -> list[str]:
        """One name a term; a second Vendi is called ``vendi 2``."""
        names: list[str] = []
        for _, term in self.terms:
            same = sum(name.split(" ")[0] == term.name for name in names)
            names.append(f"{term.name} {same + 1}" if same else term.name)
        return names

    def scores(self, loss: Loss, alpha: Vector, context: dict[str, Any]) -> dict[str, Score]:
        assert isinstance(loss, SumLoss)
        table: dict[str, Score] = {}
        for name, (_, term), (_, part) in zip(self.names, self.terms, loss.terms, strict=True):
            single = term.scores(part, alpha, context)
            assert isinstance(single, Score)
            table[name] = single
        return table


class SumTally(Tally):
    """The tallies of a sum's terms, side by side."""

    STATE = ()

    def __init__(self, parts: Sequence[tuple[float, Tally]], arms: int, sample: Array) -> None:
        super().__init__(arms, sample)
        self.parts = tuple(parts)

    def _add(self, arm: int, batch: Batch) -> None:
        for _, part in self.parts:
            part.add(arm, batch)

    def _merge(self, other: SumTally) -> None:
        for (_, mine), (_, theirs) in zip(self.parts, other.parts, strict=True):
            mine.merge(theirs)

    def _grow(self) -> None:
        for _, part in self.parts:
            part.grow()

    def settle(self) -> None:
        for _, part in self.parts:
            part.settle()

    def loss(self, arms: Sequence[int]) -> SumLoss:
        return SumLoss([(w, part.loss(arms)) for w, part in self.parts])

    def pooled(self) -> SumLoss:
        return SumLoss([(w, part.pooled()) for w, part in self.parts])

    def fork(self) -> SumTally:
        parts = [(w, part.fork()) for w, part in self.parts]
        fork = SumTally(parts, 0, self.sample)
        fork.counts = list(self.counts)
        return fork

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"parts": [part.state_dict() for _, part in self.parts]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        for (_, part), plain in zip(self.parts, state["parts"], strict=True):
            part.load_state_dict(plain)
