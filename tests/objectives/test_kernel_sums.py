"""Sums of exact kernels over all pairs: their values, their memory use, and how they are updated.

The judge is the definition, by differences and products of every two rows in one large array.
"""

from __future__ import annotations

import copy
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import genmix as gx
from genmix.core.arrays import Rows, to_numpy
from genmix.kernels.blocks import GaussianBlocks, kernel_sum
from genmix.kernels.kernels import Custom, Normalised
from genmix.objectives import Batch
from genmix.objectives.kernel_sums import FEW_ROWS
from tests.support.conformance import DEVICES, Matrix, assert_same_bits

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
    """Without centering, the exponent would be off by 1e8·2⁻⁵² ≈ 2e-8, and by 2e-4 at the larger one."""
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
    # Both sides are split if both are long, so there are never far more blocks than memory requires.
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
    """Peak memory that numpy allocated during the action, beyond what it held before."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        action()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


BLOCK = 2**21
PREPARED = 3 * 8 * 6
"""Bytes for one prepared row of dimension 3, a copy of it in transit, and its arm."""


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


@pytest.mark.parametrize("make", ["rke", "kd"])
def test_the_option_bounds_the_memory_of_an_update(make: str) -> None:
    x, y, reference = rows_of(2000, 1500, 2500)
    options: dict[str, Any] = {"kernel": gx.Gaussian(SIGMA), "block_mb": BLOCK / 2**20}
    objective = (
        gx.RKE(**options)
        if make == "rke"
        else gx.KernelDistance(reference, unbiased=True, **options)
    )
    tally = objective.tally(2, x)
    tally.add(0, Batch(x))
    tally.add(1, Batch(y))
    assert peak(lambda: tally.loss([0, 1])) <= 1.1 * BLOCK + 3500 * PREPARED
    assert peak(lambda: objective.tally(2, x)) <= 1.1 * BLOCK + 2500 * PREPARED


@pytest.mark.parametrize("few", [3, 8, 16])
def test_few_rows_and_a_large_reference_take_the_memory_of_one_block(few: int) -> None:
    """Products of few wide rows take another form."""
    reference = np.random.default_rng(0).normal(size=(3000, 300))
    block = 8 * few * len(reference)
    objective = gx.KernelDistance(reference, gx.Gaussian(20.0), block_mb=block / 2**20)
    tally = objective.tally(1, reference)
    tally.add(0, Batch(reference[:few] / 2))
    assert peak(tally.flush) <= 1.1 * block + 16 * 8 * few * reference.shape[1]


def test_a_larger_block_is_used() -> None:
    shapes = []
    for block_mb in (0.001, 0.01, 32):
        kernel = Counting()
        loss_tally = gx.RKE(Custom(kernel), block_mb=block_mb).tally(1, np.ones((1, 3)))
        loss_tally.add(0, Batch(rows_of(FEW_ROWS + 36)[0]))
        loss_tally.loss([0])
        shapes.append(max(kernel.shapes[2:]))  # the first two are k(x, x)
    assert shapes == [(11, 11), (36, 36), (FEW_ROWS + 36, FEW_ROWS + 36)]


def test_a_few_new_rows_are_compared_with_all_rows_within_the_memory_of_a_block() -> None:
    kernel = Counting()
    tally = gx.RKE(Custom(kernel), block_mb=0.01).tally(1, np.ones((1, 3)))
    for size in (64, 6):
        tally.add(0, Batch(rows_of(size)[0]))
        tally.loss([0])
    assert all(0 < a * b <= 0.01 * 2**20 / 8 for a, b in kernel.shapes[1:])


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf"), "32", True, None])
def test_a_block_needs_memory(bad: Any) -> None:
    reference = rows_of(4)[0]
    for make in (gx.RKE, lambda **options: gx.KernelDistance(reference, **options)):
        with pytest.raises(gx.InputError, match=r"^block_mb is .*; pass a positive number\.$"):
            make(block_mb=bad)


def test_the_option_is_part_of_the_description() -> None:
    assert gx.RKE().block_mb == 32
    assert gx.RKE(block_mb=8) == gx.RKE(block_mb=8.0) != gx.RKE()
    assert hash(gx.RKE(block_mb=8)) == hash(gx.RKE(block_mb=8.0))
    reference = rows_of(4)[0]
    assert "block_mb=8.0" in repr(gx.KernelDistance(reference, block_mb=8))


# -- the tally ---------------------------------------------------------------------------------------


SIZES = (9, 4, 7)
TINY = 13 * 8 / 2**20
"""Thirteen values in a block: no size here is a multiple of its side."""


def stream(arms: list[Matrix], seed: int = 0) -> list[tuple[int, Batch]]:
    """Batches of one to three samples, the arms in random order."""
    rng = np.random.default_rng(seed)
    parts: list[tuple[int, Batch]] = []
    waiting = [(arm, row) for arm, rows in enumerate(arms) for row in rows]
    rng.shuffle(waiting)  # type: ignore[arg-type]
    for arm in range(len(arms)):
        mine = np.array([row for a, row in waiting if a == arm])
        cuts = np.cumsum(rng.integers(1, 4, len(mine)))
        parts += [(arm, Batch(part)) for part in np.split(mine, cuts[cuts < len(mine)])]
    order = rng.permutation(len(parts))
    return [parts[i] for i in order]


def fed(tally: Any, parts: list[tuple[int, Batch]]) -> Any:
    for arm, batch in parts:
        tally.add(arm, batch)
    return tally


def kd_by_definition(
    judge: Any, arms: list[Matrix], reference: Matrix, unbiased: bool, alpha: Matrix
) -> float:
    mean = judge_means(judge, arms, 1, unbiased)
    cross = np.array([judge(x, reference).mean() for x in arms])
    constant = judge_means(judge, [reference], 1, unbiased)[0, 0]
    return float(alpha @ mean @ alpha - 2 * cross @ alpha + constant)


def judge_means(judge: Any, arms: list[Matrix], power: int, unbiased: bool) -> Matrix:
    means = np.array([[np.mean(judge(x, y) ** power) for y in arms] for x in arms])
    if unbiased:
        for i, x in enumerate(arms):
            block = judge(x, x) ** power
            means[i, i] = (block.sum() - np.trace(block)) / (len(x) * (len(x) - 1))
    return means


ALPHA = np.array([0.5, 0.2, 0.3])

kernels_and_offsets = pytest.mark.parametrize(
    ("name", "offset"), [("gaussian", 1e4), *((name, 0.0) for name in JUDGES)]
)
"""Only a kernel of distances is invariant to an offset."""


@pytest.mark.parametrize("block_mb", [TINY, 32])
@pytest.mark.parametrize("unbiased", [False, True])
@kernels_and_offsets
def test_the_kernel_distance_is_its_definition(
    name: str, offset: float, unbiased: bool, block_mb: float
) -> None:
    kernel, judge = JUDGES[name]
    *arms, reference = (z + offset for z in rows_of(*SIZES, 8))
    objective = gx.KernelDistance(reference, kernel, unbiased, block_mb)
    tally = fed(objective.tally(3, arms[0]), stream(arms))
    expected = kd_by_definition(judge, arms, reference, unbiased, ALPHA)
    scale = judge(np.concatenate(arms), reference).max()
    found = tally.loss(range(3)).score(ALPHA)
    assert found == pytest.approx(expected, rel=1e-10, abs=1e-12 * scale)


@pytest.mark.parametrize("block_mb", [TINY, 32])
@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("name", ["gaussian", "own, normalised"])
def test_rke_is_its_definition(name: str, unbiased: bool, block_mb: float) -> None:
    kernel, judge = JUDGES[name]
    arms = rows_of(*SIZES)
    tally = fed(gx.RKE(kernel, unbiased, block_mb).tally(3, arms[0]), stream(arms))
    expected = 1 / (ALPHA @ judge_means(judge, arms, 2, unbiased) @ ALPHA)
    assert tally.loss(range(3)).score(ALPHA) == pytest.approx(expected, rel=1e-11)


def tables(tally: Any) -> dict[str, Matrix]:
    sums = tally.pair_sums(range(len(tally.counts)))
    return {"pairs": sums.pairs, "own": sums.own, "cross": sums.cross}


def assert_tables(found: dict[str, Matrix], expected: dict[str, Matrix]) -> None:
    for key, table in expected.items():
        np.testing.assert_allclose(found[key], table, rtol=1e-11, err_msg=key)


def expected_tables(name: str, arms: list[Matrix], reference: Matrix) -> dict[str, Matrix]:
    judge = JUDGES[name][1]
    return {
        "pairs": np.array([[judge(x, y).sum() for y in arms] for x in arms]),
        "own": np.array([np.trace(judge(x, x)) for x in arms]),
        "cross": np.array([judge(x, reference).sum() / len(reference) for x in arms]),
    }


@kernels_and_offsets
def test_reading_in_between_merging_and_growing_lead_to_the_same_sums(
    name: str, offset: float
) -> None:
    kernel, _ = JUDGES[name]
    *arms, reference = (z + offset for z in rows_of(*SIZES, 8))
    expected = expected_tables(name, arms, reference)
    parts = stream(arms)
    objective = gx.KernelDistance(reference, kernel, block_mb=TINY)

    often = objective.tally(3, arms[0])
    for arm, batch in parts:
        often.add(arm, batch)
        tables(often)
    assert_tables(tables(often), expected)
    assert np.array_equal(tables(often)["pairs"], tables(often)["pairs"].T)

    first, second = (fed(objective.tally(3, arms[0]), half) for half in (parts[::2], parts[1::2]))
    first.merge(second)
    assert_tables(tables(first), expected)

    grown = fed(objective.tally(2, arms[0]), [part for part in parts if part[0] < 2][:3])
    grown.grow()
    grown = fed(grown, [part for part in parts if part[0] < 2][3:])
    grown = fed(grown, [part for part in parts if part[0] == 2])
    assert_tables(tables(grown), expected)


def test_parts_with_centres_of_their_own_merge() -> None:
    """Without a reference, every part subtracts the mean of its own first batch."""
    arms = [rows + 1e4 for rows in rows_of(*SIZES)]
    parts = stream(arms)
    objective = gx.RKE(gx.Gaussian(SIGMA), block_mb=TINY)
    first, second = (fed(objective.tally(3, arms[0]), half) for half in (parts[:4], parts[4:]))
    first.loss([0])
    second.loss([0])
    assert not np.array_equal(first.centre, second.centre)
    kept = copy.deepcopy(second.state_dict())
    first.merge(second)
    expected = np.array([[np.sum(differences(x, y) ** 2) for y in arms] for x in arms])
    np.testing.assert_allclose(tables(first)["pairs"], expected, rtol=1e-11)
    assert_same_bits(second.state_dict(), kept)


EXACT = {
    "kd": lambda reference: gx.KernelDistance(reference, gx.Gaussian(SIGMA), block_mb=TINY),
    "kd_own": lambda reference: gx.KernelDistance(reference, own, block_mb=TINY),
    "rke": lambda reference: gx.RKE(gx.Gaussian(SIGMA), block_mb=TINY),
    "rke_own": lambda reference: gx.RKE(own, block_mb=TINY),
}
SUMS = EXACT | {"kd_features": lambda reference: gx.KernelDistance(reference, gx.Cosine())}
every_exact_sum = pytest.mark.parametrize("make", [*EXACT.values()], ids=[*EXACT])
every_sum = pytest.mark.parametrize("make", [*SUMS.values()], ids=[*SUMS])


@pytest.mark.parametrize("read_first", [True, False])
@every_exact_sum
def test_a_fork_goes_on_and_the_original_stays(make: Any, read_first: bool) -> None:
    *arms, reference = rows_of(*SIZES, 8)
    parts = stream(arms)
    original = fed(make(reference).tally(3, arms[0]), parts[:5])
    twin = fed(make(reference).tally(3, arms[0]), parts[:5])
    if read_first:
        tables(original), tables(twin)
    fork = original.fork()
    fork.grow()
    fed(fork, parts[5:])
    tables(fork)
    assert_same_bits(original.state_dict(), twin.state_dict())
    straight = fed(make(reference).tally(3, arms[0]), parts)
    found, expected = tables(fork), tables(straight)
    np.testing.assert_allclose(found["pairs"][:3, :3], expected["pairs"], rtol=1e-12)
    assert not found["pairs"][3].any()


def placed(arms: Any, library: str) -> tuple[Any, list[tuple[int, Batch]]]:
    """A sample in a library's arrays, and a stream of batches in them."""
    convert = torch.tensor if library == "torch" else np.array
    parts = [(arm, Batch(convert(batch.embeddings))) for arm, batch in stream(arms)]
    return convert(arms[0]), parts


