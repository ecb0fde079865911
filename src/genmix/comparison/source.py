"""Where the samples of a repeat come from.

Within a repeat, the prompts are the same for every variant, and so is the k-th sample of an arm (with
prompts: its k-th answer to a prompt). Differences between variants are therefore never due to different
samples.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from genmix.comparison.plan import Plan
from genmix.core.streams import private_stream


class Source:
    """The prompts of a repeat, and the rows that its arms answer with."""

    def __init__(self, plan: Plan, repeat: int) -> None:
        world, rounds, seed = plan.world, plan.options.rounds, plan.options.seed
        self._prompts = world.prompts
        streams = [
            private_stream(seed, "comparison", repeat, 1 + i) for i in range(len(world.arms))
        ]
        self.asked: NDArray[np.int64] | None = None
        """The prompt of every round; None without prompts."""
        if world.prompts is None:
            rows = [[np.arange(len(pool))] for pool in world.arms.values()]
        else:
            rows = [
                [
                    np.flatnonzero(world.prompts.answered[arm] == p)
                    for p in range(len(world.prompts.groups))
                ]
                for arm in world.arms
            ]
            stream = private_stream(seed, "comparison", repeat, 1 + len(world.arms))
            shares = world.prompts.prompt_shares
            self.asked = stream.choice(len(shares), size=rounds, p=shares)
            names = world.prompts.group_names
            self._group_of = np.array([names.index(name) for name in world.prompts.groups])
        self._rows = [
            [own[stream.integers(len(own), size=rounds)] for own in each]
            for each, stream in zip(rows, streams, strict=True)
        ]
        self._drawn = np.zeros((len(world.arms), len(rows[0])), dtype=int)

    def group(self, t: int) -> int:
        """Return the position of the group in round ``t``; 0 without prompts."""
        return 0 if self.asked is None else int(self._group_of[self.asked[t]])

    def question(self, t: int, by_group: bool) -> dict[str, Any]:
        """Return what a selector is told when it is asked in round ``t``."""
        if self._prompts is None or self.asked is None:
            return {}
        prompt = int(self.asked[t])
        told: dict[str, Any] = {"prompt": self._prompts.embeddings[prompt]}
        return told | ({"group": self._prompts.groups[prompt]} if by_group else {})

    def answer(self, t: int, arm: int) -> int:
        """Return the row of the next sample of an arm, in round ``t``."""
        prompt = 0 if self.asked is None else int(self.asked[t])
        row = int(self._rows[arm][prompt][self._drawn[arm, prompt]])
        self._drawn[arm, prompt] += 1
        return row
