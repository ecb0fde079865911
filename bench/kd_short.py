"""A short online run with the kernel distance, where the reference is much larger than the samples."""

from __future__ import annotations

import genmix as gx
from bench.quadratic_run import Kind, measure
from bench.table import Report, Size

KIND = Kind("kernel distance, short online run", gx.KernelDistance, 1, True, 40)


def run(size: Size = "full") -> Report:
    return measure(KIND, size, part=0.2 if size == "full" else 1.0)
