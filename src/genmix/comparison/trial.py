"""One trial: a variant spends the budget once, and its curves are recorded and stored.

Within a repeat, the k-th sample of an arm is the same for every variant. Differences between
variants are therefore never due to different samples.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from genmix.comparison.plan import Plan
from genmix.comparison.variant import Variant, has_fixed_weights
from genmix.core.arrays import Vector
from genmix.core.atomic import make_folder, write_text
from genmix.core.plain import by_name
from genmix.core.streams import private_stream
from genmix.errors import StorageError
from genmix.objectives import Batch, Objective
from genmix.policies import MixtureGreedy, MixtureOracle, OneArmOracle, Policy
from genmix.selector.selector import Selector
from genmix.solvers.loss import Loss
from genmix.solvers.simplex import on_simplex


class Draw(NamedTuple):
    """One sample: its arm, its row in the pool, and the policy's mixture when it was drawn."""

    arm: int
    row: int
    mixture: Vector


@dataclass(frozen=True)
class Trial:
    """The curves of one trial at the times of the plan."""

    label: str
    repeat: int
    times: list[int]
    pooled: dict[str, list[float]]
    """Scores and ``loss`` of all samples so far."""
    mixture: dict[str, list[float]]
    """Population scores and ``loss`` of the policy's mixture; empty if they were not recorded."""
    counts: list[list[int]]
    weights: list[list[float]]
    """The policy's mixture."""


def run_trial(plan: Plan, label: str, repeat: int) -> Trial:
    times = plan.times.tolist()
    pooled, population = PooledCurves(plan), PopulationCurves(plan)
    trial = Trial(label, repeat, times, pooled.curves, population.curves, [], [])
    counts = [0] * len(plan.world.arms)
    due = iter(times)
    next_time = next(due)
    for t, draw in enumerate(draws(plan, plan.variants[label], repeat), 1):
        counts[draw.arm] += 1
        pooled.add(draw)
        if t == next_time:
            pooled.record()
            population.record(draw.mixture)
            trial.counts.append(list(counts))
            trial.weights.append(draw.mixture.tolist())
            next_time = next(due, 0)
    return trial


# -- drawing -----------------------------------------------------------------------------------------


def draws(plan: Plan, variant: Variant, repeat: int) -> Iterator[Draw]:
    """Yield the samples of a trial, one at a time."""
    policy = _policy(plan, variant)
    rounds, seed = plan.options.rounds, plan.options.seed
    rng = private_stream(seed, "comparison", repeat, 0)
    streams = [
        private_stream(seed, "comparison", repeat, 1 + i).integers(len(pool), size=rounds)
        for i, pool in enumerate(plan.world.arms.values())
    ]
    if has_fixed_weights(variant):
        draw = variant.draw or plan.options.draw
        return _fixed_draws(plan, policy, streams, None if draw == "tracking" else rng)
    return _selector_draws(plan, variant, policy, streams, rng)


def _policy(plan: Plan, variant: Variant) -> Policy:
    if variant.oracle == "mixture-oracle":
        return MixtureOracle(plan.best.weights)
    if variant.oracle == "one-arm-oracle":
        return OneArmOracle(plan.best_arm)
    return MixtureGreedy() if variant.policy is None else variant.policy


def _fixed_draws(
    plan: Plan, policy: Any, streams: list[NDArray[np.int64]], rng: np.random.Generator | None
) -> Iterator[Draw]:
    """Draw arms according to fixed weights: at random, or by tracking if ``rng`` is None."""
    arms, rounds = list(plan.world.arms), plan.options.rounds
    weights = _fixed_weights(policy, arms)
    order = None if rng is None else rng.choice(len(arms), size=rounds, p=weights)
    drawn = np.zeros(len(arms), dtype=int)
    for t in range(rounds):
        arm = int(np.argmax(weights * (t + 1) - drawn)) if order is None else int(order[t])
        yield Draw(arm, int(streams[arm][drawn[arm]]), weights)
        drawn[arm] += 1


def _fixed_weights(policy: Any, arms: list[str]) -> Vector:
    if isinstance(policy, OneArmOracle):
        return np.array([float(arm == policy.arm) for arm in arms])
    known = getattr(policy, "weights", None)  # Uniform has none
    return on_simplex([1 / len(arms) if known is None else known.get(arm, 0.0) for arm in arms])


