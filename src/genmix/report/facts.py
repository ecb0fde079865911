"""The facts about a run that a report shows, each computed on first use."""

from __future__ import annotations

import json
import math
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from genmix.charts.objective_titles import kernel_title, objective_title
from genmix.diagnosis.uncertainty import Uncertainty
from genmix.journal.integrity import verify
from genmix.journal.lock import holder
from genmix.journal.reader import JournalReader
from genmix.journal.schema import embedding_of
from genmix.journal.study_changes import arms_in_order
from genmix.kernels.kernels import Cosine
from genmix.objectives import Sum
from genmix.objectives.pool import Pool
from genmix.objectives.score import details_text
from genmix.report.baselines import BaselineComparison, compare_with_baseline
from genmix.report.failure_causes import Cause, main_cause
from genmix.report.frontier import PRICES, Frontier, cost_frontier
from genmix.report.run_pool import load_pool
from genmix.report.sampling import SampleSubset, draw_subset, innovation_of, innovation_sample
from genmix.report.scoring import MixtureScore, Scoring, Term, Values, terms_of, values
from genmix.runs.loop import EXHAUSTED
from genmix.runs.result import ENDS, SUMMARY
from genmix.runs.snapshot import SMALL_DIMENSION
from genmix.runs.spending.planning import UNAFFORDABLE, new_prices
from genmix.selector.limits import Limits
from genmix.study.secrets import without_secrets

WINDOW = 0.2
"""The fraction of samples at the end of the run over which a converged mixture must be stable."""


@dataclass(frozen=True)
class Arm:
    """One arm of the run."""

    label: str
    count: int
    weight: float | None
    """None if the arm is not in the mixture, or if there is no mixture yet."""
    single_scores: Values
    """The scores of its own samples."""
    single_loss: float | None
    leave_one_out: float | None
    """The increase in the minimum loss without it."""
    scores_without: Values
    """The scores of the best mixture of the other arms."""
    quality: float | None
    cost: float | None
    """The total cost, including failures."""
    failures: int
    last_failure: str | None
    suspensions: int
    innovation: float | None
    maybe_needed: bool = False
    """Whether it may look unnecessary only because it has few samples."""
    given_up: int = 0
    """The number of failed attempts after which the sample was given up, or is still missing."""
    cause: Cause | None = None
    """The most frequent cause of its failures."""

    @property
    def cost_per_sample(self) -> float | None:
        return None if self.cost is None or not self.count else self.cost / self.count


@dataclass(frozen=True)
class EarlierMixture:
    """An earlier mixture, compared with the final one."""

    samples: int
    max_change: float
    """The largest difference since then between any weight and its final value."""
    scores: Values
    """Its scores on the samples available now."""


