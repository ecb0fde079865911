"""Texts through an OpenAI-compatible embeddings endpoint."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator

from genmix.core.endpoints import NO_KEY, OPENAI_URL, plain_url, retry_after
from genmix.core.optional import need
from genmix.core.text import gist
from genmix.data.samples import Sample
from genmix.encoders.base import EncodingError
from genmix.encoders.rows import BatchEncoder, texts_of
from genmix.encoders.settings import EncoderSettings
from genmix.errors import InputError

WHAT = "the openai encoder"
EXTRA = "openai"
OPENAI_KEY = "OPENAI_API_KEY"
WAITS = (0.5, 1.0, 2.0)
"""Seconds between attempts, where the server names none."""
LONGEST_WAIT = 60.0
HOPELESS = {
    401: "does not accept the key",
    403: "does not allow this",
    404: "has no such model or address",
}
"""Answers that the same request will get again and again."""


class OpenAIEncoder(EncoderSettings):
    """Embeddings from OpenAI, or from any server that speaks its language."""

    needs: ClassVar[tuple[str, ...]] = ("openai",)
    extra: ClassVar[str] = EXTRA

    kind: Literal["openai"]
    model: str = Field(min_length=1, description="Name of the model, as the endpoint knows it.")
    base_url: str = Field(OPENAI_URL, description="Address of the endpoint, up to and with /v1.")
    api_key_env: str | None = Field(
        None,
        description="Name of the environment variable that holds the key; by default OPENAI_API_KEY "
        "for OpenAI itself, and no key for another base_url.",
    )
    dimensions: int | None = Field(
        None, ge=1, description="Ask for shorter vectors, where the model can."
    )
    batch: int = Field(64, ge=1, le=2048, description="Texts in one request.")
    timeout: float = Field(60.0, gt=0, description="Seconds to wait for one answer.")

    @field_validator("api_key_env")
    @classmethod
    def _is_a_name(cls, value: str | None) -> str | None:
        if value is not None and not (value.isidentifier() and value.isascii()):
            raise ValueError("give the NAME of an environment variable, never the key itself")
        return value

    @field_validator("base_url")
    @classmethod
    def _is_plain(cls, value: str) -> str:
        return plain_url(value).rstrip("/")

    def build(self, folder: Path) -> OpenAIEmbeddings:
        return OpenAIEmbeddings(self)


class OpenAIEmbeddings(BatchEncoder):
    """One request a batch; busy and failing servers are asked again a few times."""

    def __init__(self, settings: OpenAIEncoder) -> None:
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
        """See for free whether the endpoint is there and takes the key."""
        self._open()
        try:
            self._client.models.list()
        except self._library.APIConnectionError:
            raise InputError(
                f"{self.name} cannot be reached: start the server, or check base_url."
            ) from None
        except self._library.APIStatusError as error:
            if error.status_code in (401, 403):
                raise self._explained(error) from None
        except Exception:  # not every server has a list of models
            return

    def _open(self) -> None:
        if self._client is None:
            self._library = need("openai", extra=EXTRA, what=WHAT)
            self._client = self._library.OpenAI(
                api_key=self._key,
                base_url=self._settings.base_url,
                timeout=self._settings.timeout,
                max_retries=0,
            )

    def _embed(self, samples: Sequence[Sample]) -> Any:
        texts = texts_of(samples, WHAT)
        self._open()
        for wait in WAITS:
            try:
                return self._request(texts)
            except _TryAgain as busy:
                time.sleep(wait if busy.after is None else min(busy.after, LONGEST_WAIT))
        try:
            return self._request(texts)
        except _TryAgain as busy:
            raise EncodingError(f"{busy} after {len(WAITS) + 1} attempts: try later.") from None

    def _request(self, texts: list[str]) -> Any:
        wanted = self._settings.dimensions
        options = {} if wanted is None else {"dimensions": wanted}
        try:
            answer = self._client.embeddings.create(
                model=self._settings.model, input=texts, encoding_format="float", **options
            )
            return _vectors(answer, len(texts))
        except self._library.APITimeoutError:
            raise _TryAgain(f"{self.name} gave no answer in time") from None
        except self._library.APIConnectionError:
            raise _TryAgain(f"{self.name} cannot be reached") from None
        except self._library.APIStatusError as error:
            raise self._explained(error) from None  # the answer may repeat the key
        except Exception as error:  # half a body, no JSON, JSON of another shape
            raise _TryAgain(
                f"{self.name} sent a malformed answer ({type(error).__name__})"
            ) from None

    def _explained(self, error: Any) -> Exception:
        """What an answer other than 200 means for the run."""
        status = error.status_code
        if status in HOPELESS:
            return InputError(
                f"{self.name} {HOPELESS[status]} (HTTP {status}): "
                "check model, base_url and the variable that api_key_env names."
            )
        if status in (408, 409, 429) or status >= 500:
            return _TryAgain(
                f"{self.name} answered HTTP {status}",
                retry_after(error.response.headers.get("retry-after")),
            )
        said = gist(error.message, (self._key,))
        return EncodingError(f"{self.name} refused the texts (HTTP {status}, {said}): mend them.")

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


class _TryAgain(Exception):
    """A request that may succeed later."""

    def __init__(self, message: str, after: float | None = None) -> None:
        super().__init__(message)
        self.after = after


def _key(settings: OpenAIEncoder) -> str:
    name = settings.api_key_env or (OPENAI_KEY if settings.base_url == OPENAI_URL else None)
    if name is None:
        return NO_KEY
    key = os.environ.get(name, "").strip()
    if not key:
        raise InputError(
            f"{WHAT} needs a key: put it into the environment variable {name}, or name another "
            "one as api_key_env."
        )
    return key


def _vectors(answer: Any, count: int) -> Any:
    rows = [item.embedding for item in sorted(answer.data, key=lambda item: int(item.index))]
    matrix = np.asarray(rows, np.float32)
    if matrix.shape[:1] != (count,) or matrix.ndim != 2 or not matrix.size:
        raise ValueError
    return matrix
