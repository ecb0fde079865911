"""Sums of exact kernels over all pairs: their values, and the memory they take.

The judge is the definition, by differences and products of every two rows in one large array.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import genmix as gx
from conformance import DEVICES, Matrix
from genmix.kernels import Custom, Normalised, kernel_sum

SIGMA = 1.7


def own(x: Any, y: Any) -> Any:
    """A kernel as a user would write it: no unit diagonal, numpy and torch alike."""
    return (1.5 + x @ y.T) ** 2


def differences(x: Matrix, y: Matrix) -> Matrix:
    return np.exp(-np.sum((x[:, None, :] - y[None, :, :]) ** 2, axis=2) / (2 * SIGMA**2))


def products(x: Matrix, y: Matrix, scale: float, shift: float, degree: int) -> Matrix:
    return (scale * np.sum(x[:, None, :] * y[None, :, :], axis=2) + shift) ** degree


def own_normalised(x: Matrix, y: Matrix) -> Matrix:
    roots = (np.sqrt((1.5 + np.sum(z * z, axis=1)) ** 2) for z in (x, y))
    return products(x, y, 1.0, 1.5, 2) / np.outer(*roots)


JUDGES: dict[str, tuple[Any, Callable[[Matrix, Matrix], Matrix]]] = {
    "gaussian": (gx.Gaussian(SIGMA), differences),
    "polynomial": (gx.Polynomial(), lambda x, y: products(x, y, 1 / x.shape[1], 1.0, 3)),
    "degree 5": (gx.Polynomial(5, 0.2, 0.5), lambda x, y: products(x, y, 0.2, 0.5, 5)),
    "own": (Custom(own), lambda x, y: products(x, y, 1.0, 1.5, 2)),
    "own, normalised": (Normalised(Custom(own)), own_normalised),
}
every_kernel = pytest.mark.parametrize("name", JUDGES)
every_power = pytest.mark.parametrize("power", [1, 2])


def rows_of(*sizes: int, d: int = 3, seed: int = 0) -> list[Matrix]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((n, d)) + i for i, n in enumerate(sizes)]


# -- one sum -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(23, 11), (1, 40), (40, 1), (1, 1)])
@pytest.mark.parametrize("values", [0, 1, 7, 50, 10**6])
@every_power
@every_kernel
def test_a_sum_in_blocks_is_the_whole_sum(
    name: str, power: int, values: int, sizes: tuple[int, int]
) -> None:
    kernel, judge = JUDGES[name]
    x, y = rows_of(*sizes)
    expected = np.sum(judge(x, y) ** power)
    assert kernel_sum(kernel, x, y, power, 8 * values) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("n", [1, 2, 25, 26])
@pytest.mark.parametrize("values", [1, 30, 10**6])
@every_power
@every_kernel
def test_a_sum_of_samples_with_themselves_counts_every_pair(
    name: str, power: int, values: int, n: int
) -> None:
    kernel, judge = JUDGES[name]
    (x,) = rows_of(n)
    expected = np.sum(judge(x, x) ** power)
    assert kernel_sum(kernel, x, x, power, 8 * values) == pytest.approx(expected, rel=1e-12)


def test_more_rows_than_one_block_of_the_usual_size() -> None:
    x, y = rows_of(2300, 2100)
    kernel = gx.Gaussian(SIGMA)
    for left, right in ((x, y), (x, x)):
        expected = sum(differences(left[i : i + 100], right).sum() for i in range(0, 2300, 100))
        assert kernel_sum(kernel, left, right) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("device", DEVICES)
@every_power
@every_kernel
def test_numpy_and_torch_agree(name: str, power: int, device: str) -> None:
    kernel, judge = JUDGES[name]
    x, y = rows_of(23, 11)
    left, right = (torch.tensor(z, device=device) for z in (x, y))
    for one, other, a, b in ((left, right, x, y), (left, left, x, x)):
        found = kernel_sum(kernel, one, other, power, 8 * 30)
        assert found == pytest.approx(np.sum(judge(a, b) ** power), rel=1e-12)
    assert np.array_equal(left.cpu().numpy(), x)


@pytest.mark.parametrize("values", [50, 10**6])
@every_power
def test_a_common_offset_costs_no_digits_that_the_samples_have(power: int, values: int) -> None:
    """Without centring the exponent would be off by 1e8·2⁻⁵² ≈ 2e-8, and by 2e-4 at the larger one."""
    for offset in (1e4, 1e6):
        x, y = (z + offset for z in rows_of(23, 11))
        for other in (y, x):
            expected = np.sum(differences(x, other) ** power)
            found = kernel_sum(gx.Gaussian(SIGMA), x, other, power, 8 * values)
            assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_equal_samples_are_as_alike_as_a_sample_with_itself(offset: float) -> None:
    x = np.repeat(rows_of(1)[0] + offset, 9, axis=0)
    assert kernel_sum(gx.Gaussian(SIGMA), x, x, 2, 8 * 10) == pytest.approx(81, rel=1e-13)


@pytest.mark.parametrize("library", [np.array, torch.tensor], ids=["numpy", "torch"])
def test_rounding_makes_no_pair_more_alike_than_equals(library: Any) -> None:
    """With σ so small the exponent of a sample with itself is 1e14·2⁻⁵², on either side of zero."""
    x = library(rows_of(40)[0])
    assert float(gx.Gaussian(1e-7)(x, x).max()) == 1.0
    assert kernel_sum(gx.Gaussian(1e-7), x, x) <= 40.0


def test_a_sum_leaves_the_samples_and_what_a_kernel_returned_alone() -> None:
    x, y = rows_of(6, 5)
    before = x.copy(), y.copy()
    returned: dict[tuple[int, int], Matrix] = {}

    def remembering(a: Any, b: Any) -> Any:
        return returned.setdefault((len(a), len(b)), own(a, b))

    mine = Custom(remembering)
    for kernel in (*(kernel for kernel, _ in JUDGES.values()), mine, Normalised(mine)):
        for power in (1, 2):
            kernel_sum(kernel, x, y, power)
    assert np.array_equal(x, before[0])
    assert np.array_equal(y, before[1])
    assert np.array_equal(returned[6, 5], own(x, y))
    assert np.array_equal(returned[6, 6], own(x, x))


# -- blocks ------------------------------------------------------------------------------------------


class Counting:
    """A kernel that remembers the shapes it was called with."""

    def __init__(self) -> None:
        self.shapes: list[tuple[int, int]] = []

    def __call__(self, x: Any, y: Any) -> Any:
        self.shapes.append((len(x), len(y)))
        return own(x, y)

    @property
    def values(self) -> int:
        return sum(a * b for a, b in self.shapes)


@pytest.mark.parametrize("sizes", [(23, 11), (200, 3), (3, 200), (100, 100)])
@pytest.mark.parametrize("values", [1, 44, 150])
def test_no_block_is_larger_than_allowed_and_no_pair_is_seen_twice(
    sizes: tuple[int, int], values: int
) -> None:
    kernel = Counting()
    x, y = rows_of(*sizes)
    kernel_sum(Custom(kernel), x, y, block_bytes=8 * values + 7)
    assert max(a * b for a, b in kernel.shapes) <= values
    assert kernel.values == sizes[0] * sizes[1]
    # Both sides are cut where both are long: never far more blocks than the memory asks for.
    assert len(kernel.shapes) <= 2.5 * max(1, kernel.values / values) + 2


def test_symmetry_halves_the_work() -> None:
    kernel = Counting()
    (x,) = rows_of(60)
    kernel_sum(Custom(kernel), x, x, block_bytes=8 * 25)
    # Twelve rows of blocks of 5×5, those on the diagonal whole.
    assert kernel.values == 25 * 12 * 13 // 2
    assert set(kernel.shapes) == {(5, 5)}
    kernel.shapes.clear()
    (x,) = rows_of(1024)
    kernel_sum(Custom(kernel), x, x)
    assert kernel.values <= 0.65 * 1024**2  # even where one block could hold all


def peak(action: Callable[[], Any]) -> int:
    """The most memory that numpy held at once during the action, beside what it held before."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        action()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


BLOCK = 2**21
PREPARED = 3 * 8 * 6
"""Bytes for a row of dimension 3 with all that is prepared of it, its like under way and its arm."""


@pytest.mark.parametrize("same", [False, True])
@every_power
@every_kernel
def test_a_sum_takes_no_more_memory_than_a_few_blocks(name: str, power: int, same: bool) -> None:
    kernel, _ = JUDGES[name]
    x, y = rows_of(3000, 2500)
    taken = peak(lambda: kernel_sum(kernel, x, x if same else y, power, BLOCK))
    assert taken <= 3 * BLOCK + 5500 * PREPARED  # all pairs would be 60 MB
    if name == "gaussian":
        assert taken <= 1.1 * BLOCK + 5500 * PREPARED
