"""The Vendi score of any order, and the quality-weighted Vendi score.

With ``C_i = E φφᵀ`` over arm i (unit trace, because ``k(x, x) = 1``), the mixture has
``C_α = Σ α_i C_i``, whose eigenvalues are those of the normalized kernel matrix. The gradient and the
Hessian are computed in ``trace_loss``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from genmix.core.arrays import Array, Vector, is_on_gpu, namespace, symmetric, to_numpy
from genmix.errors import InputError, positive
from genmix.kernels.kernels import Cosine, Kernel, with_unit_diagonal
from genmix.objectives.eigenbasis import (
    Eigenbasis,
    FactorMoments,
    MixtureMoments,
    Omitted,
    is_full_rank,
)
from genmix.objectives.joint import kernel_tally
from genmix.objectives.moments import FeatureMoments
from genmix.objectives.objective import Objective
from genmix.objectives.quality_cost import MeanTally, Quality
from genmix.objectives.tally import Batch, CompositeTally, Tally
from genmix.objectives.trace_functions import Entropy, NearEntropy, Power, TraceFunction
from genmix.objectives.trace_loss import LargestEigenvalueLoss, TraceLoss
from genmix.solvers.loss import EPS, LogMeanLoss, Loss, SumLoss

LARGE_ORDER = 4.0
"""Order above which the loss omits its constant, next to which ``Tr C^q`` would be negligible."""

EXACT_LIMIT = 4000
"""Largest number of samples N for which an N×N eigenproblem of an exact kernel is allowed."""


class KernelObjective(Objective):
    """Base class for objectives with one kernel, normalized to ``k(x, x) = 1``."""

    kernel: Any

    def _set_kernel(self) -> None:
        object.__setattr__(self, "kernel", with_unit_diagonal(self.kernel, type(self).__name__))

    def fix_bandwidths(self, groups: Sequence[Array]) -> Objective:
        return replace(self, kernel=self.kernel.fix_bandwidths(groups))  # type: ignore[type-var]

    def check(self, batch: Batch, where: str) -> None:
        super().check(batch, where)
        self.kernel.check(batch.embeddings, where)

    def details(self) -> dict[str, Any]:
        return {"kernel": self.kernel}


@dataclass(frozen=True, eq=False)
class Vendi(KernelObjective):
    """Vendi score ↑: the effective number of distinct samples.

    With ``C = Σ α_i C_i`` and ``C_i = E φφᵀ`` the kernel covariance of arm i, the weights minimize::

        Tr C log C                (q = 1)
        (Tr C^q − 1) / (q − 1)    (other q)
        λ_max(C)                  (q = ∞)

    over the simplex. The score is ``exp(−Tr C log C)``, ``(Tr C^q)^(1/(1−q))`` or ``1/λ_max``. Above order
    4, the loss is ``Tr C^q / (q−1)``, because the constant would dominate it numerically.

    Parameters
    ----------
    order : float, default 1.0
        The order q > 0, possibly infinite. Small orders count rare modes; large orders count only common
        modes.
    kernel : Kernel or callable, default Cosine()
        A kernel on embeddings; it is normalized to ``k(x, x) = 1``.

    Raises
    ------
    InputError
        If the order is not positive, or the kernel cannot be normalized.

    References
    ----------
    Friedman, D., & Dieng, A. B. (2023). The Vendi score: A diversity evaluation metric for machine
    learning. TMLR.

    Examples
    --------
    >>> import numpy as np
    >>> import genmix as gx
    >>> arms = {"a": np.eye(3)[:1], "b": np.eye(3)[1:]}
    >>> mix = gx.optimal_mixture(arms, gx.Vendi())
    >>> {arm: round(weight, 4) for arm, weight in mix.weights.items()}
    {'a': 0.3333, 'b': 0.6667}
    >>> round(float(mix.score), 4)
    3.0
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
        return kernel_tally(
            self.kernel,
            lambda kernel, m, like_this: spectral_tally(kernel, self.order, m, like_this),
            arms,
            sample,
        )

    def details(self) -> dict[str, Any]:
        return {"order": self.order} | super().details()


