"""A whole online run with log-Vendi and the cosine kernel, against the paper's procedure."""

from __future__ import annotations

from bench import spectral_run
from bench.clouds import Rows
from bench.opponents import paper
from bench.table import Report, Size


def run(size: Size = "full") -> Report:
    return spectral_run.measure("vendi", "log-Vendi, online", problem, size)


def problem(real: Rows, arms: int, samples: int, eigh: paper.Eigh) -> paper.Statistics:
    columns = real.shape[1]
    if samples < columns:
        return paper.VendiGram(arms, columns, samples, eigh)
    return paper.Vendi(arms, columns, eigh)
