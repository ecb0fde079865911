"""The generator protocol, its error, and the settings that all kinds of arms share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from pydantic import BaseModel, ConfigDict, Field

from genmix.cluster.resources import Resources
from genmix.data.samples import Request, Sample
from genmix.data.text_files import resolved


class GenerationError(Exception):
    """A request failed. The message is one sentence.

    Parameters
    ----------
    message : str
        What went wrong and what to do.
    retryable : bool, default True
        Whether the same request may succeed later. False means that no request to this arm can
        succeed, so the arm is suspended at once. If ``retry_after`` is given as well, that is only so
        for some time, and the run does not end even if all arms are suspended.
    retry_after : float, optional
        Number of seconds to wait before the next request, if the server specified it.
    cost : float, optional
        Amount charged even though no usable sample was returned.
    input_tokens, output_tokens : int, optional
        Tokens used even though no usable sample was returned.
    may_be_charged : bool, default False
        Whether the request was sent but its answer was lost, e.g. because of a timeout. Without a
        ``cost``, the run then counts the arm's maximum cost.
    prompt_at_fault : bool, default False
        Whether only this prompt cannot be answered. A study with prompts then passes it on to another
        arm without further attempts.
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
        may_be_charged: bool = False,
        prompt_at_fault: bool = False,
    ) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.retry_after = retry_after
        self.cost = cost
        self.input_tokens, self.output_tokens = input_tokens, output_tokens
        self.may_be_charged, self.prompt_at_fault = may_be_charged, prompt_at_fault


Outcome = Sample | GenerationError
"""Result of one request: a sample or an error."""

Outcomes = AsyncGenerator[tuple[int, Outcome], None]
"""Outcomes of a batch as they arrive, each with the position of its request in the batch."""


class Generator(Protocol):
    """Generates samples. Blocking work should run in a thread, so that other arms can continue."""

    @abstractmethod
    def generate(self, requests: Sequence[Request]) -> Outcomes:
        """Yield ``(position, outcome)`` for each request as soon as its outcome is known.

        Implement this as an ``async def`` with ``yield``. Positions are indices into ``requests`` and can
        be yielded in any order. A request whose position is never yielded counts as failed. Raising a
        GenerationError fails all requests that have no outcome yet.
        """

    def may_be_charged(self, request: Request) -> bool:
        """Return whether a request that was canceled before its answer arrived may cost something."""
        return True

    async def ping(self) -> None:
        """Raise GenerationError if a free check shows that no request can succeed."""
        return

    def most_cost(self) -> float | None:
        """Return an upper bound on the cost of one sample, or None if it is unknown."""
        return None

    def expected_cost(
        self, input_tokens: float | None, output_tokens: float | None
    ) -> float | None:
        """Return the cost of a sample with these token counts, or an upper bound; None if it is unknown."""
        return self.most_cost()

    def available(self) -> int | None:
        """Return the number of available samples, or None if it is unlimited."""
        return None

    def kill(self) -> None:
        """Kill child processes at once; the run is being stopped without closing its generators."""
        return

    async def close(self) -> None:
        """Release connections, processes and models. Closing again has no effect."""
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
    """Information needed to build an arm: the study's folder and seed, and the arm's label."""

    folder: Path
    seed: int
    arm: str
    prompts: Sequence[str] = ()
    """The prompts of the study, if it has any; every request then contains one of them."""

    def path(self, name: str | Path) -> Path:
        """Resolve a path from the settings relative to the study's folder."""
        return resolved(name, self.folder)


class ArmSettings(BaseModel):
    """Settings for one arm. Each subclass has a literal ``kind``, its name in study files."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    needs: ClassVar[tuple[str, ...]] = ()
    """Optional modules that this kind imports."""
    extra: ClassVar[str] = ""
    """The genmix extra that installs these modules."""
    billed: ClassVar[bool] = True
    """Whether a request may be charged even if its answer is lost, e.g. because its worker died."""

    concurrency: int = Field(
        1, ge=1, description="Maximum number of concurrent calls to this arm, per worker on Ray."
    )
    batch: int = Field(1, ge=1, description="Maximum number of samples per call.")
    resources: Resources = Field(
        default_factory=lambda: Resources.model_validate({}),
        description="What its workers need on Ray: num_cpus, num_gpus, replicas, max_restarts.",
    )

    @abstractmethod
    def build(self, context: Context) -> Generator:
        """Build the generator; raise InputError if the settings are invalid."""

    def describe(self, context: Context) -> Generator:
        """Return a generator that is only asked for costs and supply, because another process generates.

        Override this if ``build`` needs what only the machine that generates has, e.g. a GPU.
        """
        return self.build(context)
