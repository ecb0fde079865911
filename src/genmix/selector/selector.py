"""The selector: ask for tickets, report their samples in any order, re-solve the mixture in between."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np

from genmix.core.arrays import Array
from genmix.core.description import from_plain, to_plain
from genmix.core.text import counted
from genmix.errors import InputError
from genmix.objectives import Objective
from genmix.objectives.validation import labels
from genmix.policies import MixtureGreedy, MixtureUCBV, Pair, Policy
from genmix.selector import saved_state
from genmix.selector.asking import Asking
from genmix.selector.cells import CellLearner
from genmix.selector.groups import Groups, group_stream, pooling_of
from genmix.selector.learner import Learner
from genmix.selector.limits import Limits
from genmix.selector.locking import Lock, locked
from genmix.selector.pending import PendingSample
from genmix.selector.planning import Planning
from genmix.selector.prompts import loaded_prompts, pair_of, saved_prompts
from genmix.selector.sample_tuples import sample_tuples
from genmix.selector.saved_state import Savable
from genmix.selector.tickets import Ticket, find_ticket, saved_ticket
from genmix.solvers.newton import Newton
from genmix.solvers.solve import Solver


class Selector(Asking, Planning, Savable):
    """Choose the next generator so that all samples together score best.

    At each re-solve, the weights are ``argmin L(α)`` over the simplex, where ``L`` is the empirical loss of
    the samples reported so far. Arms are drawn according to these weights plus a little exploration, so that
    an unlucky warm start does not exclude an arm forever. Other policies draw differently.

    Parameters
    ----------
    arms : iterable of str
        Labels of the generators.
    objective : Objective
        What the samples should optimize together, e.g. ``Vendi()``.
    policy : Policy, optional
        How the weights are derived from the loss. The default is ``MixtureUCBV()``, or ``MixtureGreedy()``,
        the paper's policy, with tracking if every group has its own weights.
    warm_start : int, default 10
        Samples per arm before the first solve.
    seed : int or numpy.random.Generator, default 0
        Seed or generator for the random draws. A number selects a private stream, independent of your own
        ``numpy.random.default_rng(seed)``; a generator is used as it is.
    draw : {"iid", "tracking"}, optional
        ``"iid"`` draws arms at random according to the weights. ``"tracking"`` picks the arm whose count
        lags furthest behind its weight, which removes the sampling noise. By default, the policy
        decides: tracking for ``MixtureUCBV`` and the default, iid for all others.
    resolve_growth : float, default 0.01
        Re-solve when the number of samples has grown by this fraction since the last solve. With 0, every
        sample triggers a solve, as in the paper.
    solver : Solver, optional
        How the loss is minimized. The default is ``Newton()``.
    encoder : str, optional
        Name of the encoder; it is shown with every score.
    at_least, at_most : mapping of str to float, optional
        Bounds on the weights of some arms. A retired arm has none; if the ``at_most`` of the other arms then
        add up to less than 1, they are scaled up to 1. The draws of the warm start are not limited.
    mean_cost, prices : float and mapping of str to float, optional
        Largest mean cost per sample of the weights, and costs of arms until one is told; see :meth:`plan`.
    groups : mapping of str to float, sequence of str or "learned", optional
        Kinds of prompts, each of which gets weights of its own. A map gives the share of each group in the
        data set. The shares of a list of names are learned from the groups that you pass to :meth:`ask`;
        with ``"learned"``, the names are too.
    pooling : float, optional
        κ, the number of samples with which all samples of an arm count in each of its groups. With 0, the
        groups share nothing, and the warm start is per group and arm. With infinity, all groups have the same
        weights, those of a selector without groups. The default is 3; it is 0 for objectives on pairs of
        prompts and outputs (see :class:`Joint`), and infinity for policies that do not choose mixtures.

    Raises
    ------
    InputError
        If an argument is invalid.

    See Also
    --------
    optimal_mixture : The best mixture of samples that already exist.

    Examples
    --------
    Arm ``a`` can produce two different samples, arm ``b`` only one. The most diverse mixture draws ``a``
    two thirds of the time:

    >>> import genmix as gx
    >>> samples = {"a": [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], "b": [[0.0, 0.0, 1.0]]}
    >>> sel = gx.Selector(["a", "b"], gx.Vendi(), warm_start=2, seed=0)
    >>> for _ in range(60):
    ...     [ticket] = sel.ask()
    ...     choices = samples[ticket.arm]
    ...     sel.tell(ticket, choices[sel.counts[ticket.arm] % len(choices)])
    >>> {arm: round(weight, 2) for arm, weight in sel.weights.items()}
    {'a': 0.67, 'b': 0.33}
    >>> print(f"{sel.score:.2f}, gap below 1e-6: {sel.gap < 1e-6}")
    3.00, gap below 1e-6: True
    """

    def __init__(
        self,
        arms: Iterable[str],
        objective: Objective,
        policy: Policy | None = None,
        *,
        warm_start: int = 10,
        seed: int | np.random.Generator = 0,
        draw: Literal["iid", "tracking"] | None = None,
        resolve_growth: float = 0.01,
        solver: Solver | None = None,
        encoder: str | None = None,
        at_least: Mapping[str, float] | None = None,
        at_most: Mapping[str, float] | None = None,
        mean_cost: float | None = None,
        prices: Mapping[str, float] | None = None,
        groups: Mapping[str, float] | Sequence[str] | None = None,
        pooling: float | None = None,
    ) -> None:
        self._lock = Lock()
        names = labels(arms)
        if policy is None:
            # With groups, the bonus mistakes differences between the prompts of a group for noise.
            is_grouped = groups is not None and pooling != math.inf
            policy = MixtureGreedy() if is_grouped else MixtureUCBV()
            draw = draw or ("tracking" if is_grouped else None)
        settings: tuple[Any, ...] = (
            names,
            objective,
            policy,
            Newton() if solver is None else solver,
            warm_start,
            resolve_growth,
            Limits.of(names, at_least, at_most, mean_cost, prices),
        )
        self._learner = Learner(*settings)
        self._groups, self._pooling = Groups.of(groups), pooling
        if self._groups is not None:
            self._pooling = pooling_of(pooling, self._learner.policy, objective)
            if self._pooling < math.inf:
                shares = self._groups.shares
                self._learner = CellLearner(*settings, shares=shares, pooling=self._pooling)
        elif pooling is not None:
            raise InputError("pooling is between groups, but there are none; pass groups=.")
        if draw not in (None, "iid", "tracking"):
            raise InputError(f'draw is {draw!r}; pass "iid" or "tracking".')
        self._draw, self._encoder = draw or self._learner.policy.draw, encoder
        self._rng, self._group_rng = saved_state.generator_from_seed(seed), group_stream(seed)
        self._in_flight, self._prompts, self._next_id = {}, {}, 0
        self._pooled = None

    def __repr__(self) -> str:
        learner = self._learner
        policy = learner.policy.label(learner.described)
        objective = " + ".join(getattr(learner.described, "names", [learner.described.name]))
        return (
            f"<Selector: {policy} for {objective}, {counted(len(self.arms), 'arm')}, "
            f"{counted(learner.total, 'sample')}>"
        )

    # -- telling ---------------------------------------------------------------------------------

    def tell(
        self,
        ticket: Ticket | int,
        embedding: Array,
        quality: float | None = None,
        cost: float | None = None,
    ) -> None:
        """Report the sample for a ticket. The mixture is re-solved if a solve is due.

        Parameters
        ----------
        ticket : Ticket or int
            A ticket in flight, or its id.
        embedding : array of shape (d,)
            Embedding of the sample, as a numpy array, torch tensor or list.
        quality, cost : float, optional
            Quality and cost of the sample, for objectives that use them.

        Raises
        ------
        InputError
            If the ticket is not in flight or the sample is invalid. The selector is left unchanged.

        Examples
        --------
        >>> import genmix as gx
        >>> sel = gx.Selector(["a", "b"], gx.Vendi())
        >>> [ticket] = sel.ask()
        >>> sel.tell(ticket, [1.0, 0.0])
        >>> sel.tell(ticket, [1.0, 0.0])
        Traceback (most recent call last):
        ...
        genmix.errors.InputError: ticket 0 has already been told or failed; tell each ticket only once.
        """
        self.tell_all([(ticket, embedding, quality, cost)])

    @locked
    def check(
        self,
        ticket: Ticket | int,
        embedding: Array,
        quality: float | None = None,
        cost: float | None = None,
    ) -> None:
        """Raise the error that :meth:`tell` would raise for an invalid sample, without changing anything.

        Parameters
        ----------
        ticket, embedding, quality, cost
            As for :meth:`tell`.
        """
        self._validated(self._find(ticket), embedding, quality, cost)

    @locked
    def tell_all(
        self, samples: Iterable[tuple[Ticket | int, Array, float | None, float | None]]
    ) -> None:
        """Report several samples at once, all or none, with at most one solve at the end.

        Parameters
        ----------
        samples : iterable of (ticket, embedding, quality, cost)
            The arguments to :meth:`tell`; quality and cost can be None.

        Raises
        ------
        InputError
            If an element is not such a tuple, or as for :meth:`tell`. The selector is left unchanged.

        Examples
        --------
        >>> import genmix as gx
        >>> sel = gx.Selector(["a", "b"], gx.Vendi())
        >>> first, second = sel.ask(2)
        >>> sel.tell_all([(first, [1.0, 0.0], None, None), (second, [0.0, 1.0], None, None)])
        >>> sel.counts
        {'a': 1, 'b': 1}
        """
        with self._all_or_nothing():
            for ticket, embedding, quality, cost in sample_tuples(samples):
                issued = self._find(ticket)
                sample, pair = self._validated(issued, embedding, quality, cost)
                self._close(issued, told=1)
                self._learner.append(sample, pair)
            self._learner.update()

    @locked
    def fail(self, ticket: Ticket | int) -> None:
        """Report that the sample for a ticket could not be generated.

        Failures do not change the weights; retire an arm that keeps failing.

        Parameters
        ----------
        ticket : Ticket or int
            A ticket in flight, or its id.

        Examples
        --------
        >>> import genmix as gx
        >>> sel = gx.Selector(["a", "b"], gx.Vendi())
        >>> [ticket] = sel.ask()
        >>> sel.fail(ticket)
        >>> sel.in_flight
        ()
        """
        self._close(self._find(ticket), failed=1)

    # -- adding and retiring arms ----------------------------------------------------------------

    @locked
    def add_arm(self, label: str) -> None:
        """Add a new arm, or reactivate a retired arm with the samples it already has.

        A new arm begins with a warm start. Until that is complete, other draws use the previous weights,
        and :attr:`mixture`, :attr:`score` and :attr:`gap` stay those of the last solve; its weight is 0.

        Parameters
        ----------
        label : str
            Label of the arm.

        Raises
        ------
        InputError
            If the arm is already active.

        Examples
        --------
        >>> import genmix as gx
        >>> sel = gx.Selector(["a", "b"], gx.Vendi())
        >>> sel.add_arm("c")
        >>> sel.arms
        ('a', 'b', 'c')
        """
        labels([label])
        if label in self.arms:
            raise InputError(
                f"the arm {label!r} already exists; use another label for the new arm."
            )
        with self._all_or_nothing():
            self._learner.add_arm(label)

    @locked
    def retire_arm(self, label: str) -> None:
        """Stop drawing from an arm. Its samples are kept, and its tickets in flight remain valid.

        Parameters
        ----------
        label : str
            Label of an active arm.

        Raises
        ------
        InputError
            If the arm is unknown, already retired, or the last active one.

        Examples
        --------
        >>> import genmix as gx
        >>> sel = gx.Selector(["a", "b"], gx.Vendi())
        >>> sel.retire_arm("b")
        >>> sel.weights
        {'a': 1.0}
        """
        self._known_arm(label)
        if label not in self.arms:
            raise InputError(f"the arm {label!r} is already retired; pass an active arm.")
        remaining = [name for name in self.arms if name != label]
        if not remaining:
            raise InputError(
                f"the arm {label!r} is the only active arm; add another before you retire it."
            )
        learner = self._learner
        learner.policy.check(list(learner.known_arms), remaining, learner.described)
        with self._all_or_nothing():
            learner.retire_arm(label)

    # -- internals -------------------------------------------------------------------------------

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Restore the selector exactly if the body fails or is interrupted."""
        mine = {k: v.copy() if isinstance(v, dict) else v for k, v in vars(self).items()}
        learner = self._learner.snapshot()
        try:
            yield
        except BaseException:
            vars(self).update(mine)
            self._learner.roll_back(learner)
            raise

    def _validated(
        self, ticket: Ticket, embedding: Array, quality: float | None, cost: float | None
    ) -> tuple[PendingSample, Pair | None]:
        learner = self._learner
        sample = learner.validated(ticket, embedding, quality, cost)
        where = f"arm {ticket.arm!r}, ticket {ticket.id}"
        prompt = self._prompts.get(ticket.id)
        return sample, pair_of(sample, prompt, learner.policy, learner.described, where)

    def _find(self, ticket: Ticket | int) -> Ticket:
        return find_ticket(ticket, self._in_flight, self._next_id)

    def _close(self, ticket: Ticket, told: int = 0, failed: int = 0) -> None:
        del self._in_flight[ticket.id]
        self._prompts.pop(ticket.id, None)
        key = self._learner.key_of(ticket.arm, ticket.group)
        arm = self._learner.arms[key]
        self._learner.arms[key] = replace(
            arm, in_flight=arm.in_flight - 1, told=arm.told + told, failed=arm.failed + failed
        )

    # -- state -----------------------------------------------------------------------------------

    @locked
    def state_dict(self) -> dict[str, Any]:
        """Return the complete state as numpy arrays and JSON values.

        A selector created by :meth:`from_state_dict` continues with bit-for-bit identical results.

        Examples
        --------
        >>> import genmix as gx
        >>> sel = gx.Selector(["a", "b"], gx.Vendi(), seed=0)
        >>> again = gx.Selector.from_state_dict(sel.state_dict())
        >>> again.ask(5) == sel.ask(5)
        True
        """
        return (
            self._learner.state_dict()
            | self._saved_groups()
            | saved_prompts(self._prompts)
            | {
                "version": saved_state.STATE_VERSION,
                "draw": self._draw,
                "encoder": self._encoder,
                "rng": copy.deepcopy(self._rng.bit_generator.state),
                "next_id": self._next_id,
                "in_flight": [saved_ticket(ticket) for ticket in self._in_flight.values()],
            }
        )

    def _saved_groups(self) -> dict[str, Any]:
        if self._groups is None:
            return {}
        return {
            "groups": self._groups.plain(),
            "pooling": to_plain(self._pooling),
            "group_rng": copy.deepcopy(self._group_rng.bit_generator.state),
        }

    @classmethod
    def _from_valid_state(cls, saved: Mapping[str, Any], objective: Objective | None) -> Self:
        described, resolved = saved_state.saved_objectives(saved, objective)
        groups = saved.get("groups")  # missing without groups
        known = None if groups is None else Groups.from_plain(groups)
        selector = cls(
            saved["cells"]["arms"] if "cells" in saved else saved["arms"],
            described,
            from_plain(saved["policy"]),
            warm_start=saved["warm_start"],
            draw=saved["draw"],
            resolve_growth=saved["resolve_growth"],
            solver=from_plain(saved["solver"]),
            encoder=saved["encoder"],
            **saved.get("limits", {}),  # missing from older states
            groups=None if known is None else known.shares or "learned",
            pooling=from_plain(saved.get("pooling")),
        )
        selector._groups = known
        if "group_rng" in saved:
            selector._group_rng = saved_state.generator_from_state(saved["group_rng"])
        selector._learner.load_state_dict(saved, resolved)
        selector._rng = saved_state.generator_from_state(saved["rng"])
        selector._in_flight = {fields["id"]: Ticket(**fields) for fields in saved["in_flight"]}
        selector._prompts = loaded_prompts(saved, selector._learner.policy)
        selector._next_id = saved["next_id"]
        return selector
