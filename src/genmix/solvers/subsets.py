"""The feasible subsets: k of N samples, with minimum and maximum counts for disjoint groups.

As weights, the subsets are the vertices of the polytope

    { 0 ≤ w_j ≤ 1/k,  Σ_j w_j = 1,  low_g ≤ k Σ_{j∈g} w_j ≤ high_g for every group g }

so the minimum of a linear function over the polytope is attained by a subset, which sorting finds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genmix.core.arrays import Vector

Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Groups:
    """Disjoint groups of samples, with bounds on how many samples of each are chosen."""

    labels: Indices
    """The group of each sample, ``(N,)``."""
    low: Indices
    """The minimum count of each group, ``(g,)``."""
    high: Indices
    """The maximum count of each group, ``(g,)``."""

    def counts(self, indices: Indices) -> Indices:
        """Return the number of these samples in each group."""
        return np.bincount(self.labels[indices], minlength=len(self.low))


@dataclass(frozen=True, eq=False)
class Subsets:
    """All subsets of ``count`` out of ``size`` samples that satisfy the counts of the groups."""

    size: int
    count: int
    groups: Groups | None = None

    def best(self, costs: Vector) -> Indices:
        """Return the subset with the smallest sum of costs, in ascending order of the indices."""
        groups = self.groups
        if groups is None:
            if self.count == self.size:
                return np.arange(self.size)
            return np.sort(np.argpartition(costs, self.count - 1)[: self.count])
        ranks = _ranks(costs, groups.labels)
        required = ranks < groups.low[groups.labels]
        optional = np.flatnonzero(~required & (ranks < groups.high[groups.labels]))
        more = self.count - int(required.sum())
        chosen = optional[np.argsort(costs[optional], kind="stable")[:more]]
        return np.sort(np.concatenate([np.flatnonzero(required), chosen]))

    def minimum(self, costs: Vector) -> float:
        """Return the smallest mean cost of a subset."""
        if self.groups is None:
            return float(np.mean(np.partition(costs, self.count - 1)[: self.count]))
        return float(np.mean(costs[self.best(costs)]))

    @cached_property
    def center(self) -> Vector:
        """Weights inside the polytope, as even as the counts of the groups allow."""
        if self.groups is None:
            return np.full(self.size, 1 / self.size)
        sizes = np.bincount(self.groups.labels)
        low, high = 0.0, float(self.size)
        for _ in range(200):  # bisection on a factor, with which the counts increase
            middle = (low + high) / 2
            counts = np.clip(middle * sizes, self.groups.low, self.groups.high)
            low, high = (middle, high) if counts.sum() < self.count else (low, middle)
        counts = np.clip(high * sizes, self.groups.low, self.groups.high)
        return np.asarray((counts / (self.count * sizes))[self.groups.labels])

    def contains(self, indices: Indices) -> bool:
        """Return whether a set of the right size satisfies the counts of the groups."""
        if self.groups is None:
            return True
        counts = self.groups.counts(indices)
        return bool(np.all((self.groups.low <= counts) & (counts <= self.groups.high)))

    def sample(self, rng: np.random.Generator) -> Indices:
        """Return a random subset."""
        return self.best(rng.random(self.size))

    def exchanges(self, inside: Indices, costs: Vector) -> tuple[Indices, Indices]:
        """Return pairs of samples to remove and to add, by decreasing improvement of the costs.

        Together the pairs turn ``inside`` into the best subset. Applying only some of them results in a
        feasible subset as well: a pair stays in its group, or moves from a group whose count decreases to
        one whose count increases.
        """
        target = self.best(costs)
        out, new = np.setdiff1d(inside, target), np.setdiff1d(target, inside)
        out = out[np.argsort(-costs[out], kind="stable")]
        new = new[np.argsort(costs[new], kind="stable")]
        if self.groups is not None:
            out, new = _paired_by_group(out, new, self.groups.labels)
        order = np.argsort(costs[new] - costs[out], kind="stable")
        return out[order], new[order]

    def can_exchange(self, inside: Indices, out: int) -> NDArray[np.bool_]:
        """Return which samples ``(N,)`` can replace the member ``out``."""
        allowed = np.ones(self.size, dtype=bool)
        groups = self.groups
        if groups is not None:
            counts, own = groups.counts(inside), groups.labels[out]
            grows = (counts < groups.high) & (counts[own] > groups.low[own])
            allowed = grows[groups.labels] | (groups.labels == own)
        allowed[inside] = False
        return allowed

    def can_add(self, chosen: Indices) -> NDArray[np.bool_]:
        """Return which samples ``(N,)`` can be added to a part of a subset."""
        allowed = np.ones(self.size, dtype=bool)
        groups = self.groups
        if groups is not None:
            counts = groups.counts(chosen)
            missing = np.maximum(groups.low - counts, 0)
            only_required = self.count - len(chosen) <= missing.sum()
            allowed = (missing > 0 if only_required else counts < groups.high)[groups.labels]
        allowed[chosen] = False
        return allowed


def _ranks(costs: Any, labels: Indices) -> Indices:
    """Return the rank of each sample among the samples of its group, by cost."""
    order = np.lexsort((costs, labels))
    sizes = np.bincount(labels)
    starts = np.cumsum(sizes) - sizes
    ranks = np.empty(len(costs), dtype=np.int64)
    ranks[order] = np.arange(len(costs)) - starts[labels[order]]
    return ranks


def _paired_by_group(out: Indices, new: Indices, labels: Indices) -> tuple[Indices, Indices]:
    """Reorder two lists, sorted by preference, so that as many pairs as possible stay in one group."""
    mine, theirs = (
        _ranks(np.arange(len(out)), labels[out]),
        _ranks(np.arange(len(new)), labels[new]),
    )
    groups = int(labels.max()) + 1
    both = np.minimum(
        np.bincount(labels[out], minlength=groups), np.bincount(labels[new], minlength=groups)
    )
    stays, arrives = mine < both[labels[out]], theirs < both[labels[new]]
    first = np.lexsort((mine[stays], labels[out][stays]))
    second = np.lexsort((theirs[arrives], labels[new][arrives]))
    return (
        np.concatenate([out[stays][first], out[~stays]]),
        np.concatenate([new[arrives][second], new[~arrives]]),
    )
