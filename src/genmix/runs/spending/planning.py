"""Plan a cost budget: which arms it still covers, and what the next samples may cost on average."""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from genmix.core.text import listed_few
from genmix.errors import InputError
from genmix.journal.reader import JournalReader
from genmix.journal.schema import Entry
from genmix.runs.arm import ArmState
from genmix.runs.session import Session
from genmix.runs.spending.budget import ROUNDING, Limits, Money
from genmix.runs.spending.prices import Price, affordable, cheapest, is_short, reserve, worth_trying

UNAFFORDABLE = "the cost budget does not cover its warm start"
"""The reason recorded when an arm was retired because its warm start is too expensive."""

LAST_PART = 0.1
"""In this last part of a run, the limit on the mean cost stays as it is, because the money left for a few
samples varies too much to say anything about the mixture. Every draw must still be affordable."""

MARGIN = 1.1
"""An arm that was left out returns only if the other samples may cost this many times their mean cost."""

MIN_WARM_START = 3
"""A warm start is not shortened below this many samples per arm; an arm is left out instead."""


def left_out_for_now(arms: Sequence[str]) -> str:
    """Say that the budget does not cover the warm starts of these arms."""
    if len(arms) == 1:
        return f"arm {arms[0]!r} is left out for now, because {UNAFFORDABLE}"
    return (
        f"{len(arms):,} arms are left out for now, because the cost budget does not cover their warm "
        f"starts: {listed_few(arms)}"
    )


@dataclass(frozen=True)
class WarmStart:
    """A warm start that fits the budget."""

    size: int
    """Samples per arm."""
    left_out: tuple[str, ...] = ()
    """Arms that are too expensive, most expensive first."""


def fit_warm_start(
    size: int,
    least: int,
    most: Mapping[str, float | None],
    samples: int | None,
    money: float,
    supply: Mapping[str, int | None] | None = None,
) -> WarmStart:
    """Shorten a warm start to what a cost budget covers; leave expensive arms out if that is not enough.

    Every sample counts with its largest possible cost, and each sample after the warm start with that of
    the cheapest arms. Nothing changes if the money does not guarantee the number of samples anyway: then
    only the costs of the first samples show what is possible.

    Parameters
    ----------
    size, least
        The number of samples per arm, and the smallest useful one.
    most : mapping
        The largest possible cost of a sample by arm; None if it is unknown.
    samples : int or None
        The number of samples that the money must suffice for.
    money : float
        The cost budget.
    supply : mapping, optional
        The number of samples that each arm can deliver; None for any number, which is the default.
    """
    least, budget = min(least, size), money * (1 + ROUNDING)
    known = {arm: cost for arm, cost in most.items() if cost is not None}
    limits = {arm: math.inf if (n := (supply or {}).get(arm)) is None else n for arm in known}
    owed = 0 if samples is None or len(known) < len(most) else samples

    def cost_of(size: int, arms: Collection[str]) -> float:
        """Return the largest cost of a run that begins with a warm start of these arms."""
        first = {arm: min(size, limits[arm]) if arm in arms else 0 for arm in known}
        rest = ((known[arm], limits[arm] - first[arm]) for arm in known)
        paid = math.fsum(known[arm] * first[arm] for arm in known)
        return paid + cheapest(rest, owed - sum(first.values()))

    if cost_of(0, ()) > budget:
        return WarmStart(size)
    used = sorted(known, key=lambda arm: -known[arm])
    for number in range(len(used)):
        arms = used[number:]
        fitting = bisect_right(range(1, size + 1), budget, key=lambda n: cost_of(n, arms))
        if fitting >= least or number + 1 == len(most):
            return WarmStart(max(fitting, least), tuple(used[:number]))
    return WarmStart(size, tuple(used))


def left_out(journal: JournalReader, before_change: bool = False) -> set[str]:
    """Return the arms that are retired because the budget does not cover their warm start.

    With ``before_change``, return only those that were retired before the budget last changed.
    """
    found, earlier = set[str](), set[str]()
    for event in journal.events():
        kind, arm, detail = event["kind"], event["arm"], event["detail"]
        if kind == "retire" and detail.get("why") == UNAFFORDABLE:
            found.add(arm)
        elif kind == "revive":
            found.discard(arm)
            earlier.discard(arm)
        elif kind == "changed" and str(detail.get("key")).startswith("budget"):
            earlier = set(found)
    return earlier if before_change else found


