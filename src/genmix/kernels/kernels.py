"""Kernels, their feature maps, bandwidths and sums.

A kernel compares two batches: ``kernel(x, y)`` of ``(n, d)`` and ``(k, d)`` gives ``(n, k)``. One that
has a finite feature map with ``k(x, y) = φ(x)·φ(y)`` lets the statistics run in fixed memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from genmix.core.arrays import Array, like, namespace, to_numpy
from genmix.core.description import Description, Missing, function_name
from genmix.errors import InputError, number, positive, whole
from genmix.kernels.blocks import (
    Blocks,
    GaussianBlocks,
    Grouped,
    NormalisedBlocks,
    PolynomialBlocks,
    sums_between,
    sums_within,
)

BANDWIDTH_POINTS = 2000
"""How many points the median heuristic looks at, over all arms and the reference."""

BLOCK_BYTES = 32 * 2**20
"""Memory that one block of a kernel matrix may take: it fits the cache of a large GPU."""


class Kernel(Description):
    """Base of the kernels; a subclass without a feature map only has to define ``__call__``."""

    unit_diagonal = False
    """Whether ``k(x, x) = 1``, which Vendi and RKE need; any other kernel is normalised for them."""

    def __call__(self, x: Array, y: Array) -> Array:
        return self.feature_map(x) @ self.feature_map(y).mT

    def fix_bandwidths(self, groups: Sequence[Array]) -> Kernel:
        """The kernel with everything that depends on the data fixed; groups are ``(n, d)`` each."""
        return self

    def columns(self, dimension: int) -> int | None:
        """Columns of the feature map for embeddings of this dimension; None: there is no map."""
        return None

    def feature_map(self, x: Array) -> Array:
        """Rows ``φ(x)`` with ``φ(x)·φ(y) = k(x, y)``."""
        raise InputError(f"{self} has no finite feature map: use it as an exact kernel.")

    def diagonal(self, x: Array) -> Array:
        """``k(x_j, x_j)`` for each row."""
        xp = namespace(x)
        if self.unit_diagonal:
            return xp.ones_like(x[:, 0])
        parts = []
        for start in range(0, x.shape[0], 64):
            batch = x[start : start + 64, :]
            # A copy, because a view would keep the whole block.
            parts.append(xp.asarray(xp.linalg.diagonal(self(batch, batch)), copy=True))
        return xp.concat(parts)

    def blocks(self, power: int) -> Blocks:
        """How blocks of ``k(x, y)^power`` are made."""
        return Blocks(self, power)

    def check(self, x: Array, where: str) -> None:
        """Refuse embeddings on which the kernel is not defined."""


@dataclass(frozen=True, eq=False)
class Cosine(Kernel):
    """``k(x, y) = x·y / (‖x‖ ‖y‖)``; the feature map is the unit vector."""

    unit_diagonal = True

    def columns(self, dimension: int) -> int:
        return dimension

    def feature_map(self, x: Array) -> Array:
        return x / norms(x)[:, None]

    def check(self, x: Array, where: str) -> None:
        zero = to_numpy(norms(x)) == 0
        if zero.any():
            raise InputError(
                f"{where}, sample {int(np.argmax(zero))}: the embedding is the zero vector, which has"
                " no direction for a cosine kernel; leave that sample out or use Gaussian()."
            )


@dataclass(frozen=True, eq=False)
class Gaussian(Kernel):
    """``k(x, y) = exp(−‖x−y‖² / 2σ²)``, exactly or through random Fourier features.

    ``bandwidth`` is σ, or ``"median"``: the median pairwise distance of at most 2000 seeded points,
    equal numbers from each arm and from the reference, fixed once when the arms have their warm
    start. ``features=R`` takes R random frequencies ``ω ~ N(0, I/σ²)`` and 2R columns
    ``(cos ωx, sin ωx)/√R``, so that ``k(x, x) = 1`` exactly. Frequencies come from the kernel's own
    ``seed``; a resolved kernel carries them (``frequencies``, for σ = 1) into every state and score.
    """

    bandwidth: float | Literal["median"] = "median"
    features: int | None = None
    seed: int = 0
    frequencies: Array = field(default=None, repr=False)
    unit_diagonal = True

    def __post_init__(self) -> None:
        if isinstance(self.bandwidth, str) and self.bandwidth != "median":
            raise InputError(f'bandwidth is {self.bandwidth!r}: give a number or "median".')
        if self.bandwidth != "median":
            object.__setattr__(self, "bandwidth", positive(self.bandwidth, "bandwidth"))
        if self.features is not None:
            object.__setattr__(self, "features", whole(self.features, "features", 1))
        object.__setattr__(self, "seed", whole(self.seed, "the kernel's seed", 0))

    def fix_bandwidths(self, groups: Sequence[Array]) -> Gaussian:
        sigma = median_distance(groups, self.seed) if self.bandwidth == "median" else self.bandwidth
        omega = self.frequencies
        if self.features is not None and omega is None:
            shape = (int(groups[0].shape[1]), self.features)
            omega = np.random.default_rng(self.seed).standard_normal(shape)
        return replace(self, bandwidth=float(sigma), frequencies=omega)

    def check(self, x: Array, where: str) -> None:
        if self.frequencies is not None and self.frequencies.shape[0] != x.shape[1]:
            raise InputError(
                f"{where}: the embedding has dimension {x.shape[1]} and the kernel's frequencies have "
                f"{self.frequencies.shape[0]}; use a kernel that was not resolved on other samples."
            )

    def __call__(self, x: Array, y: Array) -> Array:
        if self.features is not None:
            return super().__call__(x, y)
        return self.blocks(1).matrix(x, y)

    def blocks(self, power: int) -> Blocks:
        if self.features is not None or type(self).__call__ is not Gaussian.__call__:
            return super().blocks(power)
        return GaussianBlocks(self._sigma, power)

    def columns(self, dimension: int) -> int | None:
        return None if self.features is None else 2 * self.features

    def feature_map(self, x: Array) -> Array:
        if self.features is None:
            return super().feature_map(x)
        xp = namespace(x)
        phase = (x / self._sigma) @ like(self.frequencies, x)
        return xp.concat([xp.cos(phase), xp.sin(phase)], axis=1) / math.sqrt(self.features)

    @property
    def _sigma(self) -> float:
        if self.bandwidth == "median" or (self.features is not None and self.frequencies is None):
            raise InputError(f"{self} waits for samples: resolve it on some first.")
        return float(self.bandwidth)


@dataclass(frozen=True, eq=False)
class Polynomial(Kernel):
    """``k(x, y) = (γ x·y + c)^degree``, KID's usual kernel (γ = 1/d, c = 1); for KernelDistance only."""

    degree: int = 3
    gamma: float | None = None
    coef0: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "degree", whole(self.degree, "degree", 1))
        object.__setattr__(self, "coef0", number(self.coef0, "coef0", 0.0))
        if self.gamma is not None:
            object.__setattr__(self, "gamma", positive(self.gamma, "gamma"))

    def __call__(self, x: Array, y: Array) -> Array:
        return self.blocks(1).matrix(x, y)

    def blocks(self, power: int) -> Blocks:
        return PolynomialBlocks(self.gamma, self.coef0, self.degree * power)

    def diagonal(self, x: Array) -> Array:
        gamma = 1 / x.shape[1] if self.gamma is None else self.gamma
        return (gamma * namespace(x).vecdot(x, x) + self.coef0) ** self.degree


