"""Scores of samples that are already there: each arm, all of them pooled, and a given mixture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from genmix.core.arrays import Array, as_matrix, like, namespace
from genmix.data.reference import Samples, samples_of
from genmix.errors import InputError
from genmix.kernels.balls import Balls, scores_against
from genmix.objectives import Objective, Score, Scores, Sum
from genmix.objectives.pool import Pool
from genmix.solvers.simplex import on_simplex

Row = dict[str, Score]


@dataclass(frozen=True)
class ScoreTable:
    """Scores by name, for each arm, for all samples pooled, and for the mixture that was asked about."""

    arms: dict[str, Row]
    pooled: Row
    mixture: Row | None

    def __str__(self) -> str:
        rows = {**self.arms, "pooled": self.pooled}
        if self.mixture is not None:
            rows["mixture"] = self.mixture
        names = list(self.pooled)
        width = max(len(label) for label in rows)
        lines = [f"{'':{width}}  " + "  ".join(f"{name:>16}" for name in names)]
        for label, row in rows.items():
            cells = [f"{float(row[n]):16.6g}" if n in row else f"{'–':>16}" for n in names]
            lines.append(f"{label:{width}}  " + "  ".join(cells))
        return "\n".join([*lines, *(f"{name}: {score}" for name, score in self.pooled.items())])


def score(
    arms: Mapping[str, Array],
    objective: Objective,
    *,
    weights: Mapping[str, float] | None = None,
    reference: Any = None,
    k: int = 5,
    quality: Mapping[str, Any] | None = None,
    cost: Mapping[str, Any] | None = None,
    encoder: str | None = None,
) -> ScoreTable:
    """The objective's scores, and precision, recall, density and coverage where there is a reference.

    The reference is the objective's own samples, if it keeps any (FrechetDistance keeps moments only),
    unless ``reference`` gives others; ``k`` is for these
    four, and an objective that is itself a precision or density keeps its own. Recall and coverage
    are not convex in the weights: they are reported for sets of samples, never optimised.
    """
    pool = Pool.of(arms, objective, quality, cost, encoder)
    points = _reference_points(objective if reference is None else reference)
    if points is not None and points.shape[1] != pool.tally.dimension:
        raise InputError(
            f"the reference has dimension {points.shape[1]} and the arms have "
            f"{pool.tally.dimension}: embed both with the same encoder."
        )
    if reference is None and points is not None and points.shape[0] <= k:
        points = None  # too few for neighbours, which nobody asked for
    rows = {name: like(as_matrix(arms[name], name), pool.tally.sample) for name in pool.arms}
    everything = namespace(pool.tally.sample).concat(list(rows.values()), axis=0)
    real = None if points is None else Balls.around(like(points, everything), k)
    corners = np.eye(len(pool.arms))
    return ScoreTable(
        arms={
            name: _beside(pool.score(corners[i]), _manifold(real, rows[name], encoder))
            for i, name in enumerate(pool.arms)
        },
        pooled=_beside(pool.pooled_score(), _manifold(real, everything, encoder)),
        mixture=None if weights is None else _row(pool.score(_aligned(weights, pool.arms))),
    )


def _row(scores: Scores) -> Row:
    return {scores.name: scores} if isinstance(scores, Score) else scores


def _beside(scores: Scores, others: Row) -> Row:
    """The objective's own scores first; where a name is in both, the objective's."""
    own = _row(scores)
    return own | {name: score for name, score in others.items() if name not in own}


def _aligned(weights: Mapping[str, float], arms: tuple[str, ...]) -> Any:
    if not isinstance(weights, Mapping):
        raise InputError(f"the weights are {weights!r}: give a map from arm to weight.")
    unknown = next((name for name in weights if name not in arms), None)
    if unknown is not None:
        raise InputError(f"unknown arm {unknown!r} in weights: the arms are {', '.join(arms)}.")
    return on_simplex([weights.get(name, 0.0) for name in arms])


def _reference_points(source: Any) -> Array | None:
    if isinstance(source, Sum):
        found = [_reference_points(term) for _, term in source.terms]
        return next((points for points in found if points is not None), None)
    if isinstance(source, Objective):
        held = getattr(source, "reference", None)
        return held.points if isinstance(held, Samples) else None
    return samples_of(source).points


def _manifold(real: Balls | None, samples: Array, encoder: str | None) -> Row:
    if real is None:
        return {}
    sizes = {"reference n": int(real.centres.shape[0]), "n": int(samples.shape[0])}
    details = {"k": real.k, **sizes, "encoder": encoder or "unstated"}
    found = scores_against(real, samples)
    return {name: Score(value, name, True, details) for name, value in found.items()}
