"""The objective interface: streaming statistics, a loss and a score."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from genmix.core.arrays import Array, Vector
from genmix.core.description import Description
from genmix.errors import InputError
from genmix.objectives.score import Score, Scores
from genmix.objectives.tally import Batch, SumTally, Tally
from genmix.solvers.loss import Loss, SumLoss


class Objective(Description):
    """Base class for all objectives.

    An objective maps samples to a convex loss ``L(α)`` on the simplex, which is minimized, and to a
    score, which is reported. It is immutable: all statistics live in the tally that it creates.
    Objectives can be added, e.g. ``Vendi() + 0.3 * Precision(reference)``. A positive weight always
    rewards a better score, whether larger or smaller is better.

    A subclass is a frozen dataclass of parameters. It defines ``name``, ``maximise`` and :meth:`tally`.

    Attributes
    ----------
    name : str
        Name of the score.
    maximise : bool
        Whether a larger score is better.
    linear : bool
        Whether the loss is linear in the weights, so that a negative weight keeps a sum convex.
    quadratic : bool
        Whether the loss is linear or quadratic. Mixture-UCB was published for these losses.
    fidelity : float
        Weight of the fidelity terms, for which Mixture-UCB has a separate bonus.

    Examples
    --------
    >>> import genmix as gx
    >>> gx.Vendi() + 0.01 * gx.Cost()
    Vendi(order=1.0, kernel=Cosine()) + 0.01 * Cost()
    """

    name: ClassVar[str]
    maximise: ClassVar[bool]
    linear: ClassVar[bool] = False
    quadratic: bool = False
    fidelity: float = 0.0

    @property
    def least_samples(self) -> int:
        """Number of samples that every arm needs before the loss is defined."""
        return 1

    @property
    def dimension(self) -> int | None:
        """The embedding dimension that the objective requires, or None if it accepts any."""
        return None

    def fix_bandwidths(self, groups: Sequence[Array]) -> Objective:
        """Return the objective with all data-dependent parameters fixed.

        Parameters
        ----------
        groups : sequence of array of shape (n, d)
            The embeddings of each arm, from which bandwidths and random frequencies are chosen.

        Returns
        -------
        Objective
        """
        return self

    def check(self, batch: Batch, where: str) -> None:
        """Reject samples on which the objective is not defined.

        Parameters
        ----------
        batch : Batch
            Samples from one arm.
        where : str
            Description of the arm for error messages.

        Raises
        ------
        InputError
            If a sample is invalid.
        """
        if self.dimension is not None and batch.embeddings.shape[1] != self.dimension:
            raise InputError(
                f"{where}: the embedding has dimension {batch.embeddings.shape[1]}, but the reference "
                f"of {self.name} has {self.dimension}; use the same encoder for both."
            )

    def check_total(self, total: int) -> None:
        """Reject a total number of samples that is too large for this objective.

        Parameters
        ----------
        total : int
            Number of samples over all arms.

        Raises
        ------
        InputError
            If there are too many samples.
        """

    @abstractmethod
    def tally(self, arms: int, sample: Array) -> Tally:
        """Create empty statistics.

        Parameters
        ----------
        arms : int
            Number of arms.
        sample : array of shape (n, d)
            Any embeddings with the same library, device and dimension.

        Returns
        -------
        Tally
        """

    def details(self) -> dict[str, Any]:
        """Return the parameters that the score depends on.

        Returns
        -------
        dict
        """
        return {}

    def scores(self, loss: Loss, alpha: Vector, context: dict[str, Any]) -> Scores:
        """Return the score of a mixture and the details on which it depends.

        Parameters
        ----------
        loss : Loss
            A loss from this objective.
        alpha : numpy.ndarray of shape (m,)
            The mixture.
        context : dict
            Further details, e.g. the number of samples and the encoder.

        Returns
        -------
        Score or dict of Score
            A dict keyed by name for a sum of objectives.
        """
        details = self.details() | loss.score_details(alpha) | context
        return Score(loss.score(alpha), self.name, self.maximise, details)

    def __add__(self, other: object) -> Objective:
        if not isinstance(other, Objective):
            return NotImplemented
        return Sum(_terms(self) + _terms(other))

    def __sub__(self, other: object) -> Objective:
        raise InputError(
            "objectives cannot be subtracted; add them instead, because a positive weight always rewards "
            "a better score."
        )

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
    """A weighted sum of objectives, ``minimize Σ_k w_k L_k(α)``; its score is a dict keyed by name.

    A positive weight always rewards a better score. A negative weight is allowed only for a linear term,
    because the sum would not be convex otherwise.
    """

    terms: tuple[tuple[float, Objective], ...]
    name = "sum"

    def __post_init__(self) -> None:
        for weight, term in self.terms:
            if not np.isfinite(weight):
                raise InputError(f"the weight of {term.name} is {weight}; pass a finite number.")
            if weight < 0 and not term.linear:
                raise InputError(
                    f"the weight of {term.name} is {weight:g}, which makes the loss non-convex; "
                    "pass a positive weight, which always rewards a better score."
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

    def fix_bandwidths(self, groups: Sequence[Array]) -> Sum:
        return Sum(tuple((w, term.fix_bandwidths(groups)) for w, term in self.terms))

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
        """One name per term; a second Vendi is called ``vendi 2``."""
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
