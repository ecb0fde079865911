"""The generator protocol, its error, and the settings that every kind of arm shares."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from pydantic import BaseModel, ConfigDict, Field

from genmix.data.samples import Request, Sample


class GenerationError(Exception):
    """A request failed. The message is one sentence.

    Parameters
    ----------
    message : str
        What went wrong and what to do.
    retryable : bool, default True
        Whether the same request may succeed later. If not, no request to this arm will.
    retry_after : float, optional
        Seconds that the server asked us to wait.
    cost : float, optional
        What was charged although no usable sample arrived.
    input_tokens, output_tokens : int, optional
        Tokens that were used although no usable sample arrived.
    """

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
        self.retry_after = retry_after
        self.cost = cost
        self.input_tokens, self.output_tokens = input_tokens, output_tokens


Outcome = Sample | GenerationError
"""What became of one request."""

Outcomes = AsyncGenerator[tuple[int, Outcome], None]
"""Outcomes of a batch as they arrive, each with the position of its request in the batch."""


class Generator(Protocol):
    """Generates samples. Blocking work belongs in a thread, so that other arms keep running."""

    @abstractmethod
    def generate(self, requests: Sequence[Request]) -> Outcomes:
        """Yield ``(position, outcome)`` for each request, as soon as its outcome is known.

        Write it as an ``async def`` with ``yield``. Positions count from 0 within ``requests`` and may
        come in any order. A request whose position is never yielded has failed; a GenerationError
        that is raised stands for all requests that have no outcome yet.
        """

    async def ping(self) -> None:
        """Raise GenerationError if a free test shows that no request would succeed."""
        return

    def most_cost(self) -> float | None:
        """Return an upper bound on the cost of one sample, or None if it is unknown."""
        return None

    def available(self) -> int | None:
        """Return how many samples there are, or None if their number is unlimited."""
        return None

    async def close(self) -> None:
        """Release connections, processes and models. Closing twice does nothing."""
        return


async def collect(generator: Generator, requests: Sequence[Request]) -> list[Outcome]:
    """Wait for a whole batch and return its outcomes in the order of the requests."""
    found: dict[int, Outcome] = {}
    async with aclosing(generator.generate(requests)) as outcomes:
        async for position, outcome in outcomes:
            found[position] = outcome
    missing = GenerationError("the generator returned no outcome for this request.")
    return [found.get(position, missing) for position in range(len(requests))]


@dataclass(frozen=True)
class Context:
    """What an arm is built with: the folder of the study, the study's seed, the arm's label."""

    folder: Path
    seed: int
    arm: str

    def path(self, name: str | Path) -> Path:
        """Resolve a path of the settings, which is relative to the study's folder."""
        return (self.folder / Path(name).expanduser()).resolve()


class ArmSettings(BaseModel):
    """Settings of one arm. A subclass has a literal ``kind``, which names it in study files."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    needs: ClassVar[tuple[str, ...]] = ()
    """Modules that this kind imports beyond the dependencies of genmix."""
    extra: ClassVar[str] = ""
    """The extra of genmix that installs them."""

    concurrency: int = Field(1, ge=1, description="Calls of this arm that may run concurrently.")
    batch: int = Field(1, ge=1, description="Maximum number of samples per call.")

    @abstractmethod
    def build(self, context: Context) -> Generator:
        """Build the generator; invalid settings raise InputError."""
