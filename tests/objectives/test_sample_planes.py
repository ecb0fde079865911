"""The tangent plane at all samples at once, which the bootstrap needs: fast, and equal to the slow way."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import genmix as gx
from genmix.core.arrays import to_numpy
from genmix.objectives import Batch
from genmix.objectives.tally import Tally
from tests.support.conformance import OBJECTIVES, make_world

ALPHA = np.array([0.3, 0.2, 0.5])


def concatenated(batches: list[Batch]) -> Batch:
    rows = np.concatenate([to_numpy(batch.embeddings) for batch in batches])
    numbers = [
        None if batches[0].quality is None else np.concatenate([b.quality for b in batches]),
        None if batches[0].cost is None else np.concatenate([b.cost for b in batches]),
    ]
    return Batch(rows, *numbers)


def planes(objective: gx.Objective, batches: list[Batch], arms: list[int]) -> list[np.ndarray]:
    """Return the values for all samples of the arms, the slow values, and the gradient at each sample."""
    tally = objective.tally(len(batches), batches[0].embeddings)
    for arm, batch in enumerate(batches):
        tally.add(arm, batch)
    alpha = ALPHA[arms] / ALPHA[arms].sum()
    loss = tally.loss(arms)
    whole = concatenated([batches[arm] for arm in arms])
    fast = tally.sample_plane(loss, arms, alpha, whole, complete=True)
    is_unbiased = getattr(objective, "unbiased", False)
    slow_way = type(tally).sample_plane if is_unbiased else Tally.sample_plane
    slow = slow_way(tally, loss, arms, alpha, whole)
    sizes = [len(batches[arm]) for arm in arms]
    return [fast, slow, np.repeat(loss.expand(alpha).gradient, sizes)]


NAMES = [name for name in OBJECTIVES if "inf" not in name and "_own" not in name]
"""Without order ∞, whose loss is not differentiable, and without a kernel that has no feature map either."""


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sizes", [(2, 3, 2), (14, 11, 17)], ids=["rows", "moments"])
def test_all_samples_at_once(name: str, sizes: tuple[int, ...]) -> None:
    check(name, sizes, [0, 1, 2])


@pytest.mark.parametrize("name", ["frechet", "vendi_one_cosine", "rke", "kd_rff", "sum"])
def test_some_arms_in_another_order(name: str) -> None:
    check(name, (14, 11, 17), [2, 0])


def check(name: str, sizes: tuple[int, ...], arms: list[int]) -> None:
    world = make_world(name, sizes)
    fast, slow, gradient = planes(world.objective, world.batches, arms)
    scale = 1e-8 * max(1.0, float(np.abs(slow).max()))
    if "unbiased" in name:  # a single sample has no other pairs, so only differences are defined
        assert np.diff(fast) == pytest.approx(np.diff(slow), abs=scale)
        return
    assert fast == pytest.approx(slow, abs=scale)
    ends = np.cumsum([sizes[arm] for arm in arms])[:-1]
    means = [part.mean() for part in np.split(fast, ends)]
    assert means == pytest.approx([part[0] for part in np.split(gradient, ends)], abs=scale)


def test_a_constant_coordinate() -> None:
    """The Fréchet moments of such samples are not stored in the eigenbasis of the reference."""
    rng = np.random.default_rng(0)
    batches = [Batch(rng.normal(size=(n, 4)) * [1, 1, 1, 0]) for n in (20, 25, 30)]
    objective = gx.FrechetDistance(rng.normal(size=(50, 4)))
    fast, slow, _ = planes(objective, batches, [0, 1, 2])
    assert fast == pytest.approx(slow, abs=1e-6)


def test_blocks_of_bounded_memory() -> None:
    world = make_world("rke", (14, 11, 17))
    small = replace(world.objective, block_mb=1e-3)
    assert planes(small, world.batches, [0, 1, 2])[0] == pytest.approx(
        planes(world.objective, world.batches, [0, 1, 2])[0], rel=1e-12
    )