def _selector_draws(
    plan: Plan,
    variant: Variant,
    policy: Policy,
    streams: list[NDArray[np.int64]],
    rng: np.random.Generator,
) -> Iterator[Draw]:
    """Draw the samples that a selector asks for, and report each one before drawing the next."""
    shared = plan.options
    options: dict[str, Any] = {
        "warm_start": shared.warm_start,
        "draw": shared.draw,
        "resolve_growth": shared.resolve_growth,
    }
    objective = plan.objective if variant.objective is None else variant.objective
    arms, pools = list(plan.world.arms), list(plan.world.arms.values())
    selector = Selector(arms, objective, policy, seed=rng, **(options | variant.options))
    index = {arm: i for i, arm in enumerate(arms)}
    drawn = [0] * len(arms)
    for _ in range(shared.rounds):
        (ticket,) = selector.ask()
        mixture = np.fromiter(selector.mixture.values(), float, len(arms))
        arm = index[ticket.arm]
        draw = Draw(arm, int(streams[arm][drawn[arm]]), mixture)
        drawn[arm] += 1
        selector.tell(ticket, pools[arm][draw.row], *_quality_and_cost(plan, draw))
        yield draw


def _quality_and_cost(plan: Plan, draw: Draw) -> tuple[float | None, float | None]:
    world, arm = plan.world, plan.arms[draw.arm]
    quality = None if world.qualities is None else float(world.qualities[arm][draw.row])
    return quality, None if world.costs is None else world.costs[arm]


# -- recording ---------------------------------------------------------------------------------------

Curves = dict[str, list[float]]


class PooledCurves:
    """Scores of all samples so far as one set, under the objective of the comparison."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._pools = list(plan.world.arms.values())
        self._tally = plan.objective.tally(1, self._pools[0])
        self._new: list[Draw] = []
        self.curves: Curves = {}

    def add(self, draw: Draw) -> None:
        self._new.append(draw)

    def record(self) -> None:
        rows = np.stack([self._pools[draw.arm][draw.row] for draw in self._new])
        extras = zip(*(_quality_and_cost(self._plan, draw) for draw in self._new), strict=True)
        quality, cost = (None if v[0] is None else np.array(v, dtype=float) for v in extras)
        self._tally.add(0, Batch(rows, quality, cost))
        self._new = []
        _append(self.curves, _scores(self._plan.objective, self._tally.loss([0]), np.ones(1)))


class PopulationCurves:
    """Population scores of a mixture; empty if the plan does not request them."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._known: dict[bytes, dict[str, float]] = {}
        self.curves: Curves = {}

    def record(self, weights: Vector) -> None:
        if not self._plan.options.population:
            return
        best, key = self._plan.best, weights.tobytes()
        if key not in self._known:
            self._known[key] = _scores(best.objective, best.function, weights)
        _append(self.curves, self._known[key])


def _append(curves: Curves, values: dict[str, float]) -> None:
    for name, value in values.items():
        curves.setdefault(name, []).append(value)


def _scores(objective: Objective, loss: Loss, alpha: Vector) -> dict[str, float]:
    scores = by_name(objective.scores(loss, alpha, {}))
    return {"loss": loss.reported(alpha)} | {name: float(score) for name, score in scores.items()}


# -- on disk -----------------------------------------------------------------------------------------


class TrialStore:
    """A folder of finished trials, one JSON file each, named after the trial's key."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        make_folder(folder)

    def _file(self, key: str) -> Path:
        return self.folder / f"{key}.json"

    def has(self, key: str) -> bool:
        return self._file(key).exists()

    def write(self, key: str, trial: Trial) -> None:
        text = json.dumps(asdict(trial))
        write_text(self._file(key), text, "free some space and run the comparison again")

    def read(self, key: str, label: str) -> Trial:
        """Read a trial and set its label to the one used in this comparison."""
        file = self._file(key)
        try:
            return replace(Trial(**json.loads(file.read_text("utf-8"))), label=label)
        except (OSError, ValueError, TypeError) as error:
            raise StorageError(
                f"{file} is corrupt ({error}); delete it and run the comparison again."
            ) from error
