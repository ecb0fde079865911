"""Worlds whose best mixture has weight on every arm, and simulated runs with their regret."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import genmix as gx
from genmix.comparison.worlds import World as Pools
from genmix.offline.mixture import Mixture

Rows = NDArray[np.float64]
MakeObjective = Callable[[Rows], gx.Objective]


@dataclass(frozen=True)
class World:
    """The pools of the arms, and the best mixture for one objective."""

    arms: dict[str, Rows]
    best: Mixture

    @property
    def oracle(self) -> dict[str, float]:
        return self.best.weights

    def population_loss(self, weights: dict[str, float]) -> float:
        return self.best.function.value(np.array([weights[arm] for arm in self.arms]))


def interior_worlds(
    family: Callable[[int], Pools],
    objective: MakeObjective,
    count: int,
    least: float = 0.05,
) -> list[World]:
    """The first ``count`` seeded worlds of a family whose best mixture has no weight below ``least``."""
    found: list[World] = []
    seed = 0
    while len(found) < count:
        pools = family(seed)
        best = gx.optimal_mixture(pools.arms, objective(pools.need_reference()))
        if min(best.weights.values()) >= least:
            found.append(World(pools.arms, best))
        seed += 1
    return found


@dataclass(frozen=True)
class Run:
    """A simulated run: the regret of its mixtures, and its final score and counts."""

    regret: Rows
    """``L(α_t) − L(α*)`` in each round after the warm start."""
    pooled: float
    counts: dict[str, int]


def simulate(
    world: World, policy: gx.Policy, rounds: int, seed: int, warm_start: int = 20, **options: object
) -> Run:
    """Run ``rounds`` samples, including the warm start; every policy sees the same streams of samples."""
    selector = gx.Selector(
        list(world.arms),
        world.best.objective,
        policy,
        warm_start=warm_start,
        seed=seed,
        **options,  # type: ignore[arg-type]
    )
    streams = {arm: np.random.default_rng([seed, i]) for i, arm in enumerate(world.arms)}
    regret: list[float] = []
    weights: dict[str, float] = {}
    for _ in range(rounds):
        (ticket,) = selector.ask()
        pool = world.arms[ticket.arm]
        selector.tell(ticket, pool[streams[ticket.arm].integers(len(pool))])
        if np.isfinite(selector.gap):
            if selector.weights != weights:
                weights = selector.weights
                now = world.population_loss(weights) - world.best.loss
            regret.append(now)
    return Run(np.array(regret), float(selector.pooled_score), selector.counts)  # type: ignore[arg-type]
