"""What may still be spent: samples, money and time, with a reservation for everything in flight."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

ROUNDING = 1e-9
"""Of a sum of floating-point costs, relative to the budget."""


@dataclass
class Money:
    """Costs paid, and upper bounds of those in flight; together they never pass the limit."""

    limit: float | None
    paid: float = 0.0
    largest: dict[str, float] = field(default_factory=dict)
    """The dearest sample of every arm so far."""
    reserved: dict[int, float] = field(default_factory=dict)
    """By ticket."""

    @classmethod
    def of(cls, limit: float | None, paid: Iterable[float], largest: Mapping[str, float]) -> Money:
        return cls(limit, math.fsum(paid), dict(largest))

    @property
    def left(self) -> float:
        if self.limit is None:
            return math.inf
        return max(self.limit - self.paid - math.fsum(self.reserved.values()), 0.0)

    def reserve(self, ticket: int, arm: str, most: float | None) -> bool:
        """Set an upper bound of a sample's cost aside, or say that there is no room for it.

        ``most`` is what the arm knows in advance; else the dearest so far stands for it, and a first
        sample of unknown cost takes all that is left, so that nothing else is started beside it.
        """
        if self.limit is None:
            return True
        bound = self.largest.get(arm) if most is None else most
        if bound is None:
            bound = self.left
            if bound <= 0 and self.limit > 0:
                return False
        if bound > self.left + ROUNDING * self.limit:
            return False
        self.reserved[ticket] = bound
        return True

    def pay(self, arm: str, cost: float | None) -> None:
        if cost is not None:
            self.paid = math.fsum((self.paid, cost))
            self.largest[arm] = max(cost, self.largest.get(arm, 0.0))

    def release(self, ticket: int) -> None:
        self.reserved.pop(ticket, None)


@dataclass
class Clock:
    """Running time of a study over all its sessions."""

    limit: float | None
    before: float = 0.0
    """Seconds of earlier sessions."""
    started: float = field(default_factory=time.monotonic)

    @property
    def elapsed(self) -> float:
        return self.before + time.monotonic() - self.started

    @property
    def left(self) -> float:
        return math.inf if self.limit is None else self.limit - self.elapsed
