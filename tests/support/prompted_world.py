"""A world with prompts whose best mixtures are known."""

from __future__ import annotations

import numpy as np

import genmix as gx


def specialists(shares: dict[str, float] | None = None) -> gx.World:
    """Arm ``a`` has three modes for travel and one for food, arm ``b`` one and three; four prompts."""
    modes = np.eye(8)
    arms = {
        "a": np.concatenate([modes[:3], modes[:3], modes[[4]], modes[[4]]]),
        "b": np.concatenate([modes[[3]], modes[[3]], modes[5:], modes[5:]]),
    }
    answered = {"a": [0, 0, 0, 1, 1, 1, 2, 3], "b": [0, 1, 2, 2, 2, 3, 3, 3]}
    prompts = gx.WorldPrompts(modes[:4], ["travel", "travel", "food", "food"], answered, shares)
    return gx.World("specialists", arms, prompts=prompts)
