"""The statistics of cells, each pooled with those of its arm in all groups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from genmix.core.arrays import Vector
from genmix.objectives import Batch, Tally
from genmix.solvers.loss import Loss
from genmix.solvers.pooling import pooled_loss


class PooledTally:
    """A view of statistics in which a cell with n samples counts as ``(n S_gi + κ S_i) / (n + κ)``.

    ``arms`` is the arm of each cell of the tally.
    """

    def __init__(self, tally: Tally, arms: Sequence[str], pooling: float) -> None:
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

    def sample_plane(self, loss: Loss, cells: Sequence[int], alpha: Vector, batch: Batch) -> Vector:
        """Return the values of the tangent plane for single samples; see :class:`Tally`."""
        if self._inner is None:
            self.loss(cells)
        assert self._inner is not None
        used, inner = self._inner
        return self._tally.sample_plane(inner, used, alpha @ self._points, batch)
