"""The kernel distance (KD, KID, squared MMD) between a mixture and a reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from genmix.core.arrays import Array, like, namespace
from genmix.data.reference import samples_of
from genmix.errors import InputError, positive
from genmix.kernels.kernels import Gaussian, as_kernel
from genmix.objectives.kernel_sums import (
    ExactPairTally,
    MeanFeatureTally,
    PairSums,
    quadratic,
)
from genmix.objectives.objective import Objective
from genmix.objectives.tally import Batch, Tally
from genmix.solvers.loss import Loss


@dataclass(frozen=True, eq=False)
class KernelDistance(Objective):
    """Kernel distance ↓ (KD, KID, squared MMD) between the mixture and reference samples.

    The weights minimize ``αᵀKα − 2 b·α + c`` over the simplex, with ``K_ij = E k(X_i, X_j)``,
    ``b_i = E k(X_i, Y)`` and ``c = E k(Y, Y')`` for reference samples Y. The score is the loss.

    Parameters
    ----------
    reference : array_like of shape (n, d), path, or Reference
        Reference samples.
    kernel : Kernel or callable, default Gaussian()
        A kernel on embeddings, e.g. ``Polynomial()`` for KID.
    unbiased : bool, default False
        Exclude pairs of a sample with itself. With few samples, the loss may then fail to be convex. In that
        case, a first solve replaces K with the nearest positive semidefinite matrix, and the result is
        improved on the unbiased loss, so that it is never worse than a single arm. By default, K is a
        V-statistic, as in the paper.
    block_mb : float, default 32.0
        Memory for one block of an exact kernel's values, in MiB.

    Raises
    ------
    InputError
        If the reference is invalid, or has too few samples.

    References
    ----------
    Bińkowski, M., et al. (2018). Demystifying MMD GANs. ICLR.

    Gretton, A., et al. (2012). A kernel two-sample test. JMLR, 13, 723–773.

    Examples
    --------
    >>> import numpy as np
    >>> import genmix as gx
    >>> reference = np.eye(3)[[0, 1, 1, 1]]
    >>> arms = {"a": np.eye(3)[:1], "b": np.eye(3)[1:2]}
    >>> mix = gx.optimal_mixture(arms, gx.KernelDistance(reference, gx.Cosine()))
    >>> {arm: round(weight, 4) for arm, weight in mix.weights.items()}
    {'a': 0.25, 'b': 0.75}
    """

    reference: Any
    kernel: Any = Gaussian()  # noqa: RUF009 - immutable
    unbiased: bool = False
    block_mb: float = 32.0
    name = "kernel_distance"
    quadratic = True
    maximise = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "reference", samples_of(self.reference))
        object.__setattr__(self, "kernel", as_kernel(self.kernel))
        object.__setattr__(self, "block_mb", positive(self.block_mb, "block_mb"))
        self.kernel.check(self.reference.points, "the reference")
        if self.unbiased and self.reference.points.shape[0] < 2:
            raise InputError("unbiased=True needs at least 2 reference samples; pass more.")

    @property
    def least_samples(self) -> int:
        return 2 if self.unbiased else 1

    @property
    def dimension(self) -> int:
        return int(self.reference.dimension)

    def fix_bandwidths(self, groups: Sequence[Array]) -> KernelDistance:
        return replace(self, kernel=self.kernel.fix_bandwidths([*groups, self.reference.points]))

    def check(self, batch: Batch, where: str) -> None:
        super().check(batch, where)
        self.kernel.check(batch.embeddings, where)

    def tally(self, arms: int, sample: Array) -> Tally:
        points = self.reference.points
        tally: ExactPairTally | MeanFeatureTally
        if self.kernel.columns(sample.shape[1]) is not None:
            tally = MeanFeatureTally(self.kernel, arms, sample, like(points, sample))
        else:
            block_bytes = int(self.block_mb * 2**20)
            tally = ExactPairTally(self.kernel, 1, block_bytes, arms, sample, points)
        constant = self.constant_from(tally.reference_total(), like(points, sample))

        def make_loss(sums: PairSums) -> Loss:
            cross = sums.cross / sums.counts
            return quadratic(sums, cross, constant, self.unbiased)

        tally.make_loss = make_loss
        return tally

    def constant_from(self, total: float, points: Array) -> float:
        """Return ``E k(Y, Y')`` from the sum over all pairs of reference samples."""
        n = int(points.shape[0])
        if not self.unbiased:
            return total / (n * n)
        own = float(namespace(points).sum(self.kernel.diagonal(points)))
        return (total - own) / (n * (n - 1))

    def details(self) -> dict[str, Any]:
        return {
            "kernel": self.kernel,
            "estimator": "unbiased" if self.unbiased else "V-statistic",
            "reference n": int(self.reference.points.shape[0]),
        }
