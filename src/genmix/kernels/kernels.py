"""Kernels and their feature maps.

A kernel compares two batches: ``kernel(x, y)`` with ``(n, d)`` and ``(k, d)`` returns ``(n, k)``. If it has
a finite feature map with ``k(x, y) = φ(x)·φ(y)``, the statistics need only fixed memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from genmix.core.arrays import SMALLEST_SPREAD, Array, divide, like, namespace, to_numpy
from genmix.core.description import Description, Missing, function_name
from genmix.core.streams import private_stream
from genmix.errors import InputError, number, positive, whole
from genmix.kernels.blocks import EPS, Blocks, GaussianBlocks, NormalizedBlocks, PolynomialBlocks
from genmix.kernels.distances import median_distance, norms


class Kernel(Description):
    """Base class for kernels.

    Subclass it to write your own kernel. Without a feature map, define only ``__call__``; any function of two
    batches works as well.

    Examples
    --------
    >>> import numpy as np
    >>> import genmix as gx
    >>> class Laplace(gx.Kernel):
    ...     unit_diagonal = True
    ...     def __call__(self, x, y):
    ...         return np.exp(-np.abs(x[:, None] - y[None]).sum(-1))
    >>> samples = np.array([[0.0], [0.0], [10.0], [10.0], [20.0], [20.0]])
    >>> print(f"{gx.score({'a': samples}, gx.Vendi(kernel=Laplace())).pooled['vendi']:.2f}")
    3.00
    """

    unit_diagonal = False
    """Whether ``k(x, x) = 1``. Vendi and RKE require this and normalize any other kernel."""

    def __call__(self, x: Array, y: Array) -> Array:
        """Compute the kernel matrix for two batches.

        Parameters
        ----------
        x : array of shape (n, d)
        y : array of shape (k, d)

        Returns
        -------
        array of shape (n, k)
        """
        return self.feature_map(x) @ self.feature_map(y).mT

    def fix_bandwidths(self, groups: Sequence[Array]) -> Kernel:
        """Return the kernel with all data-dependent parameters fixed, given groups of shape ``(n, d)``."""
        return self

    def columns(self, dimension: int) -> int | None:
        """Return the number of columns of the feature map for this dimension; None if there is no map."""
        return None

    def feature_map(self, x: Array) -> Array:
        """Compute rows ``φ(x)`` with ``φ(x)·φ(y) = k(x, y)``."""
        raise InputError(f"{self} has no finite feature map; use it as an exact kernel.")

    def feature_map_into(self, buffer: Array | None, x: Array) -> Array:
        """Compute the same rows, in a buffer with the shape of x if the kernel :attr:`maps_in_place`."""
        return self.feature_map(x)

    @property
    def maps_in_place(self) -> bool:
        """Whether :meth:`feature_map_into` uses the buffer and little other memory."""
        return False

    def diagonal(self, x: Array) -> Array:
        """Compute ``k(x_j, x_j)`` for each row."""
        xp = namespace(x)
        if self.unit_diagonal:
            return xp.ones_like(x[:, 0])
        parts = []
        for start in range(0, x.shape[0], 64):
            batch = x[start : start + 64, :]
            # Copy, because a view would keep the whole block in memory.
            parts.append(xp.asarray(xp.linalg.diagonal(self(batch, batch)), copy=True))
        return xp.concat(parts)

    def blocks(self, power: int) -> Blocks:
        """Return the object that computes blocks of ``k(x, y)^power``."""
        return Blocks(self, power)

    def rounding(self, x: Array) -> float:
        """Return a bound on the rounding error of the kernel's values on these rows."""
        return 4 * EPS

    def check(self, x: Array, where: str) -> None:
        """Raise an error for embeddings on which the kernel is not defined."""


