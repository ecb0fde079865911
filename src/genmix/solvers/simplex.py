"""Minimising a convex loss over the simplex of mixtures, with a certificate.

    minimise  L(α)   subject to   α ≥ 0,  Σ_i α_i = 1

Every solution carries its Frank–Wolfe gap ``max_i ⟨∇L(α), α − e_i⟩ ≥ L(α) − min L``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import daqp
import numpy as np
from numpy.typing import NDArray

from genmix.core.arrays import Vector
from genmix.core.description import Description
from genmix.errors import InputError, number, positive, whole
from genmix.solvers.loss import EPS, Expansion, Loss

LIFT = 1e-9
"""Least weight of a starting point: a stored zero would be a dead logarithm."""

SHRINK = 10.0
"""No weight shrinks by more than this factor in a step where the boundary is infinitely steep."""

FIRST_BLUR, LAST_BLUR = 0.05, 1e-11
"""Where the smoothing of a loss that is not differentiable begins and ends."""

TINIEST = -690.0
"""Least logarithm of a weight in EG, so that none vanishes for good."""

BLURRED_STEPS = 10
"""Newton steps on one smooth neighbour before the next."""

CAUTION = 3.0
"""A step is expected to leave this many times the share of the gap that the one before it left."""

LEAST_LEFT = 0.01
"""Share that a step is expected to leave at least, however well the one before it did."""

DUST = 1e-5
"""Weights below this are put to zero if the certificate agrees."""

RIDGES = (1e-10, 1e-8, 1e-6, 1e-4)
"""Curvature added to a singular quadratic program, relative to its largest."""


@dataclass(frozen=True)
class Solution:
    """A mixture, its loss, the certified gap to the least loss, and the steps taken.

    Unpacks as ``weights, loss, gap, iterations``.
    """

    weights: Vector
    loss: float
    gap: float
    iterations: int
    curvature: NDArray[np.float64] | None = field(default=None, repr=False)
    """The last Hessian used, with which the next solve of a similar loss may begin."""

    def __iter__(self) -> Iterator[Any]:
        return iter((self.weights, self.loss, self.gap, self.iterations))


class Solver(Protocol):
    """Anything that takes a loss and a starting point to a feasible mixture with its gap."""

    def solve(
        self, loss: Loss, start: Vector, curvature: NDArray[np.float64] | None = None
    ) -> Solution: ...


@dataclass(frozen=True, eq=False)
class Newton(Description):
    """Newton steps, each an exact active-set quadratic program over the simplex, with a line search.

    Stops when the gap is at most ``tolerance`` times what of the loss the weights can change, or when
    rounding lets it get no further; the gap that was reached is reported either way.
    """

    tolerance: float = 1e-8
    max_steps: int = 200

    def __post_init__(self) -> None:
        object.__setattr__(self, "tolerance", number(self.tolerance, "tolerance", 0.0))
        object.__setattr__(self, "max_steps", whole(self.max_steps, "max_steps", 1))

    def solve(
        self, loss: Loss, start: Vector, curvature: NDArray[np.float64] | None = None
    ) -> Solution:
        if loss.size == 1:
            return Solution(np.ones(1), loss.value(np.ones(1)), 0.0, 0)
        alpha = lifted(start)
        if not loss.smooth:
            return self._follow(loss, alpha)
        return self._descend(loss, alpha, curvature, trusting=False)

    def resolve(
        self, loss: Loss, start: Vector, curvature: NDArray[np.float64] | None = None
    ) -> Solution:
        """As ``solve``, but a last step may be taken on trust, and its loss and gap are NaN then.

        The last expansion of a solve only confirms what the steps before it foretold. In a run that
        would be a quarter of the work, for gaps that hardly anyone looks at.
        """
        if loss.size == 1 or not loss.smooth:
            return self.solve(loss, start)
        return self._descend(loss, lifted(start), curvature, trusting=True)

    def _descend(
        self, loss: Loss, alpha: Vector, bend: NDArray[np.float64] | None, trusting: bool
    ) -> Solution:
        here = loss.expand(alpha)
        if not np.isfinite(here.value):  # no mixture of these arms is worth anything
            return Solution(alpha, here.value, np.inf, 0)
        best, stalls, steps = (here.gap, alpha, here.value), 0, 0
        while not self._is_done(here) and stalls < 3 and steps < self.max_steps:
            steps += 1
            if bend is None:
                bend = here.hessian
            beta, there = _step(loss, alpha, here, 0.0, bend)
            left = (there.gap - there.noise) / (here.gap - here.noise)
            reuse = left <= loss.patience
            bend = _secant(bend, beta - alpha, there.gradient - here.gradient) if reuse else None
            stalls = 0 if there.gap < 0.9 * best[0] or there.value < here.value else stalls + 1
            alpha, here = beta, there
            if trusting and bend is not None and self._expects(here, left):
                target = _target(loss, alpha, here, bend)
                if target.min() > DUST:
                    return Solution(target, np.nan, np.nan, steps + 1, bend)
            best = min(best, (here.gap, alpha, here.value), key=lambda item: item[0])
        gap, alpha, value = best
        return self._without_dust(loss, Solution(alpha, value, gap, steps, bend))

    def _follow(self, loss: Loss, alpha: Vector) -> Solution:
        """The path of the minimisers of ever less blurred neighbours of a loss that has kinks.

        Every tangent plane on the way bounds the least loss from below; the highest bound counts.
        """
        blur, steps, bound = FIRST_BLUR, 0, -np.inf
        found = (np.inf, alpha)
        while blur > LAST_BLUR and steps < self.max_steps:
            here = loss.expand(alpha, blur)
            for _ in range(BLURRED_STEPS):
                found = min(found, (here.value, alpha), key=lambda item: item[0])
                bound = max(bound, here.bound - here.noise)
                if _model_gap(here, alpha) <= blur:
                    break
                alpha, here = _step(loss, alpha, here, blur, here.hessian)
                steps += 1
            if found[0] - bound <= max(self.tolerance * here.unit, 2 * here.noise):
                break
            blur /= 4
        value, alpha = found
        return Solution(alpha, value, max(value - bound, 0.0), steps)

    def _is_done(self, here: Expansion) -> bool:
        return here.gap - here.lost <= max(self.tolerance * here.unit, 2 * here.noise)

    def _expects(self, here: Expansion, left: float) -> bool:
        """Whether one step more should end it, by the share of the gap that the last one left."""
        expected = CAUTION * max(left, LEAST_LEFT) * (here.gap - here.noise)
        return expected <= self.tolerance * here.unit and not self._is_done(here)

    def _without_dust(self, loss: Loss, found: Solution) -> Solution:
        """The same solution with negligible weights put to exactly zero, if the certificate agrees."""
        dust = (found.weights > 0) & (found.weights < DUST)
        if not dust.any():
            return found
        alpha = feasible(np.where(dust, 0.0, found.weights))
        clean = loss.expand(alpha)
        if clean.gap > 2 * found.gap and not self._is_done(clean):
            return found
        return Solution(alpha, clean.value, clean.gap, found.iterations, found.curvature)


@dataclass(frozen=True, eq=False)
class EG(Description):
    """The paper's exponentiated gradient: ``steps`` times ``α_i ← α_i exp(−step·g_i) / Σ``.

    ``start``: "warm" from the last weights, or "uniform" from equal ones, as in the paper's experiments.
    """

    step: float = 0.1
    steps: int = 1000
    start: Literal["warm", "uniform"] = "warm"

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", positive(self.step, "step"))
        object.__setattr__(self, "steps", whole(self.steps, "steps", 1))
        if self.start not in ("warm", "uniform"):
            raise InputError(f'start is {self.start!r}: give "warm" or "uniform".')

    def solve(
        self, loss: Loss, start: Vector, curvature: NDArray[np.float64] | None = None
    ) -> Solution:
        blur = 0.0 if loss.smooth else 1e-3
        alpha = lifted(start if self.start == "warm" else uniform(loss.size))
        logs = np.log(alpha)
        for _ in range(self.steps):
            logs = logs - self.step * loss.expand(alpha, blur).gradient
            logs = np.maximum(logs - logs.max(), TINIEST)
            alpha = feasible(np.exp(logs))
        return certified(loss, alpha, self.steps)


def solve(loss: Loss, start: Vector | None = None, solver: Solver | None = None) -> Solution:
    """The best mixture under ``loss``, from ``start`` (uniform if None), by Newton unless told else."""
    begin = uniform(loss.size) if start is None else on_simplex(start, loss.size)
    return (solver or Newton()).solve(loss, begin)


def certified(loss: Loss, alpha: Vector, iterations: int) -> Solution:
    """``alpha`` as a solution with the gap it has under ``loss``."""
    blur = 0.0 if loss.smooth else LAST_BLUR
    here = loss.expand(alpha, blur)
    return Solution(alpha, here.value, here.gap, iterations)


def uniform(size: int) -> Vector:
    return np.full(size, 1.0 / size)


def feasible(weights: Vector) -> Vector:
    """Rounding removed: no negative weight, a sum of 1."""
    positive: Vector = np.maximum(weights, 0.0)
    total: float = positive.sum()
    return positive / total


def lifted(alpha: Vector) -> Vector:
    return feasible(np.maximum(alpha, LIFT))


def on_simplex(weights: object, size: int | None = None, what: str = "the weights") -> Vector:
    """``weights`` as a point of the simplex, or an error that says why it is none."""
    try:
        alpha = np.array(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} are no numbers: give numbers that sum to 1.") from error
    if alpha.ndim != 1 or len(alpha) == 0 or (size is not None and len(alpha) != size):
        raise InputError(f"{what} have shape {alpha.shape}: give one weight for each arm.")
    if not np.all(np.isfinite(alpha)) or alpha.min() < 0 or abs(alpha.sum() - 1) > 1e-6:
        raise InputError(
            f"{what} {np.round(alpha, 6).tolist()} are not on the simplex: "
            "give numbers of at least 0 that sum to 1."
        )
    return feasible(alpha)


def _model_gap(here: Expansion, alpha: Vector) -> float:
    return float(here.gradient @ alpha - here.gradient.min())


def _step(
    loss: Loss, alpha: Vector, here: Expansion, blur: float, bend: NDArray[np.float64]
) -> tuple[Vector, Expansion]:
    """One Newton step with an Armijo line search along the quadratic program's direction."""
    target = _target(loss, alpha, here, bend)
    slope = float(here.gradient @ (target - alpha))
    value = loss.value(alpha, blur) if blur else here.value
    slack = 2 * here.noise + 8 * EPS * abs(value)
    length = 1.0
    while length > 1e-12:
        moved = feasible(alpha + length * (target - alpha))
        there = loss.expand(moved, blur) if length == 1.0 else None
        reached = there.value if there and not blur else loss.value(moved, blur)
        if reached <= value + 1e-4 * length * slope + slack:
            return moved, there or loss.expand(moved, blur)
        length /= 2
    return alpha, here


