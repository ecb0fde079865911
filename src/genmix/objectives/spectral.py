"""Diversity from the spectrum of the mixture's kernel: Vendi of every order, RKE, quality-weighted.

With ``C_i = E φφᵀ`` over arm i (unit trace, since ``k(x, x) = 1``) the mixture has
``C_α = Σ α_i C_i``, and its eigenvalues are those of the normalised kernel matrix.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from genmix.core.arrays import Array, Vector, namespace, symmetric
from genmix.errors import InputError, positive
from genmix.kernels.kernels import Cosine, Gaussian, Kernel, with_unit_diagonal
from genmix.objectives.base import Batch, Objective, Tally
from genmix.objectives.frames import FactorMoments, MixtureMoments, is_full_rank
from genmix.objectives.kernel_sums import ExactPairTally, PairSums, SecondFeatureTally, quadratic
from genmix.objectives.linear import Quality
from genmix.objectives.moments import MomentTally
from genmix.objectives.trace import (
    Entropy,
    LargestLoss,
    NearEntropy,
    Power,
    TraceLoss,
)
from genmix.solvers.loss import EPS, LogMeanLoss, Loss, QuadraticLoss, SumLoss

LARGE_ORDER = 4.0
"""Order above which the loss leaves out its constant: beside ``1/(q−1)``, ``Tr C^q`` would vanish."""

EXACT_LIMIT = 4000
"""Samples beyond which an exact kernel's N×N eigenproblem is refused."""


class KernelObjective(Objective):
    """An objective with one kernel of unit diagonal."""

    kernel: Any

    def _set_kernel(self) -> None:
        object.__setattr__(self, "kernel", with_unit_diagonal(self.kernel, type(self).__name__))

    def resolve(self, groups: Sequence[Array]) -> Objective:
        return replace(self, kernel=self.kernel.resolve(groups))  # type: ignore[type-var]

    def check(self, batch: Batch, where: str) -> None:
        super().check(batch, where)
        self.kernel.check(batch.embeddings, where)

    def details(self) -> dict[str, Any]:
        return {"kernel": self.kernel}


@dataclass(frozen=True, eq=False)
class Vendi(KernelObjective):
    """Vendi score ↑ of order q: the effective number of distinct samples.

        minimise over α   Tr C log C (q = 1),  (Tr C^q − 1)/(q−1),  λ_max(C) (q = ∞),   C = Σ α_i C_i

    The score is ``exp(−Tr C log C)``, ``(Tr C^q)^(1/(1−q))``, ``1/λ_max``. Small orders count rare
    kinds, large orders only the common ones. Above order 4 the loss is ``Tr C^q/(q−1)``: beside the
    constant the rest would be lost to rounding.
    """

    order: float = 1.0
    kernel: Any = Cosine()  # noqa: RUF009 - immutable
    name = "vendi"
    maximise = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "order", positive(self.order, "order", infinite=True))
        self._set_kernel()

    def check_total(self, total: int) -> None:
        check_exact_limit(self.kernel, total)

    def tally(self, arms: int, sample: Array) -> Tally:
        return spectral_tally(self.kernel, self.order, arms, sample)

    def details(self) -> dict[str, Any]:
        return {"order": self.order} | super().details()


@dataclass(frozen=True, eq=False)
class QualityVendi(KernelObjective):
    """Quality-weighted Vendi score ↑: mean quality × Vendi.

        minimise over α   Tr C log C − log(q·α),   q_i ≥ 0 the mean quality of arm i

    While no sample at all has positive quality, only diversity counts.
    """

    kernel: Any = Cosine()  # noqa: RUF009 - immutable
    name = "quality_vendi"
    maximise = True

    def __post_init__(self) -> None:
        self._set_kernel()

    def check(self, batch: Batch, where: str) -> None:
        super().check(batch, where)
        Quality().check(batch, where)
        if batch.quality is not None and np.min(batch.quality) < 0:
            raise InputError(
                f"{where}, sample {int(np.argmin(batch.quality))}: quality {np.min(batch.quality):g} is "
                "negative, and quality-weighted Vendi multiplies by it; give numbers of at least 0."
            )

    def check_total(self, total: int) -> None:
        check_exact_limit(self.kernel, total)

    def tally(self, arms: int, sample: Array) -> Tally:
        return QualityVendiTally(self.kernel, arms, sample)


