"""What a generator is: anything that makes samples on request, a batch at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from genmix.data.samples import Request, Sample


class GenerationError(Exception):
    """A sample that did not come; the message is one sentence."""

    def __init__(
        self,
        message: str,
        *,
        retryable: bool = True,
        retry_after: float | None = None,
        cost: float | None = None,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
    ) -> None:
        super().__init__(message)
        self.retryable = retryable
        """Whether the same request may succeed later; if not, neither will the arm's others."""
        self.retry_after = retry_after
        """Seconds that the other side asked us to wait."""
        self.cost = cost
        """What was paid for nothing."""
        self.input_tokens, self.output_tokens = input_tokens, output_tokens


class Generator(Protocol):
    """Makes samples. Blocking work goes to a thread, so that other arms go on meanwhile."""

    async def generate(self, requests: Sequence[Request]) -> list[Sample | GenerationError]:
        """One outcome a request, in order. A GenerationError raised stands for all of them."""
        ...

    async def ping(self) -> None:
        """Raise GenerationError if it can be seen for free that no sample would come."""
        ...

    def most_cost(self) -> float | None:
        """An upper bound of one sample's cost, if there is one in advance."""
        ...

    def available(self) -> int | None:
        """How many samples there are; None if there is no end of them."""
        ...

    async def close(self) -> None:
        """Let go of connections, processes and models."""
        ...
