"""The paper's procedure: exponentiated gradient with one eigendecomposition per step, many steps per round.

Each sample is a rank-one update of the moments. They are stored in the form that the steps need: for the
Fréchet distance as ``Fᵀ S_i F`` with ``F Fᵀ = Σ_0``, so that nothing has to be formed in a round.
A step mixes the m matrices, computes one symmetric eigendecomposition, forms the matrix function as one
product of a matrix with its own transpose, and takes m inner products with it, all in place.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from bench.timing import median_seconds

Array = NDArray[np.float64]
Eigh = Callable[[Array], tuple[Array, Array]]

STEPS = 1000
"""Steps per round, as in the paper."""

FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Step sizes to try, in units of the inverse spread of the first gradient."""

EIGHS: dict[str, Eigh] = {
    "numpy": np.linalg.eigh,
    "scipy evd": partial(scipy.linalg.eigh, driver="evd", check_finite=False),
    "scipy evr": partial(scipy.linalg.eigh, driver="evr", check_finite=False),
}


class Problem(Protocol):
    """A loss of m arms and its gradient."""

    arms: int

    def expand(self, alpha: Array) -> tuple[float, Array]: ...


class Statistics(Problem, Protocol):
    """A loss that is updated with each sample."""

    def add(self, arm: int, rows: Array) -> None: ...


class Moments:
    """Sums of ``x`` and ``x xᵀ`` for every arm, and buffers for one mixture of them."""

    def __init__(self, arms: int, columns: int, eigh: Eigh = EIGHS["numpy"]) -> None:
        self.arms = arms
        self.counts = np.zeros(arms)
        self.first = np.zeros((arms, columns))
        self.second = np.zeros((arms, columns, columns))
        self._eigh = eigh
        self._mixed = np.empty((columns, columns))
        self._function = np.empty((columns, columns))

    def take(self, arm: int, rows: Array) -> None:
        self.counts[arm] += len(rows)
        self.first[arm] += rows.sum(axis=0)
        self.second[arm] += np.dot(rows.T, rows, out=self._mixed)

    def mix(self, alpha: Array) -> Array:
        flat = self.second.reshape(self.arms, -1)
        np.dot(alpha / self.counts, flat, out=self._mixed.reshape(-1))
        return self._mixed

    def decompose(self, matrix: Array) -> tuple[Array, Array]:
        """Eigenvalues, bounded below by the rounding level, and eigenvectors."""
        values, basis = self._eigh(matrix)
        floor = max(len(values) * np.finfo(float).eps * values[-1], 1e-300)
        return np.maximum(values, floor), basis

    def function(self, basis: Array, values: Array) -> Array:
        """``U diag(values) Uᵀ`` for positive values, by one product; overwrites ``basis``."""
        basis *= np.sqrt(values)
        return np.dot(basis, basis.T, out=self._function)

    def inner(self, matrix: Array) -> Array:
        """``⟨matrix, E x xᵀ⟩`` for every arm."""
        products: Array = self.second.reshape(self.arms, -1) @ matrix.reshape(-1)
        return products / self.counts


class Frechet(Moments):
    """``‖μ_α−μ_0‖² + Tr Σ_α + Tr Σ_0 − 2 Tr (FᵀΣ_αF)^½`` on moments of ``Fᵀ(x − μ_0)``."""

    def __init__(
        self, arms: int, mean: Array, covariance: Array, eigh: Eigh = EIGHS["numpy"]
    ) -> None:
        values, basis = np.linalg.eigh(covariance)
        held = values > len(values) * np.finfo(float).eps * values[-1]
        super().__init__(arms, int(held.sum()), eigh)
        self._mean, self._factor = mean, basis[:, held] * np.sqrt(values[held])
        self._trace = float(values[held].sum())
        self._squares = np.zeros(arms)

    def add(self, arm: int, rows: Array) -> None:
        about = rows - self._mean
        self._squares[arm] += np.vdot(about, about)
        self.take(arm, about @ self._factor)

    def expand(self, alpha: Array) -> tuple[float, Array]:
        means = self.first / self.counts[:, None]
        mean = alpha @ means
        mixed = self.mix(alpha)
        mixed -= np.outer(mean, mean)
        values, basis = self.decompose(mixed)
        roots = np.sqrt(values)
        inverse_root = self.function(basis, 1 / roots)
        linear = self._squares / self.counts
        value = float(linear @ alpha) + self._trace - 2 * float(roots.sum())
        return value, linear - self.inner(inverse_root) + 2 * means @ (inverse_root @ mean)


