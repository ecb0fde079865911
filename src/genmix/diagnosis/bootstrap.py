"""Bootstrap replicates of the best mixture: what the weights could be with other samples of the same arms.

Each replicate draws the samples of every arm again, with replacement, and solves again. It starts at the best
mixture α of all samples and solves the quadratic model of its own loss there, over the same region:

    minimize  g·(β−α) + ½(β−α)ᵀH(β−α)

The gradient g of a replicate is known to first order in the resampling without computing its statistics: the
samples move it by their *influences*. For sample x of arm j,

    influence_i(x) = [i = j] p(x) + α_j ∂p(x)/∂α_i        with p(x) the tangent plane's value at x.

The rest, of second order, is a small noise and a bias. Losses are convex in the samples' distribution, so the
statistics of n samples are biased toward mixing: two samples of one distribution score better together than
either does alone, and both get a precise weight. A few replicates are computed in full. They show the bias in
g and H, which is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from genmix.core.arrays import Vector, namespace
from genmix.core.streams import private_stream
from genmix.diagnosis.resampling import take_rows
from genmix.objectives import Batch, Objective, Sum
from genmix.objectives.tally import Tally
from genmix.solvers.loss import LinearLoss, Loss, Matrix, QuadraticLoss
from genmix.solvers.newton_steps import NEGLIGIBLE_WEIGHT
from genmix.solvers.quadratic_program import quadratic_program
from genmix.solvers.simplex import SIMPLEX, Simplex

STEP = 1e-5
"""Change in the weights from which the derivatives of the tangent plane are computed."""

FULL_REPLICATES, HEAVY_REPLICATES = 20, 4
"""Number of replicates that are computed in full; fewer if a matrix is large."""

QUADRATIC_REPLICATES = 2
"""The same for linear and quadratic losses, whose bias is known; they only relate the loss to the score."""

LARGE_MATRIX = 1000
"""Number of columns above which the eigendecomposition of a matrix takes long."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Replicates:
    """The best mixture in each replicate, and the model that it minimizes."""

    weights: Matrix
    """``(r, m)``."""
    gradients: Matrix
    """Gradients at the best mixture of all samples, ``(r, m)``."""
    hessians: NDArray[np.float64]
    """``(r, m, m)``."""
    scores: list[Vector]
    """For each term of the objective, the score of the best mixture of all samples, ``(r,)``."""
    increases: Callable[[Sequence[Vector]], Matrix]
    """Returns how much larger the loss itself is at other mixtures, ``(r, number of mixtures)``."""


@dataclass(frozen=True)
class _Rest:
    """What is left of a full replicate's gradient, Hessian and loss after the first order."""

    gradient: Vector
    hessian: Matrix
    value: float


@dataclass(frozen=True)
class _Term:
    """The model of one term of the objective around the best mixture."""

    gradient: Vector
    hessian: Matrix
    influences: Matrix
    """How much each sample moves the gradient, ``(n, m)``; the mean over each arm is 0."""
    planes: Vector
    """How much each sample moves the loss if its arm had weight 1, ``(n,)``."""
    rests: list[_Rest]
    bias: tuple[Vector, Matrix]
    """Bias of the gradient and of the Hessian."""
    score: float
    score_slope: float
    """Derivative of the score with respect to the loss."""


def bootstrap(
    batches: Sequence[Batch],
    objective: Objective,
    alpha: Vector,
    replicates: int,
    seed: int,
    region: Simplex = SIMPLEX,
    progress: Progress = lambda done, total: None,
) -> Replicates:
    """Return replicates of the best mixture ``alpha`` of these samples; bandwidths must be fixed."""
    draws = Draws(batches, replicates, seed)
    parts = list(objective.terms) if isinstance(objective, Sum) else [(1.0, objective)]
    counter = _Counter(progress, len(parts) * (len(batches) + 1))
    makers = [_TermMaker(part, draws, alpha, counter) for _, part in parts]
    counter.total += sum(maker.full for maker in makers)
    terms = [maker.make() for maker in makers]
    weighted = list(zip([w for w, _ in parts], terms, strict=True))

    def increases(mixtures: Sequence[Vector]) -> Matrix:
        found = [
            weight * maker.increases(term, mixtures)
            for maker, (weight, term) in zip(makers, weighted, strict=True)
        ]
        total: Matrix = np.sum(found, axis=0)
        return total

    return _solve(weighted, draws, alpha, region, increases)