@pytest.mark.parametrize("library", ["numpy", "torch"])
@every_sum
def test_arrays_of_the_state_are_replaced_and_never_changed(make: Any, library: str) -> None:
    """Forks may then share them."""
    *arms, reference = rows_of(*SIZES, 8)
    sample, parts = placed(arms, library)
    tally = fed(make(reference).tally(3, sample), parts[:5])
    other = fed(make(reference).tally(3, sample), parts[7:])
    tables(tally)
    held = [getattr(tally, key) for key in tally.STATE]
    held = [list(value) if isinstance(value, list) else value for value in held]
    held = [value.fork() if isinstance(value, Rows) else value for value in held]
    before = copy.deepcopy([_plain(value) for value in held])
    fed(tally, parts[5:7])
    tables(tally)
    tally.merge(other)
    tally.grow()
    tables(tally)
    assert_same_bits([_plain(value) for value in held], before)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    value = value.array if isinstance(value, Rows) else value
    return np.array(to_numpy(value)) if hasattr(value, "shape") else value


@pytest.mark.parametrize("library", ["numpy", "torch"])
@every_exact_sum
def test_a_state_goes_on_bit_for_bit_with_samples_still_waiting(make: Any, library: str) -> None:
    *arms, reference = (z + 100.0 for z in rows_of(*SIZES, 8))
    sample, parts = placed(arms, library)
    original = fed(make(reference).tally(3, sample), parts[:2])
    tables(original)
    fed(original, parts[2:6])
    state = original.state_dict()
    resumed = make(reference).tally(3, sample)
    resumed.load_state_dict(copy.deepcopy(state))
    for tally in (original, resumed):
        fed(tally, parts[6:9])
        tables(tally)
        fed(tally, parts[9:])
    assert_same_bits(resumed.state_dict(), original.state_dict())


