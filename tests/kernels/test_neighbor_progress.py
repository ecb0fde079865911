"""Searches for nearest neighbors report every block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.kernels import balls
from genmix.kernels.neighbor_progress import reporting_neighbors

ROWS = np.random.default_rng(0).standard_normal((40, 3))
CALLS: dict[str, Callable[[], Any]] = {
    "score": lambda: gx.score({"a": ROWS}, gx.Vendi(), reference=ROWS + 0.1),
    "mixture": lambda: gx.optimal_mixture({"a": ROWS, "b": ROWS}, gx.Precision(ROWS + 0.1)),
    "keep": lambda: gx.keep(ROWS, 5, gx.Density(ROWS + 0.1)),
}


@pytest.mark.parametrize("name", CALLS)
def test_every_block_is_reported(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balls, "BLOCK_BYTES", 8 * 40 * 15)  # 15 rows
    seen: list[tuple[str, int, int]] = []
    with reporting_neighbors(lambda *now: seen.append(now)):
        CALLS[name]()
    first = "finding the neighbors in the reference"
    assert seen[:3] == [(first, 15, 40), (first, 30, 40), (first, 40, 40)]
    before = len(seen)
    CALLS[name]()
    assert len(seen) == before
