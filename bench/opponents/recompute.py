"""Statistics from scratch in every round, then our solver: shows what streaming statistics save."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

import genmix as gx
from genmix.objectives import Batch
from genmix.solvers.loss import Loss

Array = NDArray[np.float64]


class Recompute:
    """A round that reads all samples again; quantities that depend only on the reference are kept."""

    def __init__(self, objective: gx.Objective, arms: int, d: int) -> None:
        self._empty = objective.tally(arms, np.empty((0, d)))

    def loss(self, arms: Sequence[Array]) -> Loss:
        tally = self._empty.fork()
        for arm, rows in enumerate(arms):
            tally.add(arm, Batch(rows))
        return tally.loss(range(len(arms)))

    def round(self, arms: Sequence[Array], last: gx.Solution) -> gx.Solution:
        """The mixture of these samples, from the last round's mixture and Hessian."""
        return gx.Newton().solve(self.loss(arms), last.weights, last.curvature)
