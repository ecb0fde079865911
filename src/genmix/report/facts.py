"""Everything that a report shows, as plain data, from the read side of a run alone."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from genmix.core.plain import finite
from genmix.diagnosis.innovation import innovation
from genmix.errors import InputError
from genmix.kernels.kernels import Cosine
from genmix.objectives import Batch, Objective, Sum
from genmix.offline.mixture import Mixture, best_mixture
from genmix.report.sampling import Chosen, choose
from genmix.report.frontier import PRICES, Frontier, frontier
from genmix.report.baselines import Rival, against
from genmix.report.sanitize import without_secrets
from genmix.report.run_pool import is_heavy, statistics_of
from genmix.runs.journal_reader import JournalReader, embedding_of
from genmix.runs.lock import holder
from genmix.runs.loop import EXHAUSTED
from genmix.runs.result import ENDS, SUMMARY
from genmix.runs.session import SMALL
from genmix.runs.timeline import plain_values
from genmix.solvers.loss import LinearLoss, SumLoss

Values = dict[str, float | None]

MOST_SOLVES, MOST_HEAVY_SOLVES = 30, 8
"""Arms that are left out in turn, those with the largest weights first; fewer where a solve takes seconds."""

INNOVATION_SIDE = 1000
"""Dimensions up to which second moments are compared as they are; beyond, in the span of as many samples."""

DOUBT = 2.0
"""What few samples put on top of a loss on average, and as much again for bad luck."""

FEW = 30
"""Samples of an arm, where that is not known."""

WINDOW = 0.2
"""The last part of the samples, over which a mixture must have kept still to be called settled."""


@dataclass(frozen=True)
class Term:
    """One part of the objective."""

    name: str
    maximise: bool


@dataclass(frozen=True)
class Arm:
    """One arm, as the run saw it."""

    label: str
    count: int
    weight: float | None
    """None: it is out of the mixture, or there is none yet."""
    single: Values
    """The scores of its own samples."""
    loss: float | None
    """The loss of its own samples."""
    leave_one_out: float | None
    """How much the least loss rises without it."""
    without: Values
    """The scores of the best mixture of the others."""
    quality: float | None
    cost: float | None
    """All that was paid, also for what failed."""
    failures: int
    last_failure: str | None
    suspensions: int
    innovation: float | None
    may_be_needed: bool = False
    """Whether it looks useless only because it was seen so seldom."""

    @property
    def cost_each(self) -> float | None:
        return None if self.cost is None or not self.count else self.cost / self.count


@dataclass(frozen=True)
class Mixed:
    """A mixture measured on all samples in hand."""

    scores: Values
    loss: float


@dataclass(frozen=True)
class Then:
    """How the mixture of a while ago compares with the last one."""

    samples: int
    moved: float
    """The most that any weight was away from where it is now, since then."""
    scores: Values
    """Of that mixture, on the samples of now."""


@dataclass(frozen=True)
class Facts:
    """A run, ready to be told."""

    name: str
    folder: Path
    status: str
    reason: str | None
    samples: int
    runs: bool
    """Whether a process is at work on it now."""
    seconds: float
    cost: float | None
    tokens: tuple[int, int]
    failures: int
    began: float | None
    policy: str
    objective: str
    terms: tuple[Term, ...]
    details: str
    """What the scores depend on."""
    arms: tuple[Arm, ...]
    weights: dict[str, float] | None
    gap: float | None
    mixture: Mixed | None
    even: Mixed | None
    against_best_arm: Rival | None
    """The mixture and the arm that is best by itself, in sets of equal size."""
    against_even: Rival | None
    best: Values
    """Of the best mixture of the arms still drawn from, whatever the policy made of them."""
    pooled: Values
    then: Then | None
    timeline: list[dict[str, Any]]
    frontier: Frontier | None
    used_up: tuple[str, ...]
    """Arms that have no more samples to give."""
    chosen: Chosen
    unit: bool
    """Whether the objective looks at directions alone."""
    study: dict[str, Any]
    versions: dict[str, str]
    notes: tuple[str, ...]
    """What was left out or taken from a part of the samples."""

    @cached_property
    def best_arm(self) -> Arm | None:
        """The one that is best by itself."""
        return best_of(self.arms)

    @property
    def has_leavers(self) -> bool:
        """Whether there are samples of arms that are not in the mixture any more."""
        return any(arm.count and arm.label not in (self.weights or ()) for arm in self.arms)

    def arm(self, label: str) -> Arm:
        return next(arm for arm in self.arms if arm.label == label)


def best_of(arms: Sequence[Arm]) -> Arm | None:
    """The arm whose own samples have the least loss."""
    known = [(arm.loss, arm) for arm in arms if arm.loss is not None]
    return min(known, key=lambda pair: pair[0])[1] if known else None


def few_threads(folder: Path) -> AbstractContextManager[Any]:
    """One thread for small matrices: more gain nothing, and stall where others keep the cores busy."""
    with JournalReader.open(folder) as journal:
        first = journal.told_numbers()[:1]
        sizes = [len(embedding_of(row)) for row in journal.samples_of([row[0] for row in first])]
    is_small = not sizes or sizes[0] <= SMALL
    return threadpool_limits(1, "blas") if is_small else nullcontext()


def gather(folder: Path) -> Facts:
    """All facts of a run, finished or not."""
    with JournalReader.open(folder) as journal:
        return _Gathering(folder, journal).facts()


class _Gathering:
    """Reads a journal once for each thing that is asked of it."""

    def __init__(self, folder: Path, journal: JournalReader) -> None:
        self.folder, self.journal = folder, journal
        self.study: dict[str, Any] = journal.meta("study")
        self.labels = list(self.study["arms"])
        self.told = journal.told_numbers()
        self.counts = Counter(arm for _, arm, _, _ in self.told)
        self.events, self.failures = journal.events(), journal.failures()
        self.timeline = journal.timeline()
        self.summary = _summary(folder)
        self.pool = statistics_of(folder, journal)
        self.heavy = self.pool is not None and is_heavy(self.pool)
        self.weights = self._last_weights()
        self.notes: list[str] = []

    def facts(self) -> Facts:
        end = next((e for e in reversed(self.events) if e["kind"] in (*ENDS, "start")), None)
        ended = end is not None and end["kind"] != "start"
        chosen = choose(self.journal)
        if not chosen.is_all:
            self.notes.append(
                f"The map, the gallery and innovation are made from {len(chosen.rows):,} of the "
                f"{chosen.total:,} samples, an even part of each arm."
            )
        costs = self.journal.costs()
        first = next((e["at"] for e in self.events if e["kind"] == "start"), None)
        arms = self._arms(chosen)
        best = best_of(arms)
        objective = None if self.pool is None else self.pool.objective
        return Facts(
            name=self.study["name"],
            folder=self.folder,
            status=end["kind"] if end and ended else "unfinished",
            reason=without_secrets(str(end["detail"].get("why"))) if end and ended else None,
            samples=len(self.told),
            runs=holder(self.folder) is not None,
            seconds=self.journal.running_time(),
            cost=math.fsum(costs) or None,
            tokens=self.journal.tokens(),
            failures=len(self.failures),
            began=first,
            policy=next(iter(self.study["policy"])),
            objective=repr(objective) if objective else _written(self.study["objective"]),
            terms=_terms(objective),
            details=self._details(),
            arms=arms,
            weights=self.weights,
            gap=None if self.best is None else self._gap(),
            mixture=self._measured(self.weights),
            even=self._measured(self.even_weights),
            against_best_arm=self._against(chosen, {best.label: 1.0} if best else None),
            against_even=self._against(chosen, self.even_weights),
            best=_values(self.best.score) if self.best else {},
            pooled=_values(self.pool.pooled_score()) if self.pool else {},
            then=self._then(),
            timeline=self.timeline,
            frontier=self._frontier(arms),
            used_up=tuple(self._used_up()),
            chosen=chosen,
            unit=_is_unit(objective),
            study=self.study,
            versions=_versions(self.journal, self.summary),
            notes=tuple(self.notes),
        )

    def _last_weights(self) -> dict[str, float] | None:
        """From the last look at the run; None while its warm start goes on."""
        if self.timeline:
            last = self.timeline[-1]
            return None if last["score"] is None else last["weights"]
        known = self.summary if self.summary.get("score") else {}
        return known.get("weights")

    # -- what the statistics say -----------------------------------------------------------------

    @cached_property
    def usable(self) -> list[str]:
        """Arms of the mixture that have samples enough to be scored."""
        return [arm for arm in self.weights or () if arm in self.scorable]

    @cached_property
    def scorable(self) -> list[str]:
        """All arms with samples enough, those that are not drawn from any more among them."""
        if self.pool is None:
            return []
        least = self.pool.objective.least_samples
        has = zip(self.pool.arms, self.pool.tally.counts, strict=True)
        return [arm for arm, count in has if count >= least]

    @cached_property
    def best(self) -> Mixture | None:
        """The best mixture of the arms still drawn from, whatever the policy made of them."""
        return best_mixture(self.pool, arms=self.usable) if self.pool and self.usable else None

    def _gap(self) -> float | None:
        """How far the loss of the run's mixture lies above the least, at most."""
        assert self.best is not None
        mixed = self._measured(self.weights)
        if mixed is None:
            return None
        found: float | None = finite(max(mixed.loss - self.best.loss, 0.0) + self.best.gap)
        return found

    def _measured(self, weights: dict[str, float] | None) -> Mixed | None:
        alpha = self._alpha(weights)
        if self.best is None or alpha is None:
            return None
        loss = self.best.function.value(alpha)
        return Mixed(self._scores(alpha), loss) if math.isfinite(loss) else None

    @cached_property
    def even_weights(self) -> dict[str, float]:
        return dict.fromkeys(self.weights or (), 1.0)

    def _against(self, chosen: Chosen, other: dict[str, float] | None) -> Rival | None:
        if self.pool is None or not self.weights or not other or self._alpha(self.weights) is None:
            return None
        return against(chosen, self.pool.objective, self.weights, other)

    @cached_property
    def hopeful(self) -> set[str]:
        """Arms that would be in the best mixture if chance had been kinder to those seen seldom."""
        if self.best is None:
            return set()
        counts = np.array([self.counts[arm] for arm in self.usable], dtype=np.float64)
        shares = counts / counts.sum()
        doubt = DOUBT * self.best.function.inflation(shares)
        if not doubt:  # nothing is known of what few samples do to this loss
            return {arm for arm in self.usable if self.counts[arm] < FEW}
        loss = SumLoss([(1.0, self.best.function), (1.0, LinearLoss(-doubt / counts))])
        found = self.best.solver.solve(loss, shares)
        return {arm for arm, w in zip(self.usable, found.weights, strict=True) if w > 0}

    def _alpha(self, weights: dict[str, float] | None) -> Any:
        """Weights over the usable arms, which add up to 1; None if others have a part in it."""
        if not weights or not self.usable:
            return None
        alpha = np.array([weights.get(arm, 0.0) for arm in self.usable])
        total = sum(weights.values())
        return alpha / alpha.sum() if abs(alpha.sum() - total) <= 1e-6 * total else None

    def _scores(self, alpha: Any) -> Values:
        assert self.pool is not None
        whole = np.zeros(len(self.pool.arms))
        whole[[self.pool.arms.index(arm) for arm in self.usable]] = alpha
        return _values(self.pool.score(whole))

    def _then(self) -> Then | None:
        warm = [row for row in self.timeline if row["score"] is not None]
        if not warm or self.weights is None:
            return None
        border = (1 - WINDOW) * warm[-1]["samples"]
        before = [row for row in warm if row["samples"] <= border]
        if not before:
            return None
        since = [row["weights"] for row in warm if row["samples"] >= before[-1]["samples"]]
        now = self.weights
        moved = max(
            abs(row.get(arm, 0.0) - now.get(arm, 0.0)) for row in since for arm in {*row, *now}
        )
        old = self._measured(before[-1]["weights"])
        return Then(before[-1]["samples"], moved, old.scores if old else {})

    def _frontier(self, arms: Sequence[Arm]) -> Frontier | None:
        each = {arm.label: arm.cost_each for arm in arms}
        costs = [each[arm] for arm in self.usable]
        if self.pool is None or len(costs) < 2 or None in costs:
            return None
        prices = PRICES[::3] if self.heavy else PRICES
        return frontier(self.pool, self.usable, costs, self.weights, prices)  # type: ignore[arg-type]

    def _used_up(self) -> list[str]:
        gone = {e["arm"] for e in self.events if e["detail"].get("why") == EXHAUSTED}
        return [arm for arm in self.labels if arm in gone]

    def _details(self) -> str:
        if self.best is None:
            return ""
        score = self.best.score
        first = score if not isinstance(score, dict) else next(iter(score.values()))
        kept = {k: v for k, v in first.details.items() if k not in ("n", "effective n")}
        return ", ".join(f"{key} {value}" for key, value in kept.items())

    # -- arms ------------------------------------------------------------------------------------

    def _arms(self, chosen: Chosen) -> tuple[Arm, ...]:
        quality = _means({arm: [] for arm in self.labels}, self.told)
        paid = self.journal.cost_by_arm()
        failed = Counter(failure["arm"] for failure in self.failures)
        last = {failure["arm"]: without_secrets(failure["message"]) for failure in self.failures}
        suspended = Counter(
            e["arm"]
            for e in self.events
            if e["kind"] in ("retire", "suspend") and "pause" in e["detail"]
        )
        novel = self._innovation(chosen)
        left_out = self._left_out()
        alone = {arm: self._alone(arm) for arm in self.labels}
        return tuple(
            Arm(
                label=arm,
                count=self.counts[arm],
                weight=None if self.weights is None else self.weights.get(arm),
                single=alone[arm][0],
                loss=alone[arm][1],
                leave_one_out=left_out.get(arm, (None, {}))[0],
                without=left_out.get(arm, (None, {}))[1],
                quality=quality[arm],
                cost=paid.get(arm),
                failures=failed[arm],
                last_failure=last.get(arm),
                suspensions=suspended[arm],
                innovation=novel.get(arm),
                may_be_needed=arm in self.hopeful,
            )
            for arm in self.labels
        )

    def _alone(self, arm: str) -> tuple[Values, float | None]:
        if self.pool is None or self.best is None or arm not in self.scorable:
            return {}, None
        if arm in self.best.single_scores:
            return _values(self.best.single_scores[arm]), finite(self.best.single_losses[arm])
        place = self.pool.arms.index(arm)
        loss = float(self.pool.tally.loss([place]).singles()[0])
        return _values(self.pool.score(np.eye(len(self.pool.arms))[place])), finite(loss)

    def _left_out(self) -> dict[str, tuple[float | None, Values]]:
        """The rise of the least loss without each arm, and the scores that remain."""
        if self.best is None:
            return {}
        ranked = sorted(self.best.weights, key=lambda arm: -self.best.weights[arm])  # type: ignore[union-attr]
        most = MOST_HEAVY_SOLVES if self.heavy else MOST_SOLVES
        if len(ranked) > most:
            self.notes.append(
                f"Only the {most} arms with the most weight were left out in turn: a solve takes long here."
            )
        found = {arm: self._without(arm) for arm in ranked[:most]}
        return {arm: pair for arm, pair in found.items() if pair is not None}

    def _without(self, arm: str) -> tuple[float | None, Values] | None:
        assert self.best is not None
        if self.best.weights[arm] == 0.0:  # the best mixture is there without it
            return 0.0, _values(self.best.score)
        found = self.best.without(arm)
        if found is None:
            return None
        alpha = np.zeros(len(self.usable))
        alpha[[i for i, other in enumerate(self.usable) if other != arm]] = found.weights
        return max(found.loss - self.best.loss, 0.0), self._scores(alpha)

    def _innovation(self, chosen: Chosen) -> dict[str, float]:
        """``λ_max(S_i − Σ S_j)`` of every arm with samples."""
        rows, arms = chosen.embeddings, chosen.arms
        if rows.shape[1] > INNOVATION_SIDE:
            part = chosen.part(INNOVATION_SIDE)
            rows, arms = rows[part], arms[part]
            rows = rows @ np.linalg.qr(rows.T)[0]  # lengths and angles stay
            if len(part) < len(chosen.rows):
                self.notes.append(f"Innovation looks at {len(part):,} samples.")
        labels = [arm for arm in self.labels if (arms == arm).any()]
        if len(labels) < 2:
            return {}
        try:
            found = innovation({arm: Batch(rows[arms == arm]) for arm in labels})
        except InputError:  # a zero vector has no direction
            return {}
        return {arm: each.gap for arm, each in found.items()}


