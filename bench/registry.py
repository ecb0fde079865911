"""The benchmarks by name, each with its module and a one-line description."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from bench.table import Report, Size

BENCHMARKS = {
    "frechet": ("bench.frechet", "a whole Fréchet run against the paper's exponentiated gradient"),
    "vendi": ("bench.vendi", "a whole log-Vendi run against the paper's exponentiated gradient"),
    "rke": ("bench.rke", "a whole RKE run against pairwise differences and CVXPY"),
    "kd": ("bench.kd", "a whole kernel distance run against pairwise differences and CVXPY"),
    "kd-short": ("bench.kd_short", "the same with a fifth of the rounds and the same reference"),
    "kernel-sums": ("bench.kernel_sums", "exact kernel sums against pairwise differences"),
    "growth": ("bench.growth", "time and memory by samples, dimensions and arms"),
    "score": ("bench.score", "scores against vendi-score, FID tools, POT and prdc"),
    "solvers": ("bench.solvers", "Newton, EG, SLSQP and CVXPY on the same static losses"),
    "many-arms": ("bench.many_arms", "hundreds of arms and cells: steps in some of the arms"),
    "studies": ("bench.studies", "the overhead of a whole study per sample, without generation"),
    "engines": (
        "bench.engines",
        "the share of the ideal rate with slow generators, locally and on Ray",
    ),
    "scaling": (
        "bench.scaling",
        "what the controller costs with up to 1,000 arms and 200,000 samples",
    ),
    "startup": ("bench.startup", "import genmix against import numpy"),
    "profile": ("bench.profile", "where the time of a Fréchet and a Vendi run goes"),
    "keep": ("bench.keep", "the best k of N samples: time to a gap, against greedy selection"),
    "shards": ("bench.shards", "time and peak memory of 5 GB of shards"),
    "intervals": ("bench.intervals", "bootstrap intervals against solving every resample"),
    "prompts": ("bench.prompts", "one round of DAK-UCB against refitting its regressions"),
    "gpu": ("bench.gpu", "solves, kernel sums and runs on a CUDA device"),
}
"""Modules are given by name, not imported, because each needs different packages."""


def benchmark(name: str) -> Callable[[Size], Report]:
    run: Callable[[Size], Report] = importlib.import_module(BENCHMARKS[name][0]).run
    return run
