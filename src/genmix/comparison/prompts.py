"""The prompts of a world: their embeddings and groups, and which prompt each recorded sample answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genmix.core.arrays import as_matrix, to_numpy
from genmix.errors import InputError
from genmix.solvers.weight_limits import group_names, group_shares


@dataclass(frozen=True)
class WorldPrompts:
    """The prompts of a :class:`World`.

    In every round of a comparison, a prompt is drawn, and the sample is one of the arm's recorded answers to
    it. A group is drawn by its share; within a group, all prompts are equally likely.

    Parameters
    ----------
    embeddings : array, shape (p, d)
        The embedding of each prompt.
    groups : sequence of str
        The group of each prompt.
    answered : mapping of str to array of int, shape (n,)
        For each arm, the number of the prompt that every row of its pool answers.
    shares : mapping of str to float, optional
        The share of each group; by default, its share of the prompts.

    Raises
    ------
    InputError
        If the shapes do not match, an arm has no answer to a prompt, or it has more answers to one prompt of
        a group than to another.

    Examples
    --------
    >>> import genmix as gx
    >>> import numpy as np
    >>> answered = {"a": [0, 0, 1, 1], "b": [0, 0, 1, 1]}
    >>> prompts = gx.WorldPrompts(np.eye(2), ["travel", "food"], answered)
    >>> world = gx.World("two topics", {"a": np.eye(6)[:4], "b": np.eye(6)[2:]}, prompts=prompts)
    >>> world.prompts.group_shares
    {'travel': 0.5, 'food': 0.5}
    """

    embeddings: NDArray[np.float64]
    groups: Sequence[str]
    answered: Mapping[str, NDArray[np.int64]]
    shares: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        rows = np.asarray(to_numpy(as_matrix(self.embeddings, "embeddings")), dtype=float)
        groups = tuple(map(str, self.groups))
        if len(groups) != len(rows):
            raise InputError(
                f"there are {len(rows)} embeddings of prompts but {len(groups)} groups; pass one group per "
                "prompt."
            )
        answered = {arm: np.asarray(each) for arm, each in self.answered.items()}
        for name, value in {"embeddings": rows, "groups": groups, "answered": answered}.items():
            object.__setattr__(self, name, value)
        for arm, each in answered.items():
            self._check_answers(arm, each)
        _ = self.group_shares  # checks the shares

    def _check_answers(self, arm: str, answered: NDArray[np.int64]) -> None:
        size = len(self.groups)
        if answered.ndim != 1 or answered.dtype.kind not in "iu":
            raise InputError(
                f"answered[{arm!r}] must be a list of whole numbers; pass one per row."
            )
        if len(answered) and not 0 <= answered.min() <= answered.max() < size:
            raise InputError(
                f"answered[{arm!r}] names a prompt that does not exist; pass numbers from 0 to {size - 1}."
            )
        counts = np.bincount(answered, minlength=size)
        for group in self.group_names:
            found = {int(counts[prompt]) for prompt in self.prompts_of(group)}
            if len(found) > 1 or found == {0}:
                raise InputError(
                    f"arm {arm!r} has {min(found)} to {max(found)} answers to the prompts of {group!r}; pass "
                    "the same number (at least one) for every prompt of this group."
                )

    @cached_property
    def group_names(self) -> tuple[str, ...]:
        """The names of the groups, in the order of their first prompts."""
        return group_names(list(dict.fromkeys(self.groups)))

    def prompts_of(self, group: str) -> list[int]:
        """Return the numbers of the prompts in a group."""
        return [k for k, name in enumerate(self.groups) if name == group]

    @cached_property
    def group_shares(self) -> dict[str, float]:
        """The share of each group."""
        names = self.group_names
        given: Any = self.shares
        if given is None:
            given = {name: len(self.prompts_of(name)) / len(self.groups) for name in names}
        if not isinstance(given, Mapping) or set(given) != set(names):
            raise InputError(
                f"shares is {given!r}; pass a map from {', '.join(names)} to their shares."
            )
        known = dict(zip(given, group_shares(given), strict=True))
        return {name: known[name] for name in names}

    @cached_property
    def prompt_shares(self) -> NDArray[np.float64]:
        """The probability of each prompt."""
        return np.array(
            [self.group_shares[name] / len(self.prompts_of(name)) for name in self.groups]
        )

    def rows_of_group(self, arm: str, group: str) -> NDArray[np.int64]:
        """Return the rows of an arm's pool that answer the prompts of a group."""
        return np.flatnonzero(np.isin(self.answered[arm], self.prompts_of(group)))

    def cells(self, pools: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Sort values of every row, given by arm, into groups and arms."""
        return {
            group: {arm: pool[self.rows_of_group(arm, group)] for arm, pool in pools.items()}
            for group in self.group_names
        }
