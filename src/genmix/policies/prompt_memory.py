"""What a policy that chooses by the prompt has seen from each arm: its pairs of prompt and output, and a
regression of their quality and diversity on the prompt.

A memory is never modified; adding a pair returns a new one, which shares arrays with the old one.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from genmix.kernels.kept_rows import KeptRows
from genmix.kernels.ridge import KernelRidge, Matrix, Prediction

if TYPE_CHECKING:
    from genmix.policies.prompted import PromptPolicy


class Prompt(NamedTuple):
    """What is known when an arm is chosen; embeddings of shape ``(1, d)``."""

    embedding: Matrix
    reference: Matrix | None = None
    """A good answer to the prompt, for policies that compare with one."""


class Pair(NamedTuple):
    """A prompt with the output of an arm; embeddings of shape ``(1, d)``."""

    prompt: Prompt
    output: Matrix
    quality: float


@dataclass(frozen=True)
class ArmMemory:
    """What is known about one arm."""

    regression: KernelRidge
    """Its targets are those of the policy: the quality and, for some policies, the diversity."""
    kept: tuple[KeptRows, ...]
    """The pairs, in the form in which the policy compares new ones with them."""

    @property
    def count(self) -> int:
        return self.regression.count

    def fork(self) -> ArmMemory:
        return ArmMemory(self.regression.fork(), tuple(rows.fork() for rows in self.kept))


class PromptMemory:
    """The pairs of all arms, by the position of the arm.

    Parameters
    ----------
    policy : PromptPolicy
        Decides what is compared and regressed.
    size : int
        Number of arms.
    """

    def __init__(self, policy: PromptPolicy, size: int) -> None:
        self.policy, self.size = policy, size
        self.arms: tuple[ArmMemory, ...] = ()
        """One entry per arm; empty until the first pair sets the dimensions."""
        self.dimensions: tuple[int, int] | None = None
        """Dimensions of the prompts and of the outputs."""

    def count(self, arm: int) -> int:
        """Return the number of pairs of an arm."""
        return self.arms[arm].count if self.arms else 0

    def predict(self, arm: int, prompt: Prompt) -> Prediction:
        """Return the regression of an arm's targets at a prompt."""
        return self.arms[arm].regression.predict(prompt.embedding)

    def with_pair(self, arm: int, pair: Pair) -> Self:
        """Return a memory with one more pair of an arm."""
        made = copy.copy(self)
        if not made.arms:
            made._set_dimensions(pair.prompt.embedding.shape[1], pair.output.shape[1])
        targets = self.policy.targets(made, arm, pair)
        changed = made.arms[arm].fork()
        changed.regression.append(pair.prompt.embedding, targets)
        for rows, row in zip(changed.kept, self.policy.kept(pair), strict=True):
            rows.append(row)
        made.arms = (*made.arms[:arm], changed, *made.arms[arm + 1 :])
        return made

    def with_arm(self) -> Self:
        """Return a memory with one more arm, which has no pairs."""
        made = copy.copy(self)
        made.size += 1
        if self.dimensions is None:
            return made
        forks = [arm.fork() for arm in self.arms]
        for fork in forks:
            for _ in range(self.policy.columns(made.size) - self.policy.columns(self.size)):
                fork.regression.add_target(self.policy.target_without_pairs)
        made.arms = (*forks, made._empty_arm())
        return made

    def _set_dimensions(self, prompts: int, outputs: int) -> None:
        self.dimensions = (prompts, outputs)
        self.arms = tuple(self._empty_arm() for _ in range(self.size))

    def _empty_arm(self) -> ArmMemory:
        assert self.dimensions is not None
        policy, columns = self.policy, self.policy.columns(self.size)
        regression = KernelRidge(policy.kernel, policy.regularization, self.dimensions[0], columns)
        return ArmMemory(regression, policy.empty_lists(*self.dimensions))

    # -- state -----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the memory as arrays and JSON values."""
        return {
            "dimensions": None if self.dimensions is None else list(self.dimensions),
            "arms": [
                {
                    "regression": arm.regression.state_dict(),
                    "kept": [rows.state_dict() for rows in arm.kept],
                }
                for arm in self.arms
            ],
        }

    @classmethod
    def from_state_dict(
        cls, policy: PromptPolicy, saved: Mapping[str, Any], told: list[int]
    ) -> Self:
        """Restore a memory of arms with this many pairs."""
        memory = cls(policy, len(told))
        if saved["dimensions"] is not None:
            memory._set_dimensions(*(int(d) for d in saved["dimensions"]))
        for arm, plain in zip(memory.arms, saved["arms"], strict=True):
            arm.regression.load_state_dict(plain["regression"])
            for rows, given in zip(arm.kept, plain["kept"], strict=True):
                rows.load_state_dict(given)
                if len(rows) != arm.count:
                    raise ValueError("the numbers of prompts and outputs differ")
        if [memory.count(arm) for arm in range(memory.size)] != told:
            raise ValueError("the prompts of the arms do not match their samples")
        return memory
