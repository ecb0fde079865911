"""What the arms are to each other: the paper's two tables, its assumptions, and a verdict in words.

Innovation: has an arm a direction of its own? Interiority: is it needed in the best mixture?

The tables' numbers are those of the samples in hand, where chance alone makes gaps positive. The words rest
on random halves: see evidence.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np

from genmix.core.arrays import Array
from genmix.core.plain import finite, plain_scores
from genmix.diagnosis.evidence import Evidence, evidence_of
from genmix.diagnosis.halves import Spread, half_rows, rows_of, shuffled
from genmix.diagnosis.innovation import Innovation, innovation, innovation_gaps
from genmix.diagnosis.theory import Situation, Theory, fidelity_beside_log_vendi
from genmix.errors import InputError, number, whole
from genmix.objectives import Batch, Objective, Score
from genmix.objectives.validation import batches
from genmix.offline.mixture import Mixture, optimal_mixture
from genmix.solvers.loss import EPS, SliceLoss

EVEN_PART = 0.1
"""γ_0 is this part of an even share 1/m, unless it is given."""

SEPARATION = 8
"""The innovation assumption wants ν_0 beyond this many times ε_0."""

NEGLIGIBLE = 1e-3
"""An arm that has less weight than this, on all samples and on every half, adds nothing."""

Role = Literal["needed", "replaceable", "idle", "untold"]


@dataclass(frozen=True)
class Subsampled:
    """The numbers of an arm over random subsamples, and in how many of them it was active."""

    innovation: Spread
    weight: Spread
    leave_one_out: Spread
    active: int


@dataclass(frozen=True)
class ArmDiagnosis:
    """One arm among the others."""

    n: int
    innovation: Innovation
    weight: float
    """In the best mixture of all samples."""
    is_active: bool
    """Whether the least loss certainly rises without it."""
    leave_one_out: float
    """How much it rises, in units of the loss; 0 unless it certainly does, ∞ for the only arm."""
    margin: float
    """How much it rises if the arm gets at most γ_0; 0 unless it certainly does."""
    evidence: Evidence | None
    """None where there are too few samples, or no other arms."""
    subsampled: Subsampled | None

    @property
    def is_needed(self) -> bool:
        """Whether the least loss rises without it, and more than chance makes it."""
        shown = self.evidence is not None and self.evidence.leave_one_out.is_beyond_chance
        return self.is_active and shown

    @property
    def is_interior(self) -> bool:
        """Whether it needs more than γ_0, and more than chance makes it."""
        shown = self.evidence is not None and self.evidence.margin.is_beyond_chance
        return self.margin > 0 and shown

    @property
    def role(self) -> Role:
        """What can be said of it in the best mixture."""
        if self.is_needed:
            return "needed"
        if not self.is_active and self.weight >= NEGLIGIBLE:
            return "replaceable"
        never = self.evidence is not None and self.evidence.weight < NEGLIGIBLE
        return "idle" if never and not self.is_active else "untold"


@dataclass(frozen=True)
class Diagnosis:
    """Innovation, interiority and a verdict; it prints as tables, ``as_dict`` is for JSON."""

    arms: dict[str, ArmDiagnosis]
    mixture: Mixture = field(repr=False)
    gamma: float
    """γ_0 of the margins."""
    repeats: int
    subsample: int | None
    """Samples of every arm in a subsample; None: half of each."""
    theory: Theory | None
    """For log-Vendi with the cosine kernel, which the theorem is about."""

    @property
    def innovative(self) -> tuple[str, ...]:
        """Arms with a direction of their own, which also samples show that had no part in finding it."""
        return tuple(
            name
            for name, arm in self.arms.items()
            if name not in self.alike
            and arm.evidence is not None
            and arm.evidence.innovation.is_beyond_chance
        )

    @property
    def alike(self) -> tuple[str, ...]:
        """Arms without a gap, beyond rounding: no direction sets them apart on these samples."""
        rounding = EPS * len(self.arms) * self.dimension
        return tuple(name for name, arm in self.arms.items() if arm.innovation.gap <= rounding)

    @property
    def nu(self) -> float:
        """ν_0 along the directions found: the least of the arms' own second moments."""
        return min(arm.innovation.own for arm in self.arms.values())

    @property
    def epsilon(self) -> float:
        """ε_0 along the directions found: the largest sum of the others' second moments."""
        return max(arm.innovation.others for arm in self.arms.values())

    @property
    def separates(self) -> bool:
        """Whether the paper's innovation assumption ``ε_0 < ν_0/8`` is met along these directions."""
        return SEPARATION * self.epsilon < self.nu

    @property
    def is_interior(self) -> bool:
        """Whether the paper's interiority margin is positive beyond chance: every arm needs more than γ_0."""
        return len(self.arms) == 1 or all(arm.is_interior for arm in self.arms.values())

    @property
    def lacking(self) -> tuple[str, ...]:
        """Arms of which the least loss of these samples needs no more than γ_0."""
        return tuple(name for name, arm in self.arms.items() if not arm.margin > 0)

    @property
    def dimension(self) -> int:
        return len(next(iter(self.arms.values())).innovation.direction)

    @property
    def scores(self) -> dict[str, Score]:
        """Of the best mixture, by name."""
        found = self.mixture.score
        return {found.name: found} if isinstance(found, Score) else found

    @property
    def verdict(self) -> tuple[str, ...]:
        """What the numbers say, in words."""
        from genmix.diagnosis.verdict import words

        return words(self)

    def as_dict(self) -> dict[str, Any]:
        """JSON values: directions are left out, infinite numbers are None."""
        arms = {name: asdict(arm) for name, arm in self.arms.items()}
        for name, arm in arms.items():
            del arm["innovation"]["direction"]
            arm["role"] = self.arms[name].role
        found: dict[str, Any] = finite(
            {
                "arms": arms,
                "scores": plain_scores(self.scores),
                "loss": self.mixture.loss,
                "gap": self.mixture.gap,
                "gamma": self.gamma,
                "repeats": self.repeats,
                "subsample": self.subsample,
                "innovative": list(self.innovative),
                "nu": self.nu,
                "epsilon": self.epsilon,
                "separates": self.separates,
                "is_interior": self.is_interior,
                "theory": None if self.theory is None else asdict(self.theory),
                "verdict": list(self.verdict),
            }
        )
        return found

    def __str__(self) -> str:
        from genmix.diagnosis.verdict import page

        return page(self)


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
    """Innovation gaps, the best mixture, leave-one-out gaps and margins, with a verdict.

    The verdict calls an arm needed or set apart only where random halves of the samples, which depend on
    ``seed`` too, show it beyond chance.
    ``arms``, ``quality``, ``cost``: as for :func:`optimal_mixture`. ``repeats``: how many random subsamples
    give means and standard deviations; each has ``subsample`` samples of every arm (half of them if None)
    and the kernel of the whole. ``gamma``: γ_0 of the margins, by default a tenth of an even share.
    ``horizon``, ``confidence``: T and δ of the theorem. ``progress`` is told how many subsamples are done.
    """
    found = batches(arms, objective, quality, cost)
    repeats = _checked_repeats(repeats, subsample, found, objective)
    gamma = _checked_gamma(gamma, len(found))
    seed, horizon = whole(seed, "seed", 0), whole(horizon, "horizon", 1)
    confidence = number(confidence, "confidence", 1e-300, 1.0)
    gaps = innovation(found)
    mixture = _best_mixture(found, objective, encoder)
    shown = evidence_of(found, mixture, gamma, seed)
    sides = []
    for index in range(repeats):
        parts = _subsample(found, objective.least_samples, subsample, seed, index)
        sides.append(_numbers(parts, mixture.objective))
        if progress is not None:
            progress(index + 1)
    table = {
        name: ArmDiagnosis(
            n=len(found[name]),
            innovation=gaps[name],
            weight=weight,
            is_active=name in mixture.active,
            leave_one_out=_certain_rise(mixture, name),
            margin=_margin(mixture, index, gamma),
            evidence=shown.get(name),
            subsampled=_subsampled(sides, name) if sides else None,
        )
        for index, (name, weight) in enumerate(mixture.weights.items())
    }
    diagnosis = Diagnosis(table, mixture, gamma, repeats, subsample, None)
    return replace(diagnosis, theory=_theory(diagnosis, objective, horizon, confidence))


