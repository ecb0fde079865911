"""Kernel ridge regression to which samples are added one by one.

With ``K + λI = LLᵀ`` and targets Y, the prediction at x is ``(L⁻¹k_x)·(L⁻¹Y)``, and the remaining
uncertainty there is ``k(x, x) − ‖L⁻¹k_x‖²``. A new sample adds one row to ``L⁻¹`` and one to ``L⁻¹Y``. So
adding a sample and predicting take O(n²) each, whereas refitting takes O(n³).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from genmix.core.arrays import SharedRows, Vector
from genmix.kernels.kept_rows import KeptRows
from genmix.kernels.kernels import Kernel

Matrix = NDArray[np.float64]

BLOCK = 256
"""Rows of the factor that are stored together, so that little memory is spent above its diagonal."""


class Prediction(NamedTuple):
    """The prediction at one input."""

    means: Vector
    """One value per target."""
    variance: float
    """``k(x, x) − k_xᵀ(K + λI)⁻¹k_x``, between 0 and ``k(x, x)``."""


class KernelRidge:
    """Kernel ridge regression of several targets on the same inputs.

    Forks share memory; samples can be added to each fork independently.

    Parameters
    ----------
    kernel : Kernel
        An exact kernel on the inputs.
    regularization : float
        The ridge penalty λ.
    dimension, targets : int
        Number of columns of the inputs and of the targets.
    """

    def __init__(self, kernel: Kernel, regularization: float, dimension: int, targets: int) -> None:
        self.regularization = regularization
        self._inputs = KeptRows(kernel, dimension)
        self._values = _rows(targets)
        """``L⁻¹Y``."""
        self._factor: list[SharedRows] = []
        """``L⁻¹`` in blocks of rows, each up to the last column of its block."""

    @property
    def count(self) -> int:
        """The number of samples."""
        return len(self._inputs)

    def fork(self) -> Self:
        """Return a regression with the same samples, which shares their memory."""
        fork = object.__new__(type(self))
        vars(fork).update(vars(self))
        fork._inputs, fork._values = self._inputs.fork(), self._values.fork()
        fork._factor = [*self._factor[:-1], *(block.fork() for block in self._factor[-1:])]
        return fork

    def predict(self, x: Matrix) -> Prediction:
        """Return the prediction at one input of shape ``(1, d)``."""
        own, kernels = self._compared(x)
        return Prediction(kernels @ self._values.array, max(own - float(kernels @ kernels), 0.0))

    def append(self, x: Matrix, y: Vector) -> None:
        """Add one sample of shape ``(1, d)`` with its targets."""
        own, kernels = self._compared(x)
        # Mathematically, the pivot is at least λ.
        pivot = max(own - float(kernels @ kernels), 0.0) + self.regularization
        n, scale = self.count, 1 / math.sqrt(pivot)
        if n % BLOCK == 0:
            self._factor.append(_rows(n + BLOCK))
        row = np.zeros((1, n - n % BLOCK + BLOCK))
        for first, block in self._blocks():
            own_rows = kernels[first : first + len(block)]
            row[0, : block.shape[1]] -= scale * (own_rows @ block)
        row[0, n] = scale
        self._values.append((scale * (y - kernels @ self._values.array))[None, :])
        self._factor[-1].append(row)
        self._inputs.append(x)

    def add_target(self, value: float) -> None:
        """Add a target that is the same for all samples so far."""
        column = self._whitened(np.full(self.count, value))
        values = _rows(self._values.array.shape[1] + 1)
        values.append(np.column_stack([self._values.array, column]))
        self._values = values

    def _compared(self, x: Matrix) -> tuple[float, Vector]:
        """Return ``k(x, x)`` and ``L⁻¹k_x``."""
        return self._inputs.own(x), self._whitened(self._inputs.compare(x))

    def _whitened(self, values: Vector) -> Vector:
        """Return ``L⁻¹`` times the values."""
        parts = [block @ values[: block.shape[1]] for _, block in self._blocks()]
        return np.concatenate(parts) if parts else values

    def _blocks(self) -> list[tuple[int, Matrix]]:
        """Return the first row of each block, and the block up to the last sample."""
        n = self.count
        arrays = [(BLOCK * i, block.array[:, :n]) for i, block in enumerate(self._factor)]
        return [(first, block) for first, block in arrays if len(block)]

    # -- state -----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the samples and the factor as arrays."""
        return {
            "inputs": self._inputs.state_dict(),
            "values": self._values.array.copy(),
            "factor": [block.copy() for _, block in self._blocks()],
        }

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Restore the samples of another regression with the same parameters."""
        values, factor = np.asarray(saved["values"]), saved["factor"]
        n = len(values)
        self._inputs.load_state_dict(saved["inputs"])
        ends = [min(first + BLOCK, n) for first in range(0, n, BLOCK)]
        shapes = [(end - BLOCK * i, end) for i, end in enumerate(ends)]
        if values.shape != (self.count, self._values.array.shape[1]):
            raise ValueError("the targets of a regression do not match its inputs")
        if [np.shape(block) for block in factor] != shapes:
            raise ValueError("the factor of a regression does not match its inputs")
        if not all(np.isfinite(array).all() for array in (values, *factor)):
            raise ValueError("a regression contains a number that is not finite")
        self._values.append(values)
        for i, block in enumerate(factor):
            padded = np.zeros((len(block), BLOCK * (i + 1)))
            padded[:, : block.shape[1]] = block
            self._factor.append(_rows(padded.shape[1]))
            self._factor[-1].append(padded)


def _rows(columns: int) -> SharedRows:
    return SharedRows(np.empty((0, columns)), columns)
