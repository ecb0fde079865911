"""Kernel ridge regression, sample by sample, against a fit of all samples at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge as Fitted

import genmix as gx
from genmix.core.arrays import SharedRows
from genmix.kernels.ridge import BLOCK, KernelRidge
from tests.support.conformance import assert_plain, assert_same_bits

RNG = np.random.default_rng(3)
X, Y = RNG.standard_normal((2 * BLOCK + 7, 5)), RNG.standard_normal((2 * BLOCK + 7, 3))
KERNELS = {
    "gaussian": (gx.Gaussian(0.8), {"kernel": "rbf", "gamma": 1 / (2 * 0.8**2)}),
    "cubic": (
        gx.Polynomial(3, 0.4, 1.0),
        {"kernel": "polynomial", "degree": 3, "gamma": 0.4, "coef0": 1.0},
    ),
}
every_kernel = pytest.mark.parametrize("kernel", KERNELS)


def regression(n: int, kernel: str = "gaussian", penalty: float = 0.7) -> KernelRidge:
    made = KernelRidge(KERNELS[kernel][0], penalty, X.shape[1], Y.shape[1])
    for i in range(n):
        made.append(X[i : i + 1], Y[i])
    return made


def same(one: KernelRidge, other: KernelRidge) -> bool:
    x = np.full((1, X.shape[1]), 0.3)
    mine, theirs = one.predict(x), other.predict(x)
    return bool((mine.means == theirs.means).all()) and mine.variance == theirs.variance


@every_kernel
@pytest.mark.parametrize("n", [1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 7])
def test_adding_samples_one_by_one_equals_a_fit(kernel: str, n: int) -> None:
    ours = regression(n, kernel)
    judge = Fitted(alpha=0.7, **KERNELS[kernel][1])
    for x in np.random.default_rng(n).standard_normal((4, 1, 5)):
        found = ours.predict(x)
        assert found.means == pytest.approx(judge.fit(X[:n], Y[:n]).predict(x)[0], abs=1e-9)
        own, row = KERNELS[kernel][0](x, x)[0, 0], KERNELS[kernel][0](x, X[:n])[0]
        known = judge.fit(X[:n], row).predict(x)[0]
        assert found.variance == pytest.approx(own - known, rel=1e-8, abs=1e-9)


def test_without_samples_nothing_is_known() -> None:
    found = regression(0).predict(X[:1])
    assert found.means.tolist() == [0.0, 0.0, 0.0]
    assert found.variance == 1.0


def test_repeated_inputs_and_a_small_penalty_are_no_problem() -> None:
    made = KernelRidge(gx.Gaussian(1.0), 1e-8, 5, 1)
    for k in range(40):
        made.append(X[:1], np.array([float(k % 2)]))
    found = made.predict(X[:1])
    assert found.means == pytest.approx([0.5], abs=1e-6)
    assert 0 <= found.variance < 1e-6


def test_a_later_target_equals_one_from_the_beginning() -> None:
    late = KernelRidge(gx.Gaussian(0.8), 0.7, 5, 2)
    whole = KernelRidge(gx.Gaussian(0.8), 0.7, 5, 3)
    for i in range(30):
        late.append(X[i : i + 1], Y[i, :2])
        whole.append(X[i : i + 1], np.array([*Y[i, :2], -0.01]))
    late.add_target(-0.01)
    for made in (late, whole):
        made.append(X[30:31], Y[30])
    x = X[40:41]
    assert late.predict(x).means == pytest.approx(whole.predict(x).means, abs=1e-13)


@pytest.mark.parametrize("n", [0, 3, BLOCK - 1, BLOCK])
def test_samples_can_be_added_to_every_fork(n: int) -> None:
    base = regression(n)
    first, second = base.fork(), base.fork()
    first.append(X[-1:], Y[0])
    second.append(X[-2:-1], Y[1])
    second.append(X[-3:-2], Y[2])
    first.append(X[-4:-3], Y[3])
    assert base.count == n
    for made, rows, targets in ((first, [-1, -4], [0, 3]), (second, [-2, -3], [1, 2])):
        expected = regression(n)
        for row, target in zip(rows, targets, strict=True):
            expected.append(X[[row]], Y[target])
        assert same(made, expected)


def test_rows_of_forks_do_not_overwrite_each_other() -> None:
    base = SharedRows(np.empty((0, 2)), 2)
    base.append(np.ones((3, 2)))
    forks = [base.fork() for _ in range(3)]
    for k, fork in enumerate(forks):
        fork.append(np.full((1, 2), float(k)))
        fork.append(np.full((1, 2), 10.0 + k))
    assert [fork.array[3:, 0].tolist() for fork in forks] == [[0, 10], [1, 11], [2, 12]]
    assert base.array.tolist() == [[1.0, 1.0]] * 3


@every_kernel
@pytest.mark.parametrize("n", [0, 5, BLOCK, BLOCK + 9])
def test_a_saved_regression_continues_bit_for_bit(kernel: str, n: int) -> None:
    made = regression(n, kernel)
    state = made.state_dict()
    assert_plain(state)
    again = KernelRidge(KERNELS[kernel][0], 0.7, 5, 3)
    again.load_state_dict(state)
    for each in (made, again):
        for i in range(300, 303):
            each.append(X[i : i + 1], Y[i])
    assert_same_bits(again.state_dict(), made.state_dict())


def _broken(state: dict[str, Any], key: str) -> dict[str, Any]:
    if key == "inputs":
        return state | {"inputs": state["inputs"] | {"rows": state["inputs"]["rows"][:-1]}}
    if key == "center":
        return state | {"inputs": state["inputs"] | {"center": np.zeros(2)}}
    if key == "values":
        return state | {"values": state["values"][:, :2]}
    if key == "nan":
        return state | {"values": np.full_like(state["values"], np.nan)}
    return state | {"factor": [block[:, :-1] for block in state["factor"]]}


@pytest.mark.parametrize("key", ["inputs", "center", "values", "nan", "factor"])
def test_a_damaged_regression_is_refused(key: str) -> None:
    again = KernelRidge(KERNELS["gaussian"][0], 0.7, 5, 3)
    with pytest.raises(ValueError, match=r"regression|kept samples"):
        again.load_state_dict(_broken(regression(8).state_dict(), key))


@pytest.mark.drill
def test_rounding_errors_do_not_grow() -> None:
    rows = np.random.default_rng(0).standard_normal((2500, 5)) / 5
    targets = rows[:, :1] ** 2
    made = KernelRidge(gx.Gaussian(0.8), 1e-3, 5, 1)
    for row, target in zip(rows, targets, strict=True):
        made.append(row[None, :], target)
    judge = Fitted(alpha=1e-3, **KERNELS["gaussian"][1]).fit(rows, targets[:, 0])
    for x in X[:5] / 5:
        expected = judge.predict(x[None, :])
        assert made.predict(x[None, :]).means == pytest.approx(expected, abs=1e-9)
