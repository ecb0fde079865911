"""Issue tickets: which group and which arm the next sample comes from."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from genmix.core.arrays import Array
from genmix.errors import InputError
from genmix.policies import Prompt, PromptPolicy
from genmix.selector.arms import ArmRecord, draw_iid, draw_tracking, draw_warm_start, restricted
from genmix.selector.cells import CellLearner
from genmix.selector.groups import Groups
from genmix.selector.learner import Learner
from genmix.selector.locking import locked
from genmix.selector.prompts import check_dimensions, prompts_of
from genmix.selector.readings import Readings
from genmix.selector.tickets import Ticket
from genmix.solvers.simplex import on_simplex


class Asking(Readings):
    """The methods of :class:`Selector` that issue tickets."""

    _draw: str
    _rng: np.random.Generator
    _group_rng: np.random.Generator
    _next_id: int

    @locked
    def ask(
        self,
        n: int = 1,
        *,
        among: Collection[str] | None = None,
        group: str | Sequence[str] | None = None,
        prompt: Array = None,
        reference: Array = None,
    ) -> list[Ticket]:
        """Issue tickets, each for one sample to generate.

        Until every arm has completed its warm start, tickets are issued round-robin.

        Parameters
        ----------
        n : int, default 1
            Number of tickets.
        among : collection of str, optional
            Draw only from these arms, e.g. those that your money still covers. Default: all active arms.
        group : str or sequence of str, optional
            The group of the prompts: one for all tickets, or one per ticket. Without it, a selector with
            groups draws the groups at random by their shares. If the shares are learned, new groups can
            appear.
        prompt : array of shape (d,) or (n, d), optional
            Embedding of the prompt: one for all tickets, or one row per ticket. Policies that choose by the
            prompt need it, e.g. ``DAKUCB``; all others ignore it.
        reference : array of shape (d,) or (n, d), optional
            Embedding of a good answer to the prompt, for policies that compare with one.

        Returns
        -------
        list of Ticket

        Examples
        --------
        >>> import genmix as gx
        >>> sel = gx.Selector(["a", "b"], gx.Vendi())
        >>> [ticket.arm for ticket in sel.ask(4)]
        ['a', 'b', 'a', 'b']
        >>> sel = gx.Selector(["a", "b"], gx.Vendi(), groups={"travel": 0.3, "food": 0.7})
        >>> [ticket.group for ticket in sel.ask(2, group="travel")]
        ['travel', 'travel']
        """
        if not isinstance(n, int | np.integer) or n < 1:
            raise InputError(f"ask({n!r}): pass a whole number of at least 1.")
        if among is not None and not set(among) & set(self.arms):
            raise InputError(f"among contains no active arm; the arms are {', '.join(self.arms)}.")
        prompts = self._checked_prompts(int(n), prompt, reference)
        groups = self._groups_of(int(n), group)
        return [self._draw_ticket(among, *each) for each in zip(groups, prompts, strict=True)]

    @locked
    def ask_from(
        self, label: str, *, group: str | None = None, prompt: Array = None, reference: Array = None
    ) -> Ticket:
        """Issue a ticket for one arm, for example to test whether a retired arm works again.

        Parameters
        ----------
        label : str
            Label of an active or retired arm.
        group : str, optional
            The group of the prompt, as for :meth:`ask`.
        prompt, reference : array of shape (d,), optional
            As for :meth:`ask`.

        Returns
        -------
        Ticket

        Examples
        --------
        >>> import genmix as gx
        >>> sel = gx.Selector(["a", "b"], gx.Vendi())
        >>> sel.ask_from("b").arm
        'b'
        """
        self._known_arm(label)
        [given] = self._checked_prompts(1, prompt, reference)
        [name] = self._groups_of(1, group)
        targets = self.targets if name is None else self._shares_of_arms(name)
        record = self._learner.arms[self._learner.key_of(label, name)]
        return self._issue(record, label, name, targets.get(label, 0.0), 1.0, given)

    def _known_arm(self, label: str) -> None:
        if label not in self._learner.known_arms:
            raise InputError(f"unknown arm {label!r}; the arms are {', '.join(self.arms)}.")

    # -- prompts and groups ----------------------------------------------------------------------

    def _checked_prompts(self, n: int, prompt: Array, reference: Array) -> list[Prompt | None]:
        """Return one prompt per ticket, or None per ticket if the policy does not choose by the prompt."""
        learner = self._learner
        found = prompts_of(n, prompt, reference, learner.policy)
        check_dimensions(found, self._prompts.values(), learner.memory, learner.described)
        return found

    def _groups_of(self, n: int, group: str | Sequence[str] | None) -> Sequence[str | None]:
        """Return one group per ticket, or None per ticket without groups; count those that arrive."""
        if self._groups is None:
            if group is not None:
                raise InputError(
                    f"group is {group!r}, but the selector has no groups; create it with groups=."
                )
            return [None] * n
        if group is None:
            return [self._groups.draw(self._group_rng) for _ in range(n)]
        names = [group] * n if isinstance(group, str) else list(group)
        if len(names) != n:
            raise InputError(f"there are {len(names)} groups for {n} tickets; pass one per ticket.")
        self._set_groups(self._groups.with_arrivals(names))
        return names

    def _set_groups(self, groups: Groups) -> None:
        self._groups = groups
        if isinstance(self._learner, CellLearner):
            self._learner.set_shares(groups.shares)

    # -- drawing ---------------------------------------------------------------------------------

    def _draw_ticket(
        self, among: Collection[str] | None, group: str | None, prompt: Prompt | None
    ) -> Ticket:
        learner = self._learner
        if isinstance(learner, CellLearner):
            assert group is not None
            cell, propensity = learner.draw(group, among, self._draw, self._rng)
            arm = learner.places[cell.label][1]
            return self._issue(cell, arm, group, self._shares_of_arms(group)[arm], propensity)
        if prompt is not None and learner.alpha is not None:
            drawn, weight = self._draw_for(learner, among, prompt)
            return self._issue(drawn, drawn.label, group, weight, weight, prompt)
        drawn, propensity = self._draw_arm(learner, among)
        weight = self.targets[drawn.label]
        return self._issue(drawn, drawn.label, group, weight, propensity, prompt)

    def _draw_for(
        self, learner: Learner, among: Collection[str] | None, prompt: Prompt
    ) -> tuple[ArmRecord, float]:
        """Draw an arm from the weights that the policy chooses for a prompt."""
        assert isinstance(learner.policy, PromptPolicy)
        assert learner.memory is not None
        arms = [arm for arm in learner.active if among is None or arm.label in among]
        weights = learner.policy.choose(learner.memory, [arm.index for arm in arms], prompt)
        chosen, weight = draw_iid(on_simplex(weights, len(arms)), self._rng)
        return arms[chosen], weight

    def _draw_arm(self, learner: Learner, among: Collection[str] | None) -> tuple[ArmRecord, float]:
        arms, weights = restricted(learner.active, learner.targets, among)
        if learner.alpha is None:
            drawn = draw_warm_start(arms, learner.warm_start, learner.previous_weights, self._rng)
        elif self._draw == "tracking":
            drawn = draw_tracking(arms, weights)
        else:
            drawn = draw_iid(weights, self._rng)
        return arms[drawn[0]], drawn[1]

    def _issue(
        self,
        record: ArmRecord,
        arm: str,
        group: str | None,
        weight: float,
        propensity: float,
        prompt: Prompt | None = None,
    ) -> Ticket:
        ticket = Ticket(self._next_id, arm, weight, propensity, group)
        self._next_id += 1
        self._learner.arms[record.label] = replace(record, in_flight=record.in_flight + 1)
        self._in_flight[ticket.id] = ticket
        if prompt is not None:
            self._prompts[ticket.id] = prompt
        return ticket