class Vendi(Moments):
    """``Tr C log C`` on second moments of unit vectors: the form for more samples than columns."""

    def add(self, arm: int, rows: Array) -> None:
        self.take(arm, rows / np.linalg.norm(rows, axis=1)[:, None])

    def expand(self, alpha: Array) -> tuple[float, Array]:
        values, basis = self.decompose(self.mix(alpha))
        logs = np.log(values)
        value = float(values @ logs)
        # The trace is 1, so no eigenvalue exceeds 1 and −log C is positive.
        return value, 1 - self.inner(self.function(basis, np.maximum(-logs, 0.0)))


class VendiGram:
    """The same with the kernel matrix of the samples: the paper's form for fewer samples than columns."""

    def __init__(self, arms: int, columns: int, most: int, eigh: Eigh = EIGHS["numpy"]) -> None:
        self.arms = arms
        self.counts = np.zeros(arms)
        self._rows, self._gram = np.empty((most, columns)), np.empty((most, most))
        self._arm = np.empty(most, dtype=np.int64)
        self._eigh = eigh

    def add(self, arm: int, rows: Array) -> None:
        have = int(self.counts.sum())
        now = have + len(rows)
        self._rows[have:now] = rows / np.linalg.norm(rows, axis=1)[:, None]
        self._gram[have:now, :now] = self._rows[have:now] @ self._rows[:now].T
        self._gram[:have, have:now] = self._gram[have:now, :have].T
        self._arm[have:now] = arm
        self.counts[arm] += len(rows)

    def expand(self, alpha: Array) -> tuple[float, Array]:
        now = int(self.counts.sum())
        arm = self._arm[:now]
        roots = np.sqrt((alpha / self.counts)[arm])
        values, basis = self._eigh(roots[:, None] * self._gram[:now, :now] * roots)
        values = np.maximum(values, now * np.finfo(float).eps * values[-1])
        logs = np.log(values)
        # ⟨log ρ + I, ∂ρ/∂q_j⟩ = ((log ρ + I) ρ)_jj / q_j, so only the diagonal is needed.
        diagonal = np.square(basis, out=basis) @ (values * (logs + 1))
        return float(values @ logs), np.bincount(arm, diagonal, self.arms) / alpha


class Quadratic:
    """``αᵀKα − 2 b·α + c``, whose gradient is explicit."""

    def __init__(self, matrix: Array, linear: Array, constant: float) -> None:
        self.arms = len(linear)
        self._matrix, self._linear, self._constant = matrix, linear, constant

    def expand(self, alpha: Array) -> tuple[float, Array]:
        half = self._matrix @ alpha - self._linear
        return float((half - self._linear) @ alpha) + self._constant, 2 * half


def descend(problem: Problem, alpha: Array, step: float, steps: int) -> tuple[Array, list[float]]:
    """``α_i ← α_i exp(−step·g_i) / Σ``, ``steps`` times; the mixture, and the gap before each step."""
    logs, gaps = np.log(alpha), []
    for _ in range(steps):
        slope = problem.expand(alpha)[1]
        gaps.append(float(slope @ alpha - slope.min()))
        logs -= step * slope
        logs -= logs.max()
        np.maximum(logs, -300, out=logs)  # no weight vanishes permanently
        alpha = np.exp(logs)
        alpha /= alpha.sum()
    return alpha, gaps


def tuned_step(problem: Problem, steps: int, factors: tuple[float, ...] = FACTORS) -> float:
    """The step size with the smallest loss after ``steps`` steps from the uniform mixture."""
    alpha = uniform(problem)
    unit = 1 / float(np.ptp(problem.expand(alpha)[1]))
    tried = [factor * unit for factor in factors]
    reached = [problem.expand(descend(problem, alpha, step, steps)[0])[0] for step in tried]
    return tried[int(np.argmin(reached))]


def steps_until(gaps: list[float], gap: float) -> int | None:
    """The number of steps after which the gap was at most ``gap``, or None."""
    return next((step for step, reached in enumerate(gaps) if reached <= gap), None)


def uniform(problem: Problem) -> Array:
    return np.full(problem.arms, 1 / problem.arms)


def fastest_eigh(columns: int, repeats: int = 2) -> tuple[str, dict[str, float]]:
    """The fastest eigendecomposition on this machine, and the seconds of all."""
    rows = np.random.default_rng(0).standard_normal((2 * columns, columns))
    matrix = rows.T @ rows / len(rows)
    taken = {name: median_seconds(repeats, eigh, matrix) for name, eigh in EIGHS.items()}
    return min(taken, key=taken.__getitem__), taken
