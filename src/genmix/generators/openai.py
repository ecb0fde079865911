"""Arms that call an OpenAI-compatible endpoint (chat or completions)."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator, model_validator

from genmix.core.endpoints import NO_KEY, OPENAI_URL, checked_url, retry_after
from genmix.core.masking import remember_secret
from genmix.core.optional import require
from genmix.core.text import describe_error, quotable
from genmix.data.samples import Request, Sample, without_surrogates
from genmix.errors import InputError
from genmix.generators.base import Context, GenerationError, Generator, Outcome, Outcomes
from genmix.generators.prompts import PromptSettings, filled, prompt_for

TOKENS_PER_MESSAGE = 16
"""Upper bound on the number of tokens that a chat template adds to one message."""

TOKENS_PER_CALL = 256
"""Number of tokens allowed for a system prompt that the server adds."""

RETRYABLE = (408, 409, 425, 429)
"""HTTP status codes below 500 after which a later attempt may succeed."""

OF_PROMPTS = (400, 413, 422)
"""Status codes that can be due to a single prompt, e.g. one that is too long."""

FILTERED = ("content_filter", "content_policy_violation")
"""Error codes for text rejected by a content filter; another seed may succeed."""

PING_SECONDS = 10.0

RESERVED = frozenset({"n", "best_of", "stream", "stream_options", "messages", "model", "prompt"})
"""Request keys that ``extra_body`` must not contain, because genmix sets them."""

SETTINGS = frozenset(
    {"temperature", "top_p", "max_tokens", "max_completion_tokens", "stop", "seed"}
)
"""Request keys that are controlled by the arm's own settings."""


class Price(BaseModel):
    """Prices of input and output tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: float = Field(ge=0, allow_inf_nan=False, description="Price of 1000 prompt tokens.")
    output: float = Field(ge=0, allow_inf_nan=False, description="Price of 1000 generated tokens.")

    def cost(self, input_tokens: float, output_tokens: float) -> float:
        return (input_tokens * self.input + output_tokens * self.output) / 1000


class Example(BaseModel):
    """One example turn of a conversation that shows the model what to do."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    user: str = Field(description="The user's message.")
    assistant: str = Field(description="The model's ideal answer.")


