"""What runs on the workers of a Ray cluster: one arm or one encoder per process.

A constructor only stores its arguments, so that it cannot fail. What goes wrong later is returned as a value,
because an exception could contain objects that the controller cannot read.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from genmix.core.masking import masked_error, remember_environment, remember_variables
from genmix.core.text import describe_error, first_sentence
from genmix.core.threads import in_thread
from genmix.data.samples import Request, Sample
from genmix.encoders.base import Encoder, EncoderSettings
from genmix.engines.outcomes import message_of, sanitized, validated_stream
from genmix.errors import GenmixError
from genmix.generators.base import ArmSettings, Context, GenerationError, Generator, Outcome


@dataclass(frozen=True)
class EndOfCall:
    """The error that ended a call, and the positions that cannot have been charged."""

    error: GenerationError
    unbilled: frozenset[int] = frozenset()


@dataclass(frozen=True)
class EncoderFailure:
    """Why an encoder failed, and whether no other batch would succeed."""

    message: str
    is_fatal: bool


def _set_variables(variables: Mapping[str, str]) -> None:
    os.environ.update(variables)
    remember_environment()
    remember_variables(variables)


class GeneratorWorker:
    """An arm, which is built from its settings when it is needed."""

    def __init__(
        self, settings: ArmSettings, context: Context, variables: Mapping[str, str]
    ) -> None:
        self._settings, self._context, self._variables = settings, context, variables
        self._generator: Generator | None = None
        self._building = asyncio.Lock()

    async def start(self) -> GenerationError | None:
        """Build the arm unless that has been done; return the error if it fails."""
        async with self._building:  # several calls may arrive before the arm is built
            if self._generator is None:
                return await self._build()
        return None

    async def _build(self) -> GenerationError | None:
        try:
            _set_variables(self._variables)
            self._generator = await in_thread(lambda: self._settings.build(self._context))
        except Exception as error:  # an arm may be user code
            message = str(error) if isinstance(error, GenmixError) else describe_error(error)
            return sanitized(GenerationError(message, retryable=False))
        return None

    async def generate(
        self, requests: Sequence[Request]
    ) -> AsyncIterator[tuple[int, Outcome] | EndOfCall]:
        """Yield the outcomes as they arrive, and finally the error for those that are missing."""
        waiting = set(range(len(requests)))
        if (failed := await self.start()) is not None:
            yield EndOfCall(failed, frozenset(waiting))
            return
        assert self._generator is not None
        error = GenerationError("the generator returned no outcome for this request.")
        try:
            async with aclosing(validated_stream(self._generator, requests)) as outcomes:
                async for position, outcome in outcomes:
                    waiting.discard(position)
                    yield position, outcome
        except GenerationError as raised:
            error = sanitized(raised)
        except (Exception, SystemExit) as raised:  # an arm may be user code
            error = sanitized(GenerationError(f"{type(raised).__name__}: {message_of(raised)}"))
        yield EndOfCall(error, frozenset(p for p in waiting if not self._is_billed(requests[p])))

    def _is_billed(self, request: Request) -> bool:
        with suppress(Exception):  # the hook may be user code
            return bool(self._generator.may_be_charged(request))  # type: ignore[union-attr]
        return True

    async def ping(self) -> GenerationError | None:
        """Return an error if a free check shows that no request can succeed."""
        try:
            if self._generator is not None:
                await self._generator.ping()
        except GenerationError as error:
            return sanitized(error)
        except Exception as error:  # an arm may be user code
            return sanitized(GenerationError(f"its check failed ({describe_error(error)})."))
        return None

    async def close(self) -> None:
        if self._generator is not None:
            await self._generator.close()


class EncoderWorker:
    """An encoder, which is built from its settings when it is needed."""

    def __init__(
        self, settings: EncoderSettings, folder: Path, variables: Mapping[str, str]
    ) -> None:
        self._settings, self._folder, self._variables = settings, folder, variables
        self._encoder: Encoder | None = None

    def _built(self) -> Encoder:
        if self._encoder is None:
            _set_variables(self._variables)
            self._encoder = self._settings.build(self._folder)
        return self._encoder

    def present(self) -> None:
        """Answer as soon as the worker has started."""

    def load(self) -> int | EncoderFailure | None:
        """Load the model, and return the dimension of its embeddings if it is known."""
        try:
            encoder = self._built()
            encoder.load()
            return encoder.dimension
        except Exception as error:  # an encoder may be user code
            return _failure(error)

    def encode(self, samples: Sequence[Sample]) -> Any:
        """Return the embeddings, or why there are none."""
        try:
            return self._built().encode(samples)
        except Exception as error:  # an encoder may be user code
            return _failure(error)

    def close(self) -> None:
        if self._encoder is not None:
            self._encoder.close()


def _failure(error: Exception) -> EncoderFailure:
    message = str(masked_error(error)) or type(error).__name__
    return EncoderFailure(message, isinstance(error, GenmixError))


def died(error: BaseException) -> str:
    """Return why a worker is gone, in a few words; Ray's own messages fill a screen."""
    from ray.exceptions import RayError

    if not isinstance(error, RayError):
        return describe_error(error)
    name = type(error).__name__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    detail = first_sentence(lines[-1]) if getattr(error, "actor_init_failed", False) else ""
    return f"{name}: {detail}" if detail else name