class Draws:
    """How often each replicate draws each sample."""

    def __init__(self, batches: Sequence[Batch], replicates: int, seed: int) -> None:
        self.batches = batches
        self.sizes = [len(batch) for batch in batches]
        self.counts = []
        for index, n in enumerate(self.sizes):
            rng = private_stream(seed, "bootstrap", index)
            self.counts.append(rng.multinomial(n, np.full(n, 1 / n), size=replicates))
        # A resample varies less than new samples would, by a factor of (n−1)/n.
        shares = [
            c / n * np.sqrt(n / (n - 1)) for c, n in zip(self.counts, self.sizes, strict=True)
        ]
        self.shares = np.concatenate(shares, axis=1)
        """Multiplying influences by these shares ``(r, n)`` yields the first order of each replicate."""

    @property
    def replicates(self) -> int:
        return len(self.shares)

    @property
    def owners(self) -> NDArray[np.int64]:
        """The arm of each sample."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def everything(self) -> Batch:
        """Return all samples, arm by arm."""
        rows = [batch.embeddings for batch in self.batches]
        quality = _joined([batch.quality for batch in self.batches])
        cost = _joined([batch.cost for batch in self.batches])
        return Batch(namespace(rows[0]).concat(rows, axis=0), quality, cost)

    def tally(self, objective: Objective, replicate: int | None = None) -> Tally:
        """Return the statistics of all samples, or of those in a replicate."""
        tally = objective.tally(len(self.batches), self.batches[0].embeddings)
        for arm, batch in enumerate(self.batches):
            if replicate is not None:
                rows = np.repeat(np.arange(len(batch)), self.counts[arm][replicate])
                batch = take_rows(batch, rows)
            tally.add(arm, batch)
        return tally


def _joined(numbers: Sequence[Vector | None]) -> Vector | None:
    known = [each for each in numbers if each is not None]
    return np.concatenate(known) if len(known) == len(numbers) else None


class _Counter:
    """Reports progress in steps."""

    def __init__(self, progress: Progress, total: int) -> None:
        self.progress, self.done, self.total = progress, 0, total

    def step(self) -> None:
        self.done += 1
        self.progress(self.done, self.total)


class _TermMaker:
    """Computes the model of one term."""

    def __init__(
        self, objective: Objective, draws: Draws, alpha: Vector, counter: _Counter
    ) -> None:
        self.objective, self.draws, self.alpha, self.counter = objective, draws, alpha, counter
        self.arms = list(range(len(alpha)))
        self.tally = draws.tally(objective)
        self.loss: Loss = self.tally.loss(self.arms)
        self.has_known_bias = isinstance(self.loss, QuadraticLoss | LinearLoss)
        self.full = min(self._full_replicates(), draws.replicates)

    def _full_replicates(self) -> int:
        if self.has_known_bias:
            return QUADRATIC_REPLICATES
        kernel = getattr(self.objective, "kernel", None)
        columns = self.tally.dimension if kernel is None else kernel.columns(self.tally.dimension)
        size = sum(self.draws.sizes) if columns is None else columns
        return HEAVY_REPLICATES if size > LARGE_MATRIX else FULL_REPLICATES

    def make(self) -> _Term:
        value, gradient, hessian = self._expand(self.loss)
        influences, planes = self._influences()
        rests, values, scores = [], [], []
        for index in range(self.full):
            loss = self.draws.tally(self.objective, index).loss(self.arms)
            expanded = self._expand(loss)
            values.append(expanded[0] - value)
            scores.append(loss.score(self.alpha))
            shares = self.draws.shares[index]
            first = _centered(shares @ influences, self.alpha)
            moved = float(shares @ (planes * self.alpha[self.draws.owners]))
            rest = _Rest(
                expanded[1] - gradient - first, expanded[2] - hessian, expanded[0] - value - moved
            )
            rests.append(rest)
            self.counter.step()
        score = self.loss.score(self.alpha)
        moves = np.asarray(values)
        slope = float(moves @ (np.asarray(scores) - score)) / max(float(moves @ moves), 1e-300)
        if self.has_known_bias:
            rests = []
        bias = self._bias(rests)
        return _Term(gradient, hessian, influences, planes, rests, bias, score, slope)

    def _expand(self, loss: Loss) -> tuple[float, Vector, Matrix]:
        """Return the value, gradient and Hessian of the reported loss."""
        here = loss.expand(self.alpha)
        gradient, hessian = here.gradient, here.hessian
        if loss.concave_part is not None:
            gradient = gradient - 2 * loss.concave_part @ self.alpha
            hessian = hessian - 2 * loss.concave_part
        return loss.reported(self.alpha), _centered(gradient, self.alpha), hessian

    def _influences(self) -> tuple[Matrix, Vector]:
        everything, owners = self.draws.everything(), self.draws.owners

        def planes_at(weights: Vector) -> Vector:
            self.counter.step()
            return self.tally.sample_plane(self.loss, self.arms, weights, everything, True)

        planes = planes_at(self.alpha)
        influences = np.zeros((len(owners), len(self.arms)))
        if not isinstance(self.loss, LinearLoss):
            for i in self.arms:
                toward = self.alpha + STEP * (np.eye(len(self.arms))[i] - self.alpha)
                change = (planes_at(toward) - planes) / STEP
                influences[:, i] = self.alpha[owners] * change
        influences[np.arange(len(owners)), owners] += planes
        for arm in self.arms:
            own = owners == arm
            influences[own] -= influences[own].mean(axis=0)
            planes[own] -= planes[own].mean()
        return influences, planes

    def increases(self, term: _Term, mixtures: Sequence[Vector]) -> Matrix:
        """Return how much larger the loss is at other mixtures, in each replicate and without its bias."""
        everything, owners = self.draws.everything(), self.draws.owners
        found = np.zeros((self.draws.replicates, len(mixtures)))
        for k, mixture in enumerate(mixtures):
            planes = self.tally.sample_plane(self.loss, self.arms, mixture, everything, True)
            for arm in self.arms:
                planes[owners == arm] -= planes[owners == arm].mean()
            moves = planes * mixture[owners] - term.planes * self.alpha[owners]
            found[:, k] = self.draws.shares @ moves
        found += self._increases_of(self.loss, mixtures)
        if self.has_known_bias:
            gradient, hessian = term.bias
            steps = [mixture - self.alpha for mixture in mixtures]
            found -= [gradient @ step + step @ hessian @ step / 2 for step in steps]
            return found
        rests = np.zeros((self.full, len(mixtures)))
        for index in range(self.full):
            loss = self.draws.tally(self.objective, index).loss(self.arms)
            rests[index] = self._increases_of(loss, mixtures) - found[index]
        turn = np.arange(self.draws.replicates) % self.full
        found += (rests - rests.mean(axis=0))[turn] - rests.mean(axis=0)
        return found

    def _increases_of(self, loss: Loss, mixtures: Sequence[Vector]) -> Vector:
        least = loss.reported(self.alpha)
        return np.array([loss.reported(mixture) - least for mixture in mixtures])

    def _bias(self, rests: Sequence[_Rest]) -> tuple[Vector, Matrix]:
        size = len(self.arms)
        if rests:
            gradients = np.stack([rest.gradient for rest in rests])
            hessians = np.stack([rest.hessian for rest in rests])
            return gradients.mean(axis=0), hessians.mean(axis=0)
        curvature = np.zeros((size, size))
        if isinstance(self.loss, QuadraticLoss) and self.loss.own is not None:
            # The pairs of a sample with itself; an unbiased loss leaves them out.
            own = self.loss.own - np.diag(self.loss.matrix)
            curvature = np.diag(2 * own / np.asarray(self.draws.sizes))
        return _centered(curvature @ self.alpha, self.alpha), curvature


def _centered(gradient: Vector, alpha: Vector) -> Vector:
    """Remove the constant of a tangent plane, which does not matter within the simplex."""
    centered: Vector = gradient - float(gradient @ alpha)
    return centered


def _solve(
    terms: Sequence[tuple[float, _Term]],
    draws: Draws,
    alpha: Vector,
    region: Simplex,
    increases: Callable[[Sequence[Vector]], Matrix],
) -> Replicates:
    size, count = len(alpha), draws.replicates
    gradients, hessians = np.zeros((count, size)), np.zeros((count, size, size))
    scores = []
    owned = draws.shares * alpha[draws.owners]
    for weight, term in terms:
        bias, curvature_bias = term.bias
        gradients += weight * (term.gradient + draws.shares @ term.influences - bias)
        hessians += weight * (term.hessian - curvature_bias)
        moves = owned @ term.planes
        if term.rests:
            # The noise of second order comes from the full replicates, in turn.
            turn = np.arange(count) % len(term.rests)
            gradients += weight * (np.stack([r.gradient for r in term.rests]) - bias)[turn]
            hessians += weight * (np.stack([r.hessian for r in term.rests]) - curvature_bias)[turn]
            values = np.array([rest.value for rest in term.rests])
            moves += (values - values.mean())[turn]
        scores.append(term.score + term.score_slope * moves)
    hessians = np.stack([_positive(hessian) for hessian in hessians])
    floor = np.zeros(size)
    found = np.zeros_like(gradients)
    for k in range(count):
        weights = quadratic_program(gradients[k], hessians[k], alpha, floor, region)
        negligible = region.negligible(weights, NEGLIGIBLE_WEIGHT)
        found[k] = region.without(weights, negligible) if negligible.any() else weights
    return Replicates(found, gradients, hessians, scores, increases)


def _positive(hessian: Matrix) -> Matrix:
    """Remove negative curvature, which is noise."""
    values, basis = np.linalg.eigh((hessian + hessian.T) / 2)
    positive: Matrix = (basis * np.maximum(values, 0.0)) @ basis.T
    return positive
