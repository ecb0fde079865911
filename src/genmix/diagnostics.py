"""What the arms are to each other: the paper's two tables, its assumptions, and a verdict in words.

Innovation: has an arm a direction of its own? Interiority: is it needed in the best mixture?
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genmix.arrays import Array, Vector, like, namespace, symmetric, to_numpy
from genmix.errors import InputError, number, whole
from genmix.intake import batches
from genmix.kernels import Cosine, norms
from genmix.loss import EPS, Expansion, Loss
from genmix.mixture import Mixture, optimal_mixture
from genmix.objectives.base import Batch, Objective, Score
from genmix.plain import finite, plain_scores
from genmix.theory import Situation, Theory, fidelity_beside_log_vendi

EVEN_PART = 0.1
"""γ_0 is this part of an even share 1/m, unless it is given."""

SEPARATION = 8
"""The innovation assumption wants ν_0 beyond this many times ε_0."""


@dataclass(frozen=True)
class Innovation:
    """The direction v in which an arm stands out most from all others together.

    ``gap`` is ``δ_i = λ_max(S_i − Σ_{j≠i} S_j)``, ``own`` is ``vᵀS_i v``, ``others`` is ``Σ_{j≠i} vᵀS_j v``.
    """

    gap: float
    own: float
    others: float
    direction: Vector = field(repr=False)


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation (1/(n−1)) over subsamples."""

    mean: float
    std: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        with np.errstate(invalid="ignore"):  # infinite where an arm cannot be left out
            return cls(float(np.mean(values)), float(np.std(values, ddof=1)))

    def __str__(self) -> str:
        return f"{self.mean:.4g} ± {self.std:.2g}"


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
    subsampled: Subsampled | None


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
        """Arms with a direction of their own: a gap that is positive beyond rounding."""
        rounding = EPS * len(self.arms) * self.dimension
        return tuple(name for name, arm in self.arms.items() if arm.innovation.gap > rounding)

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
        """Whether the paper's interiority margin is positive: every arm needs more than γ_0."""
        return all(arm.margin > 0 for arm in self.arms.values())

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
        from genmix.verdict import words

        return words(self)

    def as_dict(self) -> dict[str, Any]:
        """JSON values: directions are left out, infinite numbers are None."""
        arms = {name: asdict(arm) for name, arm in self.arms.items()}
        for arm in arms.values():
            del arm["innovation"]["direction"]
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
        from genmix.verdict import page

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


# -- innovation --------------------------------------------------------------------------------------


def innovation(arms: Mapping[str, Batch]) -> dict[str, Innovation]:
    """``δ_i = λ_max(S_i − Σ_{j≠i} S_j)`` and its eigenvector, on unit-norm embeddings."""
    moments, total = _second_moments(arms)
    found = {}
    for name, mine in moments.items():
        values, vectors = namespace(mine).linalg.eigh(symmetric(2 * mine - total))
        direction = vectors[:, -1]
        own, all_of_them = (float(direction @ part @ direction) for part in (mine, total))
        others = max(all_of_them - own, 0.0)
        found[name] = Innovation(float(values[-1]), own, others, to_numpy(direction))
    return found


def _innovation_gaps(arms: Mapping[str, Batch]) -> dict[str, float]:
    """The gaps without the directions, in less time."""
    moments, total = _second_moments(arms)
    return {
        name: float(namespace(mine).linalg.eigvalsh(symmetric(2 * mine - total))[-1])
        for name, mine in moments.items()
    }


def _second_moments(arms: Mapping[str, Batch]) -> tuple[dict[str, Array], Array]:
    """``S_i`` of every arm, and their sum."""
    first = next(iter(arms.values())).embeddings
    moments = {}
    for name, batch in arms.items():
        lengths = to_numpy(norms(batch.embeddings))
        if not lengths.all():
            raise InputError(
                f"arm {name!r}, sample {int(np.argmin(lengths))}: the embedding is the zero vector, "
                "which has no direction for an innovation gap; leave that sample out."
            )
        unit = like(Cosine().feature_map(batch.embeddings), first)
        moments[name] = unit.mT @ unit / len(batch)
    return moments, sum(moments.values())


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


class SliceLoss(Loss):
    """A loss on the mixtures that give one arm a fixed weight: a function of the others' shares."""

    def __init__(self, loss: Loss, arm: int, weight: float) -> None:
        self._loss = loss
        self._corners: NDArray[np.float64] = (1 - weight) * np.delete(np.eye(loss.size), arm, 0)
        self._corners[:, arm] = weight
        self.size = loss.size - 1
        self.scale, self.steep, self.smooth = loss.scale, loss.steep, loss.smooth
        self.patience = loss.patience

    def value(self, alpha: Vector, blur: float = 0.0) -> float:
        return self._loss.value(alpha @ self._corners, blur)

    def expand(self, alpha: Vector, blur: float = 0.0) -> Expansion:
        here, corners = self._loss.expand(alpha @ self._corners, blur), self._corners
        return replace(
            here,
            gradient=corners @ here.gradient,
            bend=lambda: corners @ here.hessian @ corners.T,
            lower=here.planes @ corners.T,
            foresee=None,
        )


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
    """Samples drawn without replacement; an arm's draw depends on its label, not on the other arms."""
    found = {}
    for name, batch in arms.items():
        rng = np.random.default_rng([seed, index, zlib.crc32(name.encode())])
        count = max(len(batch) // 2, least) if size is None else size
        rows = np.sort(rng.permutation(len(batch))[:count])
        found[name] = Batch(
            batch.embeddings[rows.tolist(), :],
            None if batch.quality is None else batch.quality[rows],
            None if batch.cost is None else batch.cost[rows],
        )
    return found


def _numbers(arms: Mapping[str, Batch], objective: Objective) -> _Numbers:
    mixture = _best_mixture(arms, objective, None)
    rises = {name: _certain_rise(mixture, name) for name in arms}
    return _Numbers(_innovation_gaps(arms), mixture.weights, rises, mixture.active)


def _subsampled(sides: Sequence[_Numbers], name: str) -> Subsampled:
    return Subsampled(
        innovation=Spread.of([side.innovation[name] for side in sides]),
        weight=Spread.of([side.weights[name] for side in sides]),
        leave_one_out=Spread.of([side.leave_one_out[name] for side in sides]),
        active=sum(name in side.active for side in sides),
    )
