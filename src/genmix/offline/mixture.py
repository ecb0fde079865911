"""The best mixture of samples that already exist, with its certificate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from genmix.core.arrays import Array, Vector, to_numpy
from genmix.core.plain import by_name
from genmix.core.text import number as brief_number
from genmix.errors import InputError, number
from genmix.objectives import Objective, Score, Scores
from genmix.objectives.pool import Pool
from genmix.shards.arms import any_shards, loaded_if_small, own_numbers
from genmix.shards.pool import pool_of
from genmix.solvers.loss import Loss
from genmix.solvers.newton import Newton
from genmix.solvers.nonconvex import row_multipliers, solve_reported
from genmix.solvers.region import Region
from genmix.solvers.solve import Solution, Solver
from genmix.solvers.weight_limits import binding, check_shares, region_of, shares

if TYPE_CHECKING:
    from genmix.diagnosis.uncertainty import Uncertainty


@dataclass(frozen=True)
class Mixture:
    """The best mixture of given samples, its scores and its certificate.

    Attributes
    ----------
    weights : dict of str to float
        The weight of each arm.
    score : Score or dict of str to Score
        Score of the mixture; one score per term for a sum of objectives.
    single_scores : dict
        Score of each arm alone.
    single_losses : dict of str to float
        Loss of each arm alone, comparable with ``loss``.
    loss : float
        Loss of the mixture.
    gap : float
        Upper bound on how far ``loss`` is above the minimum loss over all mixtures of these samples,
        including rounding errors.
    iterations : int
        Number of solver steps.
    pool : Pool
        The statistics of the samples.
    function : Loss
        The loss as a function of the weights.
    solver : Solver
        The solver that found the weights.
    region : Region or None
        The limits on the weights; None if there are none.

    See Also
    --------
    optimal_mixture : Creates a mixture.

    Examples
    --------
    >>> import numpy as np
    >>> import genmix as gx
    >>> mix = gx.optimal_mixture({"a": np.eye(3)[:2], "b": np.eye(3)[2:]}, gx.Vendi())
    >>> mix.score
    vendi 3 ↑ (order 1.0, kernel Cosine(), n 3, encoder unstated)
    >>> mix.active
    ('a', 'b')
    >>> {name: round(rise, 4) for name, rise in mix.leave_one_out.items()}
    {'a': 1.0986, 'b': 0.4055}
    """

    weights: dict[str, float]
    score: Scores
    single_scores: dict[str, Scores]
    single_losses: dict[str, float]
    loss: float
    gap: float
    iterations: int
    pool: Pool = field(repr=False)
    function: Loss = field(repr=False)
    solver: Solver = field(repr=False)
    region: Region | None = field(default=None, repr=False)

    @property
    def objective(self) -> Objective:
        """The objective with its bandwidths fixed."""
        return self.pool.objective

    @property
    def is_convex(self) -> bool:
        """Whether the loss is convex in the weights.

        An unbiased loss from few samples may fail to be convex. The weights are then a local minimum of the
        loss itself, never worse than a single arm, and ``gap`` bounds the distance to the global minimum.
        """
        return self.function.concave_part is None

    @property
    def limit_lines(self) -> list[str]:
        """One line for the limits that the weights reach, and one for the price of money."""
        lines = [f"limits reached: {', '.join(self.binding)}"] if self.binding else []
        if self.price_of_money:
            lines.append(
                f"one more unit of mean cost would save a loss of {self.price_of_money:.4g}"
            )
        return lines

    @cached_property
    def leave_one_out(self) -> dict[str, float]:
        """Increase in the minimum loss without each arm, in units of the loss.

        It is ∞ for the only arm, and for an arm that the limits require, e.g. because of ``at_least``.
        """
        return {name: rise for name, (rise, _) in self._rises.items()}

    @property
    def active(self) -> tuple[str, ...]:
        """Arms whose removal provably increases the minimum loss."""
        rises = self._rises.items()
        return tuple(name for name, (rise, gap) in rises if rise - gap > self.gap)

    @cached_property
    def _rises(self) -> dict[str, tuple[float, float]]:
        """The increase in the loss without each arm, and the gap of that solve."""
        return {name: self._rise(self.without(name)) for name in self.weights}

    def without(self, name: str) -> Solution | None:
        """Find the best mixture of the other arms.

        Parameters
        ----------
        name : str
            Label of the arm to leave out.

        Returns
        -------
        Solution or None
            Weights in the order of the other arms; None if no mixture of them has a finite loss or satisfies
            the limits.
        """
        arms = list(self.weights)
        alpha = np.array(list(self.weights.values()))
        rest = [i for i, arm in enumerate(arms) if arm != name]
        if not rest:
            return None
        region = None if self.region is None else self.region.face(rest)
        if region is None and self.region is not None:
            return None
        start = np.maximum(alpha[rest], 1e-3)
        function = self.function.face(rest)
        found = solve_reported(function, self.solver, start / start.sum(), region=region)
        return found if np.isfinite(found.loss) else None

    def intervals(
        self,
        replicates: int = 200,
        *,
        level: float = 0.9,
        seed: int = 0,
        progress: Callable[[int, int], None] | None = None,
    ) -> Uncertainty:
        """Return how much the weights and the score could change with other samples of the same arms.

        The gap is about the samples at hand. The intervals are about the arms: they come from a bootstrap
        that draws the samples of each arm again and solves again from the best mixture.

        Parameters
        ----------
        replicates : int, default 200
            Number of bootstrap replicates.
        level : float, default 0.9
            Probability with which an interval should contain the true value.
        seed : int, default 0
            Seed for the draws.
        progress : callable, optional
            Called with the number of completed steps and the total.

        Returns
        -------
        Uncertainty

        Raises
        ------
        InputError
            If an argument is invalid, an arm has fewer than 5 samples, the samples themselves are not
            available, or the loss is not differentiable.

        Examples
        --------
        >>> import numpy as np
        >>> import genmix as gx
        >>> rng = np.random.default_rng(0)
        >>> arms = {"a": np.eye(4)[rng.integers(0, 2, 50)], "b": np.eye(4)[rng.integers(2, 4, 50)]}
        >>> low, high = gx.optimal_mixture(arms, gx.Vendi()).intervals().weights["a"]
        >>> low < 0.5 < high
        True
        """
        from genmix.diagnosis.uncertainty import intervals_of  # the diagnosis builds on mixtures

        if self.pool.samples is None:
            raise InputError(
                "the samples of this mixture were not kept, only their statistics; "
                "call optimal_mixture with the samples."
            )
        batches = [self.pool.samples[self.pool.arms.index(name)] for name in self.weights]
        return intervals_of(self, batches, replicates, level, seed, progress)

    @property
    def binding(self) -> tuple[str, ...]:
        """The limits that hold with equality, e.g. ``("at_least a", "mean_cost")``.

        Examples
        --------
        >>> import numpy as np
        >>> import genmix as gx
        >>> arms = {"a": np.eye(4)[:3], "b": np.eye(4)[3:]}
        >>> gx.optimal_mixture(arms, gx.Vendi(), at_most={"a": 0.5}).binding
        ('at_most a',)
        """
        return binding(self.region, list(self.weights), np.array(list(self.weights.values())))

    @cached_property
    def price_of_money(self) -> float | None:
        """How much loss one more unit of mean cost would save; None without ``mean_cost``.

        It is the multiplier of the row ``costs·α ≤ mean_cost``, and 0 if the mixture costs less.

        Examples
        --------
        >>> import numpy as np
        >>> import genmix as gx
        >>> arms, cost = {"a": np.eye(2)[:1], "b": np.eye(2)[1:]}, {"a": 2.0, "b": 1.0}
        >>> mix = gx.optimal_mixture(arms, gx.Vendi(), cost=cost, mean_cost=1.4)
        >>> {arm: round(weight, 4) for arm, weight in mix.weights.items()}
        {'a': 0.4, 'b': 0.6}
        >>> round(mix.price_of_money, 4)
        0.4055
        """
        if self.region is None or not len(self.region.limits):
            return None
        alpha = np.array(list(self.weights.values()))
        return float(row_multipliers(self.function, alpha, self.region)[0])

    def _rise(self, found: Solution | None) -> tuple[float, float]:
        return (np.inf, 0.0) if found is None else (found.loss - self.loss, found.gap)

    def __str__(self) -> str:
        width = max(3, *(len(name) for name in self.weights))
        lines = [f"{'arm':{width}}  weight  {'loss alone':>12}  score alone"]
        for name, weight in self.weights.items():
            alone = _brief(self.single_scores[name])
            lines.append(
                f"{name:{width}}  {weight:6.3f}  {self.single_losses[name]:12.6g}  {alone}"
            )
        lines += [f"mixture: {score}" for score in by_name(self.score).values()]
        lines.append(
            f"mixture: loss {self.loss:.8g}, at most {brief_number(self.gap, 2)} above the minimum on these "
            "samples"
        )
        lines += self.limit_lines
        if not self.is_convex:
            lines.append(
                "the unbiased loss is not convex: the mixture is the best local minimum found"
            )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from genmix.report.notebook_repr import mixture_html

        return mixture_html(self)


def _brief(score: Scores) -> str:
    if isinstance(score, Score):
        return f"{float(score):.6g}"
    return ", ".join(f"{name} {float(value):.6g}" for name, value in score.items())


def optimal_mixture(
    arms: Mapping[str, Array],
    objective: Objective,
    quality: Mapping[str, Any] | None = None,
    cost: Mapping[str, Any] | None = None,
    *,
    solver: Solver | None = None,
    encoder: str | None = None,
    at_least: Mapping[str, float] | None = None,
    at_most: Mapping[str, float] | None = None,
    mean_cost: float | None = None,
    groups: Mapping[str, float] | None = None,
    pooling: float | None = None,
) -> Mixture:
    """Find the mixture of existing samples that is best under an objective.

    Solves::

        minimize  L(α)   subject to   at_least ≤ α ≤ at_most,  Σ_i α_i = 1,  Σ_i c_i α_i ≤ mean_cost

    where ``L`` is the convex loss of the objective on these samples, and ``c_i`` is the mean cost of arm i.
    By default, ``at_least`` is 0, ``at_most`` is 1, and the cost is not limited.

    Parameters
    ----------
    arms : mapping of str to array of shape (n, d) or Shards
        Samples of each arm, as a numpy array or torch tensor, or as files that are read in blocks.
    objective : Objective
        What the mixture optimizes, e.g. ``Vendi()``.
    quality, cost : mapping of str to array or float, optional
        For each arm, one number per sample or a single number for all of them.
    solver : Solver, optional
        How the loss is minimized. The default is ``Newton()``.
    encoder : str, optional
        Name of the encoder; it is shown with every score.
    at_least, at_most : mapping of str to float, optional
        Bounds on the weights of some arms.
    mean_cost : float, optional
        Largest mean cost per sample of the mixture; it needs ``cost``.
    groups : mapping of str to float, optional
        The share of each group, if the samples are given by group: ``{"travel": {"sdxl": X, ...}, ...}``, and
        likewise ``quality`` and ``cost``. By default, the share of its samples.
    pooling : float, optional
        How many samples the samples of an arm in all groups count as in each of them; see :class:`Selector`.

    Returns
    -------
    Mixture
        The weights, the scores and the certificate. With groups, a :class:`GroupedMixture`, which also has
        ``weights_by_group`` and ``score_by_group``.

    Raises
    ------
    InputError
        If the samples or another argument is invalid, or no mixture satisfies the limits. The message names
        the limit, and the nearest value at which it can hold.

    See Also
    --------
    Selector : Learns the mixture while the samples are generated.
    score : Scores of the arms and of a given mixture.

    Examples
    --------
    Arm ``a`` has two different samples, arm ``b`` has one. The most diverse mixture is uniform over the
    three:

    >>> import numpy as np
    >>> import genmix as gx
    >>> mix = gx.optimal_mixture({"a": np.eye(3)[:2], "b": np.eye(3)[2:]}, gx.Vendi())
    >>> {arm: round(weight, 4) for arm, weight in mix.weights.items()}
    {'a': 0.6667, 'b': 0.3333}
    >>> print(f"Vendi score {mix.score:.4f}, gap below 1e-6: {mix.gap < 1e-6}")
    Vendi score 3.0000, gap below 1e-6: True

    At least half of the samples must come from ``b``:

    >>> mix = gx.optimal_mixture({"a": np.eye(3)[:2], "b": np.eye(3)[2:]}, gx.Vendi(), at_least={"b": 0.5})
    >>> {arm: round(weight, 4) for arm, weight in mix.weights.items()}
    {'a': 0.5, 'b': 0.5}
    """
    from genmix.offline.grouped import grouped_mixture, is_grouped  # it builds on this module

    arms, quality, cost = loaded_if_small(arms, quality, cost)
    by_group = is_grouped(arms)

    def limited(names: Sequence[str]) -> Region | None:
        least, most = (
            shares(limits, what, names)
            for limits, what in ((at_least, "at_least"), (at_most, "at_most"))
        )
        check_shares(least, most, names)
        own = own_numbers(arms, cost, "cost") if any_shards(arms) else cost
        known = _without_groups(own) if by_group else own
        costs = None if mean_cost is None else _mean_costs(known or {}, names)
        limit = None if mean_cost is None else number(mean_cost, "mean_cost", 0.0)
        return region_of(names, least, most, costs, limit)

    if by_group:
        return grouped_mixture(
            arms, objective, quality, cost, solver, encoder, groups, pooling, limited
        )
    if groups is not None or pooling is not None:
        raise InputError(
            'groups and pooling need samples by group; pass arms as {"travel": {"sdxl": X, ...}, ...}.'
        )
    pool = pool_of(arms, objective, quality, cost, encoder)
    return best_mixture(pool, solver, region=limited(pool.arms))


def _without_groups(cost: Mapping[str, Any] | None) -> dict[str, Any]:
    """Join the costs of each arm in all groups."""
    joined: dict[str, list[float]] = {}
    for row in (cost or {}).values():
        for arm, values in row.items():
            joined.setdefault(arm, []).extend(np.atleast_1d(to_numpy(values)).tolist())
    return joined


def _mean_costs(cost: Mapping[str, Any], arms: Sequence[str]) -> Vector:
    missing = next((arm for arm in arms if arm not in cost), None)
    if missing is not None:
        raise InputError(
            f"mean_cost needs the cost of every arm, but arm {missing!r} has none; pass it in cost=."
        )
    return np.array([float(np.mean(to_numpy(cost[arm]))) for arm in arms])


def best_mixture(
    pool: Pool,
    solver: Solver | None = None,
    arms: Sequence[str] | None = None,
    region: Region | None = None,
) -> Mixture:
    """Find the best mixture of a pool's samples, over the given arms or all of them, in a region."""
    solver = Newton() if solver is None else solver
    names = pool.arms if arms is None else tuple(arms)
    indices = [pool.arms.index(name) for name in names]
    function = pool.tally.loss(indices)
    even = np.full(len(indices), 1 / len(indices))
    found = solve_reported(function, solver, even, region=region)
    vertices = np.eye(len(pool.arms))[indices]
    return Mixture(
        weights=dict(zip(names, found.weights.tolist(), strict=True)),
        score=pool.score(found.weights @ vertices),
        single_scores={n: pool.score(vertex) for n, vertex in zip(names, vertices, strict=True)},
        single_losses=dict(zip(names, function.singles().tolist(), strict=True)),
        loss=found.loss,
        gap=found.gap,
        iterations=found.iterations,
        pool=pool,
        function=function,
        solver=solver,
        region=region,
    )


def apportion(shares: Vector, total: int) -> NDArray[np.int64]:
    """Split ``total`` into whole numbers in proportion to ``shares``, using the largest-remainder method."""
    counts: NDArray[np.int64] = np.floor(shares * total).astype(np.int64)
    counts[np.argsort(counts - shares * total, kind="stable")[: total - counts.sum()]] += 1
    return counts