@dataclass(frozen=True, eq=False, repr=False)
class Custom(Kernel):
    """Any function of two batches, ``(n, d)`` and ``(k, d)`` to ``(n, k)``, as an exact kernel."""

    function: Callable[[Any, Any], Any]

    def __repr__(self) -> str:
        return f"Custom({function_name(self.function)})"

    def __call__(self, x: Array, y: Array) -> Array:
        xp = namespace(x)
        block = like(self.function(x, y), x)
        if tuple(block.shape) != (x.shape[0], y.shape[0]):
            raise InputError(
                f"the kernel {function_name(self.function)} gave shape {tuple(block.shape)} for batches of "
                f"{x.shape[0]} and {y.shape[0]}: it must give ({x.shape[0]}, {y.shape[0]})."
            )
        if not bool(xp.all(xp.isfinite(block))):
            raise InputError(
                f"the kernel {function_name(self.function)} gave NaN or infinity: mend it."
            )
        return block

    def check(self, x: Array, where: str) -> None:
        if isinstance(self.function, Missing):  # a state is being read; the function comes later
            return
        if not np.all(np.isfinite(to_numpy(self.diagonal(x)))):
            raise InputError(
                f"{where}: the kernel {function_name(self.function)} gives NaN or infinity for "
                "k(x, x); mend it."
            )


