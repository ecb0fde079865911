"""The selector: which arm to draw next, learnt while samples come in.

``ask`` gives tickets, ``tell`` takes the embedding of what a ticket's arm generated, in any order and
with any number of tickets in flight. Statistics are brought up to date and the mixture is re-solved
only when the number of told samples has grown by a given fraction; reading never changes anything.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from genmix.core import state
from genmix.core.arrays import Array, Vector, as_row, empty_at, like, place
from genmix.core.description import from_plain, to_plain
from genmix.errors import InputError, number, whole
from genmix.objectives.base import Objective, Scores, Tally, score_context
from genmix.objectives.validation import check_number, check_objective, labels
from genmix.offline.mixture import Pool
from genmix.policies import MixtureGreedy, Policy, Situation
from genmix.selector.pending import Told, add_all, batch_of, packed, stacked, unpacked
from genmix.selector.restoring import STATE_VERSION, described_in, generator, restored_generator
from genmix.solvers.loss import Loss
from genmix.solvers.simplex import Newton, Solver, certified, on_simplex, uniform

MOST_PENDING = 512
"""Told samples that wait for the statistics at most, so that memory does not grow with their number."""

MUTABLE = ("_labels", "_active", "_told", "_failed", "_aloft", "_flying", "_pending")
"""Attributes that are changed in place; all others are replaced."""


@dataclass(frozen=True)
class Ticket:
    """One sample to generate: tell or fail it by ticket or by id."""

    id: int
    arm: str
    weight: float
    """The arm's weight when it was drawn."""
    propensity: float
    """The probability with which it was drawn; 1 where the choice was not random."""


