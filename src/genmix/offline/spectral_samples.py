"""Losses of weighted samples that are functions of a spectrum: Vendi scores and the Fréchet distance.

    L(w) = linear·w + constant + Σ_k f(λ_k(Z_w)),    Z_w = Σ_j w_j y_j y_jᵀ − [centered] ȳ_w ȳ_wᵀ

The plane is the one of ``objectives.trace_loss``, with every sample as an arm.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from genmix.core.arrays import Array, Vector, like, namespace, symmetric, to_numpy, triangle_of
from genmix.data.streamed_rows import StreamedRows, blocks_of, sum_of_blocks
from genmix.objectives.eigenbasis import TINY
from genmix.objectives.trace_functions import Entropy, TraceFunction
from genmix.solvers.loss import EPS
from genmix.solvers.sample_loss import Moment, SampleExpansion, SampleLoss
from genmix.solvers.subsets import Indices

BLOCK_VALUES = 2**22
"""Number of values in one block of rows."""

NOTICEABLE = 0.99
"""Share of the loss or the variance that the directions counted in ``directions`` contain."""


class SpectralSamples(SampleLoss):
    """A sum of a convex function over the eigenvalues of the second moment of rows ``(N, r)``."""

    evaluates_quickly = False

    def __init__(
        self,
        rows: Array,
        function: TraceFunction,
        count: int,
        linear: Vector | None = None,
        constant: float = 0.0,
        centered: bool = False,
    ) -> None:
        """Set ``count`` to the number of samples in a subset."""
        self.function, self.linear, self.constant = function, linear, constant
        self.centered = centered
        self.size = int(rows.shape[0])
        self.rows, spectrum, lost = _spanned(rows, centered)
        # A subset's moment is at most N/k times the moment of all samples.
        self.truncation = abs(function.total(lost * (self.size / count)))
        shares = [abs(function.total(spectrum[i : i + 1])) for i in range(len(spectrum))]
        self.directions = noticeable(np.array(shares))
        width = int(self.rows.shape[1])
        # The constants stand for the time that calls take even for tiny matrices.
        self.evaluation_work = 6.0 * width**3 + 1e6
        self.work = 2.0 * self.size * width**2 + 15.0 * width**3 + 3e6
        self._largest_row = _largest_square(self.rows)

    def moment(self, weights: Vector, rows: Indices | None = None) -> Moment:
        xp = namespace(self.rows)
        width = self.rows.shape[1]
        second = xp.zeros((width, width), dtype=xp.float64, device=self.rows.device)
        first = xp.zeros((width,), dtype=xp.float64, device=self.rows.device)
        every = like(weights, self.rows)
        for part, block in self._blocks(rows):
            weighted = every[part][:, None] * block
            second = second + block.mT @ weighted
            if self.centered:
                first = first + xp.sum(weighted, axis=0)
        linear = 0.0
        if self.linear is not None:
            linear = float(weights @ (self.linear if rows is None else self.linear[rows]))
        return [second, first, linear]

    def _blocks(self, rows: Indices | None) -> Iterator[tuple[Any, Array]]:
        """Yield the rows, or some of them, in blocks of bounded memory."""
        if isinstance(self.rows, StreamedRows):
            yield from self.rows.blocks(rows)
            return
        total = self.size if rows is None else len(rows)
        height = max(1, BLOCK_VALUES // max(1, int(self.rows.shape[1])))
        xp = namespace(self.rows)
        for start in range(0, total, height):
            part = slice(start, min(start + height, total))
            if rows is None:
                yield part, self.rows[part, :]
            else:
                index = xp.asarray(rows[part], device=self.rows.device)
                yield part, xp.take(self.rows, index, axis=0)

    def matrix(self, at: Moment) -> Array:
        second, first, _ = at
        if not self.centered:
            return symmetric(second)
        return symmetric(second - first[:, None] * first[None, :])

    def value(self, at: Moment) -> float:
        found: Vector = to_numpy(namespace(at[0]).linalg.eigvalsh(self.matrix(at)))
        return float(at[2] + self.constant + self.total(without_rounding(found)[0]))

    def total(self, values: Vector) -> float:
        return self.function.total(values)

    def expand(self, at: Moment, smoothing: float = 0.0, floor: float = 0.0) -> SampleExpansion:
        found, basis = namespace(at[0]).linalg.eigh(self.matrix(at))
        values, rounding = without_rounding(to_numpy(found))
        lifted = np.maximum(values, max(rounding, floor * float(values.sum())))
        slope: Vector = self.function.slope(lifted)
        touch = self.constant + self.function.total(lifted) - float(slope @ lifted)
        plane = self.quadratic_forms(basis, slope, at[1])
        noise = 8 * EPS * (len(values) * float(np.max(np.abs(plane), initial=0.0)) + abs(touch))
        noise += 8 * EPS * float(np.max(np.abs(slope), initial=0.0)) * self._largest_row
        plane = plane + touch if self.linear is None else plane + touch + self.linear
        value = at[2] + self.constant + self.function.total(values)

        def curvature(direction: Moment) -> float:
            return self._curvature(at, basis, lifted, slope, direction)

        return SampleExpansion(value, plane, curvature, noise + self.truncation)

    def quadratic_forms(self, basis: Array, slope: Vector, center: Array) -> Vector:
        """Return ``(y_j − ȳ)ᵀ U diag(slope) Uᵀ (y_j − ȳ)`` for every sample."""
        xp = namespace(basis)
        form = (basis * like(slope, basis)) @ basis.mT
        parts = []
        for _, block in self._blocks(None):
            rows = block - center if self.centered else block
            parts.append(xp.vecdot(rows @ form, rows))
        return np.asarray(to_numpy(xp.concat(parts)))

    def _curvature(
        self, at: Moment, basis: Array, lifted: Vector, slope: Vector, direction: Moment
    ) -> float:
        xp = namespace(basis)
        change, drift = direction[0], direction[1]
        if self.centered:
            cross = at[1][:, None] * drift[None, :]
            change = change - cross - cross.mT
        turned = basis.mT @ change @ basis
        found = float(xp.sum(self.function.differences(like(lifted, basis)) * turned * turned))
        if self.centered:
            found -= 2 * float(to_numpy(drift @ basis) ** 2 @ slope)
        return found

    def after_adding(self, at: Moment, weight: float, candidates: Indices) -> Vector:
        xp = namespace(self.rows)
        width = max(1, int(self.rows.shape[1]))
        parts = []
        for start in range(0, len(candidates), max(1, BLOCK_VALUES // width**2)):
            some = candidates[start : start + max(1, BLOCK_VALUES // width**2)]
            rows = self._take(some)
            matrices = at[0] + weight * rows[:, :, None] * rows[:, None, :]
            if self.centered:
                means = at[1] + weight * rows
                matrices = matrices - means[:, :, None] * means[:, None, :]
            spectra = to_numpy(xp.linalg.eigvalsh(symmetric(matrices)))
            parts += [self.total(without_rounding(values)[0]) for values in spectra]
        linear = 0.0 if self.linear is None else weight * self.linear[candidates]
        return np.asarray(np.array(parts) + at[2] + self.constant + linear)

    def _take(self, indices: Indices) -> Array:
        if isinstance(self.rows, StreamedRows):
            return self.rows[indices, :]
        xp = namespace(self.rows)
        return xp.take(self.rows, xp.asarray(indices, device=self.rows.device), axis=0)


class EntropySamples(SpectralSamples):
    """The loss ``Tr C log C`` of rows with norm 1, with quick values for all candidates.

    Adding ``c x xᵀ`` changes the loss by ``c log c − ∫_0^∞ [log(1 + c s(t)) − log(1 + c/t)] dt`` with
    ``s(t) = xᵀ(C + t)⁻¹x``, because ``det(C + c x xᵀ + t) / det(C + t) = 1 + c s(t)``.
    """

    evaluates_quickly = True

    def __init__(self, rows: Array, count: int) -> None:
        super().__init__(rows, Entropy(), count)

    def after_adding(self, at: Moment, weight: float, candidates: Indices) -> Vector:
        xp = namespace(self.rows)
        spectrum, basis = xp.linalg.eigh(self.matrix(at))
        values = without_rounding(to_numpy(spectrum))[0]
        # The trapezoid rule in log t is accurate to about 1e-9 with steps of 0.8.
        points = np.exp(np.arange(-32.0, 26.0, 0.8))
        inverse = like(1 / (values[:, None] + points), self.rows)
        base, height = np.log1p(weight / points), BLOCK_VALUES // (4 * len(points))
        sums = np.empty(len(candidates))
        for part, block in self._blocks(candidates):
            squares, found = (block @ basis) ** 2, np.empty(block.shape[0])
            for start in range(0, len(found), height):  # with several temporary arrays
                some = slice(start, start + height)
                ratios = to_numpy(squares[some, :] @ inverse)
                found[some] = (np.log1p(weight * ratios) - base) @ points
            sums[part] = found
        change = weight * math.log(weight) - 0.8 * sums
        return np.asarray(self.constant + self.function.total(values) + change)


class LargestEigenvalueSamples(SpectralSamples):
    """The loss ``λ_max(C_w)``; smoothed, it is ``s log Σ exp(λ/s)``."""

    def __init__(self, rows: Array, count: int) -> None:
        super().__init__(rows, Entropy(), count)
        self.truncation = 1e-12

    def total(self, values: Vector) -> float:
        return float(values.max())

    def expand(self, at: Moment, smoothing: float = 0.0, floor: float = 0.0) -> SampleExpansion:
        xp = namespace(at[0])
        found, basis = xp.linalg.eigh(self.matrix(at))
        values: Vector = to_numpy(found)
        top = float(values.max())
        scale = max(smoothing / math.log(len(values) + 1), 1e-12)
        powers = np.exp((values - top) / scale)
        shares = powers / powers.sum()
        plane = self.quadratic_forms(basis, shares, at[1])

        def curvature(direction: Moment) -> float:
            turned = to_numpy(basis.mT @ direction[0] @ basis)
            apart = values[:, None] - values[None, :]
            close = np.abs(apart) <= 1e-3 * scale
            both = (shares[:, None] + shares[None, :]) / (2 * scale)
            ratio = (shares[:, None] - shares[None, :]) / np.where(close, 1.0, apart)
            bent = float(np.sum(np.where(close, both, ratio) * turned**2))
            return bent - float(shares @ np.diag(turned)) ** 2 / scale

        value = top + scale * math.log(powers.sum())
        return SampleExpansion(value, plane, curvature, 16 * len(values) * EPS + self.truncation)


def without_rounding(values: Vector) -> tuple[Vector, float]:
    """Return the eigenvalues with those at rounding level set to 0, and that level."""
    top = float(np.max(values, initial=0.0))
    level = max(len(values) * EPS * top, TINY)
    return np.where(values > level, values, 0.0), level


def noticeable(spectrum: Vector) -> int:
    """Return the number of the largest values that contain most of the sum."""
    values = np.sort(np.maximum(spectrum, 0.0))[::-1]
    if not len(values) or values[0] == 0:
        return 1
    return int(np.searchsorted(np.cumsum(values), NOTICEABLE * values.sum()) + 1)


def _spanned(rows: Array, centered: bool) -> tuple[Array, Vector, Vector]:
    """Return the rows in coordinates of their span, their spectrum, and the omitted eigenvalues."""
    if isinstance(rows, StreamedRows):
        return _streamed_span(rows, centered)
    xp = namespace(rows)
    if centered:
        rows = rows - xp.mean(rows, axis=0)
    if rows.shape[0] < rows.shape[1]:
        rows = triangle_of(rows.mT).mT
    found, basis = xp.linalg.eigh(symmetric(rows.mT @ rows) / rows.shape[0])
    values: Vector = to_numpy(found)
    held = np.flatnonzero(without_rounding(values)[0])
    if len(held) in (0, len(values)):
        return rows, values, np.empty(0)
    lost = np.abs(np.delete(values, held))
    basis = xp.take(basis, xp.asarray(held, device=rows.device), axis=1)
    return rows @ basis, values[held], lost


def _streamed_span(rows: StreamedRows, centered: bool) -> tuple[StreamedRows, Vector, Vector]:
    """Return the same for rows on disk, of which there are more than columns."""
    columns = rows.shape[1]
    if centered:
        center = sum_of_blocks(rows, lambda _, block: block.sum(axis=0)) / len(rows)
        rows = rows.mapped(lambda block: block - center, columns)
    second = sum_of_blocks(rows, lambda _, block: block.T @ block) / len(rows)
    values, basis = np.linalg.eigh(symmetric(second))
    held = np.flatnonzero(without_rounding(values)[0])
    if len(held) in (0, len(values)):
        return rows, values, np.empty(0)
    lost, basis = np.abs(np.delete(values, held)), basis[:, held]
    return rows.mapped(lambda block: block @ basis, len(held)), values[held], lost


def _largest_square(rows: Array) -> float:
    xp = namespace(rows)
    if 0 in rows.shape:
        return 0.0
    return max(float(xp.max(xp.vecdot(block, block))) for _, block in blocks_of(rows))
