"""Confidence intervals, paired tests, cumulative regret and its exponent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from genmix.core.optional import require
from genmix.errors import InputError

LEVEL = 0.95
LEAST_TIMES = 5
"""Minimum number of times needed to fit a slope."""


@dataclass(frozen=True)
class Interval:
    """A mean with its 95% confidence interval (Student's t)."""

    mean: float
    low: float
    high: float
    n: int

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0

    def __str__(self) -> str:
        return f"{self.mean:.4g} [{self.low:.4g}, {self.high:.4g}]"


def mean_interval(values: NDArray[np.float64]) -> Interval:
    """Return the mean of independent values and its confidence interval."""
    mean, low, high = (float(part[0]) for part in bands(np.asarray(values, float)[:, None]))
    return Interval(mean, low, high, len(values))


def bands(
    values: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean and 95% bounds of each column of ``(repeats, points)``; for one row, NaN bounds."""
    mean = values.mean(axis=0)
    if len(values) < 2:
        unknown = np.full_like(mean, np.nan)
        return mean, unknown, unknown
    half = student(len(values) - 1) * values.std(axis=0, ddof=1) / math.sqrt(len(values))
    return mean, mean - half, mean + half


@cache
def student(degrees: int) -> float:
    """Return the two-sided 95% quantile of Student's t."""
    special = require("scipy.special", "paper", "a confidence interval")
    return float(special.stdtrit(degrees, 0.5 + LEVEL / 2))


@dataclass(frozen=True)
class Paired:
    """The mean of ``a − b`` over paired repeats, and the p-values of two tests of whether it is zero."""

    difference: Interval
    t_test: float
    """The paired t-test."""
    wilcoxon: float
    """The Wilcoxon signed-rank test, which does not assume normal differences."""


def paired(a: NDArray[np.float64], b: NDArray[np.float64]) -> Paired:
    stats = require("scipy.stats", "paper", "a paired test")
    if len(a) != len(b) or len(a) < 2:
        raise InputError("a paired test needs at least two repeats; increase repeats.")
    difference = np.asarray(a, float) - np.asarray(b, float)
    interval = mean_interval(difference)
    if not np.any(difference):
        return Paired(interval, 1.0, 1.0)
    spread = float(difference.std(ddof=1))
    t_test = float(stats.ttest_1samp(difference, 0.0).pvalue) if spread else 0.0
    return Paired(interval, t_test, float(stats.wilcoxon(difference).pvalue))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p-values; if 0.05 is the limit, the chance of any false claim is at most 5%."""
    order = np.argsort(p_values, kind="stable")
    factors = np.arange(len(order), 0, -1)
    adjusted = np.empty(len(order))
    adjusted[order] = np.maximum.accumulate(factors * np.asarray(p_values, float)[order])
    return [min(p, 1.0) for p in adjusted.tolist()]


def cumulative(
    times: NDArray[np.int64], excess: NDArray[np.float64], warm: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute ``Σ_{s≤t} excess_s`` at the times and at ``warm``, from the excess at the times.

    Uses trapezoids between times; the first value also applies to all samples before it. Weights are
    constant during the warm start; if it ends between two times, each side keeps its own value.
    """
    widths = np.diff(times)
    with np.errstate(invalid="ignore"):  # ∞ − ∞ is set to ∞ below
        between = (excess[..., 1:] + excess[..., :-1]) / 2
        # The sum over (t_k, t_{k+1}] of a line includes the right end but not the left.
        between = between + (excess[..., 1:] - excess[..., :-1]) / (2 * np.maximum(widths, 1))
    steps = np.where(np.isnan(between), math.inf, between) * widths
    last = int(np.searchsorted(times, warm, side="right")) - 1  # the last time in the warm start
    samples = warm - (times[last] if last >= 0 else 0)
    constant = excess[..., max(last, 0)]
    warming = constant * samples if samples else np.zeros_like(constant)  # not ∞ · 0
    if 0 <= last < len(widths):
        steps[..., last] = warming + excess[..., last + 1] * (times[last + 1] - warm)
    first = excess[..., :1] * times[0]
    total: NDArray[np.float64] = np.cumsum(np.concatenate([first, steps], axis=-1), axis=-1)
    return total, (total[..., last] if last >= 0 else 0.0) + warming


@dataclass(frozen=True)
class Exponent:
    """The slope of log regret against log t, with its 95% interval (jackknife, Student's t)."""

    slope: float
    low: float
    high: float


def exponent(
    times: NDArray[np.int64],
    regret: NDArray[np.float64],
    warm: int = 0,
    before: NDArray[np.float64] | None = None,
) -> Exponent | None:
    """Fit how the mean ``regret``, shape ``(repeats, points)``, grows with the time since the warm start.

    The fit uses the last decade of that time. ``warm`` is the number of samples in the warm start, and
    ``before`` is the regret of each repeat at its end. Returns None if there are too few times or repeats,
    or if the mean over all repeats, or over all but one, is not positive.
    """
    late = times - warm >= max((times[-1] - warm) / 10, 1)
    if late.sum() < LEAST_TIMES or len(regret) < 2:
        return None
    since = times[late] - warm
    added = regret[:, late] - (0.0 if before is None else before[:, None])
    n = len(added)
    slope = _slope(since, added.mean(axis=0))
    without = [_slope(since, np.delete(added, i, axis=0).mean(axis=0)) for i in range(n)]
    known = np.array([each for each in without if each is not None])
    if slope is None or len(known) < n:
        return None
    error = math.sqrt((n - 1) * float(np.mean((known - known.mean()) ** 2)))
    return Exponent(slope, slope - student(n - 1) * error, slope + student(n - 1) * error)


def _slope(times: NDArray[np.int64], mean: NDArray[np.float64]) -> float | None:
    if len(times) < 2 or not np.all((mean > 0) & np.isfinite(mean)):
        return None
    return float(np.polyfit(np.log(times), np.log(mean), 1)[0])


def settling_time(times: NDArray[np.int64], within: NDArray[np.bool_]) -> float:
    """Return the first time from which ``within`` stays true; ∞ if there is none."""
    if not within[-1]:
        return math.inf
    outside = np.flatnonzero(~within)
    return float(times[0] if not len(outside) else times[outside[-1] + 1])