def _target(loss: Loss, alpha: Vector, here: Expansion, bend: NDArray[np.float64]) -> Vector:
    """The minimum of the quadratic model, and of the foreseen gradient where there is one."""
    floor = alpha / SHRINK if loss.steep else np.zeros_like(alpha)
    target = quadratic_program(here.gradient, bend, alpha, floor)
    if here.foresee is not None:
        moved = target - alpha
        target = quadratic_program(here.foresee(moved) - bend @ moved, bend, alpha, floor)
    return target


def _secant(bend: NDArray[np.float64], moved: Vector, change: Vector) -> NDArray[np.float64]:
    """The Hessian with the curvature just seen along a step (BFGS), which it keeps positive.

    A tangent plane's values are the gradient up to a constant, which no step on the simplex sees.
    """
    expected = bend @ moved
    seen, believed = float(change @ moved), float(expected @ moved)
    if not seen > 1e-3 * believed > 0:
        return bend
    change = change - change.mean()
    return bend + np.outer(change, change) / seen - np.outer(expected, expected) / believed


def quadratic_program(
    gradient: Vector, hessian: NDArray[np.float64], alpha: Vector, floor: Vector
) -> Vector:
    """``argmin g·(β−α) + ½(β−α)ᵀH(β−α)`` over mixtures β with ``β ≥ floor``.

    H may be singular (two identical arms). A ridge about α, a proximal term that leaves the minimum
    where it is when steps are repeated, grows until the solver's answer is one: its own Frank–Wolfe
    gap under the model must be small beside what it gains.
    """
    # Frank–Wolfe's direction always descends.
    best = floor.copy()
    best[int(np.argmin(gradient))] += 1 - floor.sum()
    least = np.inf
    for ridge in RIDGES:
        found = _regular_program(gradient, hessian, alpha, floor, ridge)
        if found is None:
            continue
        moved = found - alpha
        slope = gradient + hessian @ moved
        drop = float((gradient + slope) @ moved) / 2
        if drop < least:
            best, least = found, drop
        gap = float(slope @ (found - floor) - (1 - floor.sum()) * slope.min())
        if gap <= 0.1 * abs(drop):
            break
    return best


