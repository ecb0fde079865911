"""Scores of samples that already exist: each arm, all samples pooled, and a given mixture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from genmix.core.arrays import Array, as_matrix, like, namespace
from genmix.core.plain import by_name
from genmix.data.reference import Samples, samples_of
from genmix.errors import InputError
from genmix.kernels.balls import Balls, scores_against
from genmix.objectives import Objective, Score, Scores, Sum
from genmix.objectives.pool import Pool
from genmix.shards.arms import any_shards, loaded_if_small, streamed_arms
from genmix.shards.neighbors import neighbor_scores
from genmix.shards.pool import pool_of
from genmix.solvers.simplex import on_simplex

Row = dict[str, Score]


@dataclass(frozen=True)
class ScoreTable:
    """Scores of each arm, of all samples pooled, and of a mixture.

    Attributes
    ----------
    arms : dict of str to dict of str to Score
        For each arm, its scores by name.
    pooled : dict of str to Score
        Scores of all samples as one set.
    mixture : dict of str to Score or None
        Scores of the mixture, if weights were given.

    See Also
    --------
    score : Creates a score table.

    Examples
    --------
    >>> import numpy as np
    >>> import genmix as gx
    >>> table = gx.score({"a": np.eye(3)[:2], "b": np.eye(3)[2:]}, gx.Vendi())
    >>> print(table)
                       vendi
    a                      2
    b                      1
    pooled                 3
    pooled: vendi 3 ↑ (order 1.0, kernel Cosine(), n 3, encoder unstated)
    """

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
        return "\n".join([*lines, *(f"pooled: {score}" for score in self.pooled.values())])


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
    """Score each arm, all samples pooled, and optionally a mixture.

    If a reference is available, the table also contains the precision, recall, density and coverage of each
    arm and of the pooled samples. If the objective is or contains one of them, the table has the objective's
    score, e.g. the expected coverage of ``Coverage(reference, at=1000)``.

    Parameters
    ----------
    arms : mapping of str to array of shape (n, d) or Shards
        Samples of each arm, as a numpy array or torch tensor, or as files that are read in blocks.
    objective : Objective
        The scores to compute; a sum of objectives has one score per term.
    weights : mapping of str to float, optional
        A mixture to score as well. Arms that are not listed get weight 0.
    reference : array or path, optional
        Reference samples for precision, recall, density and coverage. By default, the objective's own
        reference samples, if it has any (``FrechetDistance`` keeps only moments).
    k : int, default 5
        Number of nearest neighbors for these four scores. A ``Precision``, ``Density`` or
        ``Coverage`` objective uses its own ``k``.
    quality, cost : mapping of str to array or float, optional
        For each arm, one number per sample or a single number for all of them.
    encoder : str, optional
        Name of the encoder; it is shown with every score.

    Returns
    -------
    ScoreTable

    Raises
    ------
    InputError
        If the samples, the reference or another argument is invalid.

    Examples
    --------
    >>> import numpy as np
    >>> import genmix as gx
    >>> arms = {"a": np.eye(3)[:2], "b": np.eye(3)[2:]}
    >>> table = gx.score(arms, gx.Vendi(), weights={"a": 0.5, "b": 0.5})
    >>> print(f"{table.arms['a']['vendi']:.3f} {table.mixture['vendi']:.3f}")
    2.000 2.828
    """
    arms, quality, cost = loaded_if_small(arms, quality, cost)
    pool = pool_of(arms, objective, quality, cost, encoder)
    points = _reference_points(objective if reference is None else reference)
    if points is not None and points.shape[1] != pool.tally.dimension:
        raise InputError(
            f"the reference has dimension {points.shape[1]} but the arms have "
            f"{pool.tally.dimension}; embed both with the same encoder."
        )
    if reference is None and points is not None and points.shape[0] <= k:
        points = None  # too few neighbors, and the caller did not request these scores
    apart: list[Row] = [{} for _ in pool.arms]
    together: Row = {}
    if points is not None:
        apart, together = _neighbor_scores(arms, pool, points, k)
    vertices = np.eye(len(pool.arms))
    return ScoreTable(
        arms={
            name: _combined(pool.score(vertices[i]), apart[i]) for i, name in enumerate(pool.arms)
        },
        pooled=_combined(pool.pooled_score(), together),
        mixture=None
        if weights is None
        else by_name(pool.score(_weight_vector(weights, pool.arms))),
    )


def _combined(scores: Scores, others: Row) -> Row:
    """Combine both rows; if a name is in both, keep the objective's own score."""
    own = by_name(scores)
    return own | {name: score for name, score in others.items() if name not in own}


def _weight_vector(weights: Mapping[str, float], arms: tuple[str, ...]) -> Any:
    if not isinstance(weights, Mapping):
        raise InputError(f"weights is {weights!r}; pass a mapping from arm to weight.")
    unknown = next((name for name in weights if name not in arms), None)
    if unknown is not None:
        raise InputError(f"unknown arm {unknown!r} in weights; the arms are {', '.join(arms)}.")
    return on_simplex([weights.get(name, 0.0) for name in arms])


def _reference_points(source: Any) -> Array | None:
    if isinstance(source, Sum):
        found = [_reference_points(term) for _, term in source.terms]
        return next((points for points in found if points is not None), None)
    if isinstance(source, Objective):
        held = getattr(source, "reference", None)
        return held.points if isinstance(held, Samples) else None
    return samples_of(source).points


def _neighbor_scores(
    arms: Mapping[str, Any], pool: Pool, points: Array, k: int
) -> tuple[list[Row], Row]:
    """Return precision, density, recall and coverage of each arm and of all samples."""
    counts = pool.tally.counts
    if any_shards(arms):
        each, together = neighbor_scores(streamed_arms(arms, pool.objective, None, None), points, k)
    else:
        rows = [like(as_matrix(arms[name], name), pool.tally.sample) for name in pool.arms]
        everything = namespace(pool.tally.sample).concat(rows, axis=0)
        real = Balls.around(like(points, everything), k)
        each = [scores_against(real, mine) for mine in rows]
        together = scores_against(real, everything)

    def named(found: Mapping[str, float], count: int) -> Row:
        sizes = {"reference n": int(points.shape[0]), "n": count}
        details = {"k": k, **sizes, "encoder": pool.encoder or "unstated"}
        return {name: Score(value, name, True, details) for name, value in found.items()}

    apart = [named(found, count) for found, count in zip(each, counts, strict=True)]
    return apart, named(together, sum(counts))
