"""Offline: the best mixture of samples that are already there, with its certificate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genmix.core.arrays import Array, Vector
from genmix.objectives import Objective, Score, Scores
from genmix.objectives.pool import Pool
from genmix.solvers.loss import Loss
from genmix.solvers.solve import Solution, Solver
from genmix.solvers.newton import Newton


@dataclass(frozen=True)
class Mixture:
    """The best mixture, its scores, and the certificate.

    ``gap`` bounds how far ``loss`` lies above the least loss of any mixture of these samples.
    """

    weights: dict[str, float]
    score: Scores
    single_scores: dict[str, Scores]
    """Every arm alone."""
    single_losses: dict[str, float]
    """The loss of every arm alone, to compare with ``loss``."""
    loss: float
    gap: float
    iterations: int
    pool: Pool = field(repr=False)
    function: Loss = field(repr=False)
    """The loss as a function of the weights."""
    solver: Solver = field(repr=False)

    @property
    def objective(self) -> Objective:
        """The objective with its bandwidths fixed."""
        return self.pool.objective

    @cached_property
    def leave_one_out(self) -> dict[str, float]:
        """How much the least loss rises without each arm, in units of the loss; ∞ for the only one."""
        return {name: rise for name, (rise, _) in self._rises.items()}

    @property
    def active(self) -> tuple[str, ...]:
        """Arms without which the least loss certainly rises by more than the gap."""
        rises = self._rises.items()
        return tuple(name for name, (rise, gap) in rises if rise - gap > self.gap)

    @cached_property
    def _rises(self) -> dict[str, tuple[float, float]]:
        """The rise of the loss without each arm, and the gap of that solve."""
        return {name: self._rise(self.without(name)) for name in self.weights}

    def without(self, name: str) -> Solution | None:
        """The best mixture of the other arms, in their order; None where they make none."""
        arms = list(self.weights)
        alpha = np.array(list(self.weights.values()))
        rest = [i for i, arm in enumerate(arms) if arm != name]
        if not rest:
            return None
        start = np.maximum(alpha[rest], 1e-3)
        found = self.solver.solve(self.function.face(rest), start / start.sum())
        return found if np.isfinite(found.loss) else None

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
        scores = [self.score] if isinstance(self.score, Score) else list(self.score.values())
        lines += [f"mixture: {score}" for score in scores]
        return "\n".join(
            [*lines, f"mixture: loss {self.loss:.8g}, at most {self.gap:.1e} above the least"]
        )

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
) -> Mixture:
    """The mixture of the arms that is best under ``objective``.

        minimise  L(α)   subject to   α ≥ 0,  Σ_i α_i = 1

    ``arms``: label → samples ``(n, d)``, numpy or torch. ``quality``, ``cost``: label → a number for each
    sample, or one number for all of them.
    """
    return best_mixture(Pool.of(arms, objective, quality, cost, encoder), solver)


def best_mixture(
    pool: Pool, solver: Solver | None = None, arms: Sequence[str] | None = None
) -> Mixture:
    """The best mixture of samples that the statistics hold, of these arms or of all."""
    engine = Newton() if solver is None else solver
    names = pool.arms if arms is None else tuple(arms)
    places = [pool.arms.index(name) for name in names]
    function = pool.tally.loss(places)
    found = engine.solve(function, np.full(len(places), 1 / len(places)))
    vertices = np.eye(len(pool.arms))
    return Mixture(
        weights=dict(zip(names, found.weights.tolist(), strict=True)),
        score=pool.score(found.weights @ vertices[places]),
        single_scores={
            name: pool.score(vertices[i]) for name, i in zip(names, places, strict=True)
        },
        single_losses=dict(zip(names, function.singles().tolist(), strict=True)),
        loss=found.loss,
        gap=found.gap,
        iterations=found.iterations,
        pool=pool,
        function=function,
        solver=engine,
    )


def proportional(masses: Vector, total: int) -> NDArray[np.int64]:
    """Whole numbers in the proportions of ``masses`` with the given sum, by largest remainders."""
    counts: NDArray[np.int64] = np.floor(masses * total).astype(np.int64)
    counts[np.argsort(counts - masses * total, kind="stable")[: total - counts.sum()]] += 1
    return counts
