"""Worlds with a known best mixture: finite pools that *are* the arms' distributions.

A sample is a row of the pool drawn with replacement, so that the pools give the population loss
exactly and its minimiser is α*.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import genmix as gx
from genmix.mixture import Mixture

Rows = NDArray[np.float64]
MakeObjective = Callable[[Rows], gx.Objective]


@dataclass(frozen=True)
class World:
    """Arms' pools, a reference pool, and the best mixture under one objective."""

    arms: dict[str, Rows]
    best: Mixture

    @property
    def oracle(self) -> dict[str, float]:
        return self.best.weights

    def population_loss(self, weights: dict[str, float]) -> float:
        return self.best.function.value(np.array([weights[arm] for arm in self.arms]))


def modes(
    rng: np.random.Generator, arms: int = 4, own: float = 0.6
) -> tuple[dict[str, Rows], Rows]:
    """One-hot embeddings: every arm has a few modes to itself and shares others.

    ``own`` is the share of an arm's mass on its own modes; the reference is uniform over all modes.
    """
    shared = 4
    blocks = rng.integers(2, 6, size=arms)
    total = shared + int(blocks.sum())
    starts = shared + np.concatenate([[0], np.cumsum(blocks)[:-1]])
    pools = {}
    for i in range(arms):
        masses = np.zeros(total)
        masses[:shared] = (1 - own) * rng.dirichlet(np.ones(shared))
        masses[starts[i] : starts[i] + blocks[i]] = own * rng.dirichlet(np.full(blocks[i], 3.0))
        pools[f"arm {i}"] = np.repeat(np.eye(total), _hundredths(masses, 400), axis=0)
    return pools, np.repeat(np.eye(total), 20, axis=0)


def overlapping(rng: np.random.Generator, arms: int = 4) -> tuple[dict[str, Rows], Rows]:
    """One-hot embeddings on eight modes that all arms share in different proportions."""
    pools = {
        f"arm {i}": np.repeat(np.eye(8), _hundredths(rng.dirichlet(np.full(8, 0.4)), 400), axis=0)
        for i in range(arms)
    }
    return pools, np.repeat(np.eye(8), 50, axis=0)


def gaussians(rng: np.random.Generator, arms: int = 4, d: int = 8) -> tuple[dict[str, Rows], Rows]:
    """Gaussian clouds, each stretched along directions of its own; the reference is standard."""
    pools = {}
    for i in range(arms):
        spread = np.full(d, 0.25)
        spread[rng.permutation(d)[: d // 2]] = rng.uniform(0.8, 1.5)
        centre = 0.5 * rng.standard_normal(d)
        pools[f"arm {i}"] = centre + spread * rng.standard_normal((1500, d))
    return pools, rng.standard_normal((1500, d))


def _hundredths(masses: Rows, total: int) -> NDArray[np.int64]:
    """Whole numbers in the proportions of ``masses`` with the given sum."""
    counts = np.floor(masses * total).astype(int)
    counts[np.argsort(counts - masses * total)[: total - counts.sum()]] += 1
    return counts


def interior_worlds(
    family: Callable[[np.random.Generator], tuple[dict[str, Rows], Rows]],
    objective: MakeObjective,
    count: int,
    least: float = 0.05,
) -> list[World]:
    """The first ``count`` seeded worlds of a family whose best mixture has no weight below ``least``."""
    found: list[World] = []
    seed = 0
    while len(found) < count:
        pools, reference = family(np.random.default_rng(seed))
        best = gx.optimal_mixture(pools, objective(reference))
        if min(best.weights.values()) >= least:
            found.append(World(pools, best))
        seed += 1
    return found


@dataclass(frozen=True)
class Run:
    """One simulated run: regret of the mixtures over the rounds, what is in hand at the end."""

    regret: Rows
    """``L(α_t) − L(α*)`` at each round after the warm start."""
    pooled: float
    counts: dict[str, int]


def simulate(
    world: World, policy: gx.Policy, rounds: int, seed: int, warm_start: int = 20, **options: object
) -> Run:
    """``rounds`` samples in all, the warm start among them; arms' streams are the same for every policy."""
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
