"""The best mixture for every group of prompts, from samples that already exist."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, NoReturn

import numpy as np

from genmix.core.arrays import Vector
from genmix.errors import InputError, number
from genmix.kernels.joint import uses_pairs
from genmix.objectives import Objective, Scores, score_context
from genmix.objectives.pool import Pool
from genmix.offline.mixture import Mixture
from genmix.shards.pool import pool_of
from genmix.solvers.loss import Loss, Matrix
from genmix.solvers.newton import Newton
from genmix.solvers.nonconvex import row_multipliers, solve_reported
from genmix.solvers.pooling import POOLING, PooledTally, pooled_loss
from genmix.solvers.region import Region
from genmix.solvers.solve import Solution, Solver
from genmix.solvers.weight_limits import binding, group_names, group_shares, grouped_region

Nested = Mapping[str, Mapping[str, Any]]


class OneForAll(NamedTuple):
    """The best mixture that is the same for all groups."""

    weights: dict[str, float]
    score: Scores
    loss: float
    gap: float


@dataclass(frozen=True)
class GroupedMixture(Mixture):
    """A best mixture for every group, from :func:`optimal_mixture` with samples by group.

    It has the attributes of a :class:`Mixture`; ``weights`` is the mean over the groups by their shares.
    ``function`` and ``region`` concern the weights of all cells, in the order of ``cells``.

    Attributes
    ----------
    weights_by_group : dict of str to dict
        The weights of the arms within each group; they sum to 1.
    score_by_group : dict of str to Score
        Score of each group's mixture on the group's own samples.
    groups : dict of str to float
        The share of each group.
    cells : tuple of (str, str)
        The group and the arm of each weight of ``function``.
    cell_weights : numpy.ndarray
        The weight of each cell; those of a group sum to its share.
    arm_region : Region or None
        The limits on ``weights``; None if there are none.

    Examples
    --------
    >>> import numpy as np
    >>> import genmix as gx
    >>> modes = np.eye(8)
    >>> arms = {
    ...     "travel": {"a": modes[:3], "b": modes[3:4]},
    ...     "food": {"a": modes[4:5], "b": modes[5:]},
    ... }
    >>> mix = gx.optimal_mixture(arms, gx.Vendi(), groups={"travel": 0.5, "food": 0.5}, pooling=0)
    >>> {g: {a: round(w, 3) for a, w in row.items()} for g, row in mix.weights_by_group.items()}
    {'travel': {'a': 0.75, 'b': 0.25}, 'food': {'a': 0.25, 'b': 0.75}}
    >>> round(mix.score, 3), round(mix.one_for_all.score, 3)
    (8.0, 6.928)
    """

    weights_by_group: dict[str, dict[str, float]] = field(default_factory=dict)
    score_by_group: dict[str, Scores] = field(default_factory=dict)
    groups: dict[str, float] = field(default_factory=dict)
    cells: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    cell_weights: Vector = field(default_factory=lambda: np.empty(0), repr=False)
    arm_region: Region | None = field(default=None, repr=False)

    @cached_property
    def one_for_all(self) -> OneForAll:
        """The best mixture that is the same for all groups; compare its score to see if groups pay."""
        arms = list(self.weights)
        points = np.zeros((len(arms), len(self.cells)))
        for k, (group, arm) in enumerate(self.cells):
            points[arms.index(arm), k] = self.groups[group]
        loss = pooled_loss(self.function, np.eye(len(self.cells)), points)
        even = np.full(len(arms), 1 / len(arms))
        found = solve_reported(loss, self.solver, even, region=self.arm_region)
        context = score_context(np.ones(1), [sum(self.pool.tally.counts)], self.pool.encoder)
        score = self.objective.scores(loss, found.weights, context)
        weights = dict(zip(arms, found.weights.tolist(), strict=True))
        return OneForAll(weights, score, found.loss, found.gap)

    def without(self, name: str) -> Solution | None:
        """Find the best mixtures without an arm; see :meth:`Mixture.without`."""
        rest = [k for k, (_, arm) in enumerate(self.cells) if arm != name]
        if not rest:
            return None
        assert self.region is not None
        region = self.region.face(rest)
        if region is None:
            return None
        start = np.maximum(self.cell_weights[rest], 1e-3)
        function = self.function.face(rest)
        found = solve_reported(function, self.solver, start / start.sum(), region=region)
        return found if np.isfinite(found.loss) else None

    @property
    def binding(self) -> tuple[str, ...]:
        """The limits that hold with equality; see :attr:`Mixture.binding`."""
        weights = np.array(list(self.weights.values()))
        return binding(self.arm_region, list(self.weights), weights)

    @cached_property
    def price_of_money(self) -> float | None:
        """How much loss one more unit of mean cost would save; see :attr:`Mixture.price_of_money`."""
        if self.region is None or self.arm_region is None or not len(self.arm_region.limits):
            return None
        return float(row_multipliers(self.function, self.cell_weights, self.region)[0])

    def intervals(self, *_: Any, **__: Any) -> NoReturn:
        raise InputError(
            "intervals are not available for mixtures by group; call optimal_mixture for one group."
        )

    def __str__(self) -> str:
        rows = "\n".join(
            f"{group} ({self.groups[group]:.3g}): "
            + ", ".join(f"{arm} {weight:.3f}" for arm, weight in row.items())
            for group, row in self.weights_by_group.items()
        )
        return f"{super().__str__()}\nby group:\n{rows}"


def is_grouped(arms: object) -> bool:
    """Return whether the samples are given by group."""
    if not isinstance(arms, Mapping) or not arms:
        return False
    return all(isinstance(value, Mapping) for value in arms.values())


def grouped_mixture(
    arms: Nested,
    objective: Objective,
    quality: Nested | None,
    cost: Nested | None,
    solver: Solver | None,
    encoder: str | None,
    groups: Any,
    pooling: Any,
    limits: Any,
) -> GroupedMixture:
    """Find the best mixture of every group; ``limits`` makes the region of the arms' weights."""
    names = list(dict.fromkeys(arm for row in arms.values() for arm in row))
    kappa = _pooling(pooling, objective)
    samples = _flat(arms)
    assert samples is not None
    pool = pool_of(samples, objective, _flat(quality), _flat(cost), encoder)
    places = [tuple(json.loads(label)) for label in pool.arms]
    cells = [(group, arm) for group in arms for arm in names]
    for group, arm in cells:
        if (group, arm) not in places and kappa == 0:
            raise InputError(
                f"arm {arm!r} has no samples in group {group!r}; pass some, or pooling > 0."
            )
    shares = _group_shares(groups, arms, pool)
    if kappa == math.inf:
        raise InputError(
            "with pooling=inf, all groups have the same mixture; pass the samples of each arm together."
        )
    indices = [
        places.index(cell) if cell in places else len(places) + k for k, cell in enumerate(cells)
    ]
    function = _loss(pool.tally, places, cells, kappa)
    whole = limits(names)
    return _solved(pool, function, cells, shares, solver or Newton(), whole, names, indices)


