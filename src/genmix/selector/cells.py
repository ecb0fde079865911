"""A learner with one cell per group and arm: a mixture for every group of prompts.

The weights ω of the cells minimize the same loss as those of arms, with ``Σ_i ω_gi = p_g`` for every group g.
Each cell has a record like that of an arm. It is inactive until its warm start is complete: that of its arm,
or its own without pooling. A group takes part in the mixture once all of its cells do.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from genmix.core.arrays import Array, Vector
from genmix.objectives import Objective
from genmix.policies import Policy, Statistics
from genmix.selector.arms import ArmRecord, draw_iid, draw_tracking
from genmix.selector.learner import Learner
from genmix.selector.limits import Limits
from genmix.selector.pending import stack_rows
from genmix.solvers.pooling import PooledTally
from genmix.solvers.region import Region
from genmix.solvers.solve import Solver, region_argument
from genmix.solvers.weight_limits import grouped_region


def cell_label(group: str, arm: str) -> str:
    return json.dumps([group, arm], ensure_ascii=False)


class CellLearner(Learner):
    """Statistics of the reported samples by cell, and the weights of the cells from the last solve."""

    def __init__(
        self,
        labels: Sequence[str],
        objective: Objective,
        policy: Policy,
        solver: Solver,
        warm_start: int,
        growth: float,
        limits: Limits | None = None,
        *,
        shares: Mapping[str, float],
        pooling: float,
    ) -> None:
        super().__init__(labels, objective, policy, solver, warm_start, growth, limits)
        region_argument(solver, Region(1))
        self.pooling = pooling
        self.arm_status = dict.fromkeys(labels, True)
        """Whether each arm is active."""
        self.shares: dict[str, float] = {}
        self.places: dict[str, tuple[str, str]] = {}
        """The group and the arm of each cell."""
        self.waiting: dict[str, None] = {}
        """Cells of active arms that are not yet part of the mixture, in order."""
        self.arms = {}
        self.set_shares(shares)

    # -- cells -----------------------------------------------------------------------------------

    def set_shares(self, shares: Mapping[str, float]) -> None:
        """Change the shares from the next solve on, and add the cells of new groups."""
        for group in shares:
            if group not in self.shares:
                for arm, is_active in self.arm_status.items():
                    self._add_cell(group, arm, is_active)
        self.shares = dict(shares)

    def _add_cell(self, group: str, arm: str, is_waiting: bool) -> None:
        label = cell_label(group, arm)
        self.places[label] = (group, arm)
        self.arms[label] = ArmRecord(len(self.arms), label, active=False)
        if is_waiting:
            self.waiting[label] = None
        if self.tally is not None:
            self.tally = self.tally.fork()
            self.tally.grow()

    def add_arm(self, label: str) -> None:
        is_new = label not in self.arm_status
        self.arm_status[label] = True
        for group in self.shares:
            if is_new:
                self._add_cell(group, label, is_waiting=True)
            else:
                cell = cell_label(group, label)
                self.arms[cell] = replace(self.arms[cell], failed=0)
                self.waiting[cell] = None
        self._admit()

    def retire_arm(self, label: str) -> None:
        before = {} if self.alpha is None else self.by_label(self.alpha)
        self.arm_status[label] = False
        for cell, (_, arm) in self.places.items():
            if arm == label:
                self.arms[cell] = replace(self.arms[cell], active=False)
                self.waiting.pop(cell, None)
        if before:
            self._arms_changed(before)
        self._admit()

    def update(self) -> None:
        if not self._admit():
            super().update()

    def _admit(self) -> bool:
        """Let the cells that have completed their warm start take part in the mixture, and re-solve."""
        if not self.waiting:
            return False
        ready: list[str] = []
        entered = {self.places[cell.label][0] for cell in self.active}
        for group in self.shares:
            cells = [cell for cell in self.waiting if self.places[cell][0] == group]
            warm = [cell for cell in cells if self._lacks(cell) == 0]
            if group in entered or len(warm) == len(cells):
                ready += warm
        if not ready:
            return False
        before = {} if self.alpha is None else self.by_label(self.alpha)
        for cell in ready:
            self.arms[cell] = replace(self.arms[cell], active=True)
            self.waiting.pop(cell)
        self.curvature = None
        self._arms_changed(before)
        return True

    def _has_entered(self, group: str) -> bool:
        return any(self.places[arm.label][0] == group for arm in self.active)

    def _unit(self, cell: str) -> list[ArmRecord]:
        """Return the records whose samples count toward the warm start of a cell."""
        if self.pooling == 0:
            return [self.arms[cell]]
        arm = self.places[cell][1]
        return [self.arms[label] for label, place in self.places.items() if place[1] == arm]

    def _lacks(self, cell: str) -> int:
        """Return the number of samples that are missing from the warm start of a cell."""
        return max(self.warm_start - sum(record.told for record in self._unit(cell)), 0)

    @property
    def _has_warm_start(self) -> bool:
        return bool(self.active)

    def will_solve(self, samples: int) -> bool:
        needs = []
        for group in self.shares if self.waiting else ():
            cells = [cell for cell in self.waiting if self.places[cell][0] == group]
            if cells and self._has_entered(group):
                needs.append(min(map(self._lacks, cells)))
            elif cells:
                needs.append(sum(map(self._lacks, cells)))
        if min(needs, default=samples + 1) <= samples:
            return True
        return self.alpha is not None and super().will_solve(samples)

    # -- drawing ---------------------------------------------------------------------------------

    def draw(
        self, group: str, among: Collection[str] | None, how: str, rng: np.random.Generator
    ) -> tuple[ArmRecord, float]:
        """Choose a cell of a group, and return it with the probability of that choice.

        Cells that need tickets for their warm start come first, round-robin. While such a warm start is
        incomplete, an even share goes to it, and the others are drawn by their weights.
        """
        cells = [
            self.arms[cell_label(group, arm)]
            for arm, is_active in self.arm_status.items()
            if is_active and (among is None or arm in among)
        ]
        lacking = [cell for cell in cells if self._needs_tickets(cell)]
        if lacking:
            return min(lacking, key=lambda cell: (self._asked(cell), cell.asked)), 1.0
        weights = self._draw_weights(group, cells)
        incomplete = np.array(
            [cell.label in self.waiting and self._lacks(cell.label) > 0 for cell in cells], float
        )
        if not weights.any() and (self.alpha is None or incomplete.any()):
            return min(cells, key=lambda cell: cell.asked + cell.failed), 1.0
        weights = weights / weights.sum() if weights.any() else np.full(len(cells), 1 / len(cells))
        if incomplete.any():
            share = 1 / len(cells)
            weights = (1 - share) * weights + share * incomplete / incomplete.sum()
        elif how == "tracking":
            chosen, propensity = draw_tracking(cells, weights)
            return cells[chosen], propensity
        chosen, propensity = draw_iid(weights, rng)
        return cells[chosen], propensity

    def _needs_tickets(self, cell: ArmRecord) -> bool:
        if cell.label not in self.waiting:
            return False
        failed = sum(record.failed for record in self._unit(cell.label))
        return max(self._asked(cell), failed) < self.warm_start

    def _asked(self, cell: ArmRecord) -> int:
        return sum(record.asked for record in self._unit(cell.label))

    def _draw_weights(self, group: str, cells: Sequence[ArmRecord]) -> Vector:
        """Return the targets of the cells; those of the arms if the group is not yet in the mixture."""
        if self.alpha is None:
            return np.zeros(len(cells))
        if not self._has_entered(group):
            if self.pooling == 0:
                return np.zeros(len(cells))
            by_arm = self._over_arms(self.by_label(self.targets))
            return np.array([by_arm[self.places[cell.label][1]] for cell in cells])
        targets = self.by_label(self.targets)
        return np.array([targets.get(cell.label, 0.0) for cell in cells])

    # -- what differs from a learner without groups ----------------------------------------------

    @property
    def known_arms(self) -> dict[str, bool]:
        return self.arm_status

    def key_of(self, arm: str, group: str | None) -> str:
        return cell_label(str(group), arm)

    def arm_of(self, label: str) -> str:
        return self.places[label][1]

    def share_of(self, label: str) -> float:
        return self.shares[self.places[label][0]]

    def by_group(self, weights: Vector) -> dict[str, dict[str, float]]:
        """Return the weights of the active arms within each group.

        Without pooling, they are equal in a group whose warm start is not complete. With pooling, they are
        those of the other groups together.
        """
        given = self.by_label(weights)
        return {group: self._within(group, given) for group in self.shares}

    def within(self, group: str, weights: Vector) -> dict[str, float]:
        """Return the weights of the active arms within one group."""
        return self._within(group, self.by_label(weights))

    def _within(self, group: str, given: Mapping[str, float]) -> dict[str, float]:
        row = {arm: given.get(cell_label(group, arm), 0.0) for arm in self._active_arms}
        total = sum(row.values())
        if total > 0:
            return {arm: weight / total for arm, weight in row.items()}
        if self.pooling > 0 and given:
            return self._over_arms(given)
        return dict.fromkeys(row, 1 / len(row))

    @property
    def _active_arms(self) -> list[str]:
        return [arm for arm, is_active in self.arm_status.items() if is_active]

    def _over_arms(self, given: Mapping[str, float]) -> dict[str, float]:
        """Return the weights of the arms, summed over the groups that take part in the mixture."""
        found = dict.fromkeys(self._active_arms, 0.0)
        for label, weight in given.items():
            found[self.places[label][1]] += weight
        return found

    def by_arm(self, weights: Vector) -> dict[str, float]:
        by_group = self.by_group(weights)
        found = dict.fromkeys(self._active_arms, 0.0 if by_group else 1 / len(self._active_arms))
        for group, row in by_group.items():
            for arm, weight in row.items():
                found[arm] += self.shares[group] * weight
        return found

    @property
    def weights(self) -> Vector:
        return np.empty(0) if self.alpha is None and not self.active else super().weights

    def effective_counts(self) -> Vector:
        """Return the number of samples of each cell, plus what pooling is worth."""
        own = np.array([cell.told for cell in self.active], dtype=float)
        arms = [sum(record.told for record in self._unit(cell.label)) for cell in self.active]
        return own + np.minimum(self.pooling, arms)

    def competitors(self) -> Vector | None:
        groups = [self.places[cell.label][0] for cell in self.active]
        totals: dict[str, float] = {}
        for group, count in zip(groups, self.effective_counts().tolist(), strict=True):
            totals[group] = totals.get(group, 0.0) + count
        return np.array([totals[group] for group in groups])

    def view(self) -> Statistics:
        if self.pooling == 0:
            return self.statistics
        arms = [self.places[label][1] for label in self.arms]
        return PooledTally(self.statistics, arms, self.pooling)

    def warm_rows(self) -> list[Array]:
        by_arm: dict[str, list[Array]] = {}
        labels = list(self.arms)
        for sample in self.pending:
            by_arm.setdefault(self.places[labels[sample.arm]][1], []).append(sample.row)
        return [stack_rows(by_arm[arm]) for arm in self.arm_status if arm in by_arm]

    def find_region(self) -> Region:
        """Return the region with one sum per group; limits concern the sums of each arm's cells."""
        places = [self.places[label] for label in self.active_labels]
        arms = list(dict.fromkeys(arm for _, arm in places))
        whole = self.limits.region(arms, self.spent) if self.limits.any else None
        return grouped_region(places, self.shares, whole)

    def _has_budget_row(self, region: Region | None) -> bool:
        return super()._has_budget_row(region) and self.limits.mean_cost is not None

    # -- state -----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {
            "cells": {
                "arms": list(self.arm_status),
                "active": list(self.arm_status.values()),
                "places": [list(place) for place in self.places.values()],
                "waiting": list(self.waiting),
            }
        }

    def load_state_dict(self, saved: Mapping[str, Any], resolved: Objective | None) -> None:
        cells = saved["cells"]
        self.arm_status = dict(zip(cells["arms"], map(bool, cells["active"]), strict=True))
        self.places = {cell_label(*place): (place[0], place[1]) for place in cells["places"]}
        is_complete = len(self.places) == len(self.arm_status) * len(self.shares)
        known = set(self.arm_status)
        fits = all(g in self.shares and a in known for g, a in self.places.values())
        if list(self.places) != list(saved["arms"]) or not is_complete or not fits:
            raise ValueError("the cells do not match the groups and arms")
        self.waiting = {label: None for label in cells["waiting"] if label in self.places}
        super().load_state_dict(saved, resolved)
