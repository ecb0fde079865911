"""The tangent plane at single samples, from which the deviations of an arm's samples are measured."""

from __future__ import annotations

import numpy as np
import pytest

from genmix.objectives.tally import Tally
from genmix.solvers.solve import FINAL_SMOOTHING
from tests.support.conformance import OBJECTIVES, make_world

ALPHA = np.array([0.2, 0.5, 0.3])

reference = Tally.sample_plane
"""The slow way that works for every tally."""


@pytest.mark.parametrize("name", [name for name in OBJECTIVES if "unbiased" not in name])
@pytest.mark.parametrize("sizes", [(2, 1, 2), (14, 11, 17)], ids=["rows", "moments"])
def test_the_mean_over_an_arm_is_its_entry_of_the_gradient(
    name: str, sizes: tuple[int, ...]
) -> None:
    """Few samples are kept as rows, many as moments: each has its own way to the same values."""
    world = make_world(name, sizes)
    tally = world.objective.tally(3, world.batches[0].embeddings)
    for arm, batch in enumerate(world.batches):
        tally.add(arm, batch)
    loss = tally.loss([0, 1, 2])
    gradient = loss.expand(ALPHA, FINAL_SMOOTHING).gradient
    counts = list(tally.counts)
    for arm, batch in enumerate(world.batches):
        plane = tally.sample_plane(loss, [0, 1, 2], ALPHA, batch)
        scale = 1e-9 * max(1.0, float(np.abs(gradient).max()))
        assert plane.shape == (len(batch),)
        assert plane.mean() == pytest.approx(gradient[arm], abs=scale)
        assert plane == pytest.approx(reference(tally, loss, [0, 1, 2], ALPHA, batch), abs=scale)
    assert tally.counts == counts
    again = tally.loss([0, 1, 2]).expand(ALPHA, FINAL_SMOOTHING).gradient
    assert again.tolist() == gradient.tolist()


def test_samples_of_some_arms_only() -> None:
    world = make_world("frechet", (20, 20, 20))
    tally = world.objective.tally(3, world.batches[0].embeddings)
    for arm, batch in enumerate(world.batches):
        tally.add(arm, batch)
    loss, alpha = tally.loss([2, 0]), np.array([0.4, 0.6])
    plane = tally.sample_plane(loss, [2, 0], alpha, world.batches[2])
    gradient = loss.expand(alpha).gradient
    assert plane.mean() == pytest.approx(gradient[0], rel=1e-9)
