"""One trial: a variant spends the budget once, and its curves are recorded and stored."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from genmix.comparison.plan import Plan
from genmix.comparison.source import Source
from genmix.comparison.variant import Variant, has_fixed_weights
from genmix.core.arrays import Vector
from genmix.core.atomic import make_folder, write_text
from genmix.core.plain import by_name
from genmix.core.streams import private_stream
from genmix.errors import StorageError
from genmix.objectives import Batch, Objective
from genmix.offline.grouped import GroupedMixture
from genmix.policies import MixtureGreedy, OneArmOracle
from genmix.selector.selector import Selector
from genmix.solvers.loss import Loss, Matrix
from genmix.solvers.simplex import on_simplex


class Draw(NamedTuple):
    """One sample: its arm, its row in the pool, and the policy's mixture when it was drawn.

    If the world has prompts, the mixture is that of all cells, by group and arm.
    """

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
    """The policy's mixture of the arms, over all groups."""


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
            trial.weights.append(plan.arm_weights(draw.mixture).tolist())
            next_time = next(due, 0)
    return trial


# -- drawing -----------------------------------------------------------------------------------------


def draws(plan: Plan, variant: Variant, repeat: int) -> Iterator[Draw]:
    """Yield the samples of a trial, one at a time."""
    rng = private_stream(plan.options.seed, "comparison", repeat, 0)
    source = Source(plan, repeat)
    if has_fixed_weights(variant):
        draw = variant.draw or plan.options.draw
        return _fixed_draws(plan, variant, source, None if draw == "tracking" else rng)
    return _selector_draws(plan, variant, source, rng)


def _fixed_draws(
    plan: Plan, variant: Variant, source: Source, rng: np.random.Generator | None
) -> Iterator[Draw]:
    """Draw arms according to fixed weights: at random, or by tracking if ``rng`` is None."""
    weights = _fixed_weights(plan, variant)
    steps = np.cumsum(weights, axis=1)
    chances = None if rng is None else rng.random(plan.options.rounds)
    mixture, drawn = plan.cell_weights(weights), np.zeros(weights.shape, dtype=int)
    for t in range(plan.options.rounds):
        group = source.group(t)
        if chances is None:
            arm = int(np.argmax(weights[group] * (drawn[group].sum() + 1) - drawn[group]))
        else:
            step = steps[group] / steps[group, -1]
            arm = int(np.searchsorted(step, chances[t], side="right"))
        drawn[group, arm] += 1
        yield Draw(arm, source.answer(t, arm), mixture)


def _fixed_weights(plan: Plan, variant: Variant) -> Matrix:
    """Return the weights of the arms in every group."""
    arms, policy, best = plan.arms, variant.policy, plan.best if variant.oracle else None
    if variant.groups and isinstance(best, GroupedMixture):
        rows = [[row[arm] for arm in arms] for row in best.weights_by_group.values()]
        return np.array([on_simplex(row) for row in rows])
    if variant.oracle == "mixture-oracle":
        known: Mapping[str, float] | None = plan.best_for_all
    elif variant.oracle == "one-arm-oracle":
        known = {plan.best_arm: 1.0}
    elif isinstance(policy, OneArmOracle):
        known = {policy.arm: 1.0}
    else:
        known = getattr(policy, "weights", None)  # Uniform has none
    row = on_simplex([1 / len(arms) if known is None else known.get(arm, 0.0) for arm in arms])
    return np.tile(row, (plan.group_count, 1))


def _selector_draws(
    plan: Plan, variant: Variant, source: Source, rng: np.random.Generator
) -> Iterator[Draw]:
    """Draw the samples that a selector asks for, and report each one before drawing the next."""
    selector = _selector(plan, variant, rng)
    arms, pools = list(plan.world.arms), list(plan.world.arms.values())
    index = {arm: i for i, arm in enumerate(arms)}
    drawn = np.zeros((plan.group_count, len(arms)), dtype=int)
    for t in range(plan.options.rounds):
        (ticket,) = selector.ask(**source.question(t, variant.groups))
        arm = index[ticket.arm]
        draw = Draw(arm, source.answer(t, arm), _mixture(plan, variant, selector, drawn))
        drawn[source.group(t), arm] += 1
        selector.tell(ticket, pools[arm][draw.row], *_quality_and_cost(plan, draw))
        yield draw


def _selector(plan: Plan, variant: Variant, rng: np.random.Generator) -> Selector:
    shared = plan.options
    options: dict[str, Any] = {
        "warm_start": shared.warm_start,
        "draw": shared.draw,
        "resolve_growth": shared.resolve_growth,
    }
    if variant.groups and plan.world.prompts is not None:
        options["groups"] = plan.world.prompts.group_shares
    objective = plan.objective if variant.objective is None else variant.objective
    policy = MixtureGreedy() if variant.policy is None else variant.policy
    return Selector(plan.arms, objective, policy, seed=rng, **(options | variant.options))


def _mixture(plan: Plan, variant: Variant, selector: Selector, drawn: NDArray[np.int64]) -> Vector:
    """Return the policy's mixture: of all cells if the world has prompts, otherwise of the arms.

    A policy that chooses by the prompt has none; its mixture consists of the shares drawn so far.
    """
    count = len(plan.arms)
    if variant.groups:
        rows = [list(row.values()) for row in selector.weights_by_group.values()]
        return plan.cell_weights(np.array(rows))
    if variant.policy is not None and variant.policy.needs_prompts:
        totals = drawn.sum(axis=1, keepdims=True)
        return plan.cell_weights(np.where(totals, drawn / np.maximum(totals, 1), 1 / count))
    row = np.fromiter(selector.mixture.values(), float, count)
    return plan.cell_weights(np.tile(row, (plan.group_count, 1)))


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
