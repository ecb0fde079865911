"""Predict how much better the best k samples become if more samples are generated."""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from genmix.core.arrays import Array
from genmix.core.streams import private_stream
from genmix.core.text import counted, number
from genmix.errors import InputError, whole
from genmix.errors import number as checked_number
from genmix.objectives import Batch, Objective, Sum
from genmix.offline.growth import Growth
from genmix.offline.keep import rows_of, validated
from genmix.offline.keeping import Rules
from genmix.offline.sample_losses import Converted, sample_loss
from genmix.solvers.subset import quick_subset
from genmix.solvers.subsets import Indices, Subsets

ORDERS = 4
"""Number of random orders of the samples; even."""

FRACTIONS = (0.4, 0.5, 0.6, 0.75, 0.88)
"""Sizes of the random subsets, as fractions of all samples."""

CHOICE = 1.1
"""Number of candidates per kept sample from which a subset is large enough to be informative."""

ATTEMPTS = 1000
"""Number of random orders to try for subsets with enough candidates."""

LEAST_SIZES = 3
"""Number of sizes that are needed to see how the score grows."""

CONFIDENCE, DEVIATIONS = 0.9, 1.645
"""Level of the interval, and half its width in standard deviations."""

ROUNDING = 1e-9
"""A smaller distance from the best possible score, relative to the score, is a rounding error."""


@dataclass(frozen=True)
class KeepPrediction:
    """How much better the best k samples become with more samples.

    Attributes
    ----------
    samples : int
        Number of samples so far.
    more : int
        Number of samples to come.
    count, count_after : int
        Number of kept samples, now and then. They are different only if a share of the samples is kept.
    gain : float
        Expected improvement of the score; positive is better for every objective. For a sum of
        objectives, the decrease of the loss.
    low, high : float
        90% interval of the gain.
    name : str
        Name of the score, or ``"loss"`` for a sum of objectives.
    maximise : bool
        Whether a larger score is better.
    curve : tuple of (int, float)
        Numbers of samples and the mean score of the best k of them, by a quick search: of random
        subsets, and of all samples. The prediction extrapolates it.

    See Also
    --------
    predict_keep : Computes it.

    Examples
    --------
    >>> import numpy as np
    >>> import genmix as gx
    >>> X = np.random.default_rng(0).standard_normal((60, 8))
    >>> found = gx.predict_keep(X, 10, gx.Vendi(), more=40)
    >>> found.samples, found.count, found.low < found.gain < found.high
    (60, 10, True)
    """

    samples: int
    more: int
    count: int
    count_after: int
    gain: float
    low: float
    high: float
    name: str
    maximise: bool
    curve: tuple[tuple[int, float], ...]

    def __str__(self) -> str:
        low, high = (self._signed(value) for value in (self.low, self.high))
        return (
            f"another {counted(self.more, 'sample')} {'is' if self.more == 1 else 'are'} worth about "
            f"{self._signed(self.gain)} {self.name} "
            f"({CONFIDENCE:.0%}: {low} to {high})"
        )

    def _signed(self, gain: float) -> str:
        """Format the change of the score that a gain means."""
        change = gain if self.maximise else -gain
        return f"{'−' if change < 0 else '+'}{number(abs(change), 2)}"

    def as_dict(self) -> dict[str, Any]:
        """Return the prediction as JSON values.

        Returns
        -------
        dict
        """
        found = {key: getattr(self, key) for key in self.__dataclass_fields__}
        return found | {"curve": [list(point) for point in self.curve]}