@dataclass(frozen=True, eq=False)
class RKE(KernelObjective):
    """RKE score ↑, the Vendi score of order 2, from pair sums alone.

        minimise over α   αᵀKα,   K_ij = E k²(X_i, X_j);   the score is 1 / αᵀKα

    ``unbiased=True`` leaves a sample's pair with itself out and projects K for the solve.
    ``block_mb`` is the memory for one block of an exact kernel's values, in MiB.
    """

    kernel: Any = Gaussian()  # noqa: RUF009 - immutable
    unbiased: bool = False
    block_mb: float = 32.0
    name = "rke"
    quadratic = True
    maximise = True

    def __post_init__(self) -> None:
        self._set_kernel()
        object.__setattr__(self, "block_mb", positive(self.block_mb, "block_mb"))

    @property
    def least_samples(self) -> int:
        return 2 if self.unbiased else 1

    def tally(self, arms: int, sample: Array) -> Tally:
        tally: SecondFeatureTally | ExactPairTally
        if self.kernel.columns(sample.shape[1]) is not None:
            tally = SecondFeatureTally(self.kernel, arms, sample)
        else:
            block_bytes = int(self.block_mb * 2**20)
            tally = ExactPairTally(self.kernel, 2, block_bytes, arms, sample)
        tally.make_loss = self._loss
        return tally

    def _loss(self, sums: PairSums) -> Loss:
        zero = np.zeros(len(sums.counts))
        return InverseLoss(quadratic(sums, zero, 0.0, self.unbiased))

    def details(self) -> dict[str, Any]:
        estimator = "unbiased" if self.unbiased else "V-statistic"
        return super().details() | {"estimator": estimator}


class InverseLoss(QuadraticLoss):
    """A quadratic whose score is its inverse."""

    def __init__(self, form: QuadraticLoss) -> None:
        super().__init__(form.matrix, form.linear, form.constant, form.own)
        self._form = form

    def score(self, alpha: Vector) -> float:
        value = self._form.score(alpha)
        return 1 / value if value > 0 else math.inf


def check_exact_limit(kernel: Kernel, total: int) -> None:
    # The dimension is only asked for to know whether there is a feature map at all.
    if total > EXACT_LIMIT and kernel.columns(1) is None:
        raise InputError(
            f"an exact kernel needs the {total}×{total} eigenproblem, more than {EXACT_LIMIT}: "
            "use Gaussian(features=512) or Cosine()."
        )


def spectral_tally(kernel: Kernel, order: float, arms: int, sample: Array) -> Tally:
    columns = kernel.columns(sample.shape[1])
    if columns is None:
        return GramTally(kernel, order, arms, sample)
    return FeatureTally(kernel, order, columns, arms, sample)


def spectral_loss(moments: MixtureMoments, order: float) -> Loss:
    if order == math.inf:
        return LargestVendiLoss(moments)
    return VendiLoss(moments, order)


class VendiLoss(TraceLoss):
    """Negative (Tsallis) entropy of the spectrum."""

    def __init__(self, moments: MixtureMoments, order: float) -> None:
        self.order = order
        if order == 1:
            super().__init__(moments, Entropy())
        elif abs(order - 1) < 0.5:
            super().__init__(moments, NearEntropy(order))
        else:
            constant = -1 / (order - 1) if order <= LARGE_ORDER else 0.0
            super().__init__(moments, Power(order), constant=constant)

    def score(self, alpha: Vector) -> float:
        beyond = self.order - 1
        if abs(beyond) < 0.5:
            value = self.value(alpha)
            return math.exp(-(math.log1p(beyond * value) / beyond if beyond else value))
        # In logarithms, because the q-th powers of many small eigenvalues underflow.
        spectrum = self.moments.spectrum(alpha)
        logs = np.log(spectrum[spectrum > 0])
        top = self.order * logs.max()
        return math.exp(-(top + math.log(np.exp(self.order * logs - top).sum())) / beyond)


class LargestVendiLoss(LargestLoss):
    def score(self, alpha: Vector) -> float:
        return 1 / self.value(alpha)


