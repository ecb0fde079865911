"""Means with confidence bands, paired differences, exponents: the numbers behind the figures."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from genmix.core.optional import need
from genmix.errors import InputError

LEVEL = 0.95
LEAST_TIMES = 5
"""To fit a slope to."""


@dataclass(frozen=True)
class Interval:
    """A mean with its 95 % confidence interval (Student's t)."""

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
    """The mean of independent values."""
    found = bands(np.asarray(values, float)[:, None])
    return Interval(float(found[0][0]), float(found[1][0]), float(found[2][0]), len(values))


def bands(
    values: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Mean, low and high of each column of ``(repeats, points)``; NaN bounds for a single row."""
    mean = values.mean(axis=0)
    if len(values) < 2:
        unknown = np.full_like(mean, np.nan)
        return mean, unknown, unknown
    half = student(len(values) - 1) * values.std(axis=0, ddof=1) / math.sqrt(len(values))
    return mean, mean - half, mean + half


def student(degrees: int) -> float:
    """The two-sided 95 % point of Student's t."""
    stats = need("scipy.stats", "paper", "a confidence interval")
    return float(stats.t.ppf(0.5 + LEVEL / 2, degrees))


@dataclass(frozen=True)
class Paired:
    """The mean of ``a − b`` over paired repeats, and two tests of whether it is zero."""

    difference: Interval
    t_test: float
    """p of the paired t-test."""
    wilcoxon: float
    """p of the signed-rank test, which does not ask for normal differences."""


def paired(a: NDArray[np.float64], b: NDArray[np.float64]) -> Paired:
    stats = need("scipy.stats", "paper", "a paired test")
    if len(a) != len(b) or len(a) < 2:
        raise InputError("a paired test needs at least two repeats of both: raise repeats.")
    difference = np.asarray(a, float) - np.asarray(b, float)
    interval = mean_interval(difference)
    if not np.any(difference):
        return Paired(interval, 1.0, 1.0)
    spread = float(difference.std(ddof=1))
    t_test = float(stats.ttest_1samp(difference, 0.0).pvalue) if spread else 0.0
    return Paired(interval, t_test, float(stats.wilcoxon(difference).pvalue))


def cumulated(
    times: NDArray[np.int64], excess: NDArray[np.float64], warm: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """``Σ_{s≤t} excess_s`` at the times and at ``warm``, from the excess at the times.

    By trapezoids between them; the first value stands for all samples before it. In the warm start
    the weights do not change: where it ends between two times, each side has its own value.
    """
    widths = np.diff(times)
    with np.errstate(invalid="ignore"):  # ∞ − ∞, made ∞ again below
        between = (excess[..., 1:] + excess[..., :-1]) / 2
        # Σ over (t_k, t_{k+1}] of a line through both ends has the right end once, the left end never.
        between = between + (excess[..., 1:] - excess[..., :-1]) / (2 * np.maximum(widths, 1))
    steps = np.where(np.isnan(between), math.inf, between) * widths
    last = int(np.searchsorted(times, warm, side="right")) - 1  # the last time in the warm start
    warming = _lasting(excess[..., max(last, 0)], warm - (times[last] if last >= 0 else 0))
    if 0 <= last < len(widths):
        steps[..., last] = warming + excess[..., last + 1] * (times[last + 1] - warm)
    first = excess[..., :1] * times[0]
    total: NDArray[np.float64] = np.cumsum(np.concatenate([first, steps], axis=-1), axis=-1)
    return total, (total[..., last] if last >= 0 else 0.0) + warming


def _lasting(excess: NDArray[np.float64], samples: int) -> NDArray[np.float64]:
    """The sum of an excess that stays; none of nothing, also where it is infinite."""
    return excess * samples if samples else np.zeros_like(excess)


@dataclass(frozen=True)
class Exponent:
    """The slope of log regret over log t, with a 95 % interval (jackknife, Student's t)."""

    slope: float
    low: float
    high: float


def exponent(
    times: NDArray[np.int64],
    regret: NDArray[np.float64],
    warm: int = 0,
    before: NDArray[np.float64] | None = None,
) -> Exponent | None:
    """Of the mean of ``regret`` ``(repeats, points)`` in the time since the warm start, over its last decade.

    ``warm``: samples of the warm start, in which nothing is learnt, and ``before`` the regret of
    each repeat by then. None where the regret is not positive, with all repeats or without one of
    them, or there are too few times or repeats to tell.
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


def settled(times: NDArray[np.int64], within: NDArray[np.bool_]) -> float:
    """The first time from which on ``within`` holds to the end; ∞ if it does not."""
    if not within[-1]:
        return math.inf
    outside = np.flatnonzero(~within)
    return float(times[0] if not len(outside) else times[outside[-1] + 1])
