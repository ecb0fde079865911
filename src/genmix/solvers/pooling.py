"""Losses of cells that are pooled with their arms.

A cell with n samples counts as the mixture ``(n S_gi + κ S_i) / (n + κ)`` of its own samples and those of
its arm in all groups. So the loss of pooled cells is the loss of cells at other weights: it stays convex, and
every certificate holds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from genmix.solvers.loss import Expansion, Loss, Matrix, RestrictedLoss, SumLoss


class PooledLoss(RestrictedLoss):
    """A loss restricted to mixtures of mixtures: ``L(α @ shares @ components)``.

    The components are few, or single arms, so their curvature is cheap.
    """

    def __init__(self, loss: Loss, components: Matrix, shares: Matrix) -> None:
        super().__init__(loss, shares @ components)
        self._components, self._shares = components, shares

    def _hessian(self, here: Expansion) -> Matrix:
        found: Matrix = self._shares @ here.hessian_at(self._components) @ self._shares.T
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