@dataclass(frozen=True, eq=False)
class Normalised(Kernel):
    """``k(x, y) / √(k(x, x) k(y, y))``: any kernel with a unit diagonal."""

    kernel: Kernel
    unit_diagonal = True

    def __call__(self, x: Array, y: Array) -> Array:
        return self.blocks(1).matrix(x, y)

    def blocks(self, power: int) -> Blocks:
        return NormalisedBlocks(self.kernel, power)

    def check(self, x: Array, where: str) -> None:
        self.kernel.check(x, where)
        bad = ~(to_numpy(self.kernel.diagonal(x)) > 0)
        if bad.any():
            raise InputError(
                f"{where}, sample {int(np.argmax(bad))}: k(x, x) is not positive, so the kernel "
                "cannot be normalised; leave that sample out or mend the kernel."
            )


def as_kernel(value: object) -> Kernel:
    """``value`` itself if it is a kernel, else the function of two batches wrapped as one."""
    if isinstance(value, Kernel):
        return value
    if callable(value) and not isinstance(value, type):
        return Custom(value)
    raise InputError(
        f"{value!r} is no kernel: give Gaussian(), Cosine() or a function of two batches."
    )


def with_unit_diagonal(value: object, objective: str) -> Kernel:
    """The kernel that Vendi and RKE work with: ``k(x, x) = 1``."""
    kernel = as_kernel(value)
    if isinstance(kernel, Polynomial):
        raise InputError(
            f"{objective} needs k(x, x) = 1: Polynomial() is for KernelDistance, use Cosine()."
        )
    return kernel if kernel.unit_diagonal else Normalised(kernel)


def norms(x: Array) -> Array:
    xp = namespace(x)
    # The largest entry is taken out first, so that a tiny vector does not underflow to zero.
    largest = xp.max(xp.abs(x), axis=1)
    safe = xp.where(largest > 0, largest, xp.ones_like(largest))
    scaled = x / safe[:, None]
    return largest * xp.sqrt(xp.sum(scaled * scaled, axis=1))


def squared_distances(x: Array, y: Array) -> Array:
    """``‖x−y‖²`` of all pairs by one matrix product; rounding below zero is lifted to zero."""
    xp = namespace(x)
    centre = xp.mean(y, axis=0)  # distances do not change, their cancellation does
    x, y = x - centre, y - centre
    square = xp.sum(x * x, axis=1)[:, None] + xp.sum(y * y, axis=1)[None, :] - 2 * (x @ y.mT)
    return xp.where(square > 0, square, xp.zeros_like(square))


def median_distance(groups: Sequence[Array], seed: int) -> float:
    """The median pairwise distance over equal numbers of seeded points of each group."""
    rng = np.random.default_rng(seed)
    share = min(BANDWIDTH_POINTS // len(groups), *(g.shape[0] for g in groups), BANDWIDTH_POINTS)
    share = max(share, 1)
    picked = [to_numpy(g)[np.sort(rng.permutation(g.shape[0])[:share]), :] for g in groups]
    points = np.concatenate(picked)
    upper = np.triu_indices(len(points), 1)
    distances = np.sqrt(squared_distances(points, points)[upper])
    noise = 1e-7 * math.sqrt(float(np.max(np.sum((points - points.mean(0)) ** 2, axis=1))))
    distances = np.where(distances > noise, distances, 0.0)
    middle = float(np.median(distances)) if distances.size else 0.0
    if middle == 0 and (distances > 0).any():
        middle = float(np.median(distances[distances > 0]))
    if middle == 0:
        raise InputError(
            f"the median bandwidth is 0 over {len(points)} points, all of them alike: "
            "give a number, such as Gaussian(bandwidth=1.0)."
        )
    return middle


def kernel_sum(
    kernel: Kernel, x: Array, y: Array, power: int = 1, block_bytes: int = BLOCK_BYTES
) -> float:
    """``Σ_ab k(x_a, y_b)^power`` in blocks of bounded memory; half the work if y is x."""
    blocks = kernel.blocks(power)
    centre = blocks.centre(y)
    right = Grouped(blocks.rows(y, centre))
    if x is y:
        return float(sums_within(blocks, right, 0, block_bytes)[0, 0])
    left = Grouped(blocks.rows(x, centre))
    return float(sums_between(blocks, left, right, block_bytes)[0, 0])
