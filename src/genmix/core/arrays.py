"""One interface to numpy and torch arrays: the array API standard."""

from __future__ import annotations

import copy
import sys
from functools import cache
from typing import Any, Self

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from genmix.errors import InputError

Array = Any
"""A numpy array or a torch tensor. Statistics use the same library and device as their input."""

Vector = NDArray[np.float64]

LARGEST = 1e50
"""Largest entry allowed in an embedding, chosen so that a product of six entries does not overflow."""

PART = 32
"""Number of entries of a row that are compared at once to find the smallest ones."""

SMALLEST_SPREAD = 1e-140
"""Smallest deviation from the mean whose square float64 represents with all its digits."""


def namespace(array: Array) -> Any:
    """Return the array API namespace of ``array``; it always has the linalg extension."""
    if type(array) is np.ndarray:  # a fast path: this runs several times per sample
        return _numpy_namespace()
    return array_api_compat.array_namespace(array)


@cache
def _numpy_namespace() -> Any:
    import array_api_compat.numpy  # slow: takes half as long as importing numpy

    return array_api_compat.numpy


def is_torch(array: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def is_on_gpu(array: Array) -> bool:
    return is_torch(array) and array.device.type == "cuda"


def as_row(value: Any, what: str) -> Array:
    """Return one embedding, ``(d,)`` or ``(1, d)``, as a finite float64 matrix ``(1, d)``."""
    array = value.detach() if is_torch(value) else _numpy_array(value, what)
    if array.ndim == 0:
        raise InputError(f"{what}: the embedding is a scalar; pass a vector of shape (d,).")
    row = as_matrix(array[None, :] if array.ndim == 1 else array, what)
    if row.shape[0] != 1:
        raise InputError(
            f"{what}: got {row.shape[0]} embeddings for one ticket; ask for one ticket per embedding."
        )
    return row


def as_matrix(value: Any, what: str) -> Array:
    """Return ``value`` as a finite float64 matrix ``(n, d)`` on the same device."""
    array = value.detach() if is_torch(value) else _numpy_array(value, what)
    xp = namespace(array)
    if not xp.isdtype(array.dtype, ("real floating", "integral", "bool")):
        raise InputError(f"{what} has dtype {array.dtype}; pass real numbers.")
    if 0 in array.shape:
        raise InputError(f"{what} is empty (shape {tuple(array.shape)}); pass at least one sample.")
    if array.ndim != 2:
        raise InputError(
            f"{what} has shape {tuple(array.shape)}; pass shape (samples, dimensions)."
        )
    array = _copied_by_rows(array)
    if not (float(xp.max(array)) <= LARGEST and float(xp.min(array)) >= -LARGEST):  # true for NaN
        _reject_rows(array, ~xp.isfinite(array), what, "NaN or infinity")
        _reject_rows(array, xp.abs(array) > LARGEST, what, f"a number larger than {LARGEST:g}")
    return array


def _copied_by_rows(array: Array) -> Array:
    """Return a float64 copy with contiguous rows, so that no result depends on the layout of the input."""
    if is_torch(array):
        return namespace(array).astype(array, namespace(array).float64).contiguous()
    return np.array(array, dtype=np.float64, order="C")


def check_spread(spread: float, what: str) -> None:
    """Reject numbers that differ by so little that their squared differences underflow."""
    if 0 < spread < SMALLEST_SPREAD:
        raise InputError(
            f"{what} varies by only {spread:.1g}, and squares of such small numbers underflow; "
            "multiply all embeddings, including those of the reference, by the same number."
        )


def _reject_rows(array: Array, bad: Array, what: str, fault: str) -> None:
    rows = to_numpy(namespace(array).any(bad, axis=1))
    if rows.any():
        row = int(np.argmax(rows))
        raise InputError(
            f"{what}, sample {row}: the embedding contains {fault}; leave this sample out."
        )


def _numpy_array(value: object, what: str) -> Any:
    if value is None:
        raise InputError(f"{what} is missing; pass an array of embeddings.")
    if isinstance(value, np.ma.MaskedArray):
        raise InputError(f"{what} is a masked array; leave the masked samples out.")
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} is not an array; pass rows of equal length.") from error
    if array.dtype == object and array.ndim == 0:
        kind = type(value).__name__
        raise InputError(f"{what} is a {kind}; pass one array of shape (samples, dimensions).")
    return array


def to_numpy(array: Array) -> Any:
    """Return a numpy copy or view of ``array``, which can be on any device."""
    return array.detach().cpu().numpy() if is_torch(array) else np.asarray(array)