def has_new_budget(events: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether the budget has changed since the mean cost was last planned."""
    found = False
    for event in events:
        if event["kind"] == "changed" and str(event["detail"].get("key")).startswith("budget"):
            found = True
        elif event["kind"] == "plan" and "mean_cost" in event["detail"]:
            found = False
    return found


@dataclass(frozen=True)
class NewPrice:
    """A price that has changed during the run."""

    mean: float
    """The expected cost of a sample at the new price."""
    told: int
    """The number of samples at the old price."""
    spent: float
    """Their cost."""


def new_prices(events: Iterable[Mapping[str, Any]]) -> dict[str, NewPrice | None]:
    """Return the arms whose price has changed; None for a change that the plan does not include yet."""
    found = dict[str, NewPrice | None]()
    for event in events:
        kind, detail = event["kind"], event["detail"]
        setting = str(detail.get("key")).removeprefix(f"arms.{event['arm']}.").split(".")[0]
        if kind == "changed" and setting in ("price", "cost"):
            found[event["arm"]] = None
        if kind == "plan":
            found |= {arm: NewPrice(*each) for arm, each in detail.get("new_prices", {}).items()}
    return found


@dataclass(frozen=True)
class Choice:
    """Which arms to draw from next."""

    arms: list[str]
    """Empty while the run must wait."""
    left_out: Sequence[str] = ()
    """Arms to retire, because the budget does not cover their warm start."""
    is_over: bool = False
    """Whether the budget covers no further sample."""


@dataclass
class Planner:
    """Plans how a running study spends its money."""

    session: Session
    arms: Mapping[str, ArmState]
    money: Money
    limits: Limits
    _lost: set[str] = field(default_factory=set)
    """Suspended arms that the plan no longer waits for."""
    left_out: set[str] = field(default_factory=set)
    """Arms that were retired because the budget did not cover their warm start."""
    _new_prices: dict[str, NewPrice] = field(default_factory=dict)
    _prices_sent: dict[str, float] = field(default_factory=dict)
    _can_plan: bool = True
    """Whether the policy can respect a mean cost."""

    def __post_init__(self) -> None:
        limited = self.arms if self.money.limit is not None else {}
        self._most = {label: arm.generator.most_cost() for label, arm in limited.items()}
        generators = {label: arm.generator for label, arm in limited.items()}
        self._trials = worth_trying(generators, self.money.limit or 0.0)

    def restore(self) -> None:
        """Bring the selector's limit in line with the study, before it is told the first sample.

        The study may have lost its limit, prices may have changed, and arms without a known cost may have
        joined.
        """
        selector = self.session.selector
        self._apply_new_prices()
        self.left_out = left_out(self.session.journal)
        if selector.mean_cost is None:
            return
        if self.money.limit is None or self.limits.goal is None:
            self.session.plan(mean_cost=None)
            return
        if None in selector.mean_costs.values():
            self._prices_sent = self._expected()
            self.session.plan(mean_cost=selector.mean_cost, prices=self._prices_sent)
        if has_new_budget(self.session.journal.events()):
            self.replan(is_new=True)

    def _apply_new_prices(self) -> None:
        session, found = self.session, dict[str, NewPrice]()
        for arm, new in new_prices(session.journal.events()).items():
            if new is not None:
                self._new_prices[arm] = new
            elif self._most.get(arm) is not None:
                tokens = session.journal.mean_tokens(arm)
                mean = self.arms[arm].generator.expected_cost(*tokens) or 0.0
                spent = self.money.spent.get(arm, 0.0)
                found[arm] = NewPrice(mean, session.selector.counts[arm], spent)
        if found:
            session.plan(new_prices={arm: [n.mean, n.told, n.spent] for arm, n in found.items()})
            self._new_prices |= found

    def choose(self, idle_since: float | None) -> Choice:
        """Return the arms to draw from next.

        An arm is a candidate if the budget will cover it once the money reserved for tickets in flight is
        released. An arm that was left out returns if the budget now covers it.

        Parameters
        ----------
        idle_since : float or None
            When the last sample was told, on the monotonic clock; None while tickets are in flight.
        """
        money, selector = self.money, self.session.selector
        if money.limit is None:
            return Choice(list(selector.arms))
        self.readmit()
        prices, left = self._prices(), max(money.limit - money.paid, 0.0)
        fitting = self._affordable(prices, left)
        is_fitting = set(fitting)
        arms = [arm for arm in selector.arms if arm in is_fitting]
        asked = Counter(selector.counts) + Counter(ticket.arm for ticket in selector.in_flight)
        if vague := self._to_try(arms, prices, left):
            return Choice([arm for arm in vague if not asked[arm]])  # the others wait for the costs
        lacking = [arm for arm in selector.arms if asked[arm] < selector.warm_start]
        if arms and lacking and not selector.is_warm and not set(lacking) & set(arms):
            self.left_out |= set(lacking if idle_since is not None else ())
            return Choice([], () if idle_since is None else lacking)
        if idle_since is None or arms or not fitting:
            return Choice(arms, is_over=idle_since is not None and not arms)
        if time.monotonic() - idle_since <= self.limits.give_up:
            return Choice([])  # a suspended arm may return, and the money must suffice for it
        self._lost = {label for label, arm in self.arms.items() if arm.suspended}
        return self.choose(idle_since)

    def _to_try(self, arms: Iterable[str], prices: Mapping[str, Price], left: float) -> list[str]:
        """Return the arms of which one sample must show what they cost, before money goes to others."""
        owed, tolerance = self._owed(), ROUNDING * (self.money.limit or 0.0)
        vague, queue = [arm for arm in arms if prices[arm].is_vague], self.session.prompts
        if not vague or (queue is not None and queue.next(vague) is None):
            return []
        return vague if owed and is_short(prices, left, owed, tolerance) else []

    def readmit(self) -> None:
        """Let an arm return if the money now covers its warm start.

        This happens if other arms cost less than they could, or have run out. The warm start is shortened
        if the money covers only a shorter one.
        """
        selector = self.session.selector
        if not selector.is_warm:
            return
        told, counts = selector.counts, self._paid_counts()
        sizes = dict[tuple[Price, int], int]()
        offers = {a: self._price(a, counts) for a in self.left_out if not self.arms[a].exhausted}
        for label in sorted(offers, key=lambda label: offers[label].most or 0.0):
            offer = offers[label], told[label]
            if offer not in sizes:  # many arms may have the same price
                sizes[offer] = self._warm_start_of(label)
            if size := sizes[offer]:
                self.left_out.remove(label)
                self.session.revive(label, why="the cost budget now covers its warm start")
                if size < selector.warm_start and not selector.is_warm:
                    self.session.plan(warm_start=size)
                return

    def _warm_start_of(self, label: str) -> int:
        """Return the longest warm start of an arm that the budget covers; 0 if it covers no useful one."""
        selector, price, others = self.session.selector, self._price(label), self._prices()
        owed = self._owed() if others else None  # None: there is no other arm to reserve money for
        least = min(max(selector.objective.least_samples, MIN_WARM_START), selector.warm_start)
        told, left = selector.counts[label], self.money.left + ROUNDING * (self.money.limit or 0.0)
        if not self.covers(label):
            return 0  # otherwise, it would be left out again at once
        if price.most is None:
            return selector.warm_start
        for more in range(max(selector.warm_start - told, 1), max(least - told, 1) - 1, -1):
            prices = others | {label: replace(price, supply=price.supply - more)}
            cost = more * price.most + reserve(prices, (owed or more) - more, True)
            if owed is not None and cost > left and reserve(prices, owed, True) > left:
                cost = more * price.most + MARGIN * reserve(prices, owed - more, False)
            if cost <= left and more <= min(price.supply, owed or more):
                return told + more
        return 0

    def covers(self, label: str) -> bool:
        """Return whether the budget covers a sample from this arm now."""
        if self.money.limit is None:
            return True
        prices = self._prices() | {label: self._price(label)}
        return label in self._affordable(prices, self.money.left)

    def reserve(self, entry: Entry) -> bool:
        """Reserve the money for a ticket; return False if the budget does not cover it."""
        if self.money.limit is None:
            return True
        most = self._price(entry.arm).most
        return self.covers(entry.arm) and self.money.reserve(entry.id, entry.arm, most)

    def replan(self, is_new: bool = False) -> None:
        """Let the next solve respect the money left per sample that is still owed.

        In the last part of a run, that quotient swings, so the limit stays as it is. With a new budget, the
        limit is always a new one, and the mixture is solved now.
        """
        owed, goal = self._owed(), self.limits.goal
        if self.money.limit is None or not owed or not goal or not self._can_plan:
            return
        if not is_new and owed < LAST_PART * goal and self.session.selector.mean_cost is not None:
            return
        arms = (t.arm for t in self.session.selector.in_flight if self.money.reserved.get(t.id))
        expected = math.fsum(self._price(arm).mean or 0.0 for arm in arms)
        mean_cost = max(self.money.limit - self.money.paid - expected, 0.0) / owed
        prices = self._expected()
        news: dict[str, Any] = {} if prices == self._prices_sent else {"prices": prices}
        news |= {"solve": True} if is_new else {}
        if not news and mean_cost == self.session.selector.mean_cost:
            return
        try:
            self.session.plan(mean_cost=mean_cost, **news)
            self._prices_sent = prices
        except InputError:  # the policy does not solve for a mixture
            self._can_plan = False

    def _expected(self) -> dict[str, float]:
        """Return the price of each arm for the selector; an arm of unknown cost counts as free at first."""
        return {label: most or 0.0 for label, most in self._most.items()}

    def _affordable(self, prices: Mapping[str, Price], money: float) -> list[str]:
        tolerance = ROUNDING * (self.money.limit or 0.0)
        return affordable(prices, money, self._owed(), tolerance)

    def _owed(self) -> int | None:
        """Return how many samples still need money; None if the study asks for no number."""
        if self.limits.goal is None:
            return None
        told = self.session.selector.total
        return max(self.limits.goal - told - len(self.money.reserved), 0)

    def _prices(self) -> dict[str, Price]:
        """Return the prices of the arms that can be drawn from, now or when their suspension ends."""
        selector = self.session.selector
        active, counts = set(selector.arms), self._paid_counts()
        return {
            label: self._price(label, counts)
            for label, arm in self.arms.items()
            if not arm.exhausted and (label in active or self._may_return(arm))
        }

    def _paid_counts(self) -> Mapping[str, int]:
        """Return the number of samples by arm whose cost is known: told, or paid and about to be told."""
        selector, reserved = self.session.selector, self.money.reserved
        found = dict(selector.counts)
        for ticket in selector.in_flight:
            if reserved.get(ticket.id) == 0.0:
                found[ticket.arm] += 1
        return found

    def _may_return(self, arm: ArmState) -> bool:
        if arm.suspended and (arm.label in self._lost or arm.retries.is_permanent):
            return False
        return arm.suspended or arm.retries.probing

    def _price(self, label: str, counts: Mapping[str, int] | None = None) -> Price:
        most, spent = self.money.bound(label, self._most[label]), self.money.spent.get(label)
        told = (self._paid_counts() if counts is None else counts)[label]
        new = self._new_prices.get(label)
        if new is not None:
            told, spent = told - new.told, (spent or 0.0) - new.spent
        available = self.arms[label].generator.available()
        supply = math.inf if available is None else available - self.session.issued(label)
        if told and most is None:
            return Price(0.0, 0.0, supply)  # its samples report no cost
        if told and spent is not None:
            return Price(most, spent / told, supply)
        is_vague = bool(most) and spent is None and new is None
        mean = most if new is None else new.mean
        return Price(most, mean, supply, is_vague, is_vague and label in self._trials)
