"""Improve a subset by exchanging samples: in blocks by the gradient, and exactly where that is affordable."""

from __future__ import annotations

import numpy as np

from genmix.core.arrays import Vector
from genmix.solvers.sample_loss import Moment, SampleLoss, combine
from genmix.solvers.subset import Search
from genmix.solvers.subsets import Indices

FLOOR = 1e-4
"""Level to which small eigenvalues are lifted when samples outside of a set are ranked."""

MAX_BLOCKS = 200
"""Largest number of block swaps."""

SMALL_GAIN = 0.002
"""Share of the gap that a block swap should close; three smaller gains in a row end the swaps.

A sweep of exact swaps should close a tenth of this share.
"""

SWEEP_WORK = 1e10
"""Floating-point operations that one sweep of exact swaps may take."""

GREEDY_WORK = 6e10
"""Floating-point operations that a greedy choice may take."""

GREEDY_RATIO = 4
"""Number of chosen samples per direction up to which a greedy choice is worth trying."""

MAX_SWEEPS = 8

RESTARTS = 8
"""Number of random starts for exact swaps in small problems."""

RESTART_WORK = 1e8
"""Floating-point operations of one sweep up to which a problem is small."""

ROUNDING = 1e-12
"""Improvements of the loss below this size, relative to it, are rounding errors."""


def improve(search: Search, start: Indices | None) -> None:
    """Improve the best subset of a search until it is good enough or no swap helps."""
    if search.is_done:
        return
    block_swaps(search, search.best[1])
    if start is not None:
        block_swaps(search, start)
    if search.is_done:
        return
    if _is_greedy_worthwhile(search):
        search.offer(greedy(search))
    members, candidates = _exact_sizes(search)
    if members == 0:
        return
    exact_swaps(search, search.best[1], members, candidates)
    if search.subsets.count * search.loss.work <= RESTART_WORK:
        for _ in range(RESTARTS):
            if search.is_done:
                return
            exact_swaps(search, search.subsets.sample(search.rng), members, candidates)


def _is_greedy_worthwhile(search: Search) -> bool:
    loss, k = search.loss, search.subsets.count
    is_small = k * loss.work <= GREEDY_WORK and k <= GREEDY_RATIO * loss.directions
    return loss.evaluates_quickly and is_small


def block_swaps(search: Search, indices: Indices) -> None:
    """Exchange the worst members for the best other samples, in blocks that shrink when they do not help."""
    loss, subsets = search.loss, search.subsets
    at = loss.subset(indices)
    value, block, small = search.offer(indices, loss.value(at)), subsets.count, 0
    for step in range(MAX_BLOCKS):
        here = loss.expand(at, search.gap / 4, FLOOR)
        search.learn(here)
        out, new = subsets.exchanges(indices, here.plane)
        block = min(block, max(len(out) // 2, 1))
        found = _first_better(search, at, value, out, new, block) if len(out) else None
        if found is None:
            return
        block, at, after = found
        indices = _exchanged(indices, out[:block], new[:block])
        if step % 20 == 19:
            at = loss.subset(indices)  # removes the drift of many updates
        small = small + 1 if value - after < SMALL_GAIN * search.gap else 0
        value = search.offer(indices, after)
        search.report("swap")
        if search.is_done or small == 3:
            return


def _first_better(
    search: Search, at: Moment, value: float, out: Indices, new: Indices, block: int
) -> tuple[int, Moment, float] | None:
    """Return the largest halved block whose exchange decreases the loss, and the result."""
    loss, k = search.loss, search.subsets.count
    while block >= 1:
        weights = np.full(block, 1 / k)
        change = combine(
            1.0, loss.moment(weights, new[:block]), -1.0, loss.moment(weights, out[:block])
        )
        moved = combine(1.0, at, 1.0, change)
        after = loss.value(moved)
        if after < value - ROUNDING * abs(value):
            return block, moved, after
        block //= 2
    return None


def _exact_sizes(search: Search) -> tuple[int, int]:
    """Return how many members and candidates each sweep of exact swaps tries; 0 members for none."""
    loss, k, size = search.loss, search.subsets.count, search.subsets.size
    if loss.evaluates_quickly:
        members = min(k, int(SWEEP_WORK / loss.work))
        return (members, size) if members >= min(k, 8) else (0, 0)
    evaluations = int(SWEEP_WORK / loss.evaluation_work)
    if evaluations >= k * size:
        return k, size
    members = min(k, evaluations // 8)
    return (members, evaluations // members) if members >= min(k, 8) else (0, 0)


def exact_swaps(search: Search, indices: Indices, members: int, candidates: int) -> None:
    """Exchange single samples by their exact effect on the loss, until no tried pair improves it."""
    loss = search.loss
    at = loss.subset(indices)
    value = search.offer(indices, loss.value(at))
    for _ in range(MAX_SWEEPS):
        plane = loss.expand(at, search.gap / 4, FLOOR).plane
        order = indices[np.argsort(-plane[indices], kind="stable")]
        before = value
        for out in order[:members].tolist():
            found = _best_exchange(search, at, value, indices, out, plane, candidates)
            if found is not None:
                new, at, value = found
                indices = _exchanged(indices, np.array([out]), np.array([new]))
                search.offer(indices, value)
        search.report("swap")
        if before - value <= SMALL_GAIN / 10 * search.gap or search.is_done:
            return
        at = loss.subset(indices)
        value = loss.value(at)


def _best_exchange(
    search: Search,
    at: Moment,
    value: float,
    indices: Indices,
    out: int,
    plane: Vector,
    candidates: int,
) -> tuple[int, Moment, float] | None:
    loss, weight = search.loss, 1 / search.subsets.count
    others = np.flatnonzero(search.subsets.can_exchange(indices, out))
    if len(others) > candidates:
        others = others[np.argpartition(plane[others], candidates - 1)[:candidates]]
    if len(others) == 0:
        return None
    rest = combine(1.0, at, -1.0, _single(loss, out, weight))
    new = int(others[np.argmin(loss.after_adding(rest, weight, others))])
    moved = combine(1.0, rest, 1.0, _single(loss, new, weight))
    after = loss.value(moved)
    return (new, moved, after) if after < value - ROUNDING * max(abs(value), 1e-3) else None


def greedy(search: Search) -> Indices:
    """Add one sample after another, each time the one after which the loss is smallest."""
    loss, subsets = search.loss, search.subsets
    plane = loss.expand(loss.moment(subsets.center)).plane
    at = combine(0.0, _single(loss, 0, 1.0), 0.0, _single(loss, 0, 1.0))
    chosen: list[int] = []
    for count in range(1, subsets.count + 1):
        others = np.flatnonzero(subsets.can_add(np.array(chosen, dtype=np.int64)))
        scaled = combine((count - 1) / count, at, 0.0, at)
        values = loss.after_adding(scaled, 1 / count, others)
        close = others[values <= values.min() + ROUNDING * max(abs(float(values.min())), 1e-3)]
        pick = int(close[np.argmin(plane[close])])
        at = combine(1.0, scaled, 1.0, _single(loss, pick, 1 / count))
        chosen.append(pick)
        search.report("greedy")
    return np.sort(np.array(chosen, dtype=np.int64))


def _single(loss: SampleLoss, index: int, weight: float) -> Moment:
    return loss.moment(np.array([weight]), np.array([index]))


def _exchanged(indices: Indices, out: Indices, new: Indices) -> Indices:
    return np.union1d(np.setdiff1d(indices, out), new)
