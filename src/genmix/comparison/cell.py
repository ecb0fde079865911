"""One run of a comparison: a variant spends the budget once, and what it had is read on the way.

The k-th sample of an arm is the same for every variant in the same repeat, so that differences
between variants are not differences between samples.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from genmix.comparison.plan import Plan
from genmix.comparison.variants import Variant, knows_its_shares
from genmix.objectives.base import Batch, Objective, Score
from genmix.policies import MixtureOracle, OneArmOracle, Policy
from genmix.selector.selector import Selector
from genmix.solvers.simplex import on_simplex


class Draw(NamedTuple):
    """One sample drawn: its arm, its row of the pool, and the policy's mixture when it was drawn."""

    arm: int
    row: int
    mixture: NDArray[np.float64]


@dataclass(frozen=True)
class Cell:
    """What a run had at the plan's times."""

    label: str
    repeat: int
    times: list[int]
    pooled: dict[str, list[float]]
    """The score of all samples so far, of every term, and their ``loss``."""
    mixture: dict[str, list[float]]
    """The population score of the policy's mixture; empty if it was not followed."""
    counts: list[list[int]]
    weights: list[list[float]]
    """The policy's mixture."""


def play(plan: Plan, label: str, repeat: int) -> Cell:
    """Make one run."""
    times = plan.times.tolist()
    pooled, population = Pooled(plan), Population(plan)
    found = Cell(label, repeat, times, pooled.curves, population.curves, [], [])
    counts = [0] * len(plan.world.arms)
    due = iter(times)
    next_time = next(due)
    for t, draw in enumerate(_draws(plan, plan.variants[label], repeat), 1):
        counts[draw.arm] += 1
        pooled.add(draw)
        if t == next_time:
            pooled.read()
            population.read(draw.mixture)
            found.counts.append(list(counts))
            found.weights.append(draw.mixture.tolist())
            next_time = next(due, 0)
    return found


# -- drawing -----------------------------------------------------------------------------------------


def _draws(plan: Plan, variant: Variant, repeat: int) -> Iterator[Draw]:
    policy = _policy(plan, variant)
    rounds, seed = plan.options.rounds, plan.options.seed
    rng = np.random.default_rng([seed, repeat, 0])
    sizes = [len(pool) for pool in plan.world.arms.values()]
    streams = [
        np.random.default_rng([seed, repeat, 1 + i]).integers(size, size=rounds)
        for i, size in enumerate(sizes)
    ]
    if knows_its_shares(variant):
        draw = variant.draw or plan.options.draw
        return _fixed(plan, policy, streams, rng if draw == "iid" else None)
    return _learnt(plan, variant, policy, streams, rng)


def _policy(plan: Plan, variant: Variant) -> Policy | None:
    if variant.oracle == "mixture-oracle":
        return MixtureOracle(plan.best.weights)
    if variant.oracle == "one-arm-oracle":
        return OneArmOracle(plan.best_arm)
    return variant.policy


def _fixed(
    plan: Plan, policy: Any, streams: list[NDArray[np.int64]], rng: np.random.Generator | None
) -> Iterator[Draw]:
    """Arms in shares known from the start, at random or (rng is None) the one that lags most."""
    arms, rounds = list(plan.world.arms), plan.options.rounds
    shares = _shares(policy, arms)
    order = None if rng is None else rng.choice(len(arms), size=rounds, p=shares)
    drawn = np.zeros(len(arms), dtype=int)
    for t in range(rounds):
        arm = int(np.argmax(shares * (t + 1) - drawn)) if order is None else int(order[t])
        yield Draw(arm, int(streams[arm][drawn[arm]]), shares)
        drawn[arm] += 1


def _shares(policy: Any, arms: list[str]) -> NDArray[np.float64]:
    if isinstance(policy, OneArmOracle):
        return np.array([float(arm == policy.arm) for arm in arms])
    known = getattr(policy, "weights", None)  # Uniform has none
    return on_simplex([1 / len(arms) if known is None else known.get(arm, 0.0) for arm in arms])


