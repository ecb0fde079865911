"""Peak memory stays far below the size of the samples. The full size is ``python -m bench shards``."""

from __future__ import annotations

import pytest
from bench.shards import run

LARGEST = 350
"""Peak memory in MiB, including the interpreter; the samples alone take 400 MB in float64."""


@pytest.mark.drill
def test_commands_need_little_memory_and_agree_with_memory() -> None:
    report = run("quick")
    _, main, workers = report.tables
    for table in (main, workers):
        for row in table.rows:
            assert row.cost < LARGEST, f"{row.who}, {table.title}"
    difference = report.claims[1]
    assert difference.value <= 1e-10
