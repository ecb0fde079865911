"""RKE, the Vendi score of order 2, computed from sums over pairs of samples."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from genmix.core.arrays import Array, Vector
from genmix.errors import positive
from genmix.kernels.kernels import Gaussian, Kernel
from genmix.objectives.joint import kernel_tally
from genmix.objectives.kernel_sums import ExactPairTally, PairSums, SecondFeatureTally, quadratic
from genmix.objectives.tally import Tally
from genmix.objectives.vendi import KernelObjective
from genmix.solvers.loss import Loss, QuadraticLoss


@dataclass(frozen=True, eq=False)
class RKE(KernelObjective):
    """Rényi kernel entropy score ↑, the Vendi score of order 2.

    The weights minimize ``αᵀKα`` over the simplex, with ``K_ij = E k²(X_i, X_j)``. The score is
    ``1 / αᵀKα``.

    Parameters
    ----------
    kernel : Kernel or callable, default Gaussian()
        A kernel on embeddings; it is normalized to ``k(x, x) = 1``.
    unbiased : bool, default False
        Exclude pairs of a sample with itself; see :class:`KernelDistance`. By default, K is a V-statistic,
        as in the paper.
    block_mb : float, default 32.0
        Memory for one block of an exact kernel's values, in MiB.

    Raises
    ------
    InputError
        If ``block_mb`` is not positive, or the kernel cannot be normalized.

    References
    ----------
    Jalali, M., Li, C. T., & Farnia, F. (2023). An information-theoretic evaluation of generative models
    in learning multi-modal distributions. NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> import genmix as gx
    >>> arms = {"a": np.eye(3)[:1], "b": np.eye(3)[1:]}
    >>> mix = gx.optimal_mixture(arms, gx.RKE(gx.Cosine()))
    >>> round(float(mix.score), 4)
    3.0
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
        return kernel_tally(self.kernel, self._tally, arms, sample)

    def _tally(self, kernel: Kernel, arms: int, sample: Array) -> Tally:
        tally: SecondFeatureTally | ExactPairTally
        if kernel.columns(sample.shape[1]) is not None:
            tally = SecondFeatureTally(kernel, arms, sample)
        else:
            block_bytes = int(self.block_mb * 2**20)
            tally = ExactPairTally(kernel, 2, block_bytes, arms, sample)
        tally.make_loss = self._loss
        return tally

    def _loss(self, sums: PairSums) -> Loss:
        zero = np.zeros(len(sums.counts))
        return InverseLoss(quadratic(sums, zero, 0.0, self.unbiased))

    def details(self) -> dict[str, Any]:
        estimator = "unbiased" if self.unbiased else "V-statistic"
        return super().details() | {"estimator": estimator}


class InverseLoss(QuadraticLoss):
    """A quadratic loss whose score is the reciprocal of its value."""

    def __init__(self, form: QuadraticLoss) -> None:
        super().__init__(form.matrix, form.linear, form.constant, form.own, form.concave_part)

    def score(self, alpha: Vector) -> float:
        value = self.reported(alpha)
        return 1 / value if value > 0 else math.inf