def test_the_reference_goes_by_the_centre_of_the_state() -> None:
    """The mean may differ in its last digits where the state is loaded; here it differs in its first ones."""
    *arms, reference = rows_of(*SIZES, 8)
    kernel = gx.Gaussian(SIGMA)
    elsewhere = gx.KernelDistance(reference + 3.0, kernel).tally(3, arms[0])
    elsewhere.add(0, Batch(arms[0]))
    tally: Any = gx.KernelDistance(reference, kernel).tally(3, arms[0])
    tally.load_state_dict(elsewhere.state_dict())
    tally.add(1, Batch(arms[1]))
    found = tables(tally)
    expected = expected_tables("gaussian", arms, reference)
    assert found["cross"][1] == pytest.approx(expected["cross"][1], rel=1e-12)
    assert found["pairs"][:2, :2] == pytest.approx(expected["pairs"][:2, :2], rel=1e-12)


# -- work that is not done twice ---------------------------------------------------------------------


def test_an_update_is_one_product_of_new_samples_with_all() -> None:
    kernel = Counting()
    reference, *arms = rows_of(20, 30, 31, 32, 33)
    tally: Any = gx.KernelDistance(reference, Custom(kernel)).tally(4, reference)
    for arm, rows in enumerate(arms):
        tally.add(arm, Batch(rows))
    tally.loss(range(4))
    kernel.shapes.clear()
    for arm, rows in enumerate(rows_of(1, 2, 3, 4, seed=1)):
        tally.add(arm, Batch(rows))
    assert kernel.shapes == []
    tally.loss(range(4))
    assert kernel.shapes == [(10, 10), (10, 136), (10, 20)]  # k(x, x) first
    kernel.shapes.clear()
    tally.loss(range(2))
    tally.state_dict()
    assert kernel.shapes == []


