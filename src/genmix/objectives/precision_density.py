"""Precision and density: fidelity to reference samples, from k-nearest-neighbor balls."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

from genmix.core.arrays import Array, Vector, like, to_numpy
from genmix.data.reference import samples_of
from genmix.kernels.balls import Balls, check_neighbors
from genmix.objectives.objective import Objective
from genmix.objectives.quality_cost import MeanObjective


class BallReference(Objective):
    """An objective that compares samples with the k-nearest-neighbor balls of a reference."""

    reference: Any
    k: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "reference", samples_of(self.reference))
        count = int(self.reference.points.shape[0])
        k = check_neighbors(count, self.k, f"the reference of {self.name}")
        object.__setattr__(self, "k", k)

    @property
    def dimension(self) -> int:
        return int(self.reference.dimension)

    def balls(self, sample: Array) -> Balls:
        """Return the balls, in the library and on the device of ``sample``."""
        return Balls.around(like(self.reference.points, sample), self.k)

    def details(self) -> dict[str, Any]:
        return {"k": self.k, "reference n": int(self.reference.points.shape[0])}


class BallObjective(BallReference, MeanObjective):
    """The mean of a function of the number of reference balls that contain a sample."""

    @abstractmethod
    def per_sample(self, hits: Vector) -> Vector:
        """Return ψ for each sample, given the number of balls that contain it."""

    def measure(self, sample: Array) -> Any:
        balls = self.balls(sample)
        return lambda batch: self.per_sample(to_numpy(balls.hits(batch.embeddings)))


@dataclass(frozen=True, eq=False)
class Precision(BallObjective):
    """Precision ↑: the fraction of samples inside some reference point's k-nearest-neighbor ball.

    The weights minimize ``−θ·α`` over the simplex, with ``θ_i`` the precision of arm i. This objective is
    usually one term of a sum.

    Parameters
    ----------
    reference : array_like of shape (n, d), path, or Reference
        Reference samples.
    k : int, default 5
        The radius of a ball is the distance to the k-th nearest reference neighbor.

    Raises
    ------
    InputError
        If there are too few reference samples for ``k``.

    References
    ----------
    Kynkäänniemi, T., et al. (2019). Improved precision and recall metric for assessing generative
    models. NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> import genmix as gx
    >>> reference = np.arange(6.0)[:, None]
    >>> table = gx.score({"near": [[0.5], [9.0]]}, gx.Precision(reference, k=1))
    >>> float(table.arms["near"]["precision"])
    0.5
    """

    reference: Any
    k: int = 5
    name = "precision"
    maximise = True
    fidelity = 1.0
    least, most = 0.0, 1.0

    def per_sample(self, hits: Vector) -> Vector:
        return (hits > 0).astype(float)


@dataclass(frozen=True, eq=False)
class Density(BallObjective):
    """Density ↑: the mean number of reference balls that contain a sample, divided by k.

    The weights minimize ``−θ·α`` over the simplex, with ``θ_i`` the density of arm i. Density can exceed
    1. This objective is usually one term of a sum.

    Parameters
    ----------
    reference : array_like of shape (n, d), path, or Reference
        Reference samples.
    k : int, default 5
        The radius of a ball is the distance to the k-th nearest reference neighbor.

    Raises
    ------
    InputError
        If there are too few reference samples for ``k``.

    References
    ----------
    Naeem, M. F., et al. (2020). Reliable fidelity and diversity metrics for generative models. ICML.

    Examples
    --------
    >>> import numpy as np
    >>> import genmix as gx
    >>> reference = np.arange(6.0)[:, None]
    >>> table = gx.score({"near": [[2.5], [9.0]]}, gx.Density(reference, k=1))
    >>> float(table.arms["near"]["density"])
    1.0
    """

    reference: Any
    k: int = 5
    name = "density"
    maximise = True
    fidelity = 1.0
    least = 0.0

    def per_sample(self, hits: Vector) -> Vector:
        return hits / self.k
