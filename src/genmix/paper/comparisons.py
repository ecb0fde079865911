"""How items compare policies: sizes, objectives, a shared store of trials, and paired gains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import genmix as gx
from genmix.comparison.compare import run_plan
from genmix.comparison.comparison import Comparison
from genmix.comparison.plan import Options, Plan
from genmix.comparison.presentation import VERDICTS
from genmix.comparison.statistics import LEVEL, Interval, holm, paired
from genmix.comparison.variant import Variant, read_variants
from genmix.comparison.worlds import World, gaussians, load_world, modes
from genmix.paper.items import Settings
from genmix.paper.markdown import table

RECORDED = ("fashion", "breeds", "boots", "city")
WARM_START = 5
"""Samples per arm in the warm start, as in the published runs of Mixture-UCB."""

ROUNDS = {"fashion": 2000, "modes": 2000, "gaussians": 2000, "city": 500}
DEFAULT_ROUNDS = 1000
QUICK_ROUNDS, QUICK_REPEATS = 300, 4

POPULATION = 5000
"""The maximum number of rows of a feature file to use as the population of its arm."""

GREEDY = {"Mixture-Greedy": Variant()}
UCB = {"Mixture-UCB": Variant(gx.MixtureUCB(delta=0.6))}
MIXTURE_ORACLE = {"Mixture oracle": Variant(oracle="mixture-oracle")}
ORACLES = MIXTURE_ORACLE | {"One-arm oracle": Variant(oracle="one-arm-oracle")}
ONE_ARM = {
    "One-arm greedy": Variant(gx.OneArmGreedy()),
    "ε-greedy": Variant(gx.EpsilonGreedy(0.1)),
}


@dataclass(frozen=True)
class Size:
    """The size of a comparison."""

    rounds: int
    repeats: int


def size_for(settings: Settings, world: World, repeats: int = 20, most: int = 2000) -> Size:
    if settings.quick:
        return Size(min(QUICK_ROUNDS, most), QUICK_REPEATS)
    return Size(min(ROUNDS.get(world.name, DEFAULT_ROUNDS), most), repeats)


def compare_policies(
    settings: Settings,
    world: World,
    objective: gx.Objective,
    policies: Mapping[str, Any],
    size: Size,
    **options: Any,
) -> Comparison:
    """Compare policies; the trials are stored and shared with all other items that need them."""
    chosen: dict[str, Any] = {"warm_start": WARM_START, "seed": settings.seed} | options
    plan = Plan.of(
        limited(world),
        objective,
        read_variants(policies),
        size.repeats,
        Options(rounds=size.rounds, **chosen),
    )
    title = f"{world.name}, {objective.name}"
    settings.progress(f"{title}: {len(plan.trials)} runs of {size.rounds} samples")
    return run_plan(plan, settings.out, settings.workers, settings.count(title))


def limited(world: World) -> World:
    """Return the world with at most POPULATION rows per arm."""
    if all(len(pool) <= POPULATION for pool in world.arms.values()):
        return world
    arms = {name: some_rows(pool) for name, pool in world.arms.items()}
    return replace(world, arms=arms, qualities=None)


def some_rows(rows: Any, most: int = POPULATION) -> Any:
    """Choose at most ``most`` rows at random, because files are often sorted by class."""
    if len(rows) <= most:
        return rows
    return rows[np.sort(np.random.default_rng(0).permutation(len(rows))[:most])]


def recorded_worlds(settings: Settings) -> list[World]:
    return [load_world(name, settings.worlds) for name in RECORDED]


def all_worlds(settings: Settings) -> list[World]:
    """Return the recorded worlds and two controlled ones."""
    return [*recorded_worlds(settings), modes(3), gaussians(3)]


def objectives_for(world: World, bandwidth: Any = "median") -> dict[str, gx.Objective]:
    """Return the four objectives of the paper; FD and KD only if there is a reference."""
    kernel = gx.Gaussian(bandwidth)
    found: dict[str, gx.Objective] = {}
    if world.reference is not None:
        found["FD"] = gx.FrechetDistance(world.reference)
        found["KD"] = gx.KernelDistance(some_rows(world.reference), kernel)
    return found | {"RKE": gx.RKE(kernel), "Vendi": gx.Vendi()}


# -- paired gains ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PairedGain:
    """The improvement in a policy's pooled score, as a percentage of another policy's mean."""

    world: str
    objective: str
    policy: str
    other: str
    names: tuple[str, str]
    """Labels of both policies with their remarks."""
    t: int
    gain: Interval
    """Positive if better, whether the score is maximized or minimized."""
    p: float
    """p-value of the paired t-test; :func:`corrected` adjusts it for the number of rows of a table."""

    @property
    def verdict(self) -> str:
        return VERDICTS[self.gain.mean > 0 if self.p < 1 - LEVEL else None]

    def row(self) -> dict[str, Any]:
        return {
            "world": self.world,
            "objective": self.objective,
            "policy": self.policy,
            "other": self.other,
            "t": self.t,
            "gain_percent": self.gain.mean,
            "low": self.gain.low,
            "high": self.gain.high,
            "p": self.p,
            "verdict": self.verdict,
        }


def paired_gain(
    found: Comparison, objective: str, policy: str, other: str, t: int | None = None
) -> PairedGain:
    """Compute the gain at the end, or at the first recorded time that is at least ``t``."""
    place = found.place_of(t)
    mine, theirs = found.pooled(policy)[:, place], found.pooled(other)[:, place]
    sign = 100 if found.maximise else -100
    test = paired(sign * mine / abs(theirs.mean()), sign * theirs / abs(theirs.mean()))
    names = found.named(policy), found.named(other)
    t = int(found.times[place])
    world = found.plan.world.name
    return PairedGain(world, objective, policy, other, names, t, test.difference, test.t_test)


def corrected(gains: Sequence[PairedGain], questions: Sequence[Any]) -> list[PairedGain]:
    """Apply Holm's correction to the p-values of all gains that answer the same question."""
    found = list(gains)
    for question in set(questions):
        rows = [k for k, each in enumerate(questions) if each == question]
        for k, p in zip(rows, holm([gains[k].p for k in rows]), strict=True):
            found[k] = replace(gains[k], p=p)
    return found


def gain_table(gains: Sequence[PairedGain]) -> str:
    """Format one line per gain."""
    headings = ["world", "objective", "", "against", "t", "gain in % (95%)", "p (Holm)", ""]
    rows = [
        [
            each.world,
            each.objective,
            *each.names,
            str(each.t),
            f"{each.gain.mean:+.2f} [{each.gain.low:+.2f}, {each.gain.high:+.2f}]",
            f"{each.p:.2g}",
            each.verdict,
        ]
        for each in gains
    ]
    return table(headings, rows)


def verdict_counts(gains: Sequence[PairedGain]) -> str:
    better, worse, equal = (
        sum(each.verdict == VERDICTS[key] for each in gains) for key in (True, False, None)
    )
    return (
        f"Better in {better}, worse in {worse} and no significant difference in {equal} of "
        f"{len(gains)}."
    )


def gain_chart(gains: Sequence[PairedGain]) -> Any:
    """Draw the gains with their intervals, one panel per pair."""
    from genmix import charts

    pairs = {(each.policy, each.other) for each in gains}
    rows = []
    for each in gains:
        row = {
            "label": f"{each.world}, {each.objective}",
            "mean": each.gain.mean,
            "low": each.gain.low,
            "high": each.gain.high,
        }
        if len(pairs) > 1:
            row["panel"] = f"{each.policy} against {each.other}"
        rows.append(row)
    return charts.intervals(rows, "gain in the pooled score, % → (right is better)")
