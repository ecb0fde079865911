"""The policy interface: losses and sample counts in, weights for the next draw out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from genmix.core.arrays import Vector
from genmix.core.description import Description
from genmix.errors import number
from genmix.objectives.objective import Objective
from genmix.objectives.tally import Batch
from genmix.solvers.loss import Loss, Matrix
from genmix.solvers.nonconvex import solve_reported
from genmix.solvers.region import Region
from genmix.solvers.solve import UNKNOWN_GAP, Solution, Solver, WarmSolver, region_argument


class Decision(NamedTuple):
    """The weights, with optional information about the mixture."""

    weights: Vector
    """One weight per active arm."""
    gap: float = UNKNOWN_GAP
    """The certified gap of the mixture; ∞ if the policy does not know it."""
    curvature: Matrix | None = None
    """The solver's last Hessian, for the next warm start."""
    mixture: Vector | None = None
    """The best mixture according to the policy, if it is not the weights."""
    targets: Vector | None = None
    """The weights to draw from, if the draws explore."""
    notes: Vector | None = None
    """Numbers that the policy needs at its next decision."""


class Statistics(Protocol):
    """What a policy needs of a :class:`Tally`."""

    def loss(self, arms: Sequence[int], /) -> Loss: ...

    def sample_plane(
        self, loss: Any, arms: Sequence[int], alpha: Vector, batch: Batch, /
    ) -> Vector: ...


@dataclass(frozen=True)
class Situation:
    """The input of a policy; weights and counts refer to the active arms."""

    arms: tuple[str, ...]
    indices: tuple[int, ...]
    """Positions of the active arms in the tally."""
    objective: Objective
    tally: Statistics
    counts: NDArray[Any]
    total: int
    """t, the number of samples told so far, including the warm start and retired arms."""
    start: Vector
    """The weights of the last decision, for a warm start."""
    solver: Solver
    curvature: Matrix | None = None
    """The Hessian of the last solve, for a warm start."""
    targets: Vector | None = None
    """The targets of the last decision, for a warm start."""
    notes: Vector | None = None
    """The notes from the last decision; None if no decision was made for these arms."""
    deviations: Vector | None = None
    """Standard deviation, within each arm, of its samples' contributions to the gradient.

    It is given to policies that set ``needs_deviations``.
    """
    region: Region | None = None
    """Where the weights must be; None for the whole simplex."""
    competitors: Vector | None = None
    """For each arm, the number of samples of all arms in its group; None if that is ``total`` for all."""

    @cached_property
    def loss(self) -> Loss:
        """The empirical loss of a mixture of the active arms."""
        return self.tally.loss(self.indices)

    @property
    def shares(self) -> Vector:
        """Each arm's share of the samples from the active arms."""
        shares: Vector = self.counts / self.counts.sum()
        return shares

    def solve(self, loss: Loss) -> Solution:
        """Solve from the last weights; the gap is ∞ if the solver did not compute it."""
        if loss.concave_part is not None:
            return solve_reported(loss, self.solver, self.start, False, self.region)
        known = () if self.curvature is None else (self.curvature,)
        within = region_argument(self.solver, self.region)
        if isinstance(self.solver, WarmSolver):
            return self.solver.resolve(loss, self.start, *known, **within)
        return self.solver.solve(loss, self.start, *known, **within)


class Policy(Description):
    """Base class for all policies.

    A policy maps a situation (losses and counts of the active arms) to the weights from which the next
    arm is drawn. It is immutable and has no state; all state lives in the selector.

    A subclass is a frozen dataclass of parameters and defines :meth:`decide`.

    Examples
    --------
    >>> import genmix as gx
    >>> gx.MixtureUCB().label(gx.Vendi())
    'MixtureUCB (extended)'
    """

    draw: ClassVar[Literal["iid", "tracking"]] = "iid"
    """How arms are drawn from the weights, unless the user says otherwise."""

    needs_deviations: ClassVar[bool] = False
    """Whether the selector measures how much the samples of each arm vary."""

    needs_prompts: ClassVar[bool] = False
    """Whether the policy chooses an arm for every prompt, so that ``ask`` needs the prompt's embedding."""

    solves_in_region: ClassVar[bool] = False
    """Whether the weights and targets stay in ``situation.region``, as those of ``situation.solve`` do."""

    def check(self, known: Sequence[str], active: Sequence[str], objective: Objective) -> None:
        """Reject arms or an objective that the policy does not support.

        Parameters
        ----------
        known : sequence of str
            Labels of all arms, including retired ones.
        active : sequence of str
            Labels of the arms that are not retired.
        objective : Objective
            The objective of the selector.

        Raises
        ------
        InputError
            If the policy does not support them.
        """

    def remark(self, objective: Objective) -> str:
        """Return a remark to show after the policy's name, e.g. ``extended``.

        Parameters
        ----------
        objective : Objective
            The objective that the policy is used with.

        Returns
        -------
        str
            Empty if there is no remark.
        """
        return ""

    def label(self, objective: Objective) -> str:
        """Return the policy's name with its remark.

        Parameters
        ----------
        objective : Objective
            The objective that the policy is used with.

        Returns
        -------
        str
        """
        return label_of(type(self).__name__, self.remark(objective))

    @abstractmethod
    def decide(self, situation: Situation) -> Decision:
        """Choose the weights from which the next arm is drawn.

        Parameters
        ----------
        situation : Situation
            Losses and counts of the active arms.

        Returns
        -------
        Decision
        """


def label_of(name: str, remark: str) -> str:
    """Return a policy's name for tables, with its remark in parentheses."""
    return f"{name} ({remark})" if remark else name


def nonnegative(policy: Policy, *fields: str) -> None:
    """Reject parameters that are not finite numbers of at least 0."""
    for field in fields:
        object.__setattr__(policy, field, number(getattr(policy, field), field, 0.0))


def exploration(situation: Situation, beta: float) -> Vector:
    """Return the exploration bonus ``sqrt(β log t / n_i)`` for each arm."""
    bonus: Vector = np.sqrt(beta * np.log(situation.total) / situation.counts)
    return bonus
