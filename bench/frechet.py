"""A whole online run with the Fréchet distance, against the paper's exponentiated gradient."""

from __future__ import annotations

import numpy as np

from bench import spectral_run
from bench.clouds import Rows
from bench.opponents import paper
from bench.table import Report, Size


def run(size: Size = "full") -> Report:
    return spectral_run.measure("frechet", "Fréchet distance, online", problem, size)


def problem(real: Rows, arms: int, samples: int, eigh: paper.Eigh) -> paper.Statistics:
    return paper.Frechet(arms, real.mean(axis=0), np.cov(real, rowvar=False, bias=True), eigh)