@dataclass(frozen=True, eq=False)
class QualityVendi(KernelObjective):
    """Quality-weighted Vendi score ↑: mean quality × Vendi score of order 1.

    The weights minimize ``Tr C log C − log(q·α)`` over the simplex, with ``q_i ≥ 0`` the mean quality of
    arm i. If no sample has positive quality, only diversity counts.

    Parameters
    ----------
    kernel : Kernel or callable, default Cosine()
        A kernel on embeddings; it is normalized to ``k(x, x) = 1``.

    References
    ----------
    Nguyen, Q., & Dieng, A. B. (2024). Quality-weighted Vendi scores and their application to diverse
    experimental design. ICML.

    Examples
    --------
    >>> import numpy as np
    >>> import genmix as gx
    >>> arms = {"a": np.eye(3)[:1], "b": np.eye(3)[1:]}
    >>> mix = gx.optimal_mixture(arms, gx.QualityVendi(), quality={"a": 0.9, "b": 0.9})
    >>> round(float(mix.score), 4)
    2.7
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
                f"{where}, sample {int(np.argmin(batch.quality))}: the quality "
                f"{np.min(batch.quality):g} is negative, but quality-weighted Vendi multiplies by it; "
                "pass numbers of at least 0."
            )

    def check_total(self, total: int) -> None:
        check_exact_limit(self.kernel, total)

    def tally(self, arms: int, sample: Array) -> Tally:
        return QualityVendiTally(self.kernel, arms, sample)


def check_exact_limit(kernel: Kernel, total: int) -> None:
    # The dimension does not matter: columns() is None if there is no feature map.
    if total > EXACT_LIMIT and kernel.columns(1) is None:
        raise InputError(
            f"an exact kernel needs a {total}×{total} eigenproblem, but the limit is {EXACT_LIMIT}; "
            "use Gaussian(features=512) or Cosine()."
        )


def spectral_tally(kernel: Kernel, order: float, arms: int, sample: Array) -> Tally:
    columns = kernel.columns(sample.shape[1])
    if columns is None:
        return GramTally(kernel, order, arms, sample)
    return FeatureTally(kernel, order, arms, sample)


def spectral_loss(moments: MixtureMoments, order: float) -> Loss:
    return LargestEigenvalueLoss(moments) if order == math.inf else VendiLoss(moments, order)


def trace_function(order: float) -> tuple[TraceFunction, float]:
    """Return the function of the eigenvalues and the constant in the loss of a finite order."""
    if order == 1:
        return Entropy(), 0.0
    if abs(order - 1) < 0.5:
        return NearEntropy(order), 0.0
    return Power(order), -1 / (order - 1) if order <= LARGE_ORDER else 0.0


def vendi_score(order: float, loss: float) -> float:
    """Convert a loss to the score; a loss below that of every spectrum converts to infinity."""
    if order in (1, math.inf):
        return math.exp(-loss) if order == 1 else (1 / loss if loss > 0 else math.inf)
    excess = order - 1
    constant = trace_function(order)[1] if abs(excess) >= 0.5 else -1 / excess
    trace = (loss - constant) * excess
    return math.exp(-math.log(trace) / excess) if trace > 0 else math.inf


class VendiLoss(TraceLoss):
    """The negative von Neumann entropy (order 1) or negative Tsallis entropy of the spectrum."""

    def __init__(self, moments: MixtureMoments, order: float) -> None:
        self.order = order
        function, constant = trace_function(order)
        super().__init__(moments, function, constant=constant)

    def score(self, alpha: Vector) -> float:
        excess = self.order - 1
        if abs(excess) < 0.5:
            value = self.value(alpha)
            return math.exp(-(math.log1p(excess * value) / excess if excess else value))
        # Use logarithms, because the q-th powers of small eigenvalues underflow.
        spectrum = self.moments.spectrum(alpha)
        logs = np.log(spectrum[spectrum > 0])
        top = self.order * logs.max()
        return math.exp(-(top + math.log(np.exp(self.order * logs - top).sum())) / excess)


class FeatureTally(FeatureMoments):
    """Second moments of a kernel's features, in fixed memory."""

    def __init__(self, kernel: Kernel, order: float, arms: int, sample: Array) -> None:
        super().__init__(kernel, arms, sample)
        self.order = order

    def loss(self, arms: Sequence[int]) -> Loss:
        return spectral_loss(self.mixture_moments(arms), self.order)


class GramTally(Tally):
    """Samples for an exact kernel; their kernel matrix is factored for each loss.

    ``check_total`` limits their number before they are added. A probe of a few more is not limited.
    """

    STATE = ("kept",)

    def __init__(self, kernel: Kernel, order: float, arms: int, sample: Array) -> None:
        super().__init__(arms, sample)
        self.kernel, self.order = kernel, order
        self.kept: list[Any] = [self.rows() for _ in range(arms)]

    def _add(self, arm: int, batch: Batch) -> None:
        self.kept[arm].append(batch.embeddings)

    def _merge(self, other: GramTally, arms: Sequence[int]) -> None:
        for arm, theirs in zip(arms, other.kept, strict=True):
            self.kept[arm].append(theirs.array)

    def _grow(self) -> None:
        self.kept.append(self.rows())

    def sample_plane(
        self, loss: Any, arms: Sequence[int], alpha: Vector, batch: Batch, complete: bool = False
    ) -> Vector:
        if not complete:
            return super().sample_plane(loss, arms, alpha, batch)
        plane: Vector = loss.sample_plane(alpha, None)
        return plane

    def loss(self, arms: Sequence[int]) -> Loss:
        points = namespace(self.sample).concat([self.kept[arm].array for arm in arms], axis=0)
        gram = symmetric(self.kernel(points, points))
        rounding = self.kernel.rounding(points)
        return spectral_loss(
            GramMoments(gram, self.counts_of(arms), rounding, self.order), self.order
        )