class FeatureTally(MomentTally):
    """Second moments of a kernel's features, in fixed memory."""

    def __init__(
        self, kernel: Kernel, order: float, columns: int, arms: int, sample: Array
    ) -> None:
        super().__init__(arms, sample, columns)
        self.kernel, self.order = kernel, order

    def transform(self, embeddings: Array) -> Array:
        return self.kernel.feature_map(embeddings)

    def loss(self, arms: Sequence[int]) -> Loss:
        return spectral_loss(self.mixture_moments(arms), self.order)


class GramTally(Tally):
    """An exact kernel: the samples are kept and their kernel matrix is factored at each loss."""

    STATE = ("kept",)

    def __init__(self, kernel: Kernel, order: float, arms: int, sample: Array) -> None:
        super().__init__(arms, sample)
        self.kernel, self.order = kernel, order
        self.kept: list[Any] = [self.rows() for _ in range(arms)]

    def _add(self, arm: int, batch: Batch) -> None:
        self.kept[arm].append(batch.embeddings)

    def _merge(self, other: GramTally) -> None:
        for mine, theirs in zip(self.kept, other.kept, strict=True):
            mine.append(theirs.array)

    def _grow(self) -> None:
        self.kept.append(self.rows())

    def loss(self, arms: Sequence[int]) -> Loss:
        xp = namespace(self.sample)
        check_exact_limit(self.kernel, sum(self.counts[arm] for arm in arms))
        points = xp.concat([self.kept[arm].array for arm in arms], axis=0)
        rows = gram_factor(self.kernel(points, points))
        ends = np.cumsum([self.counts[arm] for arm in arms]).tolist()
        starts = [0, *ends[:-1]]
        groups = [rows[a:b, :] for a, b in zip(starts, ends, strict=True)]
        return spectral_loss(FactorMoments(groups, centred=False, spanned=True), self.order)


def gram_factor(gram: Array) -> Array:
    """Rows Y with ``Y Yᵀ`` the kernel matrix, on the directions that it has."""
    xp = namespace(gram)
    gram = symmetric(gram)
    if is_full_rank(gram):
        return xp.linalg.cholesky(gram)
    values, basis = xp.linalg.eigh(gram)
    top = float(xp.max(values))
    if float(xp.min(values)) < -1e-7 * top:
        raise InputError(
            "the kernel is not positive semidefinite on these samples: "
            "use a positive semidefinite kernel."
        )
    held = xp.nonzero(values > gram.shape[0] * EPS * top)[0]
    return basis[:, held] * xp.sqrt(values[held])


class QualityVendiTally(Tally):
    """Vendi of order 1 beside the mean quality of each arm."""

    STATE = ()

    def __init__(self, kernel: Kernel, arms: int, sample: Array) -> None:
        super().__init__(arms, sample)
        self.diversity = spectral_tally(kernel, 1.0, arms, sample)
        self.quality: Any = Quality().tally(arms, sample)

    def _add(self, arm: int, batch: Batch) -> None:
        self.diversity.add(arm, batch)
        self.quality.add(arm, batch)

    def _merge(self, other: QualityVendiTally) -> None:
        self.diversity.merge(other.diversity)
        self.quality.merge(other.quality)

    def _grow(self) -> None:
        self.diversity.grow()
        self.quality.grow()

    def loss(self, arms: Sequence[int]) -> Loss:
        return QualityVendiLoss(self.diversity.loss(arms), LogMeanLoss(self.quality.means(arms)))

    def fork(self) -> QualityVendiTally:
        fork = copy.copy(self)
        fork.counts = list(self.counts)
        fork.diversity, fork.quality = self.diversity.fork(), self.quality.fork()
        return fork

    def state_dict(self) -> dict[str, Any]:
        parts = {"diversity": self.diversity.state_dict(), "quality": self.quality.state_dict()}
        return super().state_dict() | parts

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.diversity.load_state_dict(state["diversity"])
        self.quality.load_state_dict(state["quality"])


class QualityVendiLoss(SumLoss):
    """``Tr C log C − log(q·α)``, of which mean quality × Vendi is the inverse exponential."""

    def __init__(self, diversity: Loss, quality: LogMeanLoss) -> None:
        super().__init__([(1.0, diversity), (1.0, quality)])
        self._means = quality.means

    def score(self, alpha: Vector) -> float:
        return float(self._means @ alpha) * self.terms[0][1].score(alpha)
