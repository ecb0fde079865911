"""A pool of samples from arms that can be shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from genmix.objectives import Objective
from genmix.objectives.pool import Pool
from genmix.shards.arms import StreamedArm, any_shards, streamed_arms
from genmix.shards.statistics import all_rows, statistics


def pool_of(
    arms: Mapping[str, Any],
    objective: Objective,
    quality: Mapping[str, Any] | None = None,
    cost: Mapping[str, Any] | None = None,
    encoder: str | None = None,
) -> Pool:
    """Return the statistics of all samples; those of shards are read in blocks and not kept."""
    if not any_shards(arms):
        return Pool.of(arms, objective, quality, cost, encoder)
    return streamed_pool(streamed_arms(arms, objective, quality, cost), objective, encoder)


def streamed_pool(
    arms: Sequence[StreamedArm], objective: Objective, encoder: str | None = None
) -> Pool:
    fixed = objective.fix_bandwidths([arm.rows for arm in arms])
    [tally] = statistics(arms, [all_rows(fixed, len(arms))])
    return Pool(tuple(arm.label for arm in arms), fixed, tally, encoder)
