"""Losses of cells that are pooled with their arms.

A cell with n samples counts as the mixture ``(n S_gi + κ S_i) / (n + κ)`` of its own samples and those of
its arm in all groups. So the loss of pooled cells is the loss of cells at other weights: it stays convex, and
every certificate holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from genmix.core.arrays import Vector
from genmix.solvers.loss import Expansion, Loss, Matrix, RestrictedLoss, SumLoss

POOLING = 3.0
"""Number of samples with which an arm counts in each of its cells, unless the user says otherwise."""


class PooledLoss(RestrictedLoss):
    """A loss restricted to mixtures of mixtures: ``L(α @ shares @ components)``.

    The components are single arms and a few mixtures of them, so their curvature is cheap.
    """

    def __init__(self, loss: Loss, components: Matrix, shares: Matrix) -> None:
        super().__init__(loss, shares @ components)
        self._components, self._shares = components, shares

    def _hessian(self, here: Expansion) -> Matrix:
        components: Matrix = self._components @ here.hessian @ self._components.T
        found: Matrix = self._shares @ components @ self._shares.T
        return found

    def _hessian_at(self, here: Expansion, points: Matrix) -> Matrix:
        shares = points @ self._shares
        used = np.flatnonzero(shares.any(axis=0))
        found: Matrix = (
            shares[:, used] @ here.hessian_at(self._components[used]) @ shares[:, used].T
        )
        return found

    def face(self, arms: Sequence[int]) -> PooledLoss:
        shares = self._shares[list(arms)]
        used = np.flatnonzero(shares.any(axis=0))
        components = self._components[used]
        inner = [int(i) for i in np.flatnonzero(components.any(axis=0))]
        return PooledLoss(self._loss.face(inner), components[:, inner], shares[:, used])


def pooled_loss(loss: Loss, components: Matrix, shares: Matrix) -> Loss:
    """Return the loss of mixtures of the components; the terms of a sum stay apart."""
    if isinstance(loss, SumLoss):
        return loss.mapped(lambda term: pooled_loss(term, components, shares))
    return PooledLoss(loss, components, shares)


class CellStatistics(Protocol):
    """What pooling needs of a tally."""

    counts: list[int]

    def loss(self, arms: Sequence[int], /) -> Loss: ...

    def sample_plane(
        self, loss: Any, arms: Sequence[int], alpha: Vector, batch: Any, /
    ) -> Vector: ...


class PooledTally:
    """A view of statistics in which a cell with n samples counts as ``(n S_gi + κ S_i) / (n + κ)``.

    ``arms`` is the arm of each cell of the tally.
    """

    def __init__(self, tally: CellStatistics, arms: Sequence[str], pooling: float) -> None:
        self._tally, self._arms, self._pooling = tally, arms, pooling
        self._inner: tuple[list[int], Loss] | None = None
        self._points = np.empty((0, 0))

    def loss(self, cells: Sequence[int]) -> Loss:
        """Return the loss as a function of the weights of these cells; their arms must have a sample."""
        names = list(dict.fromkeys(self._arms[cell] for cell in cells))
        counts = self._tally.counts
        used = [k for k, arm in enumerate(self._arms) if counts[k] and arm in names]
        position = {cell: k for k, cell in enumerate(used)}
        own = [cell for cell in cells if counts[cell]]
        components = np.zeros((len(own) + len(names), len(used)))
        for row, cell in enumerate(own):
            components[row, position[cell]] = 1.0
        for row, name in enumerate(names, start=len(own)):
            for k, cell in enumerate(used):
                if self._arms[cell] == name:
                    components[row, k] = counts[cell]
            components[row] /= components[row].sum()
        shares = np.zeros((len(cells), len(components)))
        for row, cell in enumerate(cells):
            n = counts[cell]
            shares[row, len(own) + names.index(self._arms[cell])] = self._pooling / (
                n + self._pooling
            )
            if n:
                shares[row, own.index(cell)] = n / (n + self._pooling)
        inner = self._tally.loss(used)
        self._inner, self._points = (used, inner), shares @ components
        return pooled_loss(inner, components, shares)

    def sample_plane(self, loss: Loss, cells: Sequence[int], alpha: Vector, batch: Any) -> Vector:
        """Return the values of the tangent plane for single samples; see ``Tally``."""
        if self._inner is None:
            self.loss(cells)
        assert self._inner is not None
        used, inner = self._inner
        return self._tally.sample_plane(inner, used, alpha @ self._points, batch)