class GramMoments(MixtureMoments):
    """Moments in the form of a kernel matrix.

    The matrix is factored only if more is needed than a score of equally weighted samples. Which of the
    two is used must not depend on what was computed before.
    """

    def __init__(self, gram: Array, counts: Any, rounding: float, order: float) -> None:
        self.size, self.on_gpu = len(counts), is_on_gpu(gram)
        self._gram, self._counts, self._rounding = gram, counts, rounding
        self._is_exact = order >= 1  # small orders need accurate small eigenvalues
        self._factored: FactorMoments | None = None

    @property
    def factored(self) -> FactorMoments:
        if self._factored is None:
            rows, omitted = gram_factor(self._gram, self._rounding)
            ends = np.cumsum(self._counts).tolist()
            groups = [rows[a:b, :] for a, b in zip([0, *ends[:-1]], ends, strict=True)]
            self._factored = FactorMoments(groups, centered=False, omitted=omitted, spanned=True)
        return self._factored

    def of(self, arms: Sequence[int]) -> FactorMoments:
        return self.factored.of(arms)

    def spectrum(self, alpha: Vector) -> Vector:
        shares = alpha / self._counts
        if not self._is_exact or np.ptp(shares) > 4 * EPS * shares.max():
            return self.factored.spectrum(alpha)
        values: Vector = to_numpy(namespace(self._gram).linalg.eigvalsh(self._gram)) * shares.max()
        check_semidefinite(values)
        return np.where(values > len(values) * EPS * values[-1], values, 0.0)

    def _eigenbasis(self, alpha: Vector) -> Eigenbasis:
        return self.factored.eigenbasis(alpha)


def gram_factor(gram: Array, rounding: float) -> tuple[Array, Omitted]:
    """Return Y such that ``Y Yᵀ`` is the symmetric kernel matrix, without null directions, and what Y omits.

    ``rounding`` bounds the error of the given kernel values. If no entry of Y Yᵀ is off by more than ε,
    the moment of any mixture is off by at most ε in the Frobenius norm, because the weights sum to 1.
    """
    xp = namespace(gram)
    rows, count = _factor(gram), int(gram.shape[0])
    error = float(xp.max(xp.abs(gram - rows @ rows.mT))) + rounding
    lost = count - int(rows.shape[1])
    return rows, Omitted(error).and_directions(lost, math.sqrt(lost) * error)


def _factor(gram: Array) -> Array:
    xp = namespace(gram)
    if is_full_rank(gram):
        return xp.linalg.cholesky(gram)
    values, basis = xp.linalg.eigh(gram)
    check_semidefinite(to_numpy(values))
    top = float(xp.max(values))
    held = xp.nonzero(values > gram.shape[0] * EPS * top)[0]
    return basis[:, held] * xp.sqrt(values[held])


def check_semidefinite(values: Vector) -> None:
    """Raise an error if a kernel matrix has one of these eigenvalues far below zero."""
    if values.min() < -1e-7 * values.max():
        raise InputError(
            "the kernel is not positive semidefinite on these samples; "
            "use a positive semidefinite kernel."
        )


class QualityVendiTally(CompositeTally):
    """Statistics for the Vendi score of order 1 and for the mean quality of each arm."""

    STATE = ("diversity", "quality")

    def __init__(self, kernel: Kernel, arms: int, sample: Array) -> None:
        super().__init__(arms, sample)
        self.diversity = spectral_tally(kernel, 1.0, arms, sample)
        self.quality: MeanTally = Quality().tally(arms, sample)

    @property
    def parts(self) -> list[Tally]:  # type: ignore[override]
        return [self.diversity, self.quality]

    def sample_plane(
        self, loss: Any, arms: Sequence[int], alpha: Vector, batch: Batch, complete: bool = False
    ) -> Vector:
        plane = self.diversity.sample_plane(loss.terms[0][1], arms, alpha, batch, complete)
        mean = float(self.quality.means(arms) @ alpha)
        if mean == 0:
            return plane
        assert batch.quality is not None
        return plane + (1 - math.log(mean) - batch.quality / mean)

    def loss(self, arms: Sequence[int]) -> Loss:
        return QualityVendiLoss(self.diversity.loss(arms), LogMeanLoss(self.quality.means(arms)))


class QualityVendiLoss(SumLoss):
    """The loss ``Tr C log C − log(q·α)``, whose score is mean quality × Vendi."""

    def __init__(self, diversity: Loss, quality: Loss) -> None:
        super().__init__([(1.0, diversity), (1.0, quality)])
        self._diversity, self._quality = diversity, quality

    def score(self, alpha: Vector) -> float:
        return self._quality.score(alpha) * self._diversity.score(alpha)

    def mapped(self, change: Callable[[Loss], Loss]) -> QualityVendiLoss:
        return QualityVendiLoss(change(self._diversity), change(self._quality))
