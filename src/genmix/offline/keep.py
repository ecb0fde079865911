"""The best k of N samples under an objective, with a bound that no other choice of k can beat."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from genmix.core.arrays import Array, as_matrix, namespace, to_numpy
from genmix.core.plain import by_name
from genmix.core.text import counted
from genmix.core.text import number as brief_number
from genmix.data.shards import Shards
from genmix.data.streamed_rows import StreamedRows
from genmix.errors import number, whole
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
from genmix.offline.keep_choices import choices, first_set
from genmix.offline.sample_losses import sample_loss
from genmix.offline.streamed_samples import blocks_of_batch, check_streamed, unpacked_rows
from genmix.offline.trivial_bounds import Bounds, trivial_bounds
from genmix.solvers.sample_loss import SampleLoss
from genmix.solvers.subset import SubsetProgress, SubsetSolution, best_subset
from genmix.solvers.subsets import Indices, Subsets

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
    directions : int or None
        Number of directions in which the samples vary enough to matter for the objective. None if ``keep``
        was interrupted before the search began.
    steps : int
        Number of solver steps.
    interrupted : bool
        Whether ``keep`` was interrupted. The set and its bound are valid, but a longer search may improve
        them. If the search had not begun, the set is the start or a random one, and the bound holds for
        any samples, e.g. a Vendi score of k.
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
    directions: int | None
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
        known = f", at most {brief_number(self.gap, 2)} above the minimum"
        lines.append(f"loss {self.loss:.8g}{known if math.isfinite(self.gap) else ''}")
        values = [float(score) for score in by_name(self.score).values()]
        if self.directions is None:
            lines.append("interrupted before the search began; the set was not optimized")
            return "\n".join(lines)
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
    X : array of shape (N, d) or Shards
        Embeddings of the samples, as a numpy array or torch tensor on any device, or as files. Files that do
        not fit in memory are read in blocks, about twice per step.
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
        The indices, the score and the bound. After an interrupt (Ctrl-C), the best set so far with its
        bound; a second interrupt is raised.

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
    sets = partial(choices, k=k, groups=groups, at_least=at_least, at_most=at_most)
    search = partial(
        best_subset,
        progress=progress,
        tolerance=number(tolerance, "tolerance", 0.0),
        seed=whole(seed, "seed", 0),
    )
    with ExitStack() as copies:

        def samples() -> tuple[Batch, Objective]:
            check_objective(objective)
            if isinstance(X, Shards):  # before they are read, which can take long
                sets(Batch(StreamedRows(X)), objective)
            return validated(X, objective, quality, cost, copies)

        task = _Task(samples, sets, start, search, encoder)
        try:
            return task.finish()
        except KeyboardInterrupt:
            task.is_interrupted = True
            return task.finish()


@dataclass
class _Task:
    """The steps of ``keep``. After an interrupt, ``finish`` repeats incomplete steps without searching."""

    samples: Callable[[], tuple[Batch, Objective]]
    choices: Callable[[Batch, Objective], Subsets]
    start: Sequence[int] | None
    search: Callable[[SampleLoss, Subsets, Indices | None], SubsetSolution]
    encoder: str | None
    is_interrupted: bool = False

    @cached_property
    def validated(self) -> tuple[Batch, Objective]:
        return self.samples()

    @cached_property
    def subsets(self) -> Subsets:
        return self.choices(*self.validated)

    @cached_property
    def first(self) -> Indices | None:
        return first_set(self.start, self.subsets)

    @cached_property
    def found(self) -> _Found:
        batch, objective = self.validated
        if self.is_interrupted:
            indices = self.first
            if indices is None:
                indices = self.subsets.sample(np.random.default_rng(0))
            return _Found(indices, trivial_bounds(objective, batch, len(indices)))
        first = self.first
        converted = sample_loss(objective, batch, self.subsets)
        best = self.search(converted.loss, self.subsets, first)
        score = None if converted.score is None else converted.score(best.bound)
        return _Found(best.indices, Bounds(best.bound, score), converted.loss.directions, best)

    def finish(self) -> Kept:
        found, (batch, objective) = self.found, self.validated
        loss, score = set_scores(objective, rows_of(batch, found.indices), self.encoder)
        bound, directions = min(found.bounds.loss, loss), found.directions
        return Kept(
            indices=found.indices,
            dropped=np.setdiff1d(np.arange(len(batch)), found.indices),
            score=score,
            bound=_score_bound(found.bounds.score, objective, score),
            loss=loss,
            loss_bound=bound,
            gap=loss - bound,
            is_bound_tight=directions is not None
            and len(found.indices) >= TIGHT_RATIO * directions,
            directions=directions,
            steps=0 if found.search is None else found.search.steps,
            interrupted=self.is_interrupted
            or (found.search is not None and found.search.interrupted),
            objective=objective,
            has_counts=self.subsets.groups is not None,
        )


@dataclass(frozen=True)
class _Found:
    """A set and bounds for all of them; ``directions`` and ``search`` are None if there was no search."""

    indices: Indices
    bounds: Bounds
    directions: int | None = None
    search: SubsetSolution | None = None


def _score_bound(found: float | None, objective: Objective, score: Scores) -> float | None:
    """Return a bound on the score that rounding errors do not put below the score of the kept samples."""
    if found is None:
        return None
    reached = float(score)  # type: ignore[arg-type]
    if objective.maximise:
        return max(found, reached)
    is_biased = isinstance(objective, KernelDistance) and not objective.unbiased
    if is_biased or isinstance(objective, FrechetDistance):
        found = max(found, 0.0)  # a distance
    return min(found, reached)


def validated(
    X: Any, objective: Objective, quality: Any, cost: Any, copies: ExitStack
) -> tuple[Batch, Objective]:
    """Return the samples that a user passed as a batch, and the objective with fixed bandwidths.

    The batch can be read until ``copies`` closes.
    """
    check_objective(objective)
    if isinstance(X, Shards):
        quality = X.quality if quality is None else quality
        cost = X.cost if cost is None else cost
        X = X.load() if X.fits_in_memory else unpacked_rows(X, copies)
    rows = X if isinstance(X, StreamedRows) else as_matrix(X, "X")
    n = int(rows.shape[0])
    numbers = (sample_numbers(v, "X", n, w) for v, w in ((quality, "quality"), (cost, "cost")))
    batch = Batch(rows, *numbers)
    if isinstance(rows, StreamedRows):
        check_streamed(objective, batch)
    else:
        objective.check(batch, "X")
    objective.check_total(n)
    return batch, objective.fix_bandwidths([rows])


def rows_of(batch: Batch, indices: Indices) -> Batch:
    """Return some samples of a batch."""
    if isinstance(batch.embeddings, StreamedRows):
        rows: Any = batch.embeddings.subset(indices)
    else:
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
    for block in blocks_of_batch(batch):
        tally.add(0, block)
    loss_function, one = tally.loss([0]), np.ones(1)
    scores = objective.scores(loss_function, one, context)
    if isinstance(objective, QualityVendi) and not np.any(batch.quality):
        return math.inf, scores  # the score is 0, and the loss is its negative logarithm
    return loss_function.reported(one), scores
