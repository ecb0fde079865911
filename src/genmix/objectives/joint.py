"""Statistics of pairs of prompts and outputs: the joint loss, and the prompts' own score."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from genmix.core.arrays import Array, Vector
from genmix.kernels.joint import Joint
from genmix.kernels.kernels import Kernel
from genmix.objectives.tally import Batch, CompositeTally, Tally
from genmix.solvers.loss import Loss, SumLoss

MakeTally = Callable[[Kernel, int, Array], Tally]
"""Creates the statistics of a kernel, for a number of arms and an example of the samples."""


def kernel_tally(kernel: Kernel, make: MakeTally, arms: int, sample: Array) -> Tally:
    """Return the statistics of a kernel; for pairs, also those of the prompts alone."""
    if isinstance(kernel, Joint) and kernel.has_both:
        return JointTally(make(kernel, arms, sample), make(kernel.of_prompts, arms, sample))
    return make(kernel, arms, sample)


class JointTally(CompositeTally):
    """Statistics of the pairs and of the prompts alone."""

    STATE = ("joint", "prompts")

    def __init__(self, joint: Tally, prompts: Tally) -> None:
        super().__init__(len(joint.counts), joint.sample)
        self.joint, self.prompts = joint, prompts

    @property
    def parts(self) -> list[Tally]:  # type: ignore[override]
        return [self.joint, self.prompts]

    def loss(self, arms: Sequence[int]) -> JointLoss:
        return JointLoss(self.joint.loss(arms), self.prompts.loss(arms))

    def pooled(self) -> JointLoss:
        return JointLoss(self.joint.pooled(), self.prompts.pooled())

    def sample_plane(
        self, loss: Any, arms: Sequence[int], alpha: Vector, batch: Batch, complete: bool = False
    ) -> Vector:
        return self.joint.sample_plane(loss.terms[0][1], arms, alpha, batch, complete)


class JointLoss(SumLoss):
    """The loss of the pairs. The score of the prompts is reported, but not optimized.

    Subtracting the prompts' entropy would make the loss nonconvex. With given shares of the prompts, it does
    not depend on the weights, up to sampling noise.
    """

    def __init__(self, joint: Loss, prompts: Loss) -> None:
        super().__init__([(1.0, joint)])
        self._joint, self._prompts = joint, prompts

    def score(self, alpha: Vector) -> float:
        return self._joint.score(alpha)

    def score_details(self, alpha: Vector) -> dict[str, Any]:
        prompts = self._prompts.score(alpha)
        entropy = math.log(prompts) if prompts > 0 else math.nan
        conditional = self.score(alpha) / prompts
        return {"prompts": prompts, "prompt entropy": entropy, "conditional": conditional}

    def mapped(self, change: Callable[[Loss], Loss]) -> JointLoss:
        return JointLoss(change(self._joint), change(self._prompts))
