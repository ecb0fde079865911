"""The benchmarks by name: the module that runs each, and what it shows in one line."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from bench.table import Report, Size

BENCHMARKS = {
    "frechet": ("bench.frechet", "a whole Fréchet run against the paper's exponentiated gradient"),
    "vendi": ("bench.vendi", "a whole log-Vendi run against the paper's exponentiated gradient"),
    "rke": ("bench.rke", "a whole RKE run against pairwise differences and CVXPY"),
    "kd": ("bench.kd", "a whole kernel distance run against pairwise differences and CVXPY"),
    "kernel-sums": ("bench.kernel_sums", "exact kernel sums against pairwise differences"),
    "growth": ("bench.growth", "time and memory against samples, dimensions and arms"),
    "score": ("bench.score", "scores against vendi-score and the textbook's matrix root"),
    "solvers": ("bench.solvers", "Newton, EG, SLSQP and CVXPY on the same static losses"),
    "studies": ("bench.studies", "what a whole study costs a sample beside generating"),
    "startup": ("bench.startup", "import genmix against import numpy"),
    "profile": ("bench.profile", "where the time of a Fréchet and a Vendi run goes"),
    "gpu": ("bench.gpu", "solves, kernel sums and runs on a CUDA device"),
}
"""Modules are named, not imported: each needs packages that the others do not."""


def benchmark(name: str) -> Callable[[Size], Report]:
    run: Callable[[Size], Report] = importlib.import_module(BENCHMARKS[name][0]).run
    return run
