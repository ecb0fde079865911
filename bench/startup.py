"""Seconds of ``import genmix``, against ``import numpy``."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict, dataclass
from time import perf_counter

import numpy as np

from bench.table import Claim, Report, Row, Size, Table

PROBE = """
from time import perf_counter
begin = perf_counter()
import {module}
print(perf_counter() - begin)
"""


@dataclass(frozen=True)
class Parameters:
    repeats: int


SIZES: dict[Size, Parameters] = {
    "full": Parameters(25),
    "quick": Parameters(9),
    "tiny": Parameters(1),
}

MODULES = ("genmix", "numpy")


def run(size: Size = "full") -> Report:
    at = SIZES[size]
    for module in MODULES:
        probe(module)  # loads the files into the cache
    taken = np.array([[probe(module) for module in MODULES] for _ in range(at.repeats)])
    inside, whole = np.moveaxis(np.median(taken, axis=0), 1, 0)
    tables = [
        Table(title, "s", [Row(f"import {name}", float(cost[i])) for i, name in enumerate(MODULES)])
        for title, cost in (("only the import", inside), ("the whole process", whole))
    ]
    ratio = float(inside[0] / inside[1])
    return Report(
        "startup",
        size,
        asdict(at),
        tables,
        [Claim("import genmix over import numpy", ratio, 3, at_least=False)],
        ["medians over new processes, alternating, with files in the cache of the system"],
        {"seconds": taken},
    )


def probe(module: str) -> tuple[float, float]:
    """Seconds of the import, and of the whole process."""
    begin = perf_counter()
    command = [sys.executable, "-c", PROBE.format(module=module)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout), perf_counter() - begin
