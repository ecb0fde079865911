"""Successive halving: many arms, of which few are needed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genmix.core.arrays import Vector
from genmix.errors import whole
from genmix.policies.policy import Decision, Policy, Situation, nonnegative
from genmix.solvers.loss import Matrix
from genmix.solvers.quadratic_program import quadratic_program
from genmix.solvers.simplex import Mask, feasible, uniform
from genmix.solvers.solve import FINAL_SMOOTHING

TINY = 1e-100
"""Smallest curvature to divide by."""


@dataclass(frozen=True, eq=False)
class SuccessiveHalving(Policy):
    """Drop the arms that the mixture does not need, and double the samples of those that remain.

    In round r, all remaining arms are brought to ``samples · 2^r`` samples each. At the end of a round, arms
    are dropped one by one, starting with the smallest weight in Mixture-Greedy's mixture ``argmin L̂(α)``, as
    long as

    - the best mixture of the other arms is almost as good: without any dropped arm, the loss increases by
      at most a fraction ``tolerance`` of what the mixture gains over equal weights, and
    - no dropped arm would be worth more than that even if it were better than it looks by
      ``errors · s_i / sqrt(n_i)``, where ``s_i`` is the standard deviation, over the samples of arm i, of
      their contributions to the gradient.

    These losses come from the quadratic model at the mixture. After the last round, arms are drawn from the
    best mixture of those that remain. So an arm is dropped only if its samples show that it is not needed;
    among similar arms, some remain. A dropped arm returns if it fails this test at the end of a later round,
    and all arms are tested again when an arm is added or retired.

    Use it with 50 or more arms, of which few matter. With few arms, :class:`MixtureUCBV` spends less on
    exploration.

    Parameters
    ----------
    samples : int, default 10
        Samples per arm in round 0. The warm start provides them if it is at least that long.
    rounds : int, default 4
        Number of times that the samples per arm are doubled.
    tolerance : float, default 0.05
        How much the loss may increase without the dropped arms, as a fraction of the gain over equal weights.
    errors : float, default 2.0
        Number of standard errors by which an arm may be better than it looks.

    Raises
    ------
    InputError
        If a parameter is out of range.

    References
    ----------
    Karnin, Z., Koren, T., & Somekh, O. (2013). Almost optimal exploration in multi-armed bandits. ICML.

    Examples
    --------
    Of 20 arms, 18 always produce the same sample, which ``arm 0`` produces too:

    >>> import numpy as np
    >>> import genmix as gx
    >>> rng = np.random.default_rng(0)
    >>> arms = [f"arm {i}" for i in range(20)]
    >>> sel = gx.Selector(arms, gx.Vendi(), gx.SuccessiveHalving(rounds=2), seed=0)
    >>> for _ in range(400):
    ...     [ticket] = sel.ask()
    ...     modes = {"arm 0": range(8), "arm 1": range(8, 16)}.get(ticket.arm, [0])
    ...     sel.tell(ticket, np.eye(16)[rng.choice(modes)])
    >>> [arm for arm, n in sel.counts.items() if n > 20]
    ['arm 0', 'arm 1']
    """

    samples: int = 10
    rounds: int = 4
    tolerance: float = 0.05
    errors: float = 2.0
    draw = "tracking"
    needs_deviations = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "samples", whole(self.samples, "samples", 1))
        object.__setattr__(self, "rounds", whole(self.rounds, "rounds", 0))
        nonnegative(self, "tolerance", "errors")

    def decide(self, situation: Situation) -> Decision:
        found = situation.solve(situation.loss)
        model, counts = _Model.at(situation, found.weights), situation.counts
        assert situation.deviations is not None  # because of needs_deviations
        current, remaining = _unpacked(situation.notes, len(counts))
        later = range(current, self.rounds + 1)
        complete = [r for r in later if not self._lacking(r, counts, remaining).any()]
        if complete and situation.deviations.any():  # measured after the first solve
            remaining, current = self.remaining(situation, model, remaining), complete[-1] + 1
        lacking = self._lacking(current, counts, remaining)
        targets = lacking / lacking.sum() if lacking.any() else model.best(remaining)
        notes = np.array([current, *remaining], dtype=float)
        return Decision(found.weights, found.gap, found.curvature, targets=targets, notes=notes)

    def remaining(self, situation: Situation, model: _Model, before: Mask) -> Mask:
        """Return the arms that remain after a round, given those that remained before."""
        loss, size = situation.loss, len(before)
        if not model.is_finite:
            return before
        assert situation.deviations is not None
        bonus = self.errors * situation.deviations / np.sqrt(situation.counts)
        most = self.tolerance * (loss.value(uniform(size)) - loss.value(model.mixture))
        found = np.ones(size, dtype=bool)
        for arm in np.lexsort((model.mixture, before)):
            found[arm] = False
            if not found.any() or model.most_added(~found, bonus) > most:
                found[arm] = True
        return found

    def _lacking(self, current: int, counts: Vector, remaining: Mask) -> Mask:
        """Return the remaining arms that lack samples in a round; none after the last round."""
        found: Mask = remaining & (counts < self.samples * 2**current) & (current <= self.rounds)
        return found


def _unpacked(notes: Vector | None, size: int) -> tuple[int, Mask]:
    """Return the current round and the remaining arms; at first, all."""
    if notes is None or len(notes) != size + 1:
        return 0, np.ones(size, dtype=bool)
    return int(notes[0]), notes[1:].astype(bool)


@dataclass(frozen=True)
class _Model:
    """The quadratic model of the loss at the best mixture."""

    mixture: Vector
    gradient: Vector
    hessian: Matrix

    @classmethod
    def at(cls, situation: Situation, mixture: Vector) -> _Model:
        here = situation.loss.expand(mixture, FINAL_SMOOTHING)
        return cls(mixture, here.gradient, here.hessian)

    @property
    def is_finite(self) -> bool:
        return bool(np.isfinite(self.gradient).all() and np.isfinite(self.hessian).all())

    def most_added(self, out: Mask, bonus: Vector) -> float:
        """Return the larger of two increases in the loss from leaving out these arms.

        One is the increase without all of them. The other is the largest increase without a single one of
        them, if that arm is better than it looks by its bonus.
        """
        best = self.best(~out)
        step = best - self.mixture
        slopes = self.gradient + self.hessian @ step
        excess = slopes - best @ slopes - bonus
        curvature = np.diag(self.hessian) - 2 * self.hessian @ best + best @ self.hessian @ best
        # The minimum of ``excess · w + curvature/2 · w²`` over a weight w of at most 1.
        weight = np.clip(-excess / np.maximum(curvature, TINY), 0.0, 1.0)
        single = -(excess + curvature * weight / 2) * weight
        return max(float((self.gradient + slopes) @ step) / 2, float(single[out].max()))

    def best(self, allowed: Mask) -> Vector:
        """Return the best mixture of the allowed arms; their current weights if the model is not finite."""
        start = np.where(allowed, self.mixture, 0.0)
        start = feasible(start if start.any() else allowed.astype(float))
        if not self.is_finite:
            return start
        slope = self.gradient + self.hessian @ (start - self.mixture)
        kept = np.flatnonzero(allowed)
        hessian = self.hessian[np.ix_(kept, kept)]
        found = np.zeros(len(start))
        found[kept] = quadratic_program(slope[kept], hessian, start[kept], np.zeros(len(kept)))
        return feasible(found)
