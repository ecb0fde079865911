"""DAK-UCB and Mixture-DAK-UCB with regressions that are fitted again in every round.

``Refitted`` is vectorized: one linear solve per arm and round, with all targets as right-hand sides.
``Published`` does what the published code does: loops over all earlier pairs with two kernel calls each,
scikit-learn's ``KernelRidge`` for every pair of arms, one more fit per arm for the bonus, and SLSQP with
numerical gradients. Its scores for evaluation, which take longer still, are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import rbf_kernel

Array = NDArray[np.float64]

ALPHA = GAMMA = WEIGHT = 1.0
CONSTANT, DELTA = 1e-4, 3.8


class Refitted:
    """All earlier pairs; each choice solves one linear system per arm."""

    def __init__(self, arms: int, mixture: bool) -> None:
        self.arms, self.mixture = arms, mixture
        self.prompts: list[list[Array]] = [[] for _ in range(arms)]
        self.outputs: list[list[Array]] = [[] for _ in range(arms)]
        self.quality: list[list[float]] = [[] for _ in range(arms)]
        self.pairs: list[list[list[float]]] = [[[] for _ in range(arms)] for _ in range(arms)]

    @property
    def eta(self) -> float:
        return math.sqrt(2 * math.log(2 * self.arms / DELTA))

    def terms(self, prompt: Array) -> tuple[Array, Array]:
        """The optimistic qualities and the redundancies D; without a mixture, only the diagonal of D."""
        linear, matrix = np.zeros(self.arms), np.zeros((self.arms, self.arms))
        for arm in range(self.arms):
            x = np.array(self.prompts[arm])
            others = range(self.arms) if self.mixture else [arm]
            gram, row = rbf_kernel(x, x, GAMMA), rbf_kernel(prompt[None, :], x, GAMMA)[0]
            targets = [self.quality[arm], row, *(self.pairs[arm][other] for other in others)]
            gram[np.diag_indices_from(gram)] += ALPHA
            found = row @ np.linalg.solve(gram, np.column_stack(targets))
            linear[arm] = found[0] + self.eta * math.sqrt(max(1 - found[1], 0.0))
            matrix[arm, list(others)] = found[2:]
        return linear, (matrix + matrix.T) / 2

    def choose(self, prompt: Array) -> Array:
        """The weights from which the arm is drawn."""
        linear, matrix = self.terms(prompt)
        if not self.mixture:
            scores = linear - WEIGHT * np.diag(matrix)
            return np.eye(self.arms)[int(np.argmax(scores))]
        return self.solve(lambda w: WEIGHT * w @ matrix @ w - linear @ w)

    def solve(self, objective: Callable[[Array], Any]) -> Array:
        """SLSQP from equal weights, as published."""
        found = minimize(
            objective,
            np.full(self.arms, 1 / self.arms),
            method="SLSQP",
            bounds=[(0, 1)] * self.arms,
            constraints=[{"type": "eq", "fun": lambda w: np.sum(w) - 1}],
        )
        weights = np.maximum(found.x, 0)
        return np.asarray(weights / weights.sum())

    def observe(self, arm: int, prompt: Array, output: Array, quality: float) -> None:
        for other in range(self.arms):
            n = len(self.prompts[other])
            mean = self.similarity(prompt, output, other) if n else 0.0
            self.pairs[arm][other].append(mean - math.sqrt(CONSTANT / max(n, 1)))
        self.prompts[arm].append(prompt)
        self.outputs[arm].append(output)
        self.quality[arm].append(quality)

    def similarity(self, prompt: Array, output: Array, other: int) -> float:
        """The mean of ``k_T² k_X²`` over the earlier pairs of an arm."""
        prompts = rbf_kernel(prompt[None, :], np.array(self.prompts[other]), GAMMA)
        outputs = rbf_kernel(output[None, :], np.array(self.outputs[other]), GAMMA)
        return float(np.mean(prompts**2 * outputs**2))


class Published(Refitted):
    """The same, computed as in the published code."""

    def __init__(self, arms: int, mixture: bool) -> None:
        super().__init__(arms, mixture)
        self.models: dict[tuple[int, int], Any] = {}

    def like(self, other: Refitted) -> Published:
        """Take over the earlier pairs of another object, and fit all models."""
        self.prompts, self.outputs = other.prompts, other.outputs
        self.quality, self.pairs = other.quality, other.pairs
        for arm in range(self.arms):
            self.fit(arm)
        return self

    def fit(self, arm: int) -> None:
        x = np.array(self.prompts[arm])
        targets = [self.quality[arm], *self.pairs[arm]]
        for k, y in enumerate(targets):
            self.models[arm, k] = self.model().fit(x, np.array(y))

    def model(self) -> KernelRidge:
        return KernelRidge(kernel="rbf", alpha=ALPHA, gamma=GAMMA)

    def terms(self, prompt: Array) -> tuple[Array, Array]:
        t = prompt[None, :]
        linear, matrix = np.zeros(self.arms), np.zeros((self.arms, self.arms))
        for arm in range(self.arms):
            x = np.array(self.prompts[arm])
            known = self.model().fit(x, rbf_kernel(x, t, GAMMA).ravel()).predict(t)[0]
            quality = self.models[arm, 0].predict(t)[0]
            linear[arm] = quality + self.eta * math.sqrt(max(1 - known, 0.0))
            for other in range(self.arms):
                matrix[arm, other] = self.models[arm, 1 + other].predict(t)[0]
        return linear, (matrix + matrix.T) / 2

    def choose(self, prompt: Array) -> Array:
        linear, matrix = self.terms(prompt)
        own = np.diag(matrix)
        if self.mixture:
            return self.solve(lambda w: WEIGHT * w @ matrix @ w - linear @ w)
        return self.solve(lambda w: WEIGHT * own @ w - linear @ w)

    def observe(self, arm: int, prompt: Array, output: Array, quality: float) -> None:
        super().observe(arm, prompt, output, quality)
        self.fit(arm)

    def similarity(self, prompt: Array, output: Array, other: int) -> float:
        total = 0.0
        for t, x in zip(self.prompts[other], self.outputs[other], strict=True):
            prompts = rbf_kernel(prompt[None, :], t[None, :], GAMMA).flat[0]
            outputs = rbf_kernel(output[None, :], x[None, :], GAMMA).flat[0]
            total += prompts**2 * outputs**2
        return float(total / len(self.prompts[other]))
