"""What a selector learns: statistics of the reported samples, and the mixture from the last solve.

Samples are pending until they are added to the statistics in blocks. The mixture is re-solved only when the
number of reported samples has grown by a given fraction. Reading a property never changes the state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from genmix.core.arrays import Array, Vector, as_row, like
from genmix.core.streams import current_version, streams_of_version
from genmix.errors import InputError, number, whole
from genmix.objectives import Objective, Tally
from genmix.objectives.validation import check_number, check_objective
from genmix.policies import Pair, Policy, PromptMemory, PromptPolicy, Situation, Statistics
from genmix.selector.arms import ArmRecord
from genmix.selector.deviations import deviations, measured
from genmix.selector.learner_state import PreviousSolution, load_learner, saved_learner
from genmix.selector.limits import Limits, can_save
from genmix.selector.pending import PendingSample, add_all, stack_rows, to_batch
from genmix.selector.tickets import Ticket
from genmix.solvers.loss import Loss
from genmix.solvers.nonconvex import certify_reported, row_multipliers
from genmix.solvers.region import Region
from genmix.solvers.simplex import on_simplex, uniform
from genmix.solvers.solve import UNKNOWN_GAP, Solver

MOST_PENDING = 512
"""Once this many samples are pending, they are added to the statistics even if no solve is due."""


class Learner:
    """Statistics of the reported samples, and the mixture from the last solve.

    Every attribute is either replaced when it changes, or is a dict or list of immutable values. Shallow
    copies of these containers are therefore enough for an exact snapshot.
    """

    def __init__(
        self,
        labels: Sequence[str],
        objective: Objective,
        policy: Policy,
        solver: Solver,
        warm_start: int,
        growth: float,
        limits: Limits | None = None,
    ) -> None:
        check_objective(objective)
        if not isinstance(policy, Policy):
            raise InputError(f"{policy!r} is not a policy; pass one, e.g. MixtureGreedy().")
        policy.check(labels, labels, objective)
        if isinstance(solver, type) or not hasattr(solver, "solve"):
            raise InputError(f"{solver!r} is not a solver; pass one, e.g. Newton().")
        self.limits = Limits() if limits is None else limits
        """What is asked of the weights, apart from being the best."""
        self.limits.check(policy, solver)
        self.spent: dict[str, tuple[int, float]] = {}
        """Number and sum of the costs told for each arm."""
        self.described = objective
        self.policy, self.solver = policy, solver
        self.warm_start = whole(warm_start, "warm_start", objective.least_samples)
        self.growth = number(growth, "resolve_growth", 0.0)
        self.streams = current_version()
        """Version of the random streams from which bandwidths and frequencies are drawn."""
        self.arms = {label: ArmRecord(i, label) for i, label in enumerate(labels)}
        self.template: Array | None = None
        """An empty ``(0, d)`` array with the array library and device of the samples."""
        self.pending: list[PendingSample] = []
        self.resolved: Objective | None = None
        """The objective with its bandwidths fixed."""
        self.tally: Tally | None = None
        self.previous_weights: dict[str, float] = {}
        """The weights before an arm was added, kept until that arm's warm start is complete."""
        self.previous: PreviousSolution | None = None
        """What remains readable of the last solution during the warm start of a new arm."""
        self.solved_at = 0
        self.spread: dict[str, tuple[int, float]] = {}
        """Number and sum of squares of the measured deviations of each arm's samples from their mean."""
        self.memory: PromptMemory | None = None
        """The pairs of prompt and output, for a policy that chooses by the prompt."""
        if isinstance(policy, PromptPolicy):
            self.memory = policy.memory(len(self.arms))
        self._lookahead: tuple[Tally, Tally, int] | None = None
        """The statistics, a fork with pending samples added, and the number of samples added."""
        self._forget_solution()

    def _forget_solution(self) -> None:
        self._loss: Loss | None = None
        self.alpha: Vector | None = None
        """The policy's weights; None before the first solve."""
        self._mixture: Vector | None = None
        """The policy's mixture, if it differs from the weights."""
        self._targets: Vector | None = None
        """The weights used to draw arms, if they differ from the policy's weights."""
        self.notes: Vector | None = None
        """Numbers that the policy needs at its next decision."""
        self.region: Region | None = None
        """Where the weights had to be; None for the whole simplex."""
        self._price: float | None = None
        """The multiplier of the budget row, computed with the gap."""
        self.curvature: NDArray[np.float64] | None = None
        self._gap = UNKNOWN_GAP
        self._gap_is_due = False
        """Whether the gap of the mixture is unknown and must be computed when it is first read."""

    def snapshot(self) -> dict[str, Any]:
        """Return everything that :meth:`roll_back` needs."""
        return {
            key: value.copy() if isinstance(value, dict | list) else value
            for key, value in vars(self).items()
        }

    def roll_back(self, snapshot: Mapping[str, Any]) -> None:
        vars(self).update(snapshot)
        self._lookahead = None  # it may share rows with an incomplete fork

    def __copy__(self) -> Self:
        made = object.__new__(type(self))
        made.roll_back(self.snapshot())
        return made

    # -- readings --------------------------------------------------------------------------------

    @property
    def objective(self) -> Objective:
        return self.resolved or self.described

    @property
    def active(self) -> list[ArmRecord]:
        return [arm for arm in self.arms.values() if arm.active]

    @property
    def active_labels(self) -> tuple[str, ...]:
        return tuple(arm.label for arm in self.active)

    @property
    def indices(self) -> list[int]:
        return [arm.index for arm in self.active]

    @property
    def total(self) -> int:
        return sum(arm.told for arm in self.arms.values())

    @property
    def weights(self) -> Vector:
        return uniform(len(self.active)) if self.alpha is None else self.alpha

    @property
    def mixture(self) -> Vector:
        return self.weights if self._mixture is None else self._mixture

    @property
    def targets(self) -> Vector:
        """The weights used to draw arms."""
        return self.weights if self._targets is None else self._targets

    @property
    def statistics(self) -> Tally:
        assert self.tally is not None
        return self.tally

    @property
    def loss(self) -> Loss:
        if self._loss is None:
            self._loss = self.view().loss(self.indices)
        return self._loss

    @property
    def gap(self) -> float:
        self._compute_gap()
        return self._gap

    def _compute_gap(self) -> None:
        if self._gap_is_due:
            region = self.region
            found = certify_reported(self.loss, self.mixture, self.solver, region)
            if self._has_budget_row(region):
                assert region is not None
                if can_save(region):
                    self._price = float(row_multipliers(self.loss, self.mixture, region)[0])
            self._gap, self._gap_is_due = found.gap, False

    @property
    def price_of_money(self) -> float | None:
        self._compute_gap()
        return self._price

    def by_label(self, weights: Vector) -> dict[str, float]:
        return dict(zip(self.active_labels, weights.tolist(), strict=True))

    # -- what differs if each arm has one cell per group; see ``CellLearner`` ----------------------

    @property
    def known_arms(self) -> dict[str, bool]:
        """Whether each arm is active."""
        return {label: arm.active for label, arm in self.arms.items()}

    def key_of(self, arm: str, group: str | None) -> str:
        """Return the label of the record that counts the samples of an arm in a group."""
        return arm

    def arm_of(self, label: str) -> str:
        """Return the arm that a record belongs to."""
        return label

    def share_of(self, label: str) -> float:
        """Return the share of the group that a record belongs to."""
        return 1.0

    def by_arm(self, weights: Vector) -> dict[str, float]:
        """Return the weights of the active arms."""
        return self.by_label(weights)

    def effective_counts(self) -> Vector:
        """Return the number of samples that the statistics of each active record are worth."""
        return np.array([arm.told for arm in self.active])

    def competitors(self) -> Vector | None:
        """Return, for each active record, the number of samples in its group; None without groups."""
        return None

    def view(self) -> Statistics:
        """Return the statistics from which the loss is computed."""
        return self.statistics

    def find_region(self) -> Region | None:
        """Return where the weights must be."""
        if not self.limits.any:
            return None
        return self.limits.region(self.active_labels, self.spent)

    def _has_budget_row(self, region: Region | None) -> bool:
        """Return whether the first row of the region is the mean cost."""
        return region is not None and len(region.limits) > 0

    def warm_rows(self) -> list[Array]:
        """Return the pending embeddings from which bandwidths are chosen, one array per arm."""
        rows = [[s.row for s in self.pending if s.arm == index] for index in self.indices]
        return [stack_rows(group) for group in rows]

    def statistics_with_pending(self) -> Tally:
        """Return the statistics of all reported samples. Each pending sample is added to a fork only once."""
        if not self.pending:
            return self.statistics
        base, tally, added = self._lookahead or (None, None, 0)
        if base is not self.tally or tally is None:
            tally, added = self.statistics.fork(), 0
        self._lookahead = None
        add_all(tally, self.pending[added:])
        self._lookahead = (self.statistics, tally, len(self.pending))
        return tally

    # -- learning --------------------------------------------------------------------------------

    def validated(
        self, ticket: Ticket, embedding: Array, quality: float | None, cost: float | None
    ) -> PendingSample:
        """Validate the sample for a ticket, and return it on the device of earlier samples."""
        where = f"arm {ticket.arm!r}, ticket {ticket.id}"
        row = as_row(embedding, where)
        if self.template is not None:
            if row.shape[1] != self.template.shape[1]:
                raise InputError(
                    f"{where}: the embedding has dimension {row.shape[1]} but earlier ones have "
                    f"{self.template.shape[1]}; use the same encoder for all samples."
                )
            row = like(row, self.template)
        numbers = [
            None if value is None else check_number(value, what, where)
            for value, what in ((quality, "quality"), (cost, "cost"))
        ]
        if cost is None:
            self.limits.check_cost(ticket.arm, self.spent, where)
        record = self.arms[self.key_of(ticket.arm, ticket.group)]
        sample = PendingSample(record.index, row, *numbers)
        self.described.check(to_batch([sample]), where)
        self.described.check_total(self.total + 1)
        return sample

    def append(self, sample: PendingSample, pair: Pair | None = None) -> None:
        self.pending.append(sample)
        if self.memory is not None and pair is not None:
            self.memory = self.memory.with_pair(sample.arm, pair)
        if sample.cost is not None:
            record = next(arm for arm in self.arms.values() if arm.index == sample.arm)
            label = self.arm_of(record.label)
            count, total = self.spent.get(label, (0, 0.0))
            self.spent[label] = (count + 1, total + sample.cost)
        self.template = sample.row[:0, :]

    def update(self) -> None:
        """Account for new samples: fix the bandwidths once possible, and solve if a solve is due."""
        self._fix_objective()
        if self._is_due():
            self._solve()
        elif self.resolved is not None and len(self.pending) >= MOST_PENDING:
            self._compute_gap()  # the loss it depends on is discarded next
            self._flush()

    def add_arm(self, label: str) -> None:
        self._keep_solution()
        if label in self.arms:
            self.arms[label] = replace(self.arms[label], active=True, failed=0)
        else:
            self.arms[label] = ArmRecord(len(self.arms), label)
            if self.memory is not None:
                self.memory = self.memory.with_arm()
            if self.tally is not None:
                self.tally = self.tally.fork()
                self.tally.grow()
        self._arms_changed({})

    def retire_arm(self, label: str) -> None:
        before, waiting = self.by_label(self.weights), []
        if self.previous is not None and set(self.previous.mixture) != {label}:
            # Solve without the arms in their warm start; they then continue it.
            before = self.previous_weights
            waiting = [arm for arm in self.active if arm.label not in self.previous.mixture]
        self.previous = None
        for arm in (self.arms[label], *waiting):
            self.arms[arm.label] = replace(arm, active=False)
        self._arms_changed(before)
        remaining = {arm.label: arm for arm in waiting if arm.label != label}
        if remaining:
            self._keep_solution()
            self.arms.update(remaining)
            self._arms_changed({})

    def _keep_solution(self) -> None:
        """Keep the current solution readable during the warm start of a new arm."""
        if self.alpha is not None:
            self.previous_weights = self.by_label(self.alpha)
            self.previous = PreviousSolution(self.by_label(self.mixture), self.gap)

    def _arms_changed(self, before: Mapping[str, float]) -> None:
        """Re-solve, starting from the weights ``before``, or wait for a new arm's warm start."""
        start = np.array([before.get(label, 0.0) for label in self.active_labels])
        self._forget_solution()
        if not self._has_warm_start:
            return
        self._fix_objective()
        if start.sum() > 0:
            self.alpha = start / start.sum()
        self._solve()

    @property
    def _has_warm_start(self) -> bool:
        return all(arm.told >= self.warm_start for arm in self.active)

    def _fix_objective(self) -> None:
        """Fix the bandwidths as soon as every arm has completed its warm start."""
        if self.resolved is None and self._has_warm_start:
            with streams_of_version(self.streams):
                self.resolved = self.described.fix_bandwidths(self.warm_rows())

    def _is_due(self) -> bool:
        if not self._has_warm_start:
            return False
        grown = self.total - self.solved_at
        return self.alpha is None or grown >= max(1.0, self.growth * self.solved_at)

    def solve(self) -> None:
        """Re-solve if there is a mixture, whether or not a solve is due."""
        if self.alpha is not None:
            self._solve()

    def certify(self) -> None:
        """Compute the gap and the score of the mixture from all samples, without another solve."""
        if self.alpha is not None and self.pending:
            self._flush()
            self._gap_is_due = True

    def will_solve(self, samples: int) -> bool:
        """Return whether this many more samples can make a solve due."""
        if self.alpha is None:
            return sum(max(self.warm_start - arm.told, 0) for arm in self.active) <= samples
        return self.total + samples - self.solved_at >= max(1.0, self.growth * self.solved_at)

    def _flush(self) -> None:
        """Move the pending samples into the statistics."""
        if self.tally is None:
            assert self.resolved is not None
            self.tally = self.resolved.tally(len(self.arms), self.template)
        self.tally = self.tally.fork()
        add_all(self.tally, self.pending)
        self.tally.flush()
        self.pending, self._loss = [], None

    def _solve(self) -> None:
        added = self.pending
        self._flush()
        active = self.active
        region = self.find_region()
        situation = Situation(
            arms=self.active_labels,
            indices=tuple(self.indices),
            objective=self.objective,
            tally=self.view(),
            counts=self.effective_counts(),
            total=self.total,
            competitors=self.competitors(),
            start=self.weights,
            solver=self.solver,
            curvature=self.curvature,
            targets=self._targets,
            notes=self.notes,
            deviations=deviations(self.spread, self.active_labels)
            if self.policy.needs_deviations
            else None,
            region=region,
        )
        decision = self.policy.decide(situation)
        self._loss = situation.loss
        self.alpha, self._mixture, self._targets = (
            None if found is None else _checked(found, len(active), what, region)
            for found, what in (
                (decision.weights, "the policy's weights"),
                (decision.mixture, "the mixture's weights"),
                (decision.targets, "the policy's targets"),
            )
        )
        self.region, self._price = region, None
        is_known = decision.gap is not None and np.isfinite(
            decision.gap
        )  # a custom policy can leave it unknown
        has_row = self._has_budget_row(region)  # its price is computed with the gap
        self._gap = decision.gap if is_known else UNKNOWN_GAP
        self._gap_is_due = not is_known or has_row
        self.curvature, self.notes = decision.curvature, decision.notes
        self.solved_at, self.previous = situation.total, None
        if self.policy.needs_deviations:
            self.spread = measured(self.spread, added, situation, self.targets)
            self._lookahead = None  # it can share memory with the fork that was measured

    # -- state -----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        return saved_learner(self)

    def load_state_dict(self, saved: Mapping[str, Any], resolved: Objective | None) -> None:
        load_learner(self, saved, resolved)


def _checked(weights: Vector, size: int, what: str, region: Region | None) -> Vector:
    found = on_simplex(weights, size, what)
    return found if region is None else region.clean(found)