class Facts:
    """The facts about a finished or unfinished run.

    The journal's tables are read in one transaction, so that they are consistent. Everything that needs
    the samples or a solve is computed on first use, so that a single chart is cheap.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.problems: list[str] = []
        """What went wrong while the samples were read, one sentence each."""
        with JournalReader.open(folder) as journal, journal.snapshot():
            verify(journal)
            self.study: dict[str, Any] = journal.study()
            self.told = journal.told_numbers()
            self.timeline = journal.timeline()
            self.tokens = journal.tokens()
            self.seconds = journal.running_time()
            self.cost = math.fsum(journal.costs()) or None
            self._cost_by_arm = journal.cost_by_arm()
            self._events, self._failures = journal.events(), journal.failures()
            self._version, self.study_folder = journal.meta("genmix"), journal.study_folder()
            first_arms = journal.meta("arms") or ()
            first = journal.samples_of([ticket for ticket, *_ in self.told[:1]])
            self.dimension = next((len(embedding_of(row)) for row in first), 0)
        self.is_running = holder(folder) is not None
        self.name: str = self.study["name"]
        self.policy: str = next(iter(self.study["policy"]))
        self.samples, self.failures = len(self.told), len(self._failures)
        self.counts = Counter(arm for _, arm, _, _ in self.told)
        arms = [*self.study["arms"], *self.counts]
        self.labels = arms_in_order(first_arms, self._events, arms)
        starts = (e["at"] for e in self._events if e["kind"] == "start")
        self.started_at: float | None = next(starts, None)
        self.status, self.reason = self._end()
        self.exhausted = self._retired_because(EXHAUSTED)
        self.unaffordable = self._retired_because(UNAFFORDABLE)
        self._summary = _summary(folder)
        self.weights_by_group: dict[str, Any] = self._summary.get("weights_by_group", {})
        unanswered: list[dict[str, Any]] = self._summary.get("unanswered", [])
        # Older summaries also list prompts that no arm failed to answer because the run ended before.
        self.unanswered = [each for each in unanswered if each["failed"]]
        self.weights = self._final_weights()

    def _retired_because(self, why: str) -> list[str]:
        found = {event["arm"] for event in self._events if event["detail"].get("why") == why}
        return [arm for arm in self.labels if arm in found]

    def _end(self) -> tuple[str, str | None]:
        last = next((e for e in reversed(self._events) if e["kind"] in (*ENDS, "start")), None)
        if last is None or last["kind"] == "start":
            return "unfinished", None
        return last["kind"], without_secrets(str(last["detail"].get("why")))

    @property
    def changes(self) -> list[dict[str, Any]]:
        """The events that changed the study during the run."""
        return [event for event in self._events if event["kind"] == "changed"]

    def _final_weights(self) -> dict[str, float] | None:
        """Return the weights in the last row of the timeline; None during the warm start."""
        if self.timeline:
            last = self.timeline[-1]
            return None if last["score"] is None else last["weights"]
        return self._summary.get("weights") if self._summary.get("score") else None

    def limited_threads(self) -> AbstractContextManager[Any]:
        """Use one thread for small matrices; more do not help, and they stall if the cores are busy."""
        return threadpool_limits(1, "blas") if self.dimension <= SMALL_DIMENSION else nullcontext()

    # -- scores ----------------------------------------------------------------------------------

    @cached_property
    def pool(self) -> Pool | None:
        with JournalReader.open(self.folder) as journal:
            return load_pool(journal, self.problems.append)

    @cached_property
    def scoring(self) -> Scoring | None:
        """The scoring of arms and mixtures; None until there is an arm to score."""
        if not self.pool or not self.weights or self.weights_by_group:
            return None  # a mixture for all groups says little if every group has its own
        scoring = Scoring(self.pool, self.weights, self.limits, self.spent)
        return scoring if scoring.usable else None

    @property
    def spent(self) -> dict[str, tuple[int, float]]:
        """The number of told samples and their cost, by arm, without those at an earlier price."""
        costs: dict[str, list[float]] = {}
        for _, arm, _, cost in self.told:
            costs.setdefault(arm, []).append(math.nan if cost is None else cost)
        for arm, new in new_prices(self._events).items():
            costs[arm] = costs.get(arm, [])[new.told if new else 0 :]
        known = {arm: [c for c in each if not math.isnan(c)] for arm, each in costs.items()}
        return {arm: (len(each), math.fsum(each)) for arm, each in known.items() if each}

    @cached_property
    def limits(self) -> Limits:
        """What limited the last mixture; the prices are the largest possible costs of a sample."""
        bounds = self.study.get("weights") or {}
        planned = [e["detail"] for e in self._events if "mean_cost" in e["detail"]]
        return Limits(
            bounds.get("at_least", {}),
            bounds.get("at_most", {}),
            planned[-1]["mean_cost"] if planned else None,
            {arm: price for plan in planned for arm, price in plan.get("prices", {}).items()},
        )

    @property
    def has_weight_limits(self) -> bool:
        return bool(self.limits.at_least or self.limits.at_most)

    @property
    def objective(self) -> str:
        return objective_title(self.study["objective"])

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        return () if self.pool is None else terms_of(self.pool.objective)

    @cached_property
    def compares_directions(self) -> bool:
        """Whether the objective ignores the lengths of the embeddings."""
        kernels = [getattr(part, "kernel", None) for part in self._objective_parts]
        return any(isinstance(kernel, Cosine) for kernel in kernels)

    @property
    def _objective_parts(self) -> list[Any]:
        objective = self.pool.objective if self.pool else None
        return [part for _, part in objective.terms] if isinstance(objective, Sum) else [objective]

    @cached_property
    def mixture(self) -> MixtureScore | None:
        return self.scoring.measure(self.weights or {}) if self.scoring else None

    @cached_property
    def uniform(self) -> MixtureScore | None:
        """Equal shares of the arms in the final mixture; None if it has only one."""
        if self.scoring is None or len(self.weights or ()) < 2:
            return None
        return self.scoring.measure(self._uniform_weights)

    @property
    def _uniform_weights(self) -> dict[str, float]:
        return dict.fromkeys(self.weights or (), 1.0)

    @property
    def is_uniform_too_expensive(self) -> bool:
        return self.scoring is not None and self.scoring.is_over_budget(self._uniform_weights)

    @cached_property
    def gap(self) -> float | None:
        """The gap that the run computed, unless it does not hold for all samples."""
        if not self.scoring or not self.mixture:
            return None
        known, least = self.summary_gap, self.mixture.loss - self.scoring.best.loss
        holds = known is not None and least <= known + self.scoring.best.gap
        return known if holds else self.scoring.gap(self.mixture)

    @property
    def summary_gap(self) -> float | None:
        """The gap at the last solve, which the terminal shows; None if the summary is out of date."""
        found = self._summary.get("gap")
        is_current = self._summary.get("samples") == self.samples
        return found if is_current and isinstance(found, int | float) else None

    @property
    def summary_scores(self) -> dict[str, Any]:
        """The scores of the mixture with their details; empty if the summary is out of date."""
        is_current = self._summary.get("samples") == self.samples
        found = self._summary.get("score") if is_current else None
        return found if isinstance(found, dict) else {}

    @cached_property
    def intervals(self) -> Uncertainty | None:
        """How much the weights could change with other samples; None if unknown, or if it takes long."""
        from genmix.report.intervals import run_intervals  # circular import

        return run_intervals(self)

    @cached_property
    def best_scores(self) -> Values:
        """The scores of the best mixture within the limits, whatever the policy chose."""
        return values(self.scoring.best.score) if self.scoring else {}

    @cached_property
    def pooled_scores(self) -> Values:
        return values(self.pool.pooled_score()) if self.pool else {}

    @cached_property
    def score_details(self) -> str:
        """What the scores depend on: kernel, bandwidth, encoder, …"""
        if self.scoring is None:
            return ""
        score = self.scoring.best.score
        first = next(iter(score.values())) if isinstance(score, dict) else score
        shown = {k: v for k, v in first.details.items() if k not in ("n", "effective n")}
        kernels = [part.kernel for part in self._objective_parts if hasattr(part, "kernel")]
        words = [kernel_title(kernels[0])] if shown.pop("kernel", None) and kernels else []
        return ", ".join([*words, *([details_text(shown)] if shown else [])])

    @cached_property
    def vs_best_arm(self) -> BaselineComparison | None:
        """The mixture and the best single arm, in sets of equal size."""
        return self._compare({self.best_arm.label: 1.0}) if self.best_arm else None

    @cached_property
    def vs_uniform(self) -> BaselineComparison | None:
        return self._compare(self._uniform_weights)

    def _compare(self, baseline: dict[str, float]) -> BaselineComparison | None:
        if not self.scoring or not self.weights or not self.scoring.can_measure(self.weights):
            return None
        objective = self.scoring.pool.objective
        return compare_with_baseline(self.subset, objective, self.weights, baseline)

    @cached_property
    def earlier(self) -> EarlierMixture | None:
        """The mixture before the last part of the run; None if the weights were not recorded often enough."""
        rows = [row for row in self.timeline if row["score"] is not None]
        final = self.weights
        before = [r for r in rows if r["samples"] <= (1 - WINDOW) * rows[-1]["samples"]]
        if not before or final is None:
            return None
        start = before[-1]
        since = [row["weights"] for row in rows if row["samples"] >= start["samples"]]
        change = max(
            abs(row.get(arm, 0.0) - final.get(arm, 0.0)) for row in since for arm in {*row, *final}
        )
        measured = self.scoring.measure(start["weights"]) if self.scoring else None
        return EarlierMixture(start["samples"], change, measured.scores if measured else {})

    @property
    def mean_costs(self) -> dict[str, float]:
        """The mean cost per sample of each scored arm with a known cost, including failures."""
        known = (
            [arm for arm in self.scoring.usable if arm in self._cost_by_arm] if self.scoring else []
        )
        return {arm: self._cost_by_arm[arm] / self.counts[arm] for arm in known if self.counts[arm]}

    @cached_property
    def frontier(self) -> Frontier | None:
        if self.scoring is None:
            return None
        arms, costs = self.scoring.usable, list(self.mean_costs.values())
        if len(costs) < max(len(arms), 2):
            return None
        prices = PRICES[::3] if self.scoring.is_heavy else PRICES
        pool, budget = self.scoring.pool, self.budget_per_sample
        return cost_frontier(pool, arms, costs, self.weights, prices, budget, self.limits)

    @property
    def budget_per_sample(self) -> float | None:
        """The mean cost that the study allows; None if it does not limit both cost and samples."""
        budget = self.study["budget"]
        samples, cost = budget.get("samples"), budget.get("cost")
        return cost / samples if samples and cost is not None else None

    @property
    def price_of_money(self) -> float | None:
        """How much loss one more unit of mean cost would save; None if the run did not plan its cost."""
        found = self._summary.get("price_of_money")
        return found if isinstance(found, int | float) else None

    # -- samples and arms ------------------------------------------------------------------------

    @cached_property
    def subset(self) -> SampleSubset:
        with JournalReader.open(self.folder) as journal:
            return draw_subset(journal)

    @cached_property
    def single_scores(self) -> dict[str, Values]:
        return {arm: self.scoring.single(arm)[0] if self.scoring else {} for arm in self.labels}

    @cached_property
    def arms(self) -> tuple[Arm, ...]:
        """All arms with all their statistics; this requires one solve per arm."""
        failed = Counter(failure["arm"] for failure in self._failures)
        last = {failure["arm"]: without_secrets(failure["message"]) for failure in self._failures}
        suspended = Counter(
            e["arm"]
            for e in self._events
            if e["kind"] in ("retire", "suspend") and "pause" in e["detail"]
        )
        quality: dict[str, list[float]] = {arm: [] for arm in self.labels}
        for _, arm, value, _ in self.told:
            if value is not None:
                quality[arm].append(value)
        told = {ticket for ticket, *_ in self.told}
        given_up = Counter(row["arm"] for row in self._failures if row["ticket"] not in told)
        left_out = self.scoring.left_out if self.scoring else {}
        innovation = innovation_of(self.subset, self.labels)
        return tuple(
            Arm(
                label=arm,
                count=self.counts[arm],
                weight=None if self.weights is None else self.weights.get(arm),
                single_scores=self.single_scores[arm],
                single_loss=self.scoring.single(arm)[1] if self.scoring else None,
                leave_one_out=left_out.get(arm, (None, {}))[0],
                scores_without=left_out.get(arm, (None, {}))[1],
                quality=math.fsum(quality[arm]) / len(quality[arm]) if quality[arm] else None,
                cost=self._cost_by_arm.get(arm),
                failures=failed[arm],
                last_failure=last.get(arm),
                suspensions=suspended[arm],
                innovation=innovation.get(arm),
                maybe_needed=self.scoring is not None and arm in self.scoring.maybe_needed,
                given_up=given_up[arm],
                cause=main_cause([row for row in self._failures if row["arm"] == arm]),
            )
            for arm in self.labels
        )

    @property
    def best_arm(self) -> Arm | None:
        """The arm whose own samples have the smallest loss."""
        known = [(arm.single_loss, arm) for arm in self.arms if arm.single_loss is not None]
        return min(known, key=lambda pair: pair[0])[1] if known else None

    @property
    def has_retired_arms(self) -> bool:
        """Whether there are samples from arms that are no longer in the mixture."""
        return any(arm.count and arm.label not in (self.weights or ()) for arm in self.arms)

    # -- notes -----------------------------------------------------------------------------------

    @cached_property
    def notes(self) -> list[str]:
        """Notes on what the report omits or computes from only some of the samples."""
        notes = []
        if not self.subset.is_complete:
            notes.append(
                f"The map, the sample gallery and innovation use {len(self.subset.rows):,} of the "
                f"{self.subset.total:,} samples, stratified by arm."
            )
        if self.scoring and len(self.scoring.usable) > (most := self.scoring.max_solves):
            notes.append(
                f"The loss increase without an arm was computed only for the {most} arms with the largest "
                "weights."
                if most
                else "With so many arms, the loss increase without an arm is not computed; arms without "
                "weight show 0."
            )
        if (used := len(innovation_sample(self.subset))) < len(self.subset.rows):
            notes.append(f"Innovation uses {used:,} samples.")
        return [*self.problems, *notes]

    @property
    def versions(self) -> dict[str, str]:
        found = {"genmix": self._version, "numpy": self._summary.get("numpy")}
        return {name: str(version) for name, version in found.items() if version}


def _summary(folder: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((folder / SUMMARY).read_text("utf-8"))
        return found
    except (OSError, ValueError):
        return {}