def _summary(folder: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((folder / SUMMARY).read_text("utf-8"))
        return found
    except (OSError, ValueError):
        return {}


def _values(scores: Any) -> Values:
    return plain_values(scores) or {}


def _means(
    empty: dict[str, list[float]], told: Sequence[tuple[int, str, float | None, float | None]]
) -> dict[str, float | None]:
    """The mean quality of each arm, where its samples have one."""
    for _, arm, quality, _ in told:
        if quality is not None:
            empty[arm].append(quality)
    return {arm: math.fsum(q) / len(q) if q else None for arm, q in empty.items()}


def _terms(objective: Objective | None) -> tuple[Term, ...]:
    if objective is None:
        return ()
    if isinstance(objective, Sum):
        pairs = zip(objective.names, objective.terms, strict=True)
        return tuple(Term(name, term.maximise) for name, (_, term) in pairs)
    return (Term(objective.name, objective.maximise),)


def _written(objective: Sequence[dict[str, Any]]) -> str:
    return " + ".join(next(iter(term)) for term in objective)


def _is_unit(objective: Objective | None) -> bool:
    parts = [term for _, term in objective.terms] if isinstance(objective, Sum) else [objective]
    return any(isinstance(getattr(part, "kernel", None), Cosine) for part in parts)


def _versions(journal: JournalReader, summary: dict[str, Any]) -> dict[str, str]:
    found = {"genmix": journal.meta("genmix"), "numpy": summary.get("numpy")}
    return {name: str(version) for name, version in found.items() if version}