def predict_keep(
    X: Array,
    k: int | None,
    objective: Objective,
    more: int,
    *,
    share: float | None = None,
    min_quality: float | None = None,
    quality: Any = None,
    cost: Any = None,
    seed: int = 0,
) -> KeepPrediction:
    """Predict how much better the best k samples become if more samples are generated.

    The best k of random subsets of the samples show how the score has grown with the number of samples. The
    curve ``a − b·n^(−c)`` through these scores is extrapolated. The samples to come are expected to be like
    those so far.

    Parameters
    ----------
    X : array of shape (N, d)
        Embeddings of the samples so far, as a numpy array or torch tensor on any device.
    k : int or None
        Number of samples to keep; None with ``share``.
    objective : Objective
        What the kept samples optimize together.
    more : int
        Number of samples to come.
    share : float, optional
        Share of all samples to keep, instead of their number.
    min_quality : float, optional
        Only samples of at least this quality are kept.
    quality, cost : array of shape (N,) or float, optional
        One number per sample or a single number for all of them.
    seed : int, default 0
        Seed for the random subsets; the same seed yields the same result.

    Returns
    -------
    KeepPrediction
        The gain with its 90% interval, and the curve that was extrapolated.

    Raises
    ------
    InputError
        If an argument is invalid, or if there are too few samples: about 1.9 candidates per kept sample
        are necessary.

    See Also
    --------
    keep : Chooses the samples.

    Examples
    --------
    Two generators have four modes, and all of them have been seen, so more samples are worth nothing:

    >>> import numpy as np
    >>> import genmix as gx
    >>> X = np.eye(4)[np.arange(200) % 4]
    >>> print(gx.predict_keep(X, 40, gx.Vendi(), more=100))
    another 100 samples are worth about +0 vendi (90%: +0 to +0)
    """
    with ExitStack() as copies:
        batch, fixed = validated(X, objective, quality, cost, copies)
        if (k is None) == (share is None):
            raise InputError("pass either k or share to say how many samples to keep.")
        if k is not None:
            k = whole(k, "k", fixed.least_samples)
        if share is not None and checked_number(share, "share", 0.0, 1.0) == 0:
            raise InputError("share is 0; pass a number greater than 0 and at most 1.")
        rules = Rules(k, share, min_quality)
        return predict(batch, fixed, rules, whole(more, "more", 1), whole(seed, "seed", 0))


def predict(
    batch: Batch, objective: Objective, rules: Rules, more: int, seed: int = 0
) -> KeepPrediction:
    """Predict for an objective with fixed bandwidths and the rules of a study."""
    total, search = len(batch), _Search(batch, objective, rules)
    growth = _growth(search, _sizes(search), private_stream(seed, "predict keep"))
    gain, deviation = growth.gain(more)
    margin, least, most = DEVIATIONS * deviation, -math.inf, math.inf
    if rules.samples is not None:  # the best k of more samples are never worse
        room = search.highest - growth.last
        least, most = 0.0, room if room > ROUNDING * abs(growth.last) else 0.0
    gain = min(gain, most)
    sign = 1.0 if search.maximise else -1.0
    means = {int(n): sign * float(s) for n, s in zip(growth.sizes, growth.means, strict=True)}
    return KeepPrediction(
        samples=total,
        more=more,
        count=rules.count(total),
        count_after=rules.count(total + more),
        gain=gain,
        low=max(gain - margin, least),
        high=min(gain + margin, most),
        name="loss" if isinstance(objective, Sum) else objective.name,
        maximise=search.maximise,
        curve=((*means.items(), (total, sign * growth.last))),
    )


