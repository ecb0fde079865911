"""The best k of N samples under an objective, with a bound that no other choice of k can beat."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from genmix.core.arrays import Array, as_matrix, namespace, to_numpy
from genmix.core.plain import by_name
from genmix.core.text import counted
from genmix.core.text import number as brief_number
from genmix.errors import InputError, number, whole
from genmix.objectives import (
    Batch,
    Coverage,
    FrechetDistance,
    KernelDistance,
    Objective,
    QualityVendi,
    Score,
    Scores,
    Sum,
)
from genmix.objectives.validation import check_objective, sample_numbers
from genmix.offline.sample_losses import Converted, sample_loss
from genmix.solvers.subset import SubsetProgress, best_subset
from genmix.solvers.subsets import Groups, Indices, Subsets

TIGHT_RATIO = 4
"""Number of kept samples per direction from which the bound is expected to be tight."""

REACHED = 1e-6
"""A gap that is a smaller fraction of the loss than this is due to rounding errors."""

ROUNDING = 1e-12
"""A smaller distance between a score and its bound is due to rounding errors."""


@dataclass(frozen=True, eq=False)
class Kept:
    """The samples to keep, their score, and the bound that no other choice can beat.

    Attributes
    ----------
    indices : numpy.ndarray of shape (k,)
        Indices of the kept samples, in ascending order.
    dropped : numpy.ndarray of shape (N − k,)
        Indices of the other samples, in ascending order.
    score : Score or dict of str to Score
        Score of the kept samples; one score per term for a sum of objectives.
    bound : float or None
        No feasible choice of k samples has a better score. None for a sum of objectives, which has no
        single score; use ``loss_bound``.
    loss : float
        Loss of the kept samples.
    loss_bound : float
        No feasible choice of k samples has a smaller loss.
    gap : float
        ``loss − loss_bound``: the kept samples are at most this far from the best choice.
    is_bound_tight : bool
        Whether the bound is expected to be close to the best choice, because k is large compared with
        ``directions``. If not, a large gap says little about the kept samples.
    directions : int
        Number of directions in which the samples vary enough to matter for the objective.
    steps : int
        Number of solver steps.
    interrupted : bool
        Whether the search was interrupted. The result is valid, but a longer search may improve it.
    objective : Objective
        The objective with its bandwidths fixed.
    has_counts : bool
        Whether counts per group restrict the choice. The bound then applies to choices that satisfy them.

    See Also
    --------
    keep : Chooses the samples.

    Examples
    --------
    >>> import numpy as np
    >>> import genmix as gx
    >>> kept = gx.keep(np.eye(3)[[0, 0, 0, 1, 2, 2]], 3, gx.Vendi())
    >>> print(kept)  # doctest: +ELLIPSIS
    kept 3 of 6 samples
    vendi 3 ↑ (order 1.0, kernel Cosine(), n 3, encoder unstated)
    no other choice of 3 samples scores better than 3
    loss -1.0986123, at most ... above the minimum
    """

    indices: Indices
    dropped: Indices
    score: Scores
    bound: float | None
    loss: float
    loss_bound: float
    gap: float
    is_bound_tight: bool
    directions: int
    steps: int
    interrupted: bool
    objective: Objective = field(repr=False)
    has_counts: bool = False

    def __str__(self) -> str:
        k, size = len(self.indices), len(self.indices) + len(self.dropped)
        lines = [f"kept {k:,} of {counted(size, 'sample')}"]
        lines += [str(score) for score in by_name(self.score).values()]
        if self.bound is not None:
            which = " that satisfies the counts of the groups" if self.has_counts else ""
            lines.append(
                f"no other choice of {counted(k, 'sample')}{which} scores better than {self.bound:.6g}"
            )
        lines.append(f"loss {self.loss:.8g}, at most {brief_number(self.gap, 2)} above the minimum")
        values = [float(score) for score in by_name(self.score).values()]
        if not self.is_bound_tight and not is_reached(self.gap, self.loss, values, self.bound):
            lines.append(
                f"the bound is loose: {are_few(k)} for {counted(self.directions, 'direction')}"
            )
        if self.interrupted:
            lines.append("the search was interrupted; a longer one may find better samples")
        return "\n".join(lines)


def is_reached(
    gap: float | None, loss: float, values: Sequence[float | None], bound: float | None
) -> bool:
    """Return whether kept samples with these scores reach the bound, to the precision that is printed."""
    if bound is None:
        return gap is not None and gap <= REACHED * abs(loss)
    value = values[0]
    if value is None:
        return False
    is_close = math.isclose(value, bound, rel_tol=REACHED, abs_tol=ROUNDING)
    return is_close or f"{value:.6g}" == f"{bound:.6g}"


def are_few(count: int) -> str:
    return f"{counted(count, 'sample')} {'is' if count == 1 else 'are'} few"


def keep(
    X: Array,
    k: int,
    objective: Objective,
    *,
    quality: Any = None,
    cost: Any = None,
    groups: Sequence[Any] | None = None,
    at_least: int | Mapping[Any, int] | None = None,
    at_most: int | Mapping[Any, int] | None = None,
    start: Sequence[int] | None = None,
    tolerance: float = 1e-4,
    seed: int = 0,
    progress: Callable[[SubsetProgress], None] | None = None,
    encoder: str | None = None,
) -> Kept:
    """Choose the k of N samples that are best together under an objective.

    Solves::

        minimize  L(1_S / k)   over all sets S of k samples

    where ``L`` is the loss of the objective with every sample as an arm. The result has a bound on the
    score of every choice of k samples. The bound is nearly reached if k is large compared with the number
    of directions in which the samples vary, and loose otherwise; the result says which.

    Diversity alone prefers outliers. If the samples can be bad, add a term for their fidelity, e.g.
    ``Vendi() + 0.5 * Precision(real)`` or ``Vendi() + Quality()``.

    Parameters
    ----------
    X : array of shape (N, d)
        Embeddings of the samples, as a numpy array or torch tensor on any device.
    k : int
        Number of samples to keep.
    objective : Objective
        What the kept samples optimize together. ``Coverage`` means the exact coverage of the kept
        samples here.
    quality, cost : array of shape (N,) or float, optional
        One number per sample or a single number for all of them.
    groups : sequence of N labels, optional
        The group of each sample, e.g. its prompt, class or arm.
    at_least, at_most : int or mapping of label to int, optional
        Minimum and maximum number of kept samples per group, for every group or by label.
    start : sequence of k int, optional
        Indices of a set to start from. The result is never worse.
    tolerance : float, default 1e-4
        The search ends when the gap is at most this fraction of the difference between the loss of evenly
        weighted samples and the bound.
    seed : int, default 0
        Seed for random starts; the same seed yields the same result.
    progress : callable, optional
        Called with a ``SubsetProgress`` (phase, step, loss, loss_bound) after each step.
    encoder : str, optional
        Name of the encoder; it is shown with every score.

    Returns
    -------
    Kept
        The indices, the score and the bound. After an interrupt (Ctrl-C) during the search, the best set
        so far with its bound.

    Raises
    ------
    InputError
        If the samples or another argument is invalid, or if no choice satisfies the counts of the groups.

    See Also
    --------
    optimal_mixture : Weighs whole arms instead of single samples.

    Examples
    --------
    Three of the six samples are duplicates:

    >>> import numpy as np
    >>> import genmix as gx
    >>> kept = gx.keep(np.eye(3)[[0, 0, 0, 1, 2, 2]], 3, gx.Vendi())
    >>> print(f"{kept.score:.4f}, at most {kept.bound:.4f} is possible")
    3.0000, at most 3.0000 is possible
    >>> len(kept.indices), len(kept.dropped)
    (3, 3)
    """
    batch, fixed = validated(X, objective, quality, cost)
    k = _count(k, len(batch), fixed)
    subsets = _subsets(len(batch), k, groups, at_least, at_most)
    converted = sample_loss(fixed, batch, subsets)
    found = best_subset(
        converted.loss,
        subsets,
        _start(start, subsets),
        progress,
        number(tolerance, "tolerance", 0.0),
        whole(seed, "seed", 0),
    )
    loss, score = set_scores(fixed, rows_of(batch, found.indices), encoder)
    bound = min(found.bound, loss)
    return Kept(
        indices=found.indices,
        dropped=np.setdiff1d(np.arange(len(batch)), found.indices),
        score=score,
        bound=_score_bound(converted, bound, fixed, score),
        loss=loss,
        loss_bound=bound,
        gap=loss - bound,
        is_bound_tight=k >= TIGHT_RATIO * converted.loss.directions,
        directions=converted.loss.directions,
        steps=found.steps,
        interrupted=found.interrupted,
        objective=fixed,
        has_counts=subsets.groups is not None,
    )


def _score_bound(
    converted: Converted, loss_bound: float, objective: Objective, score: Scores
) -> float | None:
    """Return the best score that a bound on the loss allows; None for a sum of objectives."""
    if converted.score is None:
        return None
    found, reached = converted.score(loss_bound), float(score)  # type: ignore[arg-type]
    if objective.maximise:
        return max(found, reached)
    is_biased = isinstance(objective, KernelDistance) and not objective.unbiased
    if is_biased or isinstance(objective, FrechetDistance):
        found = max(found, 0.0)  # a distance
    return min(found, reached)


def validated(X: Any, objective: Objective, quality: Any, cost: Any) -> tuple[Batch, Objective]:
    """Return the samples that a user passed as a batch, and the objective with fixed bandwidths."""
    check_objective(objective)
    rows = as_matrix(X, "X")
    n = int(rows.shape[0])
    numbers = (sample_numbers(v, "X", n, w) for v, w in ((quality, "quality"), (cost, "cost")))
    batch = Batch(rows, *numbers)
    objective.check(batch, "X")
    objective.check_total(n)
    return batch, objective.fix_bandwidths([rows])


def _count(given: Any, size: int, objective: Objective) -> int:
    k = whole(given, "k", 1)
    if k > size:
        raise InputError(
            f"k is {k}, but there are only {counted(size, 'sample')}; pass a smaller k."
        )
    if k < objective.least_samples:
        raise InputError(
            f"k is {k}, but the objective needs at least {objective.least_samples} samples; "
            "pass a larger k."
        )
    return k


def _start(start: Sequence[int] | None, subsets: Subsets) -> Indices | None:
    if start is None:
        return None
    indices = np.unique(np.asarray(to_numpy(start)))
    if (
        indices.dtype.kind not in "iu"
        or len(indices) != subsets.count
        or len(start) != len(indices)
    ):
        raise InputError(
            f"start is not a set of {subsets.count} indices; pass k different whole numbers."
        )
    if indices[0] < 0 or indices[-1] >= subsets.size:
        raise InputError(
            f"start contains index {int(indices[0] if indices[0] < 0 else indices[-1])}, but there are "
            f"{subsets.size} samples; pass indices from 0 to {subsets.size - 1}."
        )
    if not subsets.contains(indices):
        raise InputError("start does not satisfy the counts of the groups; pass a set that does.")
    return indices.astype(np.int64)


def _subsets(size: int, k: int, groups: Any, at_least: Any, at_most: Any) -> Subsets:
    if groups is None:
        if at_least is not None or at_most is not None:
            what = "at_least" if at_least is not None else "at_most"
            raise InputError(f"{what} needs groups; pass groups= with one label per sample.")
        return Subsets(size, k)
    if at_least is None and at_most is None:
        raise InputError("groups has no counts; pass at_least= or at_most= as well.")
    labels = _labels(groups, size)
    names = list(dict.fromkeys(labels))
    order = {name: index for index, name in enumerate(names)}
    members = np.array([order[label] for label in labels], dtype=np.int64)
    sizes = np.bincount(members)
    low = _counts(at_least, names, "at_least", np.zeros(len(names), dtype=np.int64))
    high = np.minimum(_counts(at_most, names, "at_most", sizes), sizes)
    _check_counts(k, names, sizes, low, high)
    return Subsets(size, k, Groups(members, low, high))


def _labels(groups: Any, size: int) -> list[Any]:
    try:
        labels = list(to_numpy(groups).tolist() if hasattr(groups, "tolist") else groups)
        unnamed = next((j for j, label in enumerate(labels) if label != label), None)
        set(labels)
    except TypeError:
        raise InputError(
            "groups is not a sequence of labels; pass one string or number per sample."
        ) from None
    if len(labels) != size:
        raise InputError(
            f"groups has {counted(len(labels), 'label')}, but there are {counted(size, 'sample')}; pass one "
            "per sample."
        )
    if unnamed is not None:
        raise InputError(f"groups, sample {unnamed}: the label is NaN; name the sample's group.")
    return labels


def _counts(given: Any, names: list[Any], what: str, default: Indices) -> Indices:
    if given is None:
        return default
    if not isinstance(given, Mapping):
        return np.full(len(names), whole(given, what, 0))
    unknown = next((name for name in given if name not in names), None)
    if unknown is not None:
        known = ", ".join(repr(name) for name in names[:8])
        raise InputError(f"{what} names group {unknown!r}, which has no samples; use {known}.")
    return np.array(
        [
            whole(given[name], f"{what} for group {name!r}", 0) if name in given else value
            for name, value in zip(names, default.tolist(), strict=True)
        ],
        dtype=np.int64,
    )


def _check_counts(k: int, names: list[Any], sizes: Any, low: Indices, high: Indices) -> None:
    for name, size, least, most in zip(names, sizes, low, high, strict=True):
        if least > size:
            raise InputError(
                f"at_least is {least} for group {name!r}, which has {counted(size, 'sample')}; pass at most "
                f"{size}."
            )
        if least > most:
            raise InputError(
                f"group {name!r} has at_least {least} and at_most {most}; make at_most the larger one."
            )
    if low.sum() > k:
        raise InputError(
            f"at_least requires {counted(int(low.sum()), 'sample')}, but k is {k}; pass smaller counts or a "
            "larger k."
        )
    if high.sum() < k:
        raise InputError(
            f"at_most allows only {high.sum()} samples, but k is {k}; pass larger counts or a smaller k."
        )


def rows_of(batch: Batch, indices: Indices) -> Batch:
    """Return some samples of a batch."""
    xp = namespace(batch.embeddings)
    where = xp.asarray(indices, device=batch.embeddings.device)
    rows = xp.take(batch.embeddings, where, axis=0)
    quality, cost = (v if v is None else v[indices] for v in (batch.quality, batch.cost))
    return Batch(rows, quality, cost)


def set_scores(objective: Objective, batch: Batch, encoder: str | None) -> tuple[float, Scores]:
    """Return the loss and the score of a set; for coverage, of the set itself instead of draws from it."""
    if isinstance(objective, Sum):
        parts = [set_scores(term, batch, encoder) for _, term in objective.terms]
        loss = sum(c * part[0] for (c, _), part in zip(objective.terms, parts, strict=True))
        named = {name: part[1] for name, part in zip(objective.names, parts, strict=True)}
        return loss, named  # type: ignore[return-value]
    context = {"n": len(batch), "encoder": encoder or "unstated"}
    if isinstance(objective, Coverage):
        covered = to_numpy(objective.balls(batch.embeddings).covered(batch.embeddings))
        value = float(np.mean(covered))
        details = {key: v for key, v in objective.details().items() if key != "at"} | context
        return -value, Score(value, objective.name, objective.maximise, details)
    tally = objective.tally(1, batch.embeddings)
    tally.add(0, batch)
    loss_function, one = tally.loss([0]), np.ones(1)
    scores = objective.scores(loss_function, one, context)
    if isinstance(objective, QualityVendi) and not np.any(batch.quality):
        return math.inf, scores  # the score is 0, and the loss is its negative logarithm
    return loss_function.reported(one), scores
