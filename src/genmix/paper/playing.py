"""How the paper's items compare policies: sizes, objectives, and one store for all runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import genmix as gx
from genmix.comparison.compare import carry_out
from genmix.comparison.comparison import Comparison
from genmix.comparison.plan import Options, Plan
from genmix.comparison.variants import Variant, read_variants
from genmix.comparison.worlds import World, gaussians, load_world, modes
from genmix.paper.item import Setting

RECORDED = ("fashion", "breeds", "boots", "city")
WARM_START = 5
"""As in the published runs of Mixture-UCB."""

ROUNDS = {"fashion": 2000, "modes": 2000, "gaussians": 2000, "city": 500}
FEWER = 1000
QUICK = 300

POPULATION = 5000
"""Rows of an arm's feature file that are taken, at most, as its population."""

GREEDY = {"Mixture-Greedy": Variant()}
UCB = {"Mixture-UCB": Variant(gx.MixtureUCB(delta=0.6))}
ORACLES = {
    "Mixture oracle": Variant(oracle="mixture-oracle"),
    "One-arm oracle": Variant(oracle="one-arm-oracle"),
}
ONE_ARM = {
    "One-arm greedy": Variant(gx.OneArmGreedy()),
    "ε-greedy": Variant(gx.EpsilonGreedy(0.1)),
}


@dataclass(frozen=True)
class Size:
    """How much is spent on a comparison."""

    rounds: int
    repeats: int


def size(setting: Setting, world: World, repeats: int = 20, most: int = 2000) -> Size:
    """Of a comparison on this world: quick ones are for a look."""
    if setting.quick:
        return Size(min(QUICK, most), 4)
    return Size(min(ROUNDS.get(world.name, FEWER), most), repeats)


def play(
    setting: Setting,
    world: World,
    objective: gx.Objective,
    policies: Mapping[str, Any],
    spent: Size,
    **options: Any,
) -> Comparison:
    """A comparison whose runs are kept, and shared with every other item that needs the same."""
    chosen: dict[str, Any] = {"warm_start": WARM_START, "seed": setting.seed} | options
    plan = Plan.of(
        population(world),
        objective,
        read_variants(policies),
        spent.repeats,
        Options(rounds=spent.rounds, **chosen),
    )
    what = f"{world.name}, {objective.name}"
    setting.progress(f"{what}: {len(plan.cells)} runs of {spent.rounds} samples")
    told = [0]

    def report(done: int, total: int) -> None:
        if done * 4 // max(total, 1) > told[0]:
            told[0] = done * 4 // total
            setting.progress(f"{what}: {done}/{total}")

    return carry_out(plan, setting.out, setting.workers, report)


def population(world: World) -> World:
    """The world with at most POPULATION rows of every arm: huge files gain nothing but time."""
    if all(len(pool) <= POPULATION for pool in world.arms.values()):
        return world
    arms = {name: some_rows(pool) for name, pool in world.arms.items()}
    return replace(world, arms=arms, qualities=None)


def some_rows(rows: Any, most: int = POPULATION) -> Any:
    """At most so many rows, drawn at random once and for all: files often lie class by class."""
    if len(rows) <= most:
        return rows
    return rows[np.sort(np.random.default_rng(0).permutation(len(rows))[:most])]


def all_worlds(setting: Setting) -> list[World]:
    """Every recorded world and two controlled ones."""
    recorded = [load_world(name, setting.worlds) for name in RECORDED]
    return [*recorded, modes(3), gaussians(3)]


def recorded(setting: Setting, names: Sequence[str] = RECORDED) -> list[World]:
    return [load_world(name, setting.worlds) for name in names]


def objectives(world: World, bandwidth: Any = "median") -> dict[str, gx.Objective]:
    """The four of the paper; FD and KD where there is a reference."""
    kernel = gx.Gaussian(bandwidth)
    found: dict[str, gx.Objective] = {}
    if world.reference is not None:
        found["FD"] = gx.FrechetDistance(world.reference)
        found["KD"] = gx.KernelDistance(some_rows(world.reference), kernel)
    found["RKE"] = gx.RKE(kernel)
    found["Vendi"] = gx.Vendi()
    return found
