"""A whole online run with the kernel distance, against pairwise differences and CVXPY."""

from __future__ import annotations

import genmix as gx
from bench.quadratic_run import Kind, measure
from bench.table import Report, Size

KIND = Kind("kernel distance, online", gx.KernelDistance, 1, True, 50)


def run(size: Size = "full") -> Report:
    return measure(KIND, size)
