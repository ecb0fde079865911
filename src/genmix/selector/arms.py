"""One record per arm, and the rules that choose which arm to draw from next."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from genmix.core.arrays import Vector


@dataclass(frozen=True)
class ArmRecord:
    """The status and counts of one arm. Records are replaced, never modified."""

    index: int
    """Position of the arm in the statistics."""
    label: str
    active: bool = True
    """False once the arm is retired."""
    told: int = 0
    failed: int = 0
    in_flight: int = 0

    @property
    def asked(self) -> int:
        """Number of samples reported or still expected."""
        return self.told + self.in_flight


def restricted(
    arms: Sequence[ArmRecord], weights: Vector, among: Collection[str] | None
) -> tuple[Sequence[ArmRecord], Vector]:
    """Return the arms to draw from, and their weights scaled to 1; equal weights if all are 0."""
    if among is None:
        return arms, weights
    kept = [k for k, arm in enumerate(arms) if arm.label in among]
    left = weights[kept] if weights[kept].any() else np.ones(len(kept))
    return [arms[k] for k in kept], left / left.sum()


def draw_iid(weights: Vector, rng: np.random.Generator) -> tuple[int, float]:
    """Draw a position with probability proportional to its weight; return the position and the weight."""
    edges = np.cumsum(weights)
    chosen = int(np.searchsorted(edges, rng.random() * edges[-1], side="right"))
    return chosen, float(weights[chosen])


def draw_tracking(arms: Sequence[ArmRecord], weights: Vector) -> tuple[int, float]:
    """Choose the position whose count lags furthest behind its weight."""
    asked = np.array([arm.asked for arm in arms])
    return int(np.argmax(weights * (asked.sum() + 1) - asked)), 1.0


def draw_warm_start(
    arms: Sequence[ArmRecord],
    warm_start: int,
    previous: Mapping[str, float],
    rng: np.random.Generator,
) -> tuple[int, float]:
    """Choose an arm that still needs tickets for its warm start, round-robin.

    If no arm needs more tickets, or the arms that do keep failing, drawing continues. If a mixture
    existed before a new arm was added, arms are drawn according to its ``previous`` weights, except that an
    even share goes to the arms whose warm start is incomplete. Otherwise drawing is round-robin.
    """
    lacking = [k for k, arm in enumerate(arms) if max(arm.asked, arm.failed) < warm_start]
    if lacking:
        return min(lacking, key=lambda k: arms[k].asked), 1.0
    weights = np.array([previous.get(arm.label, 0.0) for arm in arms])
    if not weights.any():
        return int(np.argmin([arm.asked + arm.failed for arm in arms])), 1.0
    incomplete = np.array([arm.told < warm_start for arm in arms], dtype=float)
    if not incomplete.any():  # the incomplete ones cannot be drawn at the moment
        return draw_iid(weights / weights.sum(), rng)
    share = 1 / len(arms)
    return draw_iid(
        (1 - share) * weights / weights.sum() + share * incomplete / incomplete.sum(), rng
    )