def like(value: Any, sample: Array) -> Array:
    """Return ``value`` as a float64 array with the same library and device as ``sample``."""
    xp = namespace(sample)
    if is_torch(value) and is_torch(sample):
        return value.detach().to(device=sample.device, dtype=xp.float64)
    plain = np.ascontiguousarray(to_numpy(value), dtype=np.float64)
    if not is_torch(sample):
        return plain
    # Copy, because torch does not share memory with a read-only numpy array.
    return xp.asarray(plain.copy(), device=sample.device)


def place(array: Array) -> str:
    """Return the library and device of ``array`` as text for a saved state, e.g. ``torch:cuda:0``."""
    return f"torch:{array.device}" if is_torch(array) else "numpy"


def empty_at(where: str) -> Array:
    """Return an empty array with the library and device recorded by :func:`place`."""
    if where == "numpy":
        return np.empty(0)
    import torch

    device = where.removeprefix("torch:")
    if device.startswith("cuda") and not torch.cuda.is_available():
        device = "cpu"
    return torch.empty(0, dtype=torch.float64, device=device)


class Rows:
    """A float64 matrix to which rows are appended in amortized constant time."""

    def __init__(self, sample: Array, dimension: int) -> None:
        xp = namespace(sample)
        self._store = xp.empty((0, dimension), dtype=xp.float64, device=sample.device)
        self.count = 0

    def append(self, block: Array) -> None:
        need = self.count + block.shape[0]
        if need > self._store.shape[0]:
            xp = namespace(self._store)
            shape = (max(need, 2 * self.count), block.shape[1])
            larger = xp.empty(shape, dtype=xp.float64, device=self._store.device)
            larger[: self.count, :] = self._store[: self.count, :]
            self._store = larger
        self._store[self.count : need, :] = block
        self.count = need

    @property
    def array(self) -> Array:
        return self._store[: self.count, :]

    def fork(self) -> Self:
        """Return a second view of the same rows. Afterward, append to only one of the two."""
        return copy.copy(self)


class SharedRows(Rows):
    """Rows that every fork can append to: the first to append keeps the memory; others copy their rows."""

    def __init__(self, sample: Array, dimension: int) -> None:
        super().__init__(sample, dimension)
        self._written = [0]
        """Number of rows in this memory that any fork has written."""

    def append(self, block: Array) -> None:
        store = self._store
        if self._written[0] > self.count:
            self._store = store[: self.count, :]  # full, so the rows are copied
        super().append(block)
        if self._store is not store:
            self._written = [0]
        self._written[0] = self.count


def subtract(x: Array, y: Array, buffer: Array | None) -> Array:
    """Return ``x − y``, in the buffer (numpy only) if there is one."""
    return x - y if buffer is None else np.subtract(x, y, out=buffer)


def divide(x: Array, y: Array, buffer: Array | None) -> Array:
    """Return ``x / y``, in the buffer (numpy only) if there is one."""
    return x / y if buffer is None else np.divide(x, y, out=buffer)


def symmetric(matrix: Array) -> Array:
    """Return the symmetric part of a matrix that is symmetric up to rounding errors."""
    return (matrix + matrix.mT) / 2


def triangle_of(matrix: Array) -> Array:
    """Return R of the QR factorization without computing Q."""
    linalg = namespace(matrix).linalg
    if is_torch(matrix):
        return linalg.qr(matrix, mode="r").R
    return np.linalg.qr(matrix, mode="r")


def smallest(matrix: Array, count: int) -> Array:
    """Return the column indices of the ``count`` smallest entries of each row, in ascending order."""
    if is_torch(matrix):
        return matrix.topk(count, dim=1, largest=False).indices
    if matrix.shape[1] < 4 * PART * count:
        return _partitioned(matrix, count)
    columns = _candidates(matrix, count)
    found = _partitioned(np.take_along_axis(matrix, columns, axis=1), count)
    return np.take_along_axis(columns, found, axis=1)


def _partitioned(values: Array, count: int) -> Array:
    found = np.argpartition(values, count - 1, axis=1)[:, :count]
    order = np.argsort(np.take_along_axis(values, found, axis=1), axis=1)
    return np.take_along_axis(found, order, axis=1)


def _candidates(matrix: Array, count: int) -> Array:
    """Return columns that include those of the ``count`` smallest entries of each row, ``(n, c)``.

    If a row is split into parts, its smallest entries are in the ``count`` parts with the smallest minima.
    It takes much less time to find these parts than to partition the whole row.
    """
    size, width = matrix.shape
    parts = width // PART
    minima = np.reshape(matrix[:, : PART * parts], (size, PART, parts)).min(axis=1)
    best = np.argpartition(minima, count - 1, axis=1)[:, :count]
    inside = best[:, :, None] + parts * np.arange(PART)
    rest = np.broadcast_to(np.arange(PART * parts, width), (size, width - PART * parts))
    return np.concatenate([np.reshape(inside, (size, -1)), rest], axis=1)
