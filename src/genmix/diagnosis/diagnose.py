"""Diagnose arms: innovation, interiority, the paper's assumptions, and a verdict in words.

Innovation: does a direction set an arm apart? Interiority: does the best mixture need the arm?

The tables describe the given samples, where chance alone makes gaps positive. The verdict relies on random
halves instead (``evidence.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from genmix.core.arrays import Array
from genmix.core.text import counted
from genmix.diagnosis.diagnosis import ArmDiagnosis, Diagnosis, Subsampled
from genmix.diagnosis.evidence import gather_evidence
from genmix.diagnosis.resampling import Spread, half_rows, shuffled_rows
from genmix.diagnosis.samples import HeldSamples, PartStatistics, Rows, Samples, StreamedSamples
from genmix.diagnosis.theory import TheoremInputs, Theory, fidelity_weight
from genmix.errors import InputError, number, whole
from genmix.objectives import Objective
from genmix.objectives.validation import batches
from genmix.offline.mixture import Mixture
from genmix.shards.arms import any_shards, loaded_if_small, streamed_arms
from genmix.solvers.loss import SliceLoss

DEFAULT_GAMMA_PART = 0.1
"""By default, γ_0 is this fraction of an even share 1/m."""


def diagnose(
    arms: Mapping[str, Array],
    objective: Objective,
    *,
    repeats: int = 0,
    subsample: int | None = None,
    seed: int = 0,
    encoder: str | None = None,
    quality: Mapping[str, Any] | None = None,
    cost: Mapping[str, Any] | None = None,
    gamma: float | None = None,
    horizon: int = 2000,
    confidence: float = 0.05,
    progress: Callable[[int], None] | None = None,
) -> Diagnosis:
    """Find out which arms the best mixture needs, and why.

    For each arm i, the result contains the innovation gap ``λ_max(S_i − Σ_{j≠i} S_j)`` of the second moments
    of unit-norm embeddings, the weight in the best mixture, the leave-one-out gap
    ``min_{α_i = 0} L − min L``, and the margin ``min_{α_i ≤ γ_0} L − min L``. The verdict calls an arm needed
    or innovative only if random halves of the samples show this beyond chance.

    Parameters
    ----------
    arms : mapping of str to array of shape (n, d) or Shards
        Samples of each arm, as a numpy array or torch tensor, or as files that are read in blocks.
    objective : Objective
        What the mixture optimizes.
    repeats : int, default 0
        Number of random subsamples for means and standard deviations; 0 or at least 2.
    subsample : int, optional
        Samples of each arm per subsample; half of each arm by default. Subsamples use the kernel
        bandwidth of all samples.
    seed : int, default 0
        Seed for the random halves and subsamples.
    encoder : str, optional
        Name of the encoder; it is shown with every score.
    quality, cost : mapping of str to array or float, optional
        Quality and cost of the samples, as for :func:`optimal_mixture`.
    gamma : float, optional
        The level γ_0 for the margins; a tenth of an even share by default.
    horizon : int, default 2000
        The number of rounds T in the paper's theorem.
    confidence : float, default 0.05
        The failure probability δ in the paper's theorem.
    progress : callable, optional
        Called with the number of finished subsamples after each one.

    Returns
    -------
    Diagnosis

    Raises
    ------
    InputError
        If an argument is invalid.

    Examples
    --------
    >>> import numpy as np
    >>> import genmix as gx
    >>> a, b = np.repeat(np.eye(3)[:2], 20, axis=0), np.repeat(np.eye(3)[2:], 20, axis=0)
    >>> found = gx.diagnose({"a": a, "b": b, "copy of b": b}, gx.Vendi())
    >>> for sentence in found.verdict[:2]:
    ...     print(sentence)
    The mixture needs a.
    b and copy of b have weight, but the other arms can replace either of them at no loss.
    """
    samples = _samples(*loaded_if_small(arms, quality, cost), objective, encoder)
    repeats = _check_repeats(repeats, subsample, samples.counts, objective)
    even = 1 / len(samples.counts)
    gamma = DEFAULT_GAMMA_PART * even if gamma is None else number(gamma, "gamma", 0.0, even)
    seed, horizon = whole(seed, "seed", 0), whole(horizon, "horizon", 1)
    confidence = number(confidence, "confidence", 1e-300, 1.0)
    innovations = samples.innovations()
    mixture = samples.mixture()
    evidence = gather_evidence(samples, mixture, gamma, seed)
    parts = []
    drawn = (
        _subsample_rows(samples.counts, objective.least_samples, subsample, seed, index)
        for index in range(repeats)
    )
    for found in map(_subsample_numbers, samples.parts(mixture.objective, drawn)):
        parts.append(found)
        if progress is not None:
            progress(len(parts))
    table = {
        name: ArmDiagnosis(
            n=samples.counts[name],
            innovation=innovations[name],
            weight=weight,
            is_active=name in mixture.active,
            leave_one_out=_leave_one_out(mixture, name),
            margin=_margin(mixture, index, gamma),
            evidence=evidence.get(name),
            subsampled=_summarize(parts, name) if parts else None,
        )
        for index, (name, weight) in enumerate(mixture.weights.items())
    }
    diagnosis = Diagnosis(table, mixture, gamma, repeats, subsample, None)
    return replace(diagnosis, theory=_theory(diagnosis, objective, horizon, confidence))


def _samples(
    arms: Any, quality: Any, cost: Any, objective: Objective, encoder: str | None
) -> Samples:
    if any_shards(arms):
        return StreamedSamples(streamed_arms(arms, objective, quality, cost), objective, encoder)
    return HeldSamples(batches(arms, objective, quality, cost), objective, encoder)


def _theory(
    found: Diagnosis, objective: Objective, horizon: int, confidence: float
) -> Theory | None:
    weight = fidelity_weight(objective)
    if weight is None:
        return None
    sizes = (len(found.arms), found.dimension)
    inputs = TheoremInputs(*sizes, found.nu, found.epsilon, horizon, confidence, weight)
    return Theory.of(inputs, min(arm.n for arm in found.arms.values()))


# -- interiority -------------------------------------------------------------------------------------


def _leave_one_out(mixture: Mixture, name: str) -> float:
    """Return the leave-one-out gap of an active arm; for any other arm it is only rounding error, so 0."""
    return mixture.leave_one_out[name] if name in mixture.active else 0.0


def _margin(mixture: Mixture, arm: int, gamma: float) -> float:
    """Return ``min {L : α_i ≤ γ} − min L``, or 0 if it is not provably positive.

    By convexity, that minimum lies on ``α_i = γ`` if the best mixture gives the arm more than γ.
    """
    weights = np.array(list(mixture.weights.values()))
    if len(weights) == 1:
        return math.inf
    if weights[arm] <= gamma:
        return 0.0
    start = np.maximum(np.delete(weights, arm), 1e-3)
    found = mixture.solver.solve(SliceLoss(mixture.function, arm, gamma), start / start.sum())
    if not np.isfinite(found.loss):
        return math.inf
    rise = found.loss - mixture.loss
    return rise if rise - found.gap > mixture.gap else 0.0


# -- subsamples --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _SubsampleNumbers:
    """Results on one subsample, by arm."""

    innovation: dict[str, float]
    weights: dict[str, float]
    leave_one_out: dict[str, float]
    active: tuple[str, ...]


def _check_repeats(
    repeats: int, subsample: int | None, counts: Mapping[str, int], objective: Objective
) -> int:
    repeats = whole(repeats, "repeats", 0)
    if repeats == 1:
        raise InputError("a single subsample has no spread; pass repeats=0 or at least 2.")
    if subsample is None:
        return repeats
    whole(subsample, "subsample", objective.least_samples)
    if not repeats:
        raise InputError("subsample needs repeats; pass both, e.g. repeats=50, subsample=500.")
    small = next((name for name, count in counts.items() if count < subsample), None)
    if small is not None:
        raise InputError(
            f"subsample is {subsample}, but arm {small!r} has {counted(counts[small], 'sample')}; "
            "pass at most that many."
        )
    return repeats


def _subsample_rows(
    counts: Mapping[str, int], least: int, size: int | None, seed: int, index: int
) -> dict[str, Rows]:
    """Draw ``size`` samples of each arm, or half of each, without replacement."""
    if size is None:
        return {name: half_rows(n, name, seed, index, least)[0] for name, n in counts.items()}
    return {name: np.sort(shuffled_rows(n, name, seed, index)[:size]) for name, n in counts.items()}


def _subsample_numbers(part: PartStatistics) -> _SubsampleNumbers:
    mixture = part.mixture
    rises = {name: _leave_one_out(mixture, name) for name in mixture.weights}
    return _SubsampleNumbers(part.gaps, mixture.weights, rises, mixture.active)


def _summarize(parts: Sequence[_SubsampleNumbers], name: str) -> Subsampled:
    return Subsampled(
        innovation=Spread.of([part.innovation[name] for part in parts]),
        weight=Spread.of([part.weights[name] for part in parts]),
        leave_one_out=Spread.of([part.leave_one_out[name] for part in parts]),
        active=sum(name in part.active for part in parts),
    )
