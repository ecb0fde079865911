"""Policies that choose by the prompt need prompts, which worlds do not have."""

from __future__ import annotations

import numpy as np
import pytest

import genmix as gx


@pytest.mark.parametrize("name", ["pak-ucb", "dak-ucb", "mixture-dak-ucb"])
def test_a_world_without_prompts_is_refused(name: str) -> None:
    world = gx.World("corners", {"a": np.eye(3)[:2], "b": np.eye(3)[1:]})
    with pytest.raises(gx.InputError, match="chooses an arm for every prompt, but the samples of"):
        gx.compare(world, [name], 2, objective=gx.Vendi(), budget=40, workers=1)


def test_successive_halving_can_be_compared() -> None:
    world = gx.World("corners", {"a": np.eye(3)[:2], "b": np.eye(3)[1:]})
    policies = ["successive-halving", "mixture-greedy"]
    found = gx.compare(world, policies, 2, objective=gx.Vendi(), budget=40, workers=1)
    assert "Successive halving" in str(found)