class _Search:
    """Scores the best k samples of a subset, quickly; larger is better."""

    def __init__(self, batch: Batch, objective: Objective, rules: Rules) -> None:
        self.batch, self.objective, self.rules = batch, objective, rules
        self.maximise = not isinstance(objective, Sum) and objective.maximise
        self.may_be_kept = np.zeros(len(batch), dtype=bool)
        self.may_be_kept[rules.candidates(batch)] = True

    @property
    def candidates_per_sample(self) -> float:
        return float(np.mean(self.may_be_kept))

    def is_enough(self, rows: Indices) -> bool:
        """Return whether a subset has enough candidates for a score."""
        return int(self.may_be_kept[rows].sum()) >= self.objective.least_samples

    @property
    def highest(self) -> float:
        """The best score that any k samples can have, including samples to come, e.g. k for Vendi."""
        converted = self._converted(np.arange(len(self.batch)))[0]
        lowest = converted.loss.limits[0]
        return math.inf if math.isinf(lowest) else self._score(converted, lowest)

    def score(self, rows: Indices) -> float:
        converted, subsets = self._converted(rows)
        return self._score(converted, quick_subset(converted.loss, subsets).loss)

    def _converted(self, rows: Indices) -> tuple[Converted, Subsets]:
        candidates = np.sort(rows[self.may_be_kept[rows]])
        subsets = Subsets(len(candidates), min(self.rules.count(len(rows)), len(candidates)))
        return sample_loss(self.objective, rows_of(self.batch, candidates), subsets), subsets

    def _score(self, converted: Converted, loss: float) -> float:
        if converted.score is None:
            return -loss
        return converted.score(loss) if self.maximise else -converted.score(loss)


def _growth(search: _Search, sizes: list[int], rng: np.random.Generator) -> Growth:
    """Score nested random subsets."""
    total, orders = len(search.batch), _orders(search, sizes[0], rng)
    scores = np.array([[search.score(order[:size]) for size in sizes] for order in orders])
    last = search.score(np.arange(total))
    if search.rules.samples is not None:  # the best k of a subset are available in every larger one
        scores = np.maximum.accumulate(scores, axis=1)
        last = max(last, float(scores.max()))
    kind: Literal["score", "share", "distance"] = "score"
    if not (search.maximise or isinstance(search.objective, Sum)):
        kind = "distance"
    elif search.rules.samples is None:
        kind = "share"
    return Growth(np.array(sizes, dtype=float), scores, total, last, kind)


def _orders(search: _Search, size: int, rng: np.random.Generator) -> list[Indices]:
    """Draw random orders whose first ``size`` samples have enough candidates.

    Every second order is the reverse of the one before. What is not in one subset is then in the other, and
    most of the luck of the draw cancels out.
    """
    found: list[Indices] = []
    for _ in range(ATTEMPTS):
        order = rng.permutation(len(search.batch))
        both = [order, order[::-1]]
        found += both if all(search.is_enough(each[:size]) for each in both) else []
        if len(found) == ORDERS:
            return found
    candidates = int(search.may_be_kept.sum())
    raise InputError(
        f"only {candidates} of {counted(len(search.batch), 'sample')} can be kept, which is too few for a "
        "prediction; generate more samples, or lower the minimum quality."
    )


def _sizes(search: _Search) -> list[int]:
    """Return the sizes of the subsets that leave a choice of which samples to keep."""
    rules, rate, least = search.rules, search.candidates_per_sample, search.objective.least_samples

    def leaves_choice(size: int) -> bool:
        count = rules.count(size)
        return count >= least and (rules.samples is None or rate * size >= CHOICE * count)

    def sizes(total: int) -> list[int]:
        found = sorted({round(fraction * total) for fraction in FRACTIONS})
        return [size for size in found if size < total and leaves_choice(size)]

    total = len(search.batch)
    found = sizes(total)
    if len(found) >= LEAST_SIZES:
        return found
    needed = total + 1
    while len(sizes(needed)) < LEAST_SIZES:
        needed += max(1, needed // 100)
    remedy = "keep fewer" if rules.samples is not None else "keep a larger share"
    raise InputError(
        f"{counted(total, 'sample')} {'is' if total == 1 else 'are'} too few to predict the best "
        f"{rules.count(total):,}; generate at least {needed:,} samples, or {remedy}."
    )


def prediction_sentences(kept: dict[str, Any]) -> list[str]:
    """Say what the prediction in a kept set's JSON values means; nothing if there is none."""
    found = kept.get("prediction")
    if not found:
        return []
    text = found["text"]
    return [f"{text[0].upper()}{text[1:]}."]