@dataclass(frozen=True, eq=False)
class Cosine(Kernel):
    """The cosine kernel ``k(x, y) = x·y / (‖x‖ ‖y‖)``.

    Its feature map is ``x / ‖x‖``.

    Examples
    --------
    >>> import numpy as np
    >>> import genmix as gx
    >>> gx.Cosine()(np.array([[2.0, 0.0]]), np.array([[3.0, 0.0], [0.0, 1.0]]))
    array([[1., 0.]])
    """

    unit_diagonal = True

    def columns(self, dimension: int) -> int:
        return dimension

    def feature_map(self, x: Array) -> Array:
        return x / norms(x)[:, None]

    def feature_map_into(self, buffer: Array | None, x: Array) -> Array:
        if not self.maps_in_place:
            return self.feature_map(x)
        return divide(x, norms(x)[:, None], buffer)

    @property
    def maps_in_place(self) -> bool:
        return type(self).feature_map is Cosine.feature_map  # not a subclass with another map

    def check(self, x: Array, where: str) -> None:
        xp = namespace(x)
        rows, compared = xp.nonzero(x[:, 0] == 0)[0], 1
        while (
            rows.shape[0] and compared < x.shape[1]
        ):  # for most rows, only a few entries need to be compared
            rows = rows[~xp.any(x[rows, compared : 2 * compared] != 0, axis=1)]
            compared *= 2
        if rows.shape[0]:
            raise InputError(
                f"{where}, sample {int(rows[0])}: the embedding is the zero vector, so it "
                "has no direction for a cosine kernel; leave that sample out or use Gaussian()."
            )


@dataclass(frozen=True, eq=False)
class Gaussian(Kernel):
    """The Gaussian kernel ``k(x, y) = exp(−‖x − y‖² / 2σ²)``, exact or with random Fourier features.

    With ``features=R`` the kernel is approximated by R random frequencies ``ω ~ N(0, I/σ²)``, which yield the
    2R columns ``(cos ωx, sin ωx)/√R``, so ``k(x, x) = 1`` exactly [1]_.

    Parameters
    ----------
    bandwidth : float or "median", default "median"
        The bandwidth σ. ``"median"`` is the median pairwise distance between at most 2000 random points, the
        same number from each arm and from the reference. It is fixed once every arm has completed its warm
        start.
    features : int, optional
        Number of random frequencies; the kernel is exact by default.
    seed : int, default 0
        Seed for the frequencies and for the points used to compute the median.
    frequencies : array of shape (d, features), optional
        The frequencies for σ = 1. They are drawn when the bandwidth is fixed and are part of every saved
        state; do not pass them yourself.

    References
    ----------
    .. [1] A. Rahimi and B. Recht, "Random features for large-scale kernel machines", NIPS 2007.

    Examples
    --------
    >>> import numpy as np
    >>> import genmix as gx
    >>> kernel = gx.Gaussian(bandwidth=2.0)
    >>> kernel(np.array([[0.0, 0.0]]), np.array([[0.0, 0.0], [2.0, 0.0]])).round(4)
    array([[1.    , 0.6065]])
    """

    bandwidth: float | Literal["median"] = "median"
    features: int | None = None
    seed: int = 0
    frequencies: Array = field(default=None, repr=False)
    unit_diagonal = True

    def __post_init__(self) -> None:
        if isinstance(self.bandwidth, str) and self.bandwidth != "median":
            raise InputError(f'bandwidth is {self.bandwidth!r}; pass a number or "median".')
        if self.bandwidth != "median":
            object.__setattr__(self, "bandwidth", positive(self.bandwidth, "bandwidth"))
            if not SMALLEST_SPREAD <= float(self.bandwidth) <= 1 / SMALLEST_SPREAD:
                raise InputError(
                    f"bandwidth is {self.bandwidth:g}; pass a number between {SMALLEST_SPREAD:g} and "
                    f"{1 / SMALLEST_SPREAD:g}."
                )
        if self.features is not None:
            object.__setattr__(self, "features", whole(self.features, "features", 1))
        object.__setattr__(self, "seed", whole(self.seed, "the kernel's seed", 0))

    def fix_bandwidths(self, groups: Sequence[Array]) -> Gaussian:
        sigma = median_distance(groups, self.seed) if self.bandwidth == "median" else self.bandwidth
        omega = self.frequencies
        if self.features is not None and omega is None:
            shape = (int(groups[0].shape[1]), self.features)
            omega = private_stream(self.seed, "frequencies").standard_normal(shape)
        return replace(self, bandwidth=float(sigma), frequencies=omega)

    def check(self, x: Array, where: str) -> None:
        if self.frequencies is not None and self.frequencies.shape[0] != x.shape[1]:
            raise InputError(
                f"{where}: the embedding has dimension {x.shape[1]} but the kernel's frequencies "
                f"have {self.frequencies.shape[0]}; use a kernel that was not fixed on other samples."
            )

    def __call__(self, x: Array, y: Array) -> Array:
        if self.features is not None:
            return super().__call__(x, y)
        return self.blocks(1).matrix(x, y)

    def blocks(self, power: int) -> Blocks:
        if self.features is not None or type(self).__call__ is not Gaussian.__call__:
            return super().blocks(power)
        return GaussianBlocks(self._sigma, power)

    def rounding(self, x: Array) -> float:
        if self.features is not None:
            return super().rounding(x)
        return super().rounding(x) + GaussianBlocks(self._sigma, 1).rounding(x)

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
            raise InputError(
                f"{self} depends on samples; fix its bandwidth first, e.g. Gaussian(bandwidth=1.0)."
            )
        return float(self.bandwidth)


