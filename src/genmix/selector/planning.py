"""The part of a selector that keeps the weights affordable: the mean cost, and what it is worth."""

from __future__ import annotations

from collections.abc import Mapping

from genmix.errors import InputError, whole
from genmix.selector.learner import Learner
from genmix.selector.limits import Limits
from genmix.selector.locking import Lock, locked
from genmix.solvers.region import Region


class Planning:
    """The methods of :class:`Selector` that concern the budget."""

    _lock: Lock
    _learner: Learner

    @locked
    def plan(self, mean_cost: float | None, prices: Mapping[str, float] | None = None) -> None:
        """Limit the mean cost of the weights from the next re-solve on.

        This only sets numbers, so it is cheap: a loop with money and samples left can call it before every
        :meth:`tell`. At a re-solve, the cost of an arm is the mean of its told costs, or its price if it has
        none. If even the cheapest weights that ``at_least`` and ``at_most`` allow cost more, the selector
        uses those.

        Parameters
        ----------
        mean_cost : float or None
            Largest mean cost per sample, e.g. money left / samples left; None for no limit.
        prices : mapping of str to float, optional
            Expected costs of arms without told costs, in addition to those given before.

        Raises
        ------
        InputError
            If a number is invalid, an arm has samples but neither costs nor a price, or the policy or the
            solver cannot keep the limit. The selector is left unchanged.

        Examples
        --------
        >>> import genmix as gx
        >>> sel = gx.Selector(["a", "b"], gx.Vendi(), prices={"a": 3.0, "b": 1.0})
        >>> sel.plan(mean_cost=2.5)
        >>> sel.mean_cost
        2.5
        """
        learner = self._learner
        limits = learner.limits.planned(list(learner.known_arms), mean_cost, prices)
        limits.check(learner.policy, learner.solver)
        told = {learner.arm_of(record.label) for record in learner.arms.values() if record.told}
        for arm, is_active in learner.known_arms.items():
            is_needed = mean_cost is not None and is_active and arm in told
            if is_needed and limits.cost_of(arm, learner.spent) is None:
                raise InputError(
                    f"the cost of arm {arm!r} is unknown; pass its price in prices=, or tell its costs."
                )
        learner.limits = limits

    @locked
    def set_shares(
        self,
        at_least: Mapping[str, float] | None = None,
        at_most: Mapping[str, float] | None = None,
    ) -> None:
        """Replace the smallest and largest shares of the arms, starting with the next re-solve.

        Parameters
        ----------
        at_least, at_most : mapping of str to float, optional
            Smallest and largest share by arm. An arm that is not named has no limit.

        Raises
        ------
        InputError
            If no mixture satisfies these limits, or the policy or the solver does not support them. The
            selector is left unchanged.

        Examples
        --------
        >>> import genmix as gx
        >>> sel = gx.Selector(["a", "b"], gx.Vendi(), warm_start=1)
        >>> for ticket, row in zip(sel.ask(2), [[1.0, 0.0], [0.0, 1.0]]):
        ...     sel.tell(ticket, row)
        >>> sel.set_shares(at_most={"a": 0.25})
        >>> sel.solve()
        >>> {arm: round(weight, 3) for arm, weight in sel.mixture.items()}
        {'a': 0.25, 'b': 0.75}
        """
        learner = self._learner
        old, arms = learner.limits, list(learner.known_arms)
        limits = Limits.of(arms, at_least, at_most, old.mean_cost, old.prices)
        limits.check(learner.policy, learner.solver)
        learner.limits = limits

    @property
    def shares(self) -> dict[str, dict[str, float]]:
        """The smallest and largest shares by arm: ``at_least`` and ``at_most``.

        Examples
        --------
        >>> import genmix as gx
        >>> gx.Selector(["a", "b"], gx.Vendi(), at_least={"a": 0.2}).shares
        {'at_least': {'a': 0.2}, 'at_most': {}}
        """
        limits = self._learner.limits
        return {"at_least": dict(limits.at_least), "at_most": dict(limits.at_most)}

    @locked
    def set_price(self, arm: str, price: float) -> None:
        """Set a new price for an arm's samples; the costs of its earlier samples no longer count.

        Parameters
        ----------
        arm : str
            The arm.
        price : float
            Its expected cost per sample, until the first sample at the new price is told.

        Raises
        ------
        InputError
            If the arm is unknown, or the price is not a number of at least 0.

        Examples
        --------
        >>> import genmix as gx
        >>> sel = gx.Selector(["a", "b"], gx.Vendi(), warm_start=1)
        >>> [ticket] = sel.ask()
        >>> sel.tell(ticket, [1.0, 0.0], cost=2.0)
        >>> sel.set_price(ticket.arm, 5.0)
        >>> sel.mean_costs[ticket.arm]
        5.0
        """
        learner = self._learner
        limits = learner.limits
        learner.limits = limits.planned(list(learner.known_arms), limits.mean_cost, {arm: price})
        learner.spent.pop(arm, None)

    @locked
    def solve(self) -> None:
        """Re-solve now if there is a mixture, e.g. after a last :meth:`plan`; usually :meth:`tell` does it.

        Examples
        --------
        >>> import genmix as gx
        >>> sel = gx.Selector(["a", "b"], gx.Vendi(), warm_start=1)
        >>> for ticket, row in zip(sel.ask(2), [[1.0, 0.0], [0.0, 1.0]]):
        ...     sel.tell(ticket, row, cost=1.0 if ticket.arm == "a" else 3.0)
        >>> sel.plan(mean_cost=1.5)
        >>> sel.solve()
        >>> {arm: round(weight, 3) for arm, weight in sel.mixture.items()}
        {'a': 0.75, 'b': 0.25}
        """
        self._learner.solve()

    @locked
    def certify(self) -> None:
        """Update :attr:`gap` and :attr:`score` for all samples so far; the mixture stays as it is.

        Otherwise they are those of the last solve.

        Examples
        --------
        >>> import genmix as gx
        >>> sel = gx.Selector(["a", "b"], gx.Vendi(), warm_start=1, resolve_growth=10.0)
        >>> for ticket, row in zip(sel.ask(4), [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]]):
        ...     sel.tell(ticket, row)
        >>> sel.gap < 1e-6
        True
        >>> sel.certify()
        >>> sel.gap > 0.01
        True
        """
        self._learner.certify()

    @locked
    def set_warm_start(self, samples: int) -> None:
        """Change the number of samples per arm before the first solve, e.g. to what your money covers.

        Parameters
        ----------
        samples : int
            Samples per arm.

        Raises
        ------
        InputError
            If there is a mixture already, or the objective needs more samples.

        Examples
        --------
        >>> import genmix as gx
        >>> sel = gx.Selector(["a", "b"], gx.Vendi())
        >>> sel.set_warm_start(4)
        >>> sel.warm_start
        4
        """
        learner = self._learner
        least = learner.described.least_samples
        if learner.alpha is not None:
            raise InputError(
                "the warm start is complete; change its length before the first solve."
            )
        learner.warm_start = whole(samples, "samples", least)

    @property
    def mean_cost(self) -> float | None:
        """The limit on the mean cost of the weights; None if there is none.

        Examples
        --------
        >>> import genmix as gx
        >>> gx.Selector(["a", "b"], gx.Vendi()).mean_cost is None
        True
        """
        return self._learner.limits.mean_cost

    @property
    def mean_costs(self) -> dict[str, float | None]:
        """The mean told cost of each active arm, or its price; None if neither is known.

        Examples
        --------
        >>> import genmix as gx
        >>> gx.Selector(["a", "b"], gx.Vendi(), prices={"a": 3.0}).mean_costs
        {'a': 3.0, 'b': None}
        """
        learner = self._learner
        return {
            arm: learner.limits.cost_of(arm, learner.spent)
            for arm, is_active in learner.known_arms.items()
            if is_active
        }

    @property
    def region(self) -> Region | None:
        """The region of the weights at the last solve, in the order of :attr:`arms`; None if unlimited.

        Its only row, if any, contains the mean costs used, and its limit is the mean cost. With groups, the
        region is that of the weights of all pairs of a group and an arm, with one sum per group, and limits
        of single arms are further rows.

        Examples
        --------
        >>> import genmix as gx
        >>> gx.Selector(["a", "b"], gx.Vendi()).region is None
        True
        """
        return self._learner.region

    @property
    @locked
    def price_of_money(self) -> float | None:
        """How much loss one more unit of mean cost would save at the last solve.

        It is the multiplier of the row ``costs·α ≤ mean_cost``: 0 if the weights cost less than the limit,
        None without a limit, before the first solve, or if even the cheapest weights cost at least the limit.

        Examples
        --------
        >>> import genmix as gx
        >>> sel = gx.Selector(["a", "b"], gx.Vendi(), warm_start=1, mean_cost=1.4)
        >>> first, second = sel.ask(2)
        >>> sel.tell(first, [1.0, 0.0], cost=2.0)
        >>> sel.tell(second, [0.0, 1.0], cost=1.0)
        >>> {arm: round(weight, 3) for arm, weight in sel.targets.items()}
        {'a': 0.4, 'b': 0.6}
        >>> round(sel.price_of_money, 4)
        0.4055
        """
        return self._learner.price_of_money
