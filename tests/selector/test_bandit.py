"""How the bandit behaves on worlds whose best mixture is known exactly."""

from __future__ import annotations

import numpy as np
import pytest
from bench.worlds import Run, World, interior_worlds, simulate

import genmix as gx
from genmix.comparison.worlds import modes

OBJECTIVES = {
    "FD": lambda reference: gx.FrechetDistance(reference),
    "KD": lambda reference: gx.KernelDistance(reference, gx.Cosine()),
    "RKE": lambda reference: gx.RKE(gx.Cosine()),
    "Vendi": lambda reference: gx.Vendi(),
}
ROUNDS = 2000


def runs(worlds: list[World], policy: object, rounds: int, **options: object) -> list[Run]:
    """One run a world; ``policy`` may depend on the world."""
    return [
        simulate(world, policy(world) if callable(policy) else policy, rounds, seed, **options)
        for seed, world in enumerate(worlds)
    ]


def mean_regret(found: list[Run], rounds: int) -> float:
    """Mean regret per round over the first ``rounds`` rounds after the warm start."""
    return float(np.mean([run.regret[:rounds].mean() for run in found]))


def locked_out(found: list[Run], warm_start: int) -> int:
    """Runs in which some arm of the optimum got next to nothing after its warm start."""
    return sum(min(run.counts.values()) <= warm_start + 2 for run in found)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_regret_per_round_falls_and_the_mixture_beats_uniform(name: str) -> None:
    worlds = interior_worlds(modes, OBJECTIVES[name], count=3)
    greedy = runs(worlds, gx.MixtureGreedy(), 600)
    uniform = runs(worlds, gx.Uniform(), 600)
    assert mean_regret(greedy, 500) < mean_regret(greedy, 50)
    assert mean_regret(greedy, 500) < mean_regret(uniform, 500)


@pytest.mark.drill
@pytest.mark.parametrize("name", OBJECTIVES)
def test_greedy_reaches_the_oracle_and_ucb_lags(name: str) -> None:
    """Over 24 worlds, T = 2000, warm start 20: pooled within 2 % of the oracle's (KD: 5 %)."""
    worlds = interior_worlds(modes, OBJECTIVES[name], count=24, least=0.05)
    greedy = runs(worlds, gx.MixtureGreedy(), ROUNDS)
    oracle = runs(worlds, lambda world: gx.MixtureOracle(world.oracle), ROUNDS)
    ucb = runs(worlds, gx.MixtureUCB(delta=0.6), ROUNDS)
    pooled = {
        label: float(np.mean([run.pooled for run in found]))
        for label, found in (("greedy", greedy), ("oracle", oracle), ("ucb", ucb))
    }
    falling = [mean_regret(greedy, rounds) for rounds in (100, 400, 1900)]
    figures = (
        f"{name}: pooled greedy {pooled['greedy']:.5f}, UCB {pooled['ucb']:.5f}, oracle "
        f"{pooled['oracle']:.5f}; regret per round over 100, 400, 1900 rounds "
        f"{', '.join(f'{r:.6f}' for r in falling)}, UCB over 1900 {mean_regret(ucb, 1900):.6f}; "
        f"locked out: greedy {locked_out(greedy, 20)}, UCB {locked_out(ucb, 20)} of {len(worlds)}"
    )
    print(figures)
    assert falling[0] > falling[1] > falling[2], figures
    within = 0.05 if name == "KD" else 0.02
    assert abs(pooled["greedy"] / pooled["oracle"] - 1) <= within, figures
    assert mean_regret(ucb, 1900) > mean_regret(greedy, 1900), figures