@dataclass(frozen=True, eq=False)
class Polynomial(Kernel):
    """The polynomial kernel ``k(x, y) = (γ x·y + c)^degree``, for :class:`KernelDistance` only.

    With the default parameters it is the standard KID kernel [1]_.

    Parameters
    ----------
    degree : int, default 3
        The degree.
    gamma : float, optional
        The factor γ; ``1/d`` by default.
    coef0 : float, default 1.0
        The constant c.

    References
    ----------
    .. [1] M. Bińkowski, D. J. Sutherland, M. Arbel and A. Gretton, "Demystifying MMD GANs", ICLR 2018.

    Examples
    --------
    >>> import numpy as np
    >>> import genmix as gx
    >>> gx.Polynomial()(np.array([[1.0, 1.0]]), np.array([[1.0, 1.0]]))
    array([[8.]])
    """

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
    """Any function from two batches, ``(n, d)`` and ``(k, d)``, to ``(n, k)``, as an exact kernel."""

    function: Callable[[Any, Any], Any]

    def __repr__(self) -> str:
        return f"Custom({function_name(self.function)})"

    def __call__(self, x: Array, y: Array) -> Array:
        xp = namespace(x)
        block = like(self.function(x, y), x)
        if tuple(block.shape) != (x.shape[0], y.shape[0]):
            raise InputError(
                f"the kernel {function_name(self.function)} returned shape {tuple(block.shape)} for batches "
                f"of {x.shape[0]} and {y.shape[0]}; fix it to return ({x.shape[0]}, {y.shape[0]})."
            )
        if not bool(xp.all(xp.isfinite(block))):
            raise InputError(
                f"the kernel {function_name(self.function)} returned NaN or infinity; fix the function."
            )
        return block

    def check(self, x: Array, where: str) -> None:
        if isinstance(
            self.function, Missing
        ):  # a state is being loaded, and the function is set later
            return
        if not np.all(np.isfinite(to_numpy(self.diagonal(x)))):
            raise InputError(
                f"{where}: the kernel {function_name(self.function)} returns NaN or infinity for "
                "k(x, x); fix the function."
            )


@dataclass(frozen=True, eq=False)
class Normalised(Kernel):  # spelled as in saved states
    """``k(x, y) / √(k(x, x) k(y, y))``: any kernel, scaled to a unit diagonal."""

    kernel: Kernel
    unit_diagonal = True

    def __call__(self, x: Array, y: Array) -> Array:
        return self.blocks(1).matrix(x, y)

    def blocks(self, power: int) -> Blocks:
        return NormalizedBlocks(self.kernel, power)

    def check(self, x: Array, where: str) -> None:
        self.kernel.check(x, where)
        bad = ~(to_numpy(self.kernel.diagonal(x)) > 0)
        if bad.any():
            raise InputError(
                f"{where}, sample {int(np.argmax(bad))}: k(x, x) is not positive, so the kernel "
                "cannot be normalized; leave that sample out or fix the kernel."
            )


def as_kernel(value: object) -> Kernel:
    """Return ``value`` if it is a kernel, or wrap a function of two batches as a kernel."""
    if isinstance(value, Kernel):
        return value
    if callable(value) and not isinstance(value, type):
        return Custom(value)
    raise InputError(
        f"{value!r} is not a kernel; pass Gaussian(), Cosine() or a function of two batches."
    )


def with_unit_diagonal(value: object, objective: str) -> Kernel:
    """Return the kernel, normalized if necessary so that ``k(x, x) = 1``."""
    kernel = as_kernel(value)
    if isinstance(kernel, Polynomial):
        raise InputError(
            f"{objective} does not support Polynomial(), which is for KernelDistance only; use Cosine()."
        )
    return kernel if kernel.unit_diagonal else Normalised(kernel)
