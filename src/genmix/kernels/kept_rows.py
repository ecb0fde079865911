"""Samples that later ones are compared with; each is prepared for the kernel only once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from genmix.core.arrays import SharedRows, Vector
from genmix.kernels.kernels import Kernel

Matrix = NDArray[np.float64]


class KeptRows:
    """A growing list of samples, and the values of ``k(x, y)^power`` between a new one and all of them.

    Forks share memory; samples can be added to each fork independently.
    """

    def __init__(self, kernel: Kernel, dimension: int, power: int = 1) -> None:
        self._kernel, self._power = kernel, power
        self._blocks = kernel.blocks(power)
        self._rows = SharedRows(np.empty((0, 1)), dimension + self._blocks.extra)
        self._center: Matrix | None = None
        """What is subtracted from all samples for accuracy, or None."""

    def __len__(self) -> int:
        return self._rows.count

    def fork(self) -> Self:
        """Return the same samples, sharing their memory."""
        fork = object.__new__(type(self))
        vars(fork).update(vars(self), _rows=self._rows.fork())
        return fork

    def append(self, x: Matrix) -> None:
        """Add one sample of shape ``(1, d)``."""
        if not len(self):
            self._center = self._blocks.center(x)
        self._rows.append(self._blocks.rows(x, self._center))

    def compare(self, x: Matrix) -> Vector:
        """Return ``k(x, y)^power`` for a sample of shape ``(1, d)`` and every y in the list."""
        if not len(self):
            return np.empty(0)
        blocks, theirs = self._blocks, self._rows.array
        mine = blocks.rows(x, self._center)
        make = blocks.fastest(blocks.exponent_error(mine), blocks.exponent_error(theirs))
        found: Vector = make(blocks.left(mine), theirs)[0]
        return found

    def own(self, x: Matrix) -> float:
        """Return ``k(x, x)^power``."""
        return float(self._kernel.diagonal(x)[0]) ** self._power

    def state_dict(self) -> dict[str, Any]:
        """Return the prepared samples."""
        return {"rows": self._rows.array.copy(), "center": self._center}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Restore the samples of another list with the same kernel and dimension."""
        rows, center = saved["rows"], saved["center"]
        columns = self._rows.array.shape[1]
        has_center = self._blocks.center(np.zeros((1, 1))) is not None and len(rows) > 0
        if np.ndim(rows) != 2 or rows.shape[1] != columns or (center is not None) != has_center:
            raise ValueError("the kept samples do not match their kernel")
        if has_center and np.shape(center) != (columns - self._blocks.extra,):
            raise ValueError("the center of the kept samples has a different dimension")
        if not np.isfinite(rows).all() or (has_center and not np.isfinite(center).all()):
            raise ValueError("a kept sample is not finite")
        self._rows.append(np.asarray(rows))
        self._center = center
