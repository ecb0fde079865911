"""Encoders that get text embeddings from an OpenAI-compatible endpoint."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator

from genmix.core.endpoints import NO_KEY, OPENAI_URL, checked_url, retry_after
from genmix.core.masking import remember_secret
from genmix.core.optional import require
from genmix.core.text import first_sentence
from genmix.data.samples import Sample
from genmix.encoders.base import BatchEncoder, EncoderSettings, EncodingError, texts_of
from genmix.errors import InputError

WHAT = "the openai encoder"
EXTRA = "openai"
OPENAI_KEY = "OPENAI_API_KEY"
WAITS = (0.5, 1.0, 2.0)
"""Seconds between attempts if the server sends no Retry-After header."""
LONGEST_WAIT = 60.0
NOT_RETRYABLE = {
    401: "rejects the key",
    403: "denies access",
    404: "has no such model or URL",
}
"""HTTP status codes for which a retry does not help, and their meanings."""


class OpenAISettings(EncoderSettings):
    """Settings for an encoder that uses OpenAI or any compatible server."""

    needs: ClassVar[tuple[str, ...]] = ("openai",)
    extra: ClassVar[str] = EXTRA

    kind: Literal["openai"]
    model: str = Field(min_length=1, description="Name of the model at the endpoint.")
    base_url: str = Field(OPENAI_URL, description="URL of the endpoint, including /v1.")
    api_key_env: str | None = Field(
        None,
        description="NAME of the environment variable that contains the key; by default OPENAI_API_KEY "
        "for OpenAI, and no key for any other base_url.",
    )
    dimensions: int | None = Field(
        None, ge=1, description="Dimension of the embeddings, if the model supports shorter ones."
    )
    batch: int = Field(64, ge=1, le=2048, description="Texts per request.")
    timeout: float = Field(
        60.0, gt=0, allow_inf_nan=False, description="Seconds to wait for a reply."
    )

    @field_validator("api_key_env")
    @classmethod
    def _check_variable(cls, value: str | None) -> str | None:
        if value is not None and not (value.isidentifier() and value.isascii()):
            raise ValueError(
                "api_key_env is not a variable name; use the NAME of an environment variable, not the key"
            )
        return value

    @field_validator("base_url")
    @classmethod
    def _check_url(cls, value: str) -> str:
        return checked_url(value).rstrip("/")

    def time_limit(self, samples: int) -> float:
        """Return the longest time that all requests can take, including retries and waits."""
        attempts = math.ceil(samples / self.batch) * (len(WAITS) + 1)
        return attempts * (self.timeout + LONGEST_WAIT)

    @property
    def key_variable(self) -> str | None:
        """The environment variable with the key; None if the server needs none."""
        return self.api_key_env or (OPENAI_KEY if self.base_url == OPENAI_URL else None)

    def build(self, folder: Path) -> OpenAIEncoder:
        return OpenAIEncoder(self)


class OpenAIEncoder(BatchEncoder):
    """Sends one request per batch; retries a few times if the server is busy or fails."""

    def __init__(self, settings: OpenAISettings) -> None:
        self._settings = settings
        self._client: Any = None
        self._key = _key(settings)
        name = f"openai {settings.model}"
        if settings.base_url != OPENAI_URL:
            name += f" at {settings.base_url}"
        if settings.dimensions is not None:
            name += f", {settings.dimensions} dimensions"
        super().__init__(
            name,
            batch=settings.batch,
            normalise=settings.normalise,
            dimension=settings.dimensions,
        )

    def load(self) -> None:
        """Check, at no cost, that the endpoint can be reached and accepts the key."""
        self._open()
        try:
            self._client.models.list()
        except self._library.APIConnectionError:
            raise InputError(
                f"{self.name} cannot be reached; start the server or correct base_url."
            ) from None
        except self._library.APIStatusError as error:
            if error.status_code in (401, 403):
                raise self._explain(error) from None
        except Exception:  # not every server lists its models
            return

    def _open(self) -> None:
        if self._client is None:
            self._library = require("openai", extra=EXTRA, what=WHAT)
            self._client = self._library.OpenAI(
                api_key=self._key,
                base_url=self._settings.base_url,
                timeout=self._settings.timeout,
                max_retries=0,
            )

    def embed(self, samples: Sequence[Sample]) -> Any:
        texts = texts_of(samples, WHAT)
        self._open()
        for wait in WAITS:
            try:
                return self._request(texts)
            except _RetryableError as busy:
                time.sleep(wait if busy.after is None else min(busy.after, LONGEST_WAIT))
        try:
            return self._request(texts)
        except _RetryableError as busy:
            raise EncodingError(
                f"{busy} after {len(WAITS) + 1} attempts; try again later."
            ) from None

    def _request(self, texts: list[str]) -> Any:
        wanted = self._settings.dimensions
        options = {} if wanted is None else {"dimensions": wanted}
        try:
            reply = self._client.embeddings.create(
                model=self._settings.model, input=texts, encoding_format="float", **options
            )
            return _vectors(reply, len(texts))
        except self._library.APITimeoutError:
            raise _RetryableError(f"{self.name} did not answer in time") from None
        except self._library.APIConnectionError:
            raise _RetryableError(f"{self.name} cannot be reached") from None
        except self._library.APIStatusError as error:
            raise self._explain(error) from None  # the reply may contain the key
        except Exception as error:  # e.g. a truncated body or invalid JSON
            raise _RetryableError(
                f"{self.name} sent a malformed reply ({type(error).__name__})"
            ) from None

    def _explain(self, error: Any) -> Exception:
        """Return the error for an HTTP status other than 200."""
        status = error.status_code
        if status in NOT_RETRYABLE:
            return InputError(
                f"{self.name} {NOT_RETRYABLE[status]} (HTTP {status}); "
                "check model, base_url and the key."
            )
        if status in (408, 409, 429) or status >= 500:
            return _RetryableError(
                f"{self.name} replied with HTTP {status}",
                retry_after(error.response.headers.get("retry-after")),
            )
        detail = first_sentence(error.message, (self._key,))
        return EncodingError(
            f"{self.name} rejected the texts (HTTP {status}, {detail}); correct them."
        )

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


class _RetryableError(Exception):
    """A request failed but may succeed later."""

    def __init__(self, message: str, after: float | None = None) -> None:
        super().__init__(message)
        self.after = after


def _key(settings: OpenAISettings) -> str:
    name = settings.key_variable
    if name is None:
        return NO_KEY
    key = os.environ.get(name, "").strip()
    if not key:
        raise InputError(
            f"{WHAT} needs a key; put it in the environment variable {name}, or set api_key_env to "
            "the name of another variable."
        )
    remember_secret(key)
    return key


def _vectors(reply: Any, count: int) -> Any:
    rows = [item.embedding for item in sorted(reply.data, key=lambda item: int(item.index))]
    matrix = np.asarray(rows, np.float32)
    if matrix.shape[:1] != (count,) or matrix.ndim != 2 or not matrix.size:
        raise ValueError
    return matrix
