"""A whole online run with RKE and an exact Gaussian kernel, against pairwise differences and CVXPY."""

from __future__ import annotations

import genmix as gx
from bench.quadratic_run import Kind, measure
from bench.table import Report, Size

KIND = Kind("RKE, online", lambda real, kernel: gx.RKE(kernel), 2, False, 20)


def run(size: Size = "full") -> Report:
    return measure(KIND, size)