def test_a_kernel_is_normalised_by_what_is_remembered_of_every_sample() -> None:
    kernel = Counting()
    tally: Any = gx.RKE(kernel).tally(2, np.ones((1, 3)))
    first, second, third = rows_of(40, 50, 3)
    tally.add(0, Batch(first))
    tally.add(1, Batch(second))
    tally.loss(range(2))
    kernel.shapes.clear()
    tally.add(1, Batch(third))
    tally.loss(range(2))
    assert kernel.shapes == [(3, 3), (3, 93)]  # k(x, x), then all pairs with a new sample


def test_the_reference_is_prepared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared: list[int] = []
    real = GaussianBlocks.rows

    def spy(self: Any, x: Any, centre: Any) -> Any:
        prepared.append(len(x))
        return real(self, x, centre)

    monkeypatch.setattr(GaussianBlocks, "rows", spy)
    *arms, reference = rows_of(*SIZES, 8)
    tally: Any = gx.KernelDistance(reference, gx.Gaussian(SIGMA)).tally(3, arms[0])
    assert prepared == [8]  # for its own mean kernel value and for all batches to come
    prepared.clear()
    for arm, batch in enumerate([arms[0], arms[1], arms[2]]):
        tally.add(arm, Batch(batch))
        tally.loss(range(1))
    assert prepared == list(SIZES)