def _learnt(
    plan: Plan,
    variant: Variant,
    policy: Policy | None,
    streams: list[NDArray[np.int64]],
    rng: np.random.Generator,
) -> Iterator[Draw]:
    """What a selector asks for, told at once."""
    shared = plan.options
    options: dict[str, Any] = {
        "warm_start": shared.warm_start,
        "draw": shared.draw,
        "resolve_growth": shared.resolve_growth,
    }
    objective = plan.objective if variant.objective is None else variant.objective
    notes = Notes(plan)
    arms, pools = list(plan.world.arms), list(plan.world.arms.values())
    selector = Selector(arms, objective, policy, seed=rng, **(options | variant.options))
    place = {arm: i for i, arm in enumerate(arms)}
    drawn = [0] * len(arms)
    for _ in range(shared.rounds):
        (ticket,) = selector.ask()
        mixture = np.fromiter(selector.mixture.values(), float, len(arms))
        arm = place[ticket.arm]
        row = int(streams[arm][drawn[arm]])
        drawn[arm] += 1
        draw = Draw(arm, row, mixture)
        selector.tell(ticket, pools[arm][row], notes.quality(draw), notes.cost(draw))
        yield draw


class Notes:
    """What is known of a sample beside its embedding."""

    def __init__(self, plan: Plan) -> None:
        world = plan.world
        self._costs = None if world.costs is None else [world.costs[arm] for arm in world.arms]
        rated = world.qualities
        self._qualities = None if rated is None else [rated[arm] for arm in world.arms]

    def quality(self, draw: Draw) -> float | None:
        return None if self._qualities is None else float(self._qualities[draw.arm][draw.row])

    def cost(self, draw: Draw) -> float | None:
        return None if self._costs is None else self._costs[draw.arm]


def _column(values: list[float | None]) -> NDArray[np.float64] | None:
    return None if values[0] is None else np.array(values, dtype=float)


# -- reading -----------------------------------------------------------------------------------------


class Pooled:
    """The score of all samples so far as one set, by the comparison's own objective."""

    def __init__(self, plan: Plan) -> None:
        self._objective, self._notes = plan.objective, Notes(plan)
        self._pools = list(plan.world.arms.values())
        self._tally = plan.objective.tally(1, self._pools[0])
        self._new: list[Draw] = []
        self.curves: dict[str, list[float]] = {}

    def add(self, draw: Draw) -> None:
        self._new.append(draw)

    def read(self) -> None:
        rows = np.stack([self._pools[draw.arm][draw.row] for draw in self._new])
        quality, cost = (
            _column([note(draw) for draw in self._new])
            for note in (self._notes.quality, self._notes.cost)
        )
        self._tally.add(0, Batch(rows, quality, cost))
        self._new = []
        loss = self._tally.loss([0])
        _append(self.curves, self._objective, loss, np.ones(1))


class Population:
    """The population score of a mixture; nothing where the plan does not follow it."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._wanted = plan, plan.options.population
        self.curves: dict[str, list[float]] = {}
        self._known: dict[bytes, dict[str, float]] = {}

    def read(self, weights: NDArray[np.float64]) -> None:
        if not self._wanted:
            return
        best = self._plan.best
        name = weights.tobytes()
        if name not in self._known:
            self._known[name] = _figures(best.objective, best.function, weights)
        for key, value in self._known[name].items():
            self.curves.setdefault(key, []).append(value)


def _append(
    curves: dict[str, list[float]], objective: Objective, loss: Any, alpha: NDArray[np.float64]
) -> None:
    for key, value in _figures(objective, loss, alpha).items():
        curves.setdefault(key, []).append(value)


def _figures(objective: Objective, loss: Any, alpha: NDArray[np.float64]) -> dict[str, float]:
    scores = objective.scores(loss, alpha, {})
    single = {scores.name: scores} if isinstance(scores, Score) else scores
    return {"loss": loss.value(alpha)} | {name: float(score) for name, score in single.items()}
