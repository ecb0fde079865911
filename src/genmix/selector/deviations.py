"""How much the samples of each arm vary in their contributions to the gradient.

The contribution of a sample is the value of the loss's tangent plane at that sample alone; their mean over an
arm is the arm's entry of the gradient. Each sample is measured once, at the first solve that includes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from genmix.core.arrays import Vector
from genmix.policies import Situation
from genmix.selector.pending import PendingSample, to_batch
from genmix.solvers.solve import FINAL_SMOOTHING

MOST_MEASURED = 100
"""Number of samples per arm that are measured, which is enough for a standard deviation."""

PRIOR_DEGREES = 10
"""Degrees of freedom with which the deviations of all arms together count in that of each arm.

The few samples of a new arm can be similar by chance, and would then look both poor and certain.
"""

Spread = Mapping[str, tuple[int, float]]
"""Number of measured samples of each arm, and the sum of their squared deviations from the arm's mean."""


def deviations(spread: Spread, arms: Sequence[str]) -> Vector:
    """Return the standard deviation of each arm's contributions, shrunk toward that of all arms."""
    known = [spread.get(arm, (0, 0.0)) for arm in arms]
    squares = np.array([total for _, total in known])
    degrees = np.array([max(n - 1, 0) for n, _ in known])
    common = squares.sum() / max(degrees.sum(), 1)
    found: Vector = np.sqrt((squares + PRIOR_DEGREES * common) / (degrees + PRIOR_DEGREES))
    return found


def measured(
    spread: Spread, samples: Sequence[PendingSample], situation: Situation, alpha: Vector
) -> dict[str, tuple[int, float]]:
    """Return the spread after measuring new samples at the weights ``alpha``."""
    groups: list[list[PendingSample]] = []
    for label, index in zip(situation.arms, situation.indices, strict=True):
        most = MOST_MEASURED - spread.get(label, (0, 0.0))[0]
        groups.append([sample for sample in samples if sample.arm == index][:most])
    batch = [sample for group in groups for sample in group]
    if not batch:
        return dict(spread)
    loss, updated = situation.loss, dict(spread)
    gradient = loss.expand(alpha, FINAL_SMOOTHING).gradient
    plane = situation.tally.sample_plane(loss, situation.indices, alpha, to_batch(batch))
    sizes = [len(group) for group in groups]
    apart = np.split(plane - np.repeat(gradient, sizes), np.cumsum(sizes)[:-1])
    for label, own in zip(situation.arms, apart, strict=True):
        if len(own):
            n, total = spread.get(label, (0, 0.0))
            updated[label] = (n + len(own), total + float(np.sum(own**2)))
    return updated