class OpenAIArm(PromptSettings):
    """Settings for an arm that calls a model at an OpenAI-compatible endpoint."""

    model_config = ConfigDict(hide_input_in_errors=True)  # it may contain a key

    needs: ClassVar[tuple[str, ...]] = ("openai",)
    extra: ClassVar[str] = "openai"
    prompt_required: ClassVar[bool] = True

    kind: Literal["openai"]
    model: str = Field(min_length=1, description="Name of the model at the endpoint.")
    base_url: str | None = Field(
        None,
        description="URL of the endpoint, e.g. http://127.0.0.1:8080/v1; OpenAI by default.",
    )
    api_key_env: str | None = Field(
        None,
        description="NAME of the environment variable that contains the key; omit it for local servers.",
    )
    mode: Literal["chat", "completion"] = Field(
        "chat",
        description="chat for instruction-tuned models, completion for models that continue a prompt.",
    )
    system: str | None = Field(None, description="System prompt (chat only).")
    examples: tuple[Example, ...] = Field(
        (), description="Example turns before the prompt, each with user and assistant (chat only)."
    )
    temperature: float | None = Field(
        None,
        ge=0,
        allow_inf_nan=False,
        description="Sampling temperature; the server's default if not set.",
    )
    top_p: float | None = Field(
        None,
        gt=0,
        le=1,
        description="Probability mass for nucleus sampling; the server's default if not set.",
    )
    max_tokens: int | None = Field(None, ge=1, description="Maximum length of the reply in tokens.")
    max_tokens_name: Literal["max_tokens", "max_completion_tokens"] = Field(
        "max_tokens",
        description="Request key for max_tokens; newer OpenAI models need max_completion_tokens.",
    )
    stop: str | tuple[str, ...] | None = Field(
        None, description="Strings at which generation stops."
    )
    seed: bool = Field(True, description="Whether to send a seed; some servers reject it.")
    price: Price | None = Field(
        None, description="Price of 1000 input and 1000 output tokens; if not set, the arm is free."
    )
    timeout: float = Field(
        120.0, gt=0, allow_inf_nan=False, description="Seconds to wait for a reply."
    )
    extra_body: dict[str, JsonValue] = Field(
        default_factory=dict, description="Additional request keys, sent unchanged."
    )

    @field_validator("base_url")
    @classmethod
    def _check_url(cls, value: str | None) -> str | None:
        return None if value is None else checked_url(value)

    @field_validator("api_key_env")
    @classmethod
    def _check_variable(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[A-Z_][A-Z0-9_]*", value):
            raise ValueError(
                "api_key_env is not a variable name; use the NAME of an environment variable in "
                "capitals, e.g. OPENAI_API_KEY"
            )
        return value

    @field_validator("extra_body")
    @classmethod
    def _check_extra_body(cls, value: dict[str, JsonValue]) -> dict[str, JsonValue]:
        for name in value:
            if name in RESERVED:
                raise ValueError(f"extra_body contains {name!r}, which genmix sets; remove it")
            if name in SETTINGS:
                raise ValueError(f"extra_body contains {name!r}; use the arm's setting instead")
        return value

    @model_validator(mode="after")
    def _check_mode(self) -> OpenAIArm:
        if self.base_url is None and self.api_key_env is None:
            raise ValueError("no endpoint is set; set base_url, or set api_key_env to use OpenAI")
        if self.mode == "completion" and (self.system is not None or self.examples):
            raise ValueError(
                "completion mode does not support a system prompt or examples; put them in the prompt"
            )
        return self

    def build(self, context: Context) -> OpenAIGenerator:
        package = require("openai", extra="openai", what="the openai generator")
        longest = max(context.prompts, key=lambda prompt: len(prompt.encode()), default=None)
        return OpenAIGenerator(self, self.read_prompts(context), package, self._key(), longest)

    def _key(self) -> str | None:
        if self.api_key_env is None:
            return None
        key = os.environ.get(self.api_key_env, "").strip()
        if not key:
            raise InputError(
                f"the environment variable {self.api_key_env} is not set; set it to the key."
            )
        if not re.fullmatch(r"[\x21-\x7e]+", key):
            raise InputError(
                f"the environment variable {self.api_key_env} contains characters that are not "
                "allowed in a key; set it again."
            )
        remember_secret(key)
        return key


class OpenAIGenerator(Generator):
    """Sends one request per sample, concurrently within a batch. The run loop handles retries."""

    def __init__(
        self,
        settings: OpenAIArm,
        prompts: tuple[str, ...],
        package: Any,
        key: str | None,
        longest_prompt: str | None = None,
    ) -> None:
        self._settings, self._prompts, self._package = settings, prompts, package
        self._longest_prompt = longest_prompt
        self._secrets = () if key is None else (key,)
        self._client = package.AsyncOpenAI(
            api_key=key or NO_KEY,
            base_url=settings.base_url or OPENAI_URL,
            max_retries=0,
            timeout=settings.timeout,
        )
        self._where = str(self._client.base_url).rstrip("/")

    async def generate(self, requests: Sequence[Request]) -> Outcomes:
        calls = [
            asyncio.create_task(self._outcome(position, request))
            for position, request in enumerate(requests)
        ]
        try:
            for arrived in asyncio.as_completed(calls):
                yield await arrived
        finally:
            for call in calls:
                call.cancel()
            await asyncio.gather(
                *calls, return_exceptions=True
            )  # wait until they have disconnected

    async def _outcome(self, position: int, request: Request) -> tuple[int, Outcome]:
        prompt = prompt_for(request, self._prompts)
        assert prompt is not None
        try:
            raw = await self._send(prompt, request)
        except Exception as error:  # return a new error that does not reference this one
            return position, self._explain(error, request.prompt is not None)
        return position, self._read(raw.http_response, prompt)

    def _send(self, prompt: str, request: Request) -> Any:
        settings = self._settings
        stop = settings.stop
        options = {
            "model": settings.model,
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            settings.max_tokens_name: settings.max_tokens,
            "stop": list(stop) if isinstance(stop, tuple) and stop else stop or None,
            "seed": request.seed if settings.seed else None,
            "extra_body": settings.extra_body or None,
        }
        given = {name: value for name, value in options.items() if value is not None}
        if settings.mode == "completion":
            return self._client.completions.with_raw_response.create(prompt=prompt, **given)
        messages = self._messages(prompt, request.prompt)
        return self._client.chat.completions.with_raw_response.create(messages=messages, **given)

    def _messages(self, prompt: str, asked: str | None) -> list[dict[str, str]]:
        settings = self._settings
        turns = [] if settings.system is None else [("system", filled(settings.system, asked))]
        for example in settings.examples:
            turns += [("user", example.user), ("assistant", example.assistant)]
        return [{"role": role, "content": content} for role, content in [*turns, ("user", prompt)]]

    # -- replies ---------------------------------------------------------------------------------

    def _read(self, response: Any, prompt: str) -> Outcome:
        try:
            body = json.loads(response.content)
            choice = body["choices"][0]
            content = (
                choice["message"]["content"] if self._settings.mode == "chat" else choice["text"]
            )
            ending = choice.get("finish_reason")
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return GenerationError(
                f"{self._where} sent a malformed reply (status 200).", may_be_charged=True
            )
        if content is not None and not isinstance(content, str):
            return GenerationError(
                f"{self._where} sent a reply whose content is not text.", may_be_charged=True
            )
        usage = self._usage(body.get("usage"))
        text = without_surrogates(content or "").strip()
        if ending in FILTERED:
            return GenerationError(
                f"the content filter of {self._where} rejected the text.", **usage
            )
        if not text:
            why = "; increase max_tokens" if ending == "length" else ""
            return GenerationError(f"{self._where} returned an empty text{why}.", **usage)
        return Sample(text=text, prompt=prompt, **usage)

    def _usage(self, usage: Any) -> dict[str, Any]:
        """Return the cost and tokens; assume the maximum cost if the server does not report tokens."""
        names = {"input_tokens": "prompt_tokens", "output_tokens": "completion_tokens"}
        usage = usage if isinstance(usage, dict) else {}
        counts = {name: usage.get(theirs) for name, theirs in names.items()}
        if not all(type(count) is int and 0 <= count < 2**40 for count in counts.values()):
            return {"cost": self.most_cost()}
        price = self._settings.price
        return {"cost": 0.0 if price is None else price.cost(**counts), **counts}

    # -- errors ----------------------------------------------------------------------------------

    def _explain(self, error: Exception, has_prompt: bool = False) -> GenerationError:
        package, cause = self._package, type(error.__cause__).__name__
        if isinstance(error, package.APIStatusError):
            return self._explain_status(error.response, has_prompt)
        if cause in ("ConnectError", "ConnectTimeout"):
            return GenerationError(
                f"{self._where} cannot be reached; start the server or correct base_url."
            )
        if isinstance(error, package.APITimeoutError):
            return GenerationError(
                f"{self._where} did not answer within {self._settings.timeout:g} seconds.",
                may_be_charged=cause != "PoolTimeout",
            )
        if isinstance(error, package.APIConnectionError):
            return GenerationError(
                f"{self._where} closed the connection before its reply was complete ({cause}).",
                may_be_charged=True,
            )
        detail = describe_error(error, self._secrets)
        return GenerationError(f"the request to {self._where} failed ({detail}).")

    def _explain_status(self, response: Any, has_prompt: bool = False) -> GenerationError:
        """Return the error for an HTTP status of 400 or higher.

        ``has_prompt`` says whether the study has prompts, so that other requests may succeed.
        """
        status, (reason, code) = response.status_code, _reason(response)
        detail = f"{status}: {quotable(reason, self._secrets)}" if reason else f"{status}"
        variable = self._settings.api_key_env
        if status in (401, 403):
            if variable is None:
                return _final(f"{self._where} requires a key ({detail}); set api_key_env.")
            return _final(f"{self._where} rejects the key in {variable} ({detail}); correct it.")
        if code in FILTERED:
            return GenerationError(
                f"the content filter of {self._where} rejected the request ({detail}).", cost=0.0
            )
        if code == "insufficient_quota":
            return _final(f"the quota at {self._where} is exhausted ({detail}); increase it.")
        if status in RETRYABLE or status >= 500:
            wait = retry_after(response.headers.get("retry-after"))
            return GenerationError(
                f"{self._where} cannot answer right now ({detail}).", retry_after=wait
            )
        if status == 404:
            return _final(
                f"{self._where} does not know the model {self._settings.model!r}, or the URL "
                f"is wrong ({detail}); correct model or base_url."
            )
        if has_prompt and status in OF_PROMPTS:
            return GenerationError(
                f"{self._where} rejects the prompt ({detail}).", prompt_at_fault=True
            )
        return _final(
            f"{self._where} rejects the request ({detail}); correct the settings of the arm."
        )

    async def ping(self) -> None:
        """Request the list of models; fail only if the server is unreachable or rejects the key."""
        found = None
        try:
            await self._client.models.with_raw_response.list(timeout=PING_SECONDS)
        except self._package.APIStatusError as error:
            if error.status_code in (401, 403):
                found = self._explain_status(error.response)
        except self._package.APIConnectionError as error:
            if type(error.__cause__).__name__ in ("ConnectError", "ConnectTimeout"):
                found = self._explain(error)
        if found is not None:
            raise found

    def most_cost(self) -> float | None:
        settings = self._settings
        if settings.price is None:
            return 0.0
        if settings.max_tokens is None:
            return None
        longest = max(map(self._most_input_tokens, range(max(len(self._prompts), 1))))
        return settings.price.cost(longest, settings.max_tokens)

    def expected_cost(
        self, input_tokens: float | None, output_tokens: float | None
    ) -> float | None:
        price = self._settings.price
        if price is None or input_tokens is None or output_tokens is None:
            return self.most_cost()
        return price.cost(input_tokens, output_tokens)

    def _most_input_tokens(self, index: int) -> int:
        """Return an upper bound on the number of tokens in a prompt; each token is at least one byte long."""
        asked = self._longest_prompt
        prompt = prompt_for(Request(index, 0, asked), self._prompts)
        messages = self._messages(prompt or "", asked)
        size = sum(len(message["content"].encode()) for message in messages)
        return size + TOKENS_PER_MESSAGE * len(messages) + TOKENS_PER_CALL

    async def close(self) -> None:
        await self._client.close()


def _final(message: str) -> GenerationError:
    return GenerationError(message, retryable=False)


def _reason(response: Any) -> tuple[str, str | None]:
    """Return the server's error message and error code."""
    try:
        body = json.loads(response.content)
    except (ValueError, RecursionError):
        return response.text, None
    found = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(found, dict):
        return str(found), None
    detail = found.get("message") or found.get("detail") or found
    return str(detail), next(
        (found[k] for k in ("code", "type") if isinstance(found.get(k), str)), None
    )
