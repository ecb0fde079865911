"""A pool of samples from several arms, summarized by the statistics of an objective."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from genmix.core.arrays import Array, Vector, like
from genmix.objectives.objective import Objective
from genmix.objectives.score import Scores, score_context
from genmix.objectives.tally import Batch, Tally
from genmix.objectives.validation import batches


@dataclass(frozen=True)
class Pool:
    """Samples from several arms, summarized by the statistics of an objective."""

    arms: tuple[str, ...]
    objective: Objective
    """The objective with bandwidths and random frequencies fixed."""
    tally: Tally
    encoder: str | None
    samples: tuple[Batch, ...] | None = field(default=None, repr=False)
    """The samples themselves, by arm; None if only their statistics are known."""

    @classmethod
    def of(
        cls,
        arms: Mapping[str, Array],
        objective: Objective,
        quality: Mapping[str, Any] | None = None,
        cost: Mapping[str, Any] | None = None,
        encoder: str | None = None,
    ) -> Pool:
        """Validate the samples, fix the objective's bandwidths, and compute the statistics."""
        found = batches(arms, objective, quality, cost)
        sample = next(iter(found.values())).embeddings
        moved = {
            name: Batch(like(batch.embeddings, sample), batch.quality, batch.cost)
            for name, batch in found.items()
        }
        fixed = objective.fix_bandwidths([batch.embeddings for batch in moved.values()])
        tally = fixed.tally(len(moved), sample)
        for index, batch in enumerate(moved.values()):
            tally.add(index, batch)
        return cls(tuple(moved), fixed, tally, encoder, tuple(moved.values()))

    def score(self, weights: Vector) -> Scores:
        """Return the score of a mixture, using only arms with positive weight."""
        used = [int(i) for i in np.flatnonzero(weights)]
        counts = [self.tally.counts[i] for i in used]
        context = score_context(weights[used], counts, self.encoder)
        return self.objective.scores(self.tally.loss(used), weights[used], context)

    def pooled_score(self) -> Scores:
        """Return the score of all samples as one set."""
        context = score_context(np.ones(1), [sum(self.tally.counts)], self.encoder)
        return self.objective.scores(self.tally.pooled(), np.ones(1), context)