class Selector:
    """Spends a generation budget over arms so that the samples are the best they can be together.

    At every re-solve, ``α = argmin L̂(α)`` over the simplex (or what ``policy`` makes of the loss), and
    arms are drawn from α: ``draw="iid"`` at random, ``"tracking"`` the arm whose count lags α most.

    Parameters: ``arms`` labels; ``objective``; ``policy``; ``warm_start`` samples of every arm before the
    first solve; ``seed``, a number or a ``numpy.random.Generator``; ``resolve_growth``, the fraction by
    which the samples must have grown before the next solve (0: at every sample, as in the paper);
    ``solver``; ``encoder``, a name that is printed with every score.
    """

    def __init__(
        self,
        arms: Iterable[str],
        objective: Objective,
        policy: Policy | None = None,
        *,
        warm_start: int = 10,
        seed: int | np.random.Generator = 0,
        draw: Literal["iid", "tracking"] = "iid",
        resolve_growth: float = 0.01,
        solver: Solver | None = None,
        encoder: str | None = None,
    ) -> None:
        self._labels = labels(arms)
        self._objective = objective
        self._policy = MixtureGreedy() if policy is None else policy
        self._solver: Any = Newton() if solver is None else solver
        self._warm_start, self._draw = warm_start, draw
        self._growth, self._encoder = resolve_growth, encoder
        self._check_options()
        self._rng = generator(seed)
        self._active = [True] * len(self._labels)
        self._told = [0] * len(self._labels)
        self._failed = [0] * len(self._labels)
        self._flying: dict[int, Ticket] = {}
        self._aloft = [0] * len(self._labels)  # tickets in flight of every arm
        self._next_id = 0
        self._pending: list[Told] = []
        self._sample: Array | None = None
        self._resolved: Objective | None = None
        self._tally: Tally | None = None
        self._loss: Loss | None = None
        self._alpha: Vector | None = None
        self._mixture: Vector | None = None  # where it is not what arms are drawn from
        self._former: dict[str, float] = {}  # the weights before an arm came whose warm start runs
        self._curvature: Any = None
        self._gap: float | None = np.inf  # None until someone wants to know
        self._solved_at = 0
        self._pooled: tuple[int, Scores] | None = None
        self._ahead: tuple[Tally, Tally, int] | None = None
        """Statistics, a fork of them that was read ahead, and how many pending samples that holds."""

    def _check_options(self) -> None:
        check_objective(self._objective)
        if not isinstance(self._policy, Policy):
            raise InputError(f"{self._policy!r} is no policy: give one such as MixtureGreedy().")
        self._policy.check(self._labels, self._labels, self._objective)
        if isinstance(self._solver, type) or not hasattr(self._solver, "solve"):
            raise InputError(f"{self._solver!r} is no solver: give one such as Newton().")
        self._warm_start = whole(self._warm_start, "warm_start", self._objective.least_samples)
        if self._draw not in ("iid", "tracking"):
            raise InputError(f'draw is {self._draw!r}: give "iid" or "tracking".')
        self._growth = number(self._growth, "resolve_growth", 0.0)

    def __repr__(self) -> str:
        policy = self._policy.label(self._objective)
        told = sum(self._told)
        return f"<Selector: {policy} for {self._objective.name}, {len(self.arms)} arms, {told} samples>"

    # -- what is known ---------------------------------------------------------------------------

    @property
    def arms(self) -> tuple[str, ...]:
        """The active arms."""
        return tuple(self._labels[i] for i in self._indices)

    @property
    def is_warm(self) -> bool:
        """Whether the warm start is complete, so that there is a mixture."""
        return self._alpha is not None

    @property
    def weights(self) -> dict[str, float]:
        """The weights from which arms are drawn now; uniform until the warm start is complete."""
        return dict(zip(self.arms, self._weights.tolist(), strict=True))

    @property
    def mixture(self) -> dict[str, float]:
        """The best mixture as the policy has it: ``weights``, and of Mixture-OGD the running shares.

        That one pulls a single arm at a time, so that its weights are a step and not an answer.
        """
        return dict(zip(self.arms, self._held.tolist(), strict=True))

    @property
    def gap(self) -> float:
        """Upper bound of the empirical loss of ``mixture`` above the least, at the last solve; ∞ before."""
        if self._gap is None:
            self._gap = certified(self._current_loss(), self._held, 0).gap
        return self._gap

    @property
    def counts(self) -> dict[str, int]:
        """Told samples of every arm, retired ones included."""
        return dict(zip(self._labels, self._told, strict=True))

    @property
    def failures(self) -> dict[str, int]:
        """Failed tickets of every arm; they do not move the weights."""
        return dict(zip(self._labels, self._failed, strict=True))

    @property
    def in_flight(self) -> tuple[Ticket, ...]:
        """Tickets that were asked for and neither told nor failed."""
        return tuple(self._flying.values())

    @property
    def objective(self) -> Objective:
        """The objective, with its bandwidths fixed once the warm start is complete."""
        return self._resolved or self._objective

    @property
    def score(self) -> Scores | None:
        """The score of ``mixture`` on the samples that the statistics hold; None before a solve.

        Those of the last solve, and what came since in full blocks.
        """
        if self._alpha is None:
            return None
        loss = self._current_loss()
        counts = [self._statistics.counts[i] for i in self._indices]
        context = score_context(self._held, counts, self._encoder)
        return self.objective.scores(loss, self._held, context)

    @property
    def single_scores(self) -> dict[str, Scores]:
        """What each active arm's own samples score, of those that the statistics hold; {} before a solve."""
        if self._alpha is None:
            return {}
        return {self._labels[i]: self._single_score(i) for i in self._indices}

    @property
    def pooled_score(self) -> Scores | None:
        """The score of all samples told so far, as one set; None until the warm start is complete."""
        if self._tally is None:
            return None
        total = sum(self._told)
        if self._pooled is None or self._pooled[0] != total:
            self._pooled = (total, self._pool_score())
        return self._pooled[1]

    def pool(self) -> Pool | None:
        """All samples told so far, in the objective's statistics; None until the warm start is complete.

        It is for reading: what is asked of it says nothing to the selector.
        """
        if self._tally is None:
            return None
        tally = self._read_ahead() if self._pending else self._statistics
        return Pool(tuple(self._labels), self.objective, tally.fork(), self._encoder)

    # -- asking and telling ----------------------------------------------------------------------

    def ask(self, n: int = 1) -> list[Ticket]:
        """``n`` tickets, each with the arm to draw a sample from."""
        if not isinstance(n, int | np.integer) or n < 1:
            raise InputError(f"ask({n!r}): ask for a whole number of at least 1.")
        return [self._issue() for _ in range(n)]

    def ask_from(self, label: str) -> Ticket:
        """A ticket for one arm, also for a retired one: to see whether it works again."""
        arm = self._arm(label)
        return self._issue_for(arm, self.weights.get(label, 0.0), 1.0)

    def tell(
        self,
        ticket: Ticket | int,
        embedding: Array,
        quality: float | None = None,
        cost: float | None = None,
    ) -> None:
        """Take in the sample of a ticket: its embedding ``(d,)``, and quality and cost if there are any."""
        self.tell_all([(ticket, embedding, quality, cost)])

    def check(
        self,
        ticket: Ticket | int,
        embedding: Array,
        quality: float | None = None,
        cost: float | None = None,
    ) -> None:
        """Raise what ``tell`` would raise, and change nothing."""
        self._checked(self._find(ticket), embedding, quality, cost)

    def tell_all(
        self, samples: Iterable[tuple[Ticket | int, Array, float | None, float | None]]
    ) -> None:
        """As ``tell`` for each of several samples, all or none; the mixture is solved for once, after."""
        with self._all_or_nothing():
            for ticket, embedding, quality, cost in samples:
                issued = self._find(ticket)
                told = self._checked(issued, embedding, quality, cost)
                self._land(issued)
                self._told[told.arm] += 1
                self._pending.append(told)
                self._sample = told.row[:0, :]
            self._fix_objective()
            if self._is_due():
                self._solve()
            elif self._resolved is not None and len(self._pending) >= MOST_PENDING:
                self._gap = self.gap  # while there is the loss that it is the gap of
                self._flush()

    def fail(self, ticket: Ticket | int) -> None:
        """Give a ticket back: its sample will not come. Retire an arm that fails for good."""
        issued = self._find(ticket)
        self._land(issued)
        self._failed[self._labels.index(issued.arm)] += 1

    def add_arm(self, label: str) -> None:
        """Bring in a new arm, or a retired one again with its samples."""
        labels([label])
        if label in self.arms:
            raise InputError(f"the arm {label!r} is there already: give the new one another label.")
        with self._all_or_nothing():
            self._former = self.weights if self._alpha is not None else self._former
            if label in self._labels:
                self._active[self._labels.index(label)] = True
                self._failed[self._labels.index(label)] = 0
            else:
                self._labels.append(label)
                self._active.append(True)
                self._told.append(0)
                self._failed.append(0)
                self._aloft.append(0)
                if self._tally is not None:
                    self._tally = self._tally.fork()
                    self._tally.grow()
            self._rearrange({})

    def retire_arm(self, label: str) -> None:
        """Draw from this arm no more; its samples stay, and tickets in flight can still be told."""
        arm = self._arm(label)
        if not self._active[arm]:
            raise InputError(f"the arm {label!r} is retired already: nothing to do.")
        remaining = [name for name in self.arms if name != label]
        if not remaining:
            raise InputError(f"the arm {label!r} is the last one: add another before retiring it.")
        self._policy.check(self._labels, remaining, self._objective)
        with self._all_or_nothing():
            before = self.weights
            self._active[arm] = False
            self._rearrange(before)

    # -- how it works ----------------------------------------------------------------------------

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """If anything fails or is interrupted inside, the selector is as it was before."""
        before = dict(vars(self))
        for key in MUTABLE:
            before[key] = before[key].copy()
        try:
            yield
        except BaseException:
            vars(self).update(before)
            self._ahead = None  # it may share rows with a fork that was not completed
            raise

    def _land(self, ticket: Ticket) -> None:
        del self._flying[ticket.id]
        self._aloft[self._labels.index(ticket.arm)] -= 1

    @property
    def _indices(self) -> list[int]:
        return [i for i, active in enumerate(self._active) if active]

    @property
    def _weights(self) -> Vector:
        return uniform(len(self._indices)) if self._alpha is None else self._alpha

    @property
    def _held(self) -> Vector:
        """The policy's mixture."""
        return self._weights if self._mixture is None else self._mixture

    @property
    def _statistics(self) -> Tally:
        assert self._tally is not None
        return self._tally

    @property
    def _has_warm_start(self) -> bool:
        return all(self._told[i] >= self._warm_start for i in self._indices)

    def _arm(self, label: str) -> int:
        if label not in self._labels:
            raise InputError(f"unknown arm {label!r}: the arms are {', '.join(self.arms)}.")
        return self._labels.index(label)

    def _issue(self) -> Ticket:
        indices, weights = self._indices, self._weights
        if self._alpha is None:
            chosen, propensity = self._warm_draw(indices)
        elif self._draw == "tracking":
            loads = np.array([self._told[i] + self._aloft[i] for i in indices])
            chosen, propensity = int(np.argmax(weights * (loads.sum() + 1) - loads)), 1.0
        else:
            chosen, propensity = self._random_draw(weights)
        return self._issue_for(indices[chosen], float(weights[chosen]), propensity)

    def _issue_for(self, arm: int, weight: float, propensity: float) -> Ticket:
        ticket = Ticket(self._next_id, self._labels[arm], weight, propensity)
        self._next_id += 1
        self._aloft[arm] += 1
        self._flying[ticket.id] = ticket
        return ticket

    def _warm_draw(self, indices: Sequence[int]) -> tuple[int, float]:
        """Round-robin, arms that lack part of their warm start first.

        Once those have all been asked, and from arms that failed as often as they should have been
        told, the run goes on: round-robin, or with the weights from before a new arm came.
        """
        asked = [self._told[i] + self._aloft[i] for i in indices]
        lacking = [
            k
            for k, i in enumerate(indices)
            if asked[k] < self._warm_start and self._failed[i] < self._warm_start
        ]
        if lacking:
            return min(lacking, key=asked.__getitem__), 1.0
        former = np.array([self._former.get(self._labels[i], 0.0) for i in indices])
        if not former.any():
            tries = [count + self._failed[i] for i, count in zip(indices, asked, strict=True)]
            return int(np.argmin(tries)), 1.0
        unfinished = np.array([self._told[i] < self._warm_start for i in indices], dtype=float)
        share = 1 / len(indices)
        return self._random_draw(
            (1 - share) * former / former.sum() + share * unfinished / unfinished.sum()
        )

    def _random_draw(self, weights: Vector) -> tuple[int, float]:
        edges = np.cumsum(weights)
        chosen = int(np.searchsorted(edges, self._rng.random() * edges[-1], side="right"))
        return chosen, float(weights[chosen])

    def _find(self, ticket: Ticket | int) -> Ticket:
        number = ticket.id if isinstance(ticket, Ticket) else ticket
        if isinstance(number, bool) or not isinstance(number, int | np.integer):
            raise InputError(f"{ticket!r} is no ticket: give one that ask returned, or its id.")
        found = self._flying.get(int(number))
        if found is not None and (found == ticket or not isinstance(ticket, Ticket)):
            return found
        if found is None and 0 <= number < self._next_id:
            raise InputError(f"ticket {number} was told or failed before: tell each ticket once.")
        raise InputError(f"ticket {number} is unknown here: tell tickets that ask returned.")

    def _checked(
        self, ticket: Ticket, embedding: Array, quality: float | None, cost: float | None
    ) -> Told:
        where = f"arm {ticket.arm!r}, ticket {ticket.id}"
        row = as_row(embedding, where)
        if self._sample is not None:
            if row.shape[1] != self._sample.shape[1]:
                raise InputError(
                    f"{where}: the embedding has dimension {row.shape[1]} and those before had "
                    f"{self._sample.shape[1]}; use one encoder for all."
                )
            row = like(row, self._sample)
        told = Told(
            self._labels.index(ticket.arm),
            row,
            None if quality is None else check_number(quality, "quality", where),
            None if cost is None else check_number(cost, "cost", where),
        )
        self._objective.check(batch_of([told]), where)
        self._objective.check_total(sum(self._told) + 1)
        return told

    def _fix_objective(self) -> None:
        """Fix bandwidths as soon as every arm has its warm start."""
        if self._resolved is None and self._has_warm_start:
            rows = [[told.row for told in self._pending if told.arm == i] for i in self._indices]
            self._resolved = self._objective.resolve([stacked(group) for group in rows])

    def _is_due(self) -> bool:
        if not self._has_warm_start:
            return False
        grown = sum(self._told) - self._solved_at
        return self._alpha is None or grown >= max(1.0, self._growth * self._solved_at)

    def _flush(self) -> None:
        """Bring the statistics up to date, one block an arm."""
        if self._tally is None:
            assert self._resolved is not None
            self._tally = self._resolved.tally(len(self._labels), self._sample)
        self._tally = self._tally.fork()
        add_all(self._tally, self._pending)
        self._tally.settle()
        self._pending, self._loss = [], None

    def _solve(self) -> None:
        self._flush()
        indices = tuple(self._indices)
        situation = Situation(
            arms=self.arms,
            indices=indices,
            objective=self.objective,
            tally=self._statistics,
            counts=np.array([self._told[i] for i in indices]),
            total=sum(self._told),
            start=self._weights,
            solver=self._solver,
            curvature=self._curvature,
        )
        decision = self._policy.decide(situation)
        self._loss = situation.loss
        self._alpha = on_simplex(decision.weights, len(indices), "the policy's weights")
        self._mixture = decision.mixture
        if self._mixture is not None:
            self._mixture = on_simplex(self._mixture, len(indices), "the mixture's weights")
        known = decision.gap is not None and not np.isnan(decision.gap)
        self._gap = decision.gap if known else None
        self._curvature = decision.curvature
        self._solved_at = situation.total

    def _rearrange(self, before: Mapping[str, float]) -> None:
        """After the arms changed: solve anew, or wait for the warm start of a new arm."""
        kept = np.array([before.get(name, 0.0) for name in self.arms])
        self._loss, self._alpha, self._mixture = None, None, None
        self._gap, self._curvature = np.inf, None
        if not self._has_warm_start:
            return
        self._fix_objective()
        if kept.sum() > 0:
            self._alpha = kept / kept.sum()
        self._solve()

    def _current_loss(self) -> Loss:
        if self._loss is None:
            self._loss = self._statistics.loss(self._indices)
        return self._loss

    def _single_score(self, arm: int) -> Scores:
        context = score_context(np.ones(1), [self._statistics.counts[arm]], self._encoder)
        return self.objective.scores(self._statistics.loss([arm]), np.ones(1), context)

    def _pool_score(self) -> Scores:
        tally = self._read_ahead() if self._pending else self._statistics
        context = score_context(np.ones(1), [sum(tally.counts)], self._encoder)
        return self.objective.scores(tally.pooled(), np.ones(1), context)

    def _read_ahead(self) -> Tally:
        """The statistics with all pending samples, of which only those new to this reader are added."""
        base, tally, done = self._ahead or (None, None, 0)
        if base is not self._tally or tally is None:
            tally, done = self._statistics.fork(), 0
        self._ahead = None
        add_all(tally, self._pending[done:])
        self._ahead = (self._statistics, tally, len(self._pending))
        return tally

    # -- state -----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """All of it as plain numpy arrays and JSON values; from_state_dict continues bit for bit."""
        return {
            "version": STATE_VERSION,
            "arms": list(self._labels),
            "active": list(self._active),
            "told": list(self._told),
            "failed": list(self._failed),
            "former": to_plain(self._former),
            "objective": to_plain(self._objective),
            "resolved": to_plain(self._resolved),
            "policy": to_plain(self._policy),
            "solver": to_plain(self._solver),
            "warm_start": self._warm_start,
            "draw": self._draw,
            "resolve_growth": self._growth,
            "encoder": self._encoder,
            "rng": copy.deepcopy(self._rng.bit_generator.state),
            "next_id": self._next_id,
            "in_flight": [asdict(ticket) for ticket in self._flying.values()],
            "place": None if self._sample is None else place(self._sample),
            "dimension": None if self._sample is None else int(self._sample.shape[1]),
            "pending": packed(self._pending),
            "tally": None if self._tally is None else self._tally.state_dict(),
            "weights": None if self._alpha is None else self._alpha.copy(),
            "mixture": None if self._mixture is None else self._mixture.copy(),
            "curvature": None if self._curvature is None else self._curvature.copy(),
            "gap": to_plain(float(self.gap)),
            "solved_at": self._solved_at,
        }

    @classmethod
    def from_state_dict(
        cls, saved: Mapping[str, Any], objective: Objective | None = None
    ) -> Selector:
        """The selector that ``state_dict`` was taken from.

        ``objective`` is needed only if it holds a function of your own, which a state cannot.
        """
        described, resolved = described_in(saved, objective)
        selector = cls(
            saved["arms"],
            described,
            from_plain(saved["policy"]),
            warm_start=saved["warm_start"],
            draw=saved["draw"],
            resolve_growth=saved["resolve_growth"],
            solver=from_plain(saved["solver"]),
            encoder=saved["encoder"],
        )
        selector._restore(saved, resolved)
        return selector

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to one file of plain arrays and JSON, whole or not at all."""
        state.save(path, self.state_dict())

    @classmethod
    def load(cls, path: str | os.PathLike[str], objective: Objective | None = None) -> Selector:
        """The selector that :meth:`save` wrote."""
        return cls.from_state_dict(state.load(path), objective)

    def _restore(self, saved: Mapping[str, Any], resolved: Objective | None) -> None:
        self._rng = restored_generator(saved["rng"])
        self._active, self._told = list(saved["active"]), list(saved["told"])
        self._failed, self._former = list(saved["failed"]), from_plain(saved["former"])
        self._next_id, self._solved_at = saved["next_id"], saved["solved_at"]
        self._flying = {fields["id"]: Ticket(**fields) for fields in saved["in_flight"]}
        aloft = [ticket.arm for ticket in self._flying.values()]
        self._aloft = [aloft.count(label) for label in self._labels]
        self._resolved = resolved
        self._gap = from_plain(saved["gap"])
        if saved["weights"] is not None:
            self._alpha = np.array(saved["weights"], dtype=np.float64)
        if saved.get("mixture") is not None:  # states from before there was one have none
            self._mixture = np.array(saved["mixture"], dtype=np.float64)
        if saved["curvature"] is not None:
            self._curvature = np.array(saved["curvature"], dtype=np.float64)
        if saved["place"] is None:
            return
        self._sample = like(np.empty((0, saved["dimension"])), empty_at(saved["place"]))
        self._pending = unpacked(saved["pending"], self._sample)
        if saved["tally"] is not None and resolved is not None:
            self._tally = resolved.tally(len(self._labels), self._sample)
            self._tally.load_state_dict(saved["tally"])
