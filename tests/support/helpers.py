"""What several test files need: losses from plain arrays, random worlds, points of the simplex."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genmix.objectives import Objective
from genmix.objectives.pool import Pool
from genmix.solvers.loss import Loss

Matrix = NDArray[np.float64]


def named(values: Mapping[str, Any] | Sequence[Any]) -> dict[str, Any]:
    """A list of one thing per arm as the map from label to thing that genmix takes."""
    if isinstance(values, Mapping):
        return dict(values)
    return {f"arm{i}": value for i, value in enumerate(values)}


def pool_of(objective: Objective, arms: Any, quality: Any = None, cost: Any = None) -> Pool:
    """Samples of every arm in the statistics of the (resolved) objective."""
    extra = [None if values is None else named(values) for values in (quality, cost)]
    return Pool.of(named(arms), objective, *extra)


def loss_of(objective: Objective, arms: Any, quality: Any = None, cost: Any = None) -> Loss:
    """The loss as a function of the weights of all arms."""
    pool = pool_of(objective, arms, quality, cost)
    return pool.tally.loss(range(len(pool.arms)))


def gaussian_arms(
    rng: np.random.Generator, sizes: Iterable[int], dimension: int, spread: float = 1.0
) -> list[Matrix]:
    """Arms with means ``spread`` apart and scales of their own."""
    return [
        spread * rng.standard_normal(dimension)
        + rng.uniform(0.3, 1.5, dimension) * rng.standard_normal((n, dimension))
        for n in sizes
    ]


def orthonormal_blocks(sizes: Sequence[int]) -> list[Matrix]:
    """Arms uniform over disjoint sets of ``sizes`` orthonormal embeddings."""
    return np.split(np.eye(sum(sizes)), np.cumsum(sizes)[:-1])


def simplex_points(rng: np.random.Generator, size: int, count: int) -> Matrix:
    """``count`` mixtures of many concentrations, from near the vertices to near the centre."""
    shapes = 10.0 ** rng.uniform(-2, 1.5, count)
    return np.array([safe_dirichlet(rng, np.full(size, shape)) for shape in shapes])


def safe_dirichlet(rng: np.random.Generator, shape: NDArray[np.float64]) -> Matrix:
    drawn = rng.standard_gamma(shape) + 1e-300
    return drawn / drawn.sum()


def vertices_and_pairs(size: int) -> Matrix:
    """Every vertex and the middle of every edge."""
    corners = np.eye(size)
    first, second = np.triu_indices(size, 1)
    return np.concatenate([corners, (corners[first] + corners[second]) / 2])
