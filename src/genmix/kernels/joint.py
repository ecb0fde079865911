"""The product of a kernel on prompts and a kernel on outputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from genmix.core.arrays import Array, namespace
from genmix.core.description import Description
from genmix.errors import InputError, whole
from genmix.kernels.kernels import Gaussian, Kernel, with_unit_diagonal


@dataclass(frozen=True, eq=False)
class Joint(Kernel):
    """The product kernel ``k((t, x), (s, y)) = k_T(t, s) · k_X(x, y)`` on pairs of a prompt and an output.

    The embedding of a sample is the prompt's embedding followed by the output's, in one row:
    ``numpy.concatenate([prompt, output])``. With this kernel, two samples are similar only if both their
    prompts and their outputs are. So the objective asks that *each prompt's answers* differ. With
    ``prompt=None``, it compares only the outputs, and asks that the *whole data set* is diverse.

    Scores are reported with those of the prompts alone, and with the conditional score, their quotient: for
    Vendi of order 1, the effective number of different answers per prompt [1]_.

    Two Gaussians with the same number of random features are one Gaussian on the scaled pair, with that many
    random features. All other products are exact.

    Parameters
    ----------
    prompts : int
        Dimension of the prompts' embeddings.
    prompt : Kernel or callable, optional
        The kernel on prompts, ``Gaussian()`` by default; None to compare only the outputs.
    output : Kernel or callable, optional
        The kernel on outputs, ``Gaussian()`` by default; None to compare only the prompts.

    Raises
    ------
    InputError
        If the dimension is not positive, a kernel cannot be normalized, or both are None.

    References
    ----------
    .. [1] M. Jalali, A. Ospanov, A. Gohari and F. Farnia, "Conditional Vendi score: An information-theoretic
       approach to diversity evaluation of prompt-based generative models", arXiv:2411.02817.

    Examples
    --------
    Two prompts. For each of them, arm ``a`` has one answer and arm ``b`` has two:

    >>> import numpy as np
    >>> import genmix as gx
    >>> def pairs(prompts, answers):
    ...     return np.hstack([np.eye(2)[prompts], np.eye(3)[answers]])
    >>> arms = {"a": pairs([0, 1], [0, 0]), "b": pairs([0, 0, 1, 1], [1, 2, 1, 2])}
    >>> joint = gx.Joint(2, prompt=gx.Cosine(), output=gx.Cosine())
    >>> mix = gx.optimal_mixture(arms, gx.Vendi(kernel=joint))
    >>> {arm: round(weight, 3) for arm, weight in mix.weights.items()}
    {'a': 0.333, 'b': 0.667}
    >>> details = mix.score.details
    >>> round(mix.score, 3), round(details["prompts"], 3), round(details["conditional"], 3)
    (6.0, 2.0, 3.0)
    """

    prompts: int
    prompt: Any = Gaussian()  # noqa: RUF009 - immutable
    output: Any = Gaussian()  # noqa: RUF009 - immutable
    unit_diagonal = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "prompts", whole(self.prompts, "prompts", 1))
        if self.prompt is None and self.output is None:
            raise InputError("prompt and output are both None; pass at least one kernel.")
        for name in ("prompt", "output"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, with_unit_diagonal(getattr(self, name), "Joint"))

    @property
    def has_both(self) -> bool:
        """Whether prompts and outputs are both compared."""
        return self.prompt is not None and self.output is not None

    @property
    def of_prompts(self) -> Joint:
        """The kernel on the prompts alone."""
        return replace(self, output=None)

    def _parts(self, x: Array) -> list[tuple[Kernel, Array]]:
        """Return the kernels with the columns that each of them compares."""
        parts = ((self.prompt, x[:, : self.prompts]), (self.output, x[:, self.prompts :]))
        return [(kernel, columns) for kernel, columns in parts if kernel is not None]

    def __call__(self, x: Array, y: Array) -> Array:
        pairs = zip(self._parts(x), self._parts(y), strict=True)
        return math.prod((kernel(a, b) for (kernel, a), (_, b) in pairs), start=1.0)

    def fix_bandwidths(self, groups: Sequence[Array]) -> Joint:
        prompt, output = self.prompt, self.output
        if prompt is not None:
            prompt = prompt.fix_bandwidths([group[:, : self.prompts] for group in groups])
        if output is not None:
            output = output.fix_bandwidths([group[:, self.prompts :] for group in groups])
        if _as_one_gaussian(prompt, output) and prompt.seed == output.seed:
            # The frequencies of the two parts must be independent.
            output = replace(self.output, seed=self.output.seed + 1).fix_bandwidths(
                [group[:, self.prompts :] for group in groups]
            )
        return replace(self, prompt=prompt, output=output)

    def columns(self, dimension: int) -> int | None:
        if not self.has_both:
            if self.output is None:
                return cast(Kernel, self.prompt).columns(self.prompts)
            return cast(Kernel, self.output).columns(dimension - self.prompts)
        if _as_one_gaussian(self.prompt, self.output):
            return 2 * int(self.prompt.features)
        return None

    def feature_map(self, x: Array) -> Array:
        if self.has_both and not _as_one_gaussian(self.prompt, self.output):
            return super().feature_map(x)
        maps = [kernel.feature_map(part) for kernel, part in self._parts(x)]
        return maps[0] if len(maps) == 1 else _sum_of_phases(maps[0], maps[1])

    def rounding(self, x: Array) -> float:
        return 4 * sum(kernel.rounding(part) for kernel, part in self._parts(x))

    def check(self, x: Array, where: str) -> None:
        if x.shape[1] <= self.prompts:
            raise InputError(
                f"{where}: the embedding has dimension {x.shape[1]}, but that of the prompt alone has "
                f"{self.prompts}; pass the prompt's embedding followed by the output's."
            )
        for kernel, part in self._parts(x):
            kernel.check(part, where)


def uses_pairs(value: object) -> bool:
    """Return whether an objective compares prompts as well as outputs."""
    if isinstance(value, Joint):
        return value.has_both
    if isinstance(value, tuple):
        return any(map(uses_pairs, value))
    return isinstance(value, Description) and any(map(uses_pairs, vars(value).values()))


def _as_one_gaussian(prompt: Any, output: Any) -> bool:
    """Return whether the product has random features of its own."""
    both = type(prompt) is Gaussian and type(output) is Gaussian
    return both and prompt.features is not None and prompt.features == output.features


def _sum_of_phases(first: Array, second: Array) -> Array:
    """Return the features of the sums of the phases from those of the phases, (cos, sin) / √R."""
    xp = namespace(first)
    features = first.shape[1] // 2
    a, b = first[:, :features], first[:, features:]
    c, d = second[:, :features], second[:, features:]
    return xp.concat([a * c - b * d, b * c + a * d], axis=1) * math.sqrt(features)