def _regular_program(
    gradient: Vector, hessian: NDArray[np.float64], alpha: Vector, floor: Vector, ridge: float
) -> Vector | None:
    """The program in ``x = (β−α)/s``, with s the inverse root of H's diagonal, so that a weight of
    1e-9 next to a weight of 1 leaves it well conditioned; the ridge is relative to each arm's own
    curvature, lest the steepest arm freeze all others."""
    if not np.all(np.isfinite(hessian)):
        return None
    size = len(alpha)
    slope = gradient - gradient.min()
    diagonal = np.diag(hessian)
    bend = ridge * np.maximum(diagonal, max(float(slope.max()), 1e-300))
    stretch = 1 / np.sqrt(diagonal + bend)
    stretch /= stretch.max()
    scaled = (hessian + np.diag(bend)) * np.outer(stretch, stretch)
    tilt = slope * stretch
    unit = max(float(np.abs(scaled).max()), float(np.abs(tilt).max()))
    sense = np.zeros(size + 1, dtype=np.int32)
    sense[-1] = 5  # the last row is an equality
    x, _, flag, _ = daqp.solve(
        np.ascontiguousarray(scaled / unit),
        np.ascontiguousarray(tilt / unit),
        np.ascontiguousarray(stretch[None, :]),
        np.append((1 - alpha) / stretch, 0.0),
        np.append((floor - alpha) / stretch, 0.0),
        sense,
        primal_tol=1e-11,
    )
    if flag < 1 or not np.all(np.isfinite(x)):
        return None
    return feasible(np.maximum(alpha + stretch * x, floor))