def _theory(
    found: Diagnosis, objective: Objective, horizon: int, confidence: float
) -> Theory | None:
    weight = fidelity_beside_log_vendi(objective)
    if weight is None:
        return None
    sizes = (len(found.arms), found.dimension)
    situation = Situation(*sizes, found.nu, found.epsilon, horizon, confidence, weight)
    return Theory.of(situation, min(arm.n for arm in found.arms.values()))


# -- interiority -------------------------------------------------------------------------------------


def _best_mixture(arms: Mapping[str, Batch], objective: Objective, encoder: str | None) -> Mixture:
    return optimal_mixture(
        {name: batch.embeddings for name, batch in arms.items()},
        objective,
        {name: batch.quality for name, batch in arms.items() if batch.quality is not None},
        {name: batch.cost for name, batch in arms.items() if batch.cost is not None},
        encoder=encoder,
    )


def _certain_rise(mixture: Mixture, name: str) -> float:
    """The leave-one-out gap of an active arm; that of any other is rounding."""
    return mixture.leave_one_out[name] if name in mixture.active else 0.0


def _checked_gamma(gamma: float | None, arms: int) -> float:
    even = 1 / arms
    return EVEN_PART * even if gamma is None else number(gamma, "gamma", 0.0, even)


def _margin(mixture: Mixture, arm: int, gamma: float) -> float:
    """``min {L : α_i ≤ γ} − min L``, or 0 where it is not certainly positive.

    By convexity that minimum lies on ``α_i = γ`` if the best mixture gives the arm more.
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
class _Numbers:
    """What one subsample says of every arm."""

    innovation: dict[str, float]
    weights: dict[str, float]
    leave_one_out: dict[str, float]
    active: tuple[str, ...]


def _checked_repeats(
    repeats: int, subsample: int | None, arms: Mapping[str, Batch], objective: Objective
) -> int:
    repeats = whole(repeats, "repeats", 0)
    if repeats == 1:
        raise InputError("one subsample has no spread: give repeats=0 or at least 2.")
    if subsample is None:
        return repeats
    whole(subsample, "subsample", objective.least_samples)
    if not repeats:
        raise InputError("subsample is for repeats: give both, as in repeats=50, subsample=500.")
    small = next((name for name, batch in arms.items() if len(batch) < subsample), None)
    if small is not None:
        raise InputError(
            f"subsample is {subsample} and arm {small!r} has {len(arms[small])} samples: "
            "give at most that."
        )
    return repeats


def _subsample(
    arms: Mapping[str, Batch], least: int, size: int | None, seed: int, index: int
) -> dict[str, Batch]:
    """Samples drawn without replacement: the first half of each arm, or so many."""
    found = {}
    for name, batch in arms.items():
        if size is None:
            rows = half_rows(len(batch), name, seed, index, least)[0]
        else:
            rows = np.sort(shuffled(len(batch), name, seed, index)[:size])
        found[name] = rows_of(batch, rows)
    return found


def _numbers(arms: Mapping[str, Batch], objective: Objective) -> _Numbers:
    mixture = _best_mixture(arms, objective, None)
    rises = {name: _certain_rise(mixture, name) for name in arms}
    return _Numbers(innovation_gaps(arms), mixture.weights, rises, mixture.active)


def _subsampled(sides: Sequence[_Numbers], name: str) -> Subsampled:
    return Subsampled(
        innovation=Spread.of([side.innovation[name] for side in sides]),
        weight=Spread.of([side.weights[name] for side in sides]),
        leave_one_out=Spread.of([side.leave_one_out[name] for side in sides]),
        active=sum(name in side.active for side in sides),
    )
