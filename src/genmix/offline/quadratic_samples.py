"""Quadratic losses of weighted samples: kernel distances and RKE.

    L(w) = a wᵀKw + linear·w + constant,   K_jl = k(x_j, x_l)^power

On subsets of k samples, ``w_j² = w_j/k``. The loss of every subset therefore stays the same if ``δ`` is
subtracted from the diagonal of K and ``a δ/k`` is added to the constant. With δ the smallest eigenvalue of K,
the relaxation stays convex, and its bound becomes tighter.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from genmix.core.arrays import Array, Vector, like, namespace, to_numpy
from genmix.data.streamed_rows import per_row, sum_of_blocks
from genmix.errors import InputError
from genmix.kernels.kernels import Kernel
from genmix.offline.spectral_samples import noticeable
from genmix.solvers.loss import EPS
from genmix.solvers.sample_loss import Moment, SampleExpansion, SampleLoss
from genmix.solvers.subsets import Indices

DENSE_LIMIT = 2000
"""Largest number of samples whose kernel matrix is stored and shifted."""

BLOCK = 2048
"""Number of rows in one block of kernel values."""

PROBE = 1000
"""Number of samples from which the number of directions is estimated."""


class QuadraticSamples(SampleLoss):
    """A quadratic loss; subclasses multiply the kernel matrix by weights."""

    factor: float
    linear: Vector
    constant: float
    diagonal: Vector
    """The diagonal of K."""

    def kernel_product(self, weights: Vector, rows: Indices | None) -> Any:
        """Return the statistic that represents ``K w``, with one weight per row."""
        raise NotImplementedError

    def kernel_values(self, statistic: Any) -> Vector:
        """Return ``K w``, ``(N,)``."""
        raise NotImplementedError

    def inner(self, one: Moment, other: Moment) -> float:
        """Return ``wᵀKv`` for the moments of w and v."""
        raise NotImplementedError

    def moment(self, weights: Vector, rows: Indices | None = None) -> Moment:
        every = weights
        if rows is not None:
            every = np.zeros(self.size)
            np.add.at(every, rows, weights)
        linear = float(weights @ (self.linear if rows is None else self.linear[rows]))
        return [every, self.kernel_product(weights, rows), linear]

    def value(self, at: Moment) -> float:
        return float(self.factor * self.inner(at, at) + at[2] + self.constant)

    def expand(self, at: Moment, smoothing: float = 0.0, floor: float = 0.0) -> SampleExpansion:
        square = self.inner(at, at)
        products = self.kernel_values(at[1])
        plane = 2 * self.factor * products + self.linear - self.factor * square + self.constant
        size = float(np.max(np.abs(products)) + np.max(np.abs(self.linear))) + abs(self.constant)
        return SampleExpansion(
            value=float(self.factor * square + at[2] + self.constant),
            plane=plane,
            curvature=lambda direction: 2 * self.factor * self.inner(direction, direction),
            noise=32 * EPS * size,
        )

    def after_adding(self, at: Moment, weight: float, candidates: Indices) -> Vector:
        products = self.kernel_values(at[1])[candidates]
        square = self.inner(at, at) + weight * (2 * products + weight * self.diagonal[candidates])
        values: Vector = (
            self.factor * square + at[2] + weight * self.linear[candidates] + self.constant
        )
        return values


class DenseQuadraticSamples(QuadraticSamples):
    """A quadratic loss with a stored kernel matrix, whose diagonal is shifted."""

    def __init__(
        self, matrix: Array, linear: Vector, constant: float, factor: float, count: int
    ) -> None:
        kernel: Any = np.array(to_numpy(matrix))
        kernel = (kernel + kernel.T) / 2
        spectrum = _semidefinite(np.linalg.eigvalsh(kernel))
        self.size = len(kernel)
        self.directions = noticeable(spectrum)
        shift = max(float(spectrum[0]) - 8 * self.size * EPS * float(spectrum[-1]), 0.0)
        kernel[np.diag_indices(self.size)] -= shift
        self.kernel, self.diagonal = kernel, np.diag(kernel).copy()
        self.factor, self.linear = factor, linear
        self.constant = constant + factor * shift / count
        self.work = self.evaluation_work = 2.0 * self.size**2 + 1e4

    def kernel_product(self, weights: Vector, rows: Indices | None) -> Any:
        return self.kernel @ weights if rows is None else self.kernel[:, rows] @ weights

    def kernel_values(self, statistic: Any) -> Vector:
        return np.asarray(statistic)

    def inner(self, one: Moment, other: Moment) -> float:
        return float(one[0] @ other[1])


class BlockQuadraticSamples(QuadraticSamples):
    """A quadratic loss of any kernel, whose values are recomputed in blocks of bounded memory."""

    def __init__(
        self,
        kernel: Kernel,
        power: int,
        points: Array,
        linear: Vector,
        constant: float,
        factor: float,
    ) -> None:
        self.blocks, self.points = kernel.blocks(power), points
        self.factor, self.linear, self.constant = factor, linear, constant
        self.size = int(points.shape[0])
        self.diagonal = np.asarray(to_numpy(kernel.diagonal(points) ** power))
        some = points[:: max(1, self.size // PROBE), :]
        probed: Any = to_numpy(self.blocks.matrix(some, some))
        self.directions = noticeable(_semidefinite(np.linalg.eigvalsh((probed + probed.T) / 2)))
        self.work = self.evaluation_work = 2.0 * self.size**2 * int(points.shape[1])

    def kernel_product(self, weights: Vector, rows: Indices | None) -> Any:
        points = self.points
        if rows is not None:
            points = namespace(points).take(
                points, namespace(points).asarray(rows, device=points.device), axis=0
            )
        return weighted_kernel(self.blocks, self.points, points, weights)

    def kernel_values(self, statistic: Any) -> Vector:
        return np.asarray(statistic)

    def inner(self, one: Moment, other: Moment) -> float:
        return float(one[0] @ other[1])


class FeatureQuadraticSamples(QuadraticSamples):
    """A quadratic loss of a kernel with a feature map: ``wᵀKw = ‖Σ w_j φ(x_j)‖²``."""

    def __init__(self, features: Array, linear: Vector, constant: float, factor: float) -> None:
        xp = namespace(features)
        self.features = features
        self.factor, self.linear, self.constant = factor, linear, constant
        self.size = int(features.shape[0])
        self.diagonal = per_row(features, lambda block: xp.vecdot(block, block))
        covariance = sum_of_blocks(features, lambda _, block: block.mT @ block) / self.size
        self.directions = noticeable(to_numpy(xp.linalg.eigvalsh(covariance)))
        self.work = self.evaluation_work = 2.0 * self.size * int(features.shape[1])

    def kernel_product(self, weights: Vector, rows: Indices | None) -> Any:
        every = like(weights, self.features)
        return sum_of_blocks(self.features, lambda part, block: every[part] @ block, rows)

    def kernel_values(self, statistic: Any) -> Vector:
        return per_row(self.features, lambda block: block @ statistic)

    def inner(self, one: Moment, other: Moment) -> float:
        return float(namespace(one[1]).sum(one[1] * other[1]))


def _semidefinite(spectrum: Vector) -> Vector:
    """Return the eigenvalues of a kernel matrix if none of them is negative."""
    if spectrum[0] < -1e-7 * abs(spectrum[-1]):
        raise InputError(
            "the kernel is not positive semidefinite on these samples, so the loss is not "
            "convex; use a positive semidefinite kernel."
        )
    return spectrum


def weighted_kernel(blocks: Any, x: Array, y: Array, weights: Vector) -> Vector:
    """Return ``Σ_b k(x_a, y_b)^power weights_b`` for every row of x, in blocks of bounded memory."""
    total: Any = 0.0
    for start in range(0, y.shape[0], BLOCK):
        some = y[start : start + BLOCK, :]
        column = like(weights[start : start + BLOCK], x)
        parts = [
            to_numpy(blocks.matrix(x[row : row + BLOCK, :], some) @ column)
            for row in range(0, x.shape[0], BLOCK)
        ]
        total = total + np.concatenate(parts)
    return np.asarray(total)
