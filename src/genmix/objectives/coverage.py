"""Coverage of a reference: the share of its k-nearest-neighbor balls that the samples reach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from genmix.core.arrays import Array, Vector, namespace, to_numpy
from genmix.errors import whole
from genmix.objectives.precision_density import BallReference
from genmix.objectives.tally import Batch, SummedTally
from genmix.solvers.loss import EPS, Expansion, Loss, Matrix

BLOCK_ROWS = 1024
"""Number of samples that are compared with all balls at once."""


@dataclass(frozen=True, eq=False)
class Coverage(BallReference):
    """Coverage ↑: the expected share of reference balls that contain at least one of n draws.

    With ``p_ij`` the share of arm i's samples inside the ball of reference point j, the weights minimize::

        −1/J Σ_j (1 − (1 − p_j·α)ⁿ)

    over the simplex, which is convex in α for a fixed number n of draws. The score is the expected coverage
    of n draws from the mixture. The shares are estimated from the samples, so a ball that no
    sample has reached yet counts as unreachable, and the estimate is too low if n is much larger than the
    number of samples per arm.

    Parameters
    ----------
    reference : array_like of shape (n, d), path, or Reference
        Reference samples.
    k : int, default 5
        The radius of a ball is the distance to the k-th nearest reference neighbor.
    at : int, default 1000
        The number n of draws. In a study, the default is the sample budget.

    Raises
    ------
    InputError
        If there are too few reference samples for ``k``.

    See Also
    --------
    keep : Maximizes the exact coverage of a set of samples; it does not use ``at``.

    References
    ----------
    Naeem, M. F., et al. (2020). Reliable fidelity and diversity metrics for generative models. ICML.

    Examples
    --------
    >>> import numpy as np
    >>> import genmix as gx
    >>> reference = np.array([[0.0], [0.1], [1.0], [1.1]])
    >>> arms = {"low": [[0.05]], "high": [[1.05]]}
    >>> mix = gx.optimal_mixture(arms, gx.Coverage(reference, k=1, at=2))
    >>> round(mix.weights["low"], 4), round(float(mix.score), 4)
    (0.5, 0.75)
    """

    reference: Any
    k: int = 5
    at: int = 1000
    name = "coverage"
    maximise = True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "at", whole(self.at, "at", 1))

    def tally(self, arms: int, sample: Array) -> CoverageTally:
        return CoverageTally(self, arms, sample)

    def details(self) -> dict[str, Any]:
        return {**super().details(), "at": self.at}


class CoverageTally(SummedTally):
    """The number of each arm's samples inside each ball."""

    STATE = ("inside",)

    def __init__(self, objective: Coverage, arms: int, sample: Array) -> None:
        super().__init__(arms, sample)
        self._at, self._balls = objective.at, objective.balls(sample)
        count = int(self._balls.centers.shape[0])
        self.inside: list[Any] = [self.zeros(count) for _ in range(arms)]

    def _add(self, arm: int, batch: Batch) -> None:
        xp = namespace(batch.embeddings)
        total = self.inside[arm]
        for start in range(0, len(batch), BLOCK_ROWS):
            inside = self._balls.contains(batch.embeddings[start : start + BLOCK_ROWS, :])
            total = total + xp.sum(xp.astype(inside, xp.float64), axis=0)
        self.inside[arm] = total

    def loss(self, arms: Sequence[int]) -> CoverageLoss:
        sums = np.stack([to_numpy(self.inside[arm]) for arm in arms])
        return CoverageLoss(sums / self.counts_of(arms)[:, None], self._at)


class CoverageLoss(Loss):
    """The loss ``−mean_j (1 − (1 − p_j·α)ⁿ)``; its score is the expected coverage."""

    def __init__(self, shares: Matrix, draws: int) -> None:
        self.shares, self.draws = shares, draws
        self.size = len(shares)

    def value(self, alpha: Vector, smoothing: float = 0.0) -> float:
        with np.errstate(divide="ignore"):  # a ball that contains every sample
            missed = self.draws * np.log1p(-self._reached(alpha))
        return float(np.mean(np.expm1(missed)))

    def _reached(self, alpha: Vector) -> Vector:
        return np.asarray(np.minimum(alpha @ self.shares, 1.0))

    def score(self, alpha: Vector) -> float:
        return -self.value(alpha)

    def expand(self, alpha: Vector, smoothing: float = 0.0) -> Expansion:
        missing = 1 - self._reached(alpha)
        n, balls = self.draws, self.shares.shape[1]
        slopes = -n / balls * (self.shares @ missing ** (n - 1))
        value = self.value(alpha)

        def hessian() -> Matrix:
            if n == 1:
                return np.zeros((self.size, self.size))
            curvature = n * (n - 1) / balls * missing ** (n - 2)
            found: Matrix = (self.shares * curvature) @ self.shares.T
            return found

        noise = 32 * EPS * (1 + float(np.max(np.abs(slopes))))
        plane = value + slopes - float(slopes @ alpha)
        return Expansion(value, plane, hessian, noise, max(abs(value), 1 / balls))
