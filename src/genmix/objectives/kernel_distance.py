"""The kernel distance (KD, KID, squared MMD) of a mixture to a reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from genmix.core.arrays import Array, like, namespace
from genmix.data.reference import samples_of
from genmix.errors import InputError, positive
from genmix.kernels.kernels import Gaussian, as_kernel
from genmix.objectives.base import Batch, Objective, Tally
from genmix.objectives.kernel_sums import (
    ExactPairTally,
    MeanFeatureTally,
    PairSums,
    quadratic,
)
from genmix.solvers.loss import Loss


@dataclass(frozen=True, eq=False)
class KernelDistance(Objective):
    """Kernel distance ↓ between the mixture and reference samples.

        minimise over α   αᵀKα − 2 b·α + c,   K_ij = E k(X_i, X_j),  b_i = E k(X_i, Y),  c = E k(Y, Y')

    V-statistics by default, as in the paper (a sample's pair with itself counted once);
    ``unbiased=True`` leaves self-pairs out and projects K to be positive semidefinite for the solve.
    ``block_mb`` is the memory for one block of an exact kernel's values, in MiB.
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
            raise InputError("unbiased=True needs at least 2 reference samples: give more.")

    @property
    def least_samples(self) -> int:
        return 2 if self.unbiased else 1

    @property
    def dimension(self) -> int:
        dimension: int = self.reference.dimension
        return dimension

    def resolve(self, groups: Sequence[Array]) -> KernelDistance:
        return replace(self, kernel=self.kernel.resolve([*groups, self.reference.points]))

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
        constant = self._constant(tally.reference_total(), like(points, sample))

        def make_loss(sums: PairSums) -> Loss:
            cross = sums.cross / sums.counts
            return quadratic(sums, cross, constant, self.unbiased)

        tally.make_loss = make_loss
        return tally

    def _constant(self, total: float, points: Array) -> float:
        """``E k(Y, Y')``, from the sum over all pairs of the reference."""
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
