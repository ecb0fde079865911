"""A round of the published Mixture-UCB script, implemented as in that script.

In every round, samples are stacked and converted to float32 again. Kernel values come from plain
differences in blocks of 800 rows; those with the reference are computed once per arm, although they are
the same. They are kept in lists, whose means enter the problem and the score. The CVXPY problem is built
from separate terms in every round. The exploration bonus is set to 0, so that the script looks for the
same mixture as genmix.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

BLOCK = 800


def kernel_total(x: Any, y: Any, sigma: float, power: int) -> float:
    """``Σ k(x_a, y_b)^power`` by differences, in blocks of 800 by 800 rows."""
    import torch  # imported here, so that processes that only measure memory do not load it

    x, y = torch.Tensor(x), torch.Tensor(y)
    total = 0.0
    for i in range(0, len(x), BLOCK):
        for j in range(0, len(y), BLOCK):
            apart = x[None, i : i + BLOCK] - y[j : j + BLOCK, None]
            kernel = torch.exp(-0.5 * torch.sum(apart**2, dim=-1) / sigma**2)
            total += (kernel**power).sum().item()
    return total


class PublishedLoop:
    """Starts from existing samples and sums; each round adds one sample and solves."""

    def __init__(
        self,
        arms: Sequence[Array],
        pairs: Array,
        cross: Array,
        reference: Array | None,
        sigma: float,
        power: int,
    ) -> None:
        self._arms, self._reference = list(arms), reference
        self.pairs = pairs.copy()
        self._kernel = (sigma, power)
        size = 1 if reference is None else len(reference)
        means = cross / (np.array(self.counts) * size)
        self._linear = [
            [mean] * (len(arms) * n) for mean, n in zip(means, self.counts, strict=True)
        ]

    @property
    def counts(self) -> list[int]:
        return [len(rows) for rows in self._arms]

    def round(self, arm: int, row: Array) -> None:
        self.add(arm, row)
        self.solve()
        self.score()

    def add(self, arm: int, row: Array) -> None:
        new = row[None, :]
        for other, rows in enumerate(self._arms):
            total = kernel_total(new, rows, *self._kernel)
            self.pairs[arm, other] += total
            self.pairs[other, arm] += total
            if self._reference is not None:
                with_reference = kernel_total(new, self._reference, *self._kernel)
                self._linear[arm].append(with_reference / len(self._reference))
        self.pairs[arm, arm] += 1.0  # the script counts a sample with itself twice, at no cost
        self._arms[arm] = np.concatenate([self._arms[arm], new])

    def score(self) -> float:
        """The score of all samples as one set, up to the reference's own term."""
        loss = float(self.pairs.sum()) / sum(self.counts) ** 2
        if self._reference is None:
            return 1 / loss
        total = sum(np.sum(values) for values in self._linear)
        return loss - 2 * float(total) / sum(map(len, self._linear))

    def solve(self) -> Array:
        counts = np.array(self.counts, dtype=float)
        quadratic = self.pairs / np.outer(counts, counts)
        if self._reference is None:
            return minimizer(quadratic, None)
        return minimizer(quadratic, 2 * np.array([np.mean(values) for values in self._linear]))


def minimizer(quadratic: Array, linear: Array | None) -> Array:
    """``argmin αᵀ quadratic α − linear·α`` over the simplex, with one expression per term."""
    import cvxpy as cp  # imported here, for the same reason

    size = len(quadratic)
    alpha, bonus = cp.Variable(size, nonneg=True), np.zeros(size)
    weights: Any = sum(alpha[arm] * corner for arm, corner in enumerate(np.eye(size)))
    loss = cp.quad_form(weights, quadratic + 1e-8 * np.eye(size))
    loss -= cp.sum(cp.multiply(bonus, alpha))
    if linear is not None:
        loss -= cp.sum(cp.multiply(linear, alpha)) + cp.sum(cp.multiply(bonus, alpha))
    cp.Problem(cp.Minimize(loss), [cp.sum(alpha) == 1]).solve()
    positive: Array = np.maximum(alpha.value, 0.0)
    total: float = positive.sum()
    return positive / total
