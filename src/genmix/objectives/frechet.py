"""The Fréchet distance (FD, FID) between a mixture and a reference, both treated as Gaussians."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Literal, Self

import numpy as np

from genmix.core.arrays import (
    Array,
    Vector,
    check_spread,
    like,
    namespace,
    place,
    subtract,
    symmetric,
    to_numpy,
    triangle_of,
)
from genmix.data.reference import Moments, moments_of
from genmix.errors import InputError
from genmix.objectives.eigenbasis import FactorMoments, MixtureMoments, is_full_rank
from genmix.objectives.moments import Change, DenseMoments, MomentTally, Sums
from genmix.objectives.objective import Objective
from genmix.objectives.tally import Batch, Tally, added
from genmix.objectives.trace_functions import Root
from genmix.objectives.trace_loss import TraceLoss
from genmix.solvers.loss import EPS

MANY_ROWS = 4
"""With more rows per dimension than this, sums are rotated into the basis of the reference, not rows."""

CONDITION = 1e-7
"""Smallest ratio of an eigenvalue to the sum of all at which rounding errors of sums do not matter."""

ORTHONORMAL = 1e-8
"""Largest deviation of the products of saved eigenvectors from 0 and 1."""

ORDINARY_EXPONENT = 100
"""Variances between 2^−100 and 2^100 are used as they are; others are scaled by a power of two."""


@dataclass(frozen=True, eq=False)
class FrechetDistance(Objective):
    """Fréchet distance ↓ (FD, FID) between the mixture and a reference.

    The weights minimize::

        ‖μ_α − μ_0‖² + Tr Σ_α + Tr Σ_0 − 2 Tr (Σ_0^½ Σ_α Σ_0^½)^½

    over the simplex, with ``μ_α = Σ α_i μ_i`` and ``Σ_α = Σ α_i S_i − μ_α μ_αᵀ`` (``S_i`` the second moment
    of arm i). The loss is convex in α.

    Parameters
    ----------
    reference : array_like of shape (n, d), path, tuple, or Reference
        Reference samples, a feature file, or moments ``(mu, sigma, n)`` as written by FID tools.
    ddof : {0, 1}, default 0
        Covariances are normalized by ``1/n`` in the loss. With 1, the reported score uses ``1/(n−1)`` like
        other FID tools.

    Raises
    ------
    InputError
        If the reference is invalid, or too small for ``ddof=1``.

    References
    ----------
    Heusel, M., et al. (2017). GANs trained by a two time-scale update rule converge to a local Nash
    equilibrium. NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> import genmix as gx
    >>> arms = {"left": [[-1.0], [0.0]], "right": [[0.0], [1.0]]}
    >>> mix = gx.optimal_mixture(arms, gx.FrechetDistance([[-1.0], [1.0]]))
    >>> {arm: round(weight, 4) for arm, weight in mix.weights.items()}
    {'left': 0.5, 'right': 0.5}
    """

    reference: Any
    ddof: Literal[0, 1] = 0
    name = "frechet_distance"
    maximise = False

    def __post_init__(self) -> None:
        if self.ddof not in (0, 1):
            raise InputError(f"ddof is {self.ddof!r}; pass 0 for 1/n or 1 for 1/(n−1).")
        object.__setattr__(self, "reference", moments_of(self.reference))
        if self.ddof == 1 and self.moments.n == 1:
            raise InputError("ddof=1 needs at least 2 reference samples; pass more, or use ddof=0.")

    @property
    def least_samples(self) -> int:
        return 1 + self.ddof

    @property
    def dimension(self) -> int:
        return self.moments.dimension

    def check(self, batch: Batch, where: str) -> None:
        super().check(batch, where)
        rows = batch.embeddings
        xp = namespace(rows)
        if not np.any(to_numpy(self.moments.covariance)):  # the distances alone set the scale
            check_spread(float(xp.max(xp.abs(rows - like(self.moments.mean, rows)))), where)

    @property
    def moments(self) -> Moments:
        """Mean and covariance of the reference."""
        moments: Moments = self.reference
        return moments

    def tally(self, arms: int, sample: Array) -> FrechetTally:
        return FrechetTally(self, arms, sample)

    def eigenbasis(self, sample: Array) -> tuple[Array, Array]:
        """Return the eigenvalues and eigenvectors of the reference covariance, computed once per device."""
        where = place(sample)
        if where not in self._bases:
            self._bases[where] = _eigenbasis(like(self.moments.covariance, sample))
        return self._bases[where]

    @cached_property
    def _bases(self) -> dict[str, tuple[Array, Array]]:
        return {}

    def __getstate__(self) -> dict[str, Any]:
        # Another process computes the basis for its own device.
        return {key: value for key, value in dict(vars(self)).items() if key != "_bases"}

    def details(self) -> dict[str, Any]:
        return {
            "normalisation": "1/n" if self.ddof == 0 else "1/(n-1)",
            "reference n": self.moments.n or "unstated",
        }


class FrechetTally(MomentTally):
    """Moments around the reference mean, so that a large common mean does not cost precision.

    ``‖μ_α−μ_0‖² + Tr Σ_α = Σ α_i E‖x−μ_0‖²`` is then linear in the weights. Covariances are stored in
    the eigenbasis V of ``Σ_0 = V diag(v) Vᵀ``, where ``Σ_0^½ Σ_α Σ_0^½`` only scales rows and columns.
    If a coordinate is constant over all samples, they stay in the original coordinates, because a
    rotation would replace exact zeros with rounding errors, which the square root would magnify.
    """

    STATE = (*MomentTally.STATE, "squares", "turned")
    centered = True

    def __init__(self, objective: FrechetDistance, arms: int, sample: Array) -> None:
        super().__init__(arms, sample, sample.shape[1])
        xp = namespace(sample)
        self.objective = objective
        self.center = like(objective.moments.mean, sample)
        self.variances, self.basis = objective.eigenbasis(sample)
        held = xp.nonzero(self.variances > 0)[0]
        # A reference with only one point spans no direction; use one null direction instead.
        self.held = held if held.shape[0] else xp.arange(1, device=sample.device)
        """The directions that the reference spans."""
        self.roots = xp.sqrt(self.variances[self.held])
        self.trace = float(xp.sum(self.variances))
        """``Tr Σ_0``."""
        self.root_trace = float(xp.sum(self.variances**0.5))
        """``Tr Σ_0^½``."""
        self.unit = _unit(self.trace)
        """A power of two; in these units, products of four coordinates neither underflow nor overflow."""
        self.squares: list[float] = [0.0] * arms
        self.turned = False
        """Whether the moments are stored in the eigenbasis of the reference."""

    def transform(self, embeddings: Array) -> Array:
        return embeddings - self.center

    def _transform(self, embeddings: Array, buffer: Array | None) -> Array:
        return subtract(embeddings, self.center, buffer)

    def _add(self, arm: int, batch: Batch) -> None:
        super()._add(arm, batch)
        if self.keeps_rows:
            self.squares[arm] += _sum_of_squares(self.kept[arm].array[-len(batch) :, :])
            return
        spread = float(namespace(self.sample).linalg.trace(self.second[arm]))
        count = self.counts[arm] + len(batch)
        self.squares[arm] = spread + _sum_of_squares(self.first[arm][None, :]) / count

    def _moments(self, rows: Array, change: Change) -> Sums:
        if not self.turned:
            return super()._moments(rows, change)
        if rows.shape[0] > MANY_ROWS * rows.shape[1]:
            count, first, second = super()._moments(rows, change)
            if _is_well_conditioned(second):
                return count, first @ self.basis, self.basis.mT @ second @ self.basis
        return super()._moments(rows, lambda block, buffer: change(block, buffer) @ self.basis)

    def _fold(self, new: Iterable[Array] = ()) -> None:
        self.turned = _all_vary(chain((rows.array for rows in self.kept if rows.count), new))
        super()._fold()

    def _merge(self, other: Any, arms: Sequence[int]) -> None:
        if not other.keeps_rows:
            if self.keeps_rows:
                self._fold()
            if self.turned or other.turned:
                self._turn(self.basis)
                other = other.fork()
                other._turn(self.basis)
        super()._merge(other, arms)
        self.squares = added(self.squares, other.squares, arms)

    def _turn(self, basis: Array) -> None:
        """Express the moments in an eigenbasis of the reference."""
        xp = namespace(basis)
        if self.turned and bool(xp.all(self.basis == basis)):
            return
        rotation = self.basis.mT @ basis if self.turned else basis
        self.first = [first @ rotation for first in self.first]
        self.second = [rotation.mT @ second @ rotation for second in self.second]
        self.basis, self.turned = basis, True

    def state_dict(self) -> dict[str, Any]:
        # Another machine can find eigenvectors with other signs, or others of a repeated eigenvalue.
        used = self.basis if self.turned else self.basis[:0, :0]
        return super().state_dict() | {"basis": np.array(to_numpy(used))}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.basis = self.objective.eigenbasis(self.sample)[1]
        if not self.turned or "basis" not in state:  # older states do not contain it
            return
        saved = np.asarray(state["basis"])
        if saved.shape != tuple(self.basis.shape) or not _is_orthonormal(saved):
            raise ValueError("the saved basis is not an orthonormal basis of the embedding space")
        if not np.array_equal(saved, to_numpy(self.basis)):  # equal ones keep their memory layout
            self.basis = like(saved, self.sample)

    def _grow(self) -> None:
        super()._grow()
        self.squares.append(0.0)

    def sample_plane(
        self, loss: Any, arms: Sequence[int], alpha: Vector, batch: Batch, complete: bool = False
    ) -> Vector:
        rows = self.transform(batch.embeddings)
        distances: Vector = to_numpy(namespace(rows).sum(rows * rows, axis=1))
        if self.keeps_rows and complete:
            kept: Vector = distances + loss.sample_plane(alpha, None)
            return kept
        if self.keeps_rows or not (self.turned or complete):
            return Tally.sample_plane(self, loss, arms, alpha, batch)
        if not self.turned:  # a coordinate is constant, which is rare
            fork = self.fork()
            fork._turn(self.basis)
            return fork.sample_plane(fork.loss(arms), arms, alpha, batch)
        held = namespace(rows).take(rows @ self.basis, self.held, axis=1) / self.unit
        plane: Vector = distances + loss.sample_plane(alpha, held)
        return plane

    def covariance(self, arm: int) -> Array:
        """Return the 1/n covariance of an arm in the coordinates of the embedding."""
        found = self.second_moment(arm)
        return self.basis @ found @ self.basis.mT if self.turned else found

    def offset(self, arm: int) -> Array:
        """Return the mean of an arm minus the reference mean, in the coordinates of the embedding."""
        found = self.mean(arm)
        return self.basis @ found if self.turned else found

    def mixture_moments(self, arms: Sequence[int]) -> MixtureMoments:
        """Return the moments of ``rows @ F`` with ``F Fᵀ = Σ_0``, both divided by the unit."""
        roots = self.roots / self.unit
        if self.keeps_rows or not self.turned:
            return self._multiplied(arms, self.basis[:, self.held] * roots)
        xp = namespace(self.sample)
        sums, means = self._sums_of(arms), self._offsets(arms) / self.unit
        if self.held.shape[0] < len(self.variances):
            sums = xp.take(xp.take(sums, self.held, axis=1), self.held, axis=2)
            means = xp.take(means, self.held, axis=1)
        return DenseMoments(sums, self.counts_of(arms), means * roots, roots)

    def _sums_of(self, arms: Sequence[int]) -> Array:
        sums = namespace(self.sample).stack([self.second[arm] for arm in arms])
        return sums if self.unit == 1 else sums / self.unit / self.unit

    def _offsets(self, arms: Sequence[int]) -> Array:
        """Return the means of these arms minus the reference mean, ``(m, d)``."""
        means = self.means_of(arms)
        assert means is not None
        return means

    def _multiplied(self, arms: Sequence[int], factor: Array) -> MixtureMoments:
        if self.keeps_rows:
            factor = factor / self.unit
            return FactorMoments([self.kept[arm].array @ factor for arm in arms], centered=True)
        sums, means, factor = _varying(self._sums_of(arms), self._offsets(arms) / self.unit, factor)
        return DenseMoments(factor.mT @ sums @ factor, self.counts_of(arms), means @ factor)

    def loss(self, arms: Sequence[int]) -> FrechetLoss:
        counts = self.counts_of(arms)
        squares = np.array([self.squares[arm] for arm in arms]) / counts
        moments = self.mixture_moments(arms)
        offsets = self._offsets(arms)
        return FrechetLoss(self, moments, squares, offsets, counts)


def _is_orthonormal(basis: Any) -> bool:
    if basis.dtype.kind != "f" or not np.all(np.isfinite(basis)):
        return False
    return bool(np.max(np.abs(basis.T @ basis - np.eye(len(basis))), initial=0.0) < ORTHONORMAL)


def _sum_of_squares(rows: Array) -> float:
    xp = namespace(rows)
    return float(xp.sum(xp.vecdot(rows, rows)))


def _all_vary(blocks: Iterable[Array]) -> bool:
    """Return whether every coordinate varies over the rows of these blocks; read no more than needed."""
    first: Array = None
    varies: Array = False
    for rows in blocks:
        xp = namespace(rows)
        if first is None:
            first = xp.asarray(rows[:1, :], copy=True)  # the next block can overwrite this one
        varies = xp.any(rows != first, axis=0) | varies
        if bool(xp.all(varies)):
            return True
    return False


def _is_well_conditioned(matrix: Array) -> bool:
    """Check with a Cholesky factorization that no eigenvalue is small compared with their sum."""
    xp = namespace(matrix)
    largest = float(xp.sum(xp.linalg.diagonal(matrix)))
    return is_full_rank(matrix - CONDITION * largest * xp.eye(len(matrix), device=matrix.device))


def _unit(trace: float) -> float:
    """Return 1 for ordinary variances, else a power of two close to the standard deviation.

    Multiplying by a power of two is exact, so the unit does not change any result.
    """
    exponent = math.frexp(trace)[1]
    return 1.0 if trace == 0 or abs(exponent) <= ORDINARY_EXPONENT else 2.0 ** (exponent // 2)


def _eigenbasis(covariance: Array) -> tuple[Array, Array]:
    """Return eigenvalues (zero at rounding level) and eigenvectors."""
    xp = namespace(covariance)
    values, basis = xp.linalg.eigh(symmetric(covariance))
    noise = values.shape[0] * EPS * max(float(xp.max(values)), 0.0)
    return xp.where(values > noise, values, xp.zeros_like(values)), basis


def _varying(second: Array, means: Array, factor: Array) -> tuple[Array, Array, Array]:
    """Drop the coordinates in which no arm varies; they would add only rounding errors."""
    xp = namespace(second)
    varies = xp.any(xp.linalg.diagonal(second) > 0, axis=0)
    kept = xp.nonzero(varies | xp.any(means != means[:1, :], axis=0))[0]
    if len(kept) in (0, len(varies)):
        return second, means, factor
    second = xp.take(xp.take(second, kept, axis=1), kept, axis=2)
    means = xp.take(means, kept, axis=1)
    factor = xp.take(factor, kept, axis=0)
    if factor.shape[0] < factor.shape[1]:  # a rotation does not change the spectrum
        factor = triangle_of(factor.mT).mT
    return second, means, factor


class FrechetLoss(TraceLoss):
    """The Fréchet distance as a function of the weights."""

    square_variance = 2.0

    def __init__(
        self,
        tally: FrechetTally,
        moments: MixtureMoments,
        squares: Vector,
        offsets: Array,
        counts: Any,
    ) -> None:
        trace, root = tally.trace, Root(tally.unit**2)
        super().__init__(moments, root, squares, trace, scale=max(trace, float(squares.max())))
        self.weight_dependent = trace
        self.offsets, self.counts, self.objective = offsets, counts, tally.objective

    def face(self, arms: Sequence[int]) -> Self:
        face = super().face(arms)
        face.offsets, face.counts = self.offsets[list(arms), :], self.counts[list(arms)]
        return face

    def inflation(self, alpha: Vector) -> float:
        # The subtracted mean is itself estimated from n samples.
        overlap = -self.function.total(self.moments.spectrum(alpha))
        return super().inflation(alpha) + overlap / 2

    def score(self, alpha: Vector) -> float:
        if self.objective.ddof == 0:
            return self.value(alpha)
        # Σ·n/(n−1) for both covariances; n of the mixture is its effective number of samples.
        shares = float(np.sum(alpha**2 / self.counts))
        n = self.objective.moments.n
        mine, theirs = 1 / (1 - shares), 1.0 if n is None else n / (n - 1)
        spectrum = self.moments.spectrum(alpha)
        distance = float(np.sum((alpha @ to_numpy(self.offsets)) ** 2))
        spread = float(self.linear @ alpha) - distance
        overlap = self.function.total(spectrum) * math.sqrt(mine * theirs)
        return distance + spread * mine + self.constant * theirs + overlap
