"""The smallest entries of each row, against a complete sort."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genmix.core.arrays import PART, smallest


@given(
    st.integers(1, 4),
    st.integers(1, 12 * PART),
    st.integers(1, 9),
    st.sampled_from([1, 2, 5, 10**6]),
    st.integers(0, 10**6),
)
def test_the_smallest_entries_are_those_of_a_sort(
    rows: int, columns: int, count: int, different: int, seed: int
) -> None:
    """With few different values, most entries are tied."""
    count = min(count, columns)
    matrix = np.random.default_rng(seed).integers(different, size=(rows, columns)).astype(float)
    found = smallest(matrix, count)
    assert found.shape == (rows, count)
    assert all(len(set(row)) == count for row in found.tolist())
    np.testing.assert_array_equal(
        np.take_along_axis(matrix, found, axis=1), np.sort(matrix, axis=1)[:, :count]
    )


@pytest.mark.parametrize("columns", [PART * 8, PART * 8 + 1, PART * 9 - 1])
def test_an_entry_in_any_column_is_found(columns: int) -> None:
    matrix = np.ones((columns, columns)) - np.eye(columns)
    assert smallest(matrix, 7)[:, 0].tolist() == list(range(columns))
