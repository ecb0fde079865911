"""Runs Mixture-Greedy on the digits and scores what it learnt."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import genmix as gx
from genmix.demo.digits import EMBEDDING, RECIPES, World, make_world
from genmix.errors import InputError

WARM_START = 10
BATCH = 8
POOL = 2000

ObjectiveName = Literal["fd", "vendi"]
Pools = dict[str, NDArray[np.float64]]
Weights = dict[str, float]

LABELS: dict[ObjectiveName, str] = {"fd": "FD", "vendi": "Vendi"}


@dataclass(frozen=True)
class Step:
    """What the progress line shows."""

    stage: str
    done: int = 0
    total: int = 0
    news: str = ""

    @property
    def count(self) -> str:
        return f"{self.done}/{self.total}" if self.total else ""


Report = Callable[[Step], None]


@dataclass(frozen=True)
class Scores:
    """Scores on one fresh pool of samples per generator."""

    pool: int
    singles: dict[str, float]
    learnt: float
    uniform: float
    oracle: float
    oracle_weights: Weights
    oracle_gap: float
    """How far the oracle's loss can be from the least loss on the pools."""

    def best_single(self, maximise: bool) -> str:
        return (max if maximise else min)(self.singles, key=self.singles.__getitem__)


@dataclass(frozen=True)
class DemoResult:
    """The run and, unless it was interrupted, its scores on fresh pools."""

    metric: str
    maximise: bool
    basis: dict[str, str]
    """What the numbers depend on."""
    seed: int
    knows: dict[str, str]
    counts: dict[str, int]
    weights: Weights
    gap: float
    """How far the learnt weights' loss can be from the least loss, on the samples of the run."""
    pooled: float | None
    scores: Scores | None
    seconds: float

    @property
    def drawn(self) -> int:
        return sum(self.counts.values())

    @property
    def interrupted(self) -> bool:
        return self.scores is None

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; an infinite gap, which JSON cannot write, is null."""
        gap = self.gap if np.isfinite(self.gap) else None
        return {**asdict(self), "gap": gap, "interrupted": self.interrupted}


@dataclass
class Run:
    """One run: the world, the objective on it, and the selector that learns."""

    world: World
    label: str
    objective: gx.Objective
    seed: int
    selector: gx.Selector = field(init=False)

    def __post_init__(self) -> None:
        self.selector = gx.Selector(
            list(self.world.samplers),
            self.objective,
            policy=gx.MixtureGreedy(),
            warm_start=WARM_START,
            seed=self.seed,
        )

    @property
    def done(self) -> int:
        return sum(self.selector.counts.values())

    def finish(self, budget: int, report: Report) -> Scores | None:
        """Spend the budget and score what was learnt; None after Ctrl-C."""
        try:
            self.play(budget, report)
            report(Step(f"scoring on {POOL} fresh samples per generator"))
            return self.evaluate()
        except KeyboardInterrupt:
            report(Step(f"interrupted after {self.done} samples"))
            return None

    def play(self, budget: int, report: Report) -> None:
        """Spend the budget: ask for arms, let them generate, tell the embeddings."""
        rng = np.random.default_rng([self.seed, 1])
        while self.done < budget:
            for arm, tickets in by_arm(self.selector.ask(min(BATCH, budget - self.done))).items():
                images = self.world.samplers[arm](len(tickets), rng)
                for ticket, embedding in zip(tickets, self.world.encode(images), strict=True):
                    self.selector.tell(ticket, embedding)
            report(Step("generating", self.done, budget, self.news()))

    def news(self) -> str:
        score = self.selector.score
        if score is None:
            return "warm start"
        arm, weight = max(self.selector.weights.items(), key=lambda item: item[1])
        return f"{self.label} {plain(score):.3f}, most weight {arm} {weight:.2f}"

    def evaluate(self) -> Scores:
        """Score the learnt, the uniform and the best mixture on fresh samples."""
        rng = np.random.default_rng([self.seed, 2])
        pools = {
            name: self.world.encode(sample(POOL, rng))
            for name, sample in self.world.samplers.items()
        }
        oracle = gx.optimal_mixture(pools, self.objective)
        return Scores(
            pool=POOL,
            singles={name: plain(score) for name, score in oracle.single_scores.items()},
            learnt=mixture_score(pools, self.objective, self.selector.weights),
            uniform=mixture_score(pools, self.objective, dict.fromkeys(pools, 1 / len(pools))),
            oracle=plain(oracle.score),
            oracle_weights=dict(oracle.weights),
            oracle_gap=float(oracle.gap),
        )


def run_demo(
    budget: int = 2000,
    seed: int = 0,
    objective: ObjectiveName = "fd",
    report: Report = lambda step: None,
) -> DemoResult:
    """Fit the generators, spend the budget, score what was learnt; Ctrl-C keeps what is known."""
    least = WARM_START * len(RECIPES)
    if budget < least:
        raise InputError(
            f"a budget of {budget} samples ends in the warm start: give {least} or more."
        )
    started = time.perf_counter()
    report(Step("fitting five generators on the digits"))
    # The matrices are small: several threads would only wait for each other.
    with threadpool_limits(1):
        world = make_world(seed)
        run = Run(world, LABELS[objective], make_objective(objective, world), seed)
        scores = run.finish(budget, report)
    return summarise(run, scores, time.perf_counter() - started)


def make_objective(name: ObjectiveName, world: World) -> gx.Objective:
    if name == "fd":
        return gx.FrechetDistance(world.reference)
    return gx.Vendi()


def by_arm(tickets: Iterable[gx.Ticket]) -> dict[str, list[gx.Ticket]]:
    groups = defaultdict(list)
    for ticket in tickets:
        groups[ticket.arm].append(ticket)
    return groups


def mixture_score(pools: Pools, objective: gx.Objective, weights: Mapping[str, float]) -> float:
    mixture = gx.score(pools, objective, weights=weights).mixture
    assert mixture is not None  # because weights were given
    return plain(mixture[objective.name])


def plain(score: gx.Score | dict[str, gx.Score]) -> float:
    assert isinstance(score, gx.Score)  # because the objective is no sum
    return float(score)


def basis(objective: gx.Objective) -> dict[str, str]:
    details = {key: str(value) for key, value in objective.details().items()}
    return {**details, "n": f"{POOL} a generator", "embedding": EMBEDDING}


def summarise(run: Run, scores: Scores | None, seconds: float) -> DemoResult:
    selector = run.selector
    pooled = selector.pooled_score
    return DemoResult(
        metric=run.label,
        maximise=run.objective.maximise,
        basis=basis(run.objective),
        seed=run.seed,
        knows={name: recipe.knows for name, recipe in RECIPES.items()},
        counts=dict(selector.counts),
        weights=dict(selector.weights),
        gap=float(selector.gap),
        pooled=None if pooled is None else plain(pooled),
        scores=scores,
        seconds=seconds,
    )