def _loss(
    tally: Any, places: Sequence[Any], cells: Sequence[tuple[str, str]], kappa: float
) -> Loss:
    if kappa == 0:
        loss: Loss = tally.loss([places.index(cell) for cell in cells])
        return loss
    missing = [cell for cell in cells if cell not in places]
    wider = tally.fork()
    for _ in missing:
        wider.grow()
    every = [*places, *missing]
    view = PooledTally(wider, [arm for _, arm in every], kappa)
    return view.loss([every.index(cell) for cell in cells])


def _solved(
    pool: Pool,
    function: Loss,
    cells: Sequence[tuple[str, str]],
    shares: Mapping[str, float],
    solver: Solver,
    arm_region: Region | None,
    names: Sequence[str],
    indices: Sequence[int],
) -> GroupedMixture:
    region = grouped_region(cells, shares, arm_region)
    start = np.array([shares[group] / len(names) for group, _ in cells])
    found = solve_reported(function, solver, start, region=region)
    rows = {
        group: {arm: float(found.weights[cells.index((group, arm))]) for arm in names}
        for group in shares
    }
    by_group = {
        group: {arm: weight / sum(row.values()) for arm, weight in row.items()}
        for group, row in rows.items()
    }
    alone = _alone(cells, shares, names)
    whole = score_context(np.ones(1), [sum(pool.tally.counts)], pool.encoder)
    return GroupedMixture(
        weights={arm: sum(row[arm] for row in rows.values()) for arm in names},
        score=pool.objective.scores(function, found.weights, whole),
        single_scores={
            arm: pool.objective.scores(function, alpha, whole)
            for arm, alpha in zip(names, alone, strict=True)
        },
        single_losses={
            arm: function.reported(alpha) for arm, alpha in zip(names, alone, strict=True)
        },
        loss=found.loss,
        gap=found.gap,
        iterations=found.iterations,
        pool=pool,
        function=function,
        solver=solver,
        region=region,
        weights_by_group=by_group,
        score_by_group=_scores_by_group(pool, cells, found.weights, indices),
        groups=dict(shares),
        cells=tuple(cells),
        cell_weights=found.weights,
        arm_region=arm_region,
    )


def _alone(
    cells: Sequence[tuple[str, str]], shares: Mapping[str, float], names: Sequence[str]
) -> Matrix:
    """Return the cell weights of each arm alone, with the groups in their shares."""
    return np.array([[shares[g] * (own == arm) for g, own in cells] for arm in names])


def _scores_by_group(
    pool: Pool, cells: Sequence[tuple[str, str]], weights: Vector, indices: Sequence[int]
) -> dict[str, Scores]:
    found: dict[str, Scores] = {}
    for group in dict.fromkeys(group for group, _ in cells):
        full = np.zeros(len(pool.arms))
        for (own, _), weight, index in zip(cells, weights, indices, strict=True):
            if own == group and index < len(full):
                full[index] = weight
        if full.any():
            found[group] = pool.score(full / full.sum())
    return found


def _flat(values: Nested | None) -> dict[str, Any] | None:
    """Return one entry per cell."""
    if values is None:
        return None
    return {
        json.dumps([group, arm], ensure_ascii=False): value
        for group, row in values.items()
        for arm, value in row.items()
    }


def _pooling(pooling: Any, objective: Objective) -> float:
    if pooling is None:
        return 0.0 if uses_pairs(objective) or objective.least_samples > 1 else POOLING
    return math.inf if pooling == math.inf else number(pooling, "pooling", 0.0)


def _group_shares(groups: Any, arms: Nested, pool: Pool) -> dict[str, float]:
    """Return the given shares, or those of the samples."""
    names = group_names(list(arms))
    if groups is None:
        counts = dict.fromkeys(names, 0)
        for label, count in zip(pool.arms, pool.tally.counts, strict=True):
            counts[json.loads(label)[0]] += count
        return {name: count / sum(counts.values()) for name, count in counts.items()}
    if not isinstance(groups, Mapping) or set(groups) != set(names):
        raise InputError(
            f"groups is {groups!r}; pass a map from {', '.join(names)} to their shares."
        )
    given = dict(zip(groups, group_shares(groups), strict=True))
    return {name: given[name] for name in names}
