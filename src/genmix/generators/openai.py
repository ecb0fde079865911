"""Any OpenAI-compatible endpoint as an arm: chat or completions, through the ``openai`` package."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator, model_validator

from genmix.core.endpoints import NO_KEY, OPENAI_URL, plain_url, retry_after
from genmix.core.optional import need
from genmix.core.text import fault, quotable
from genmix.data.conversion import storable
from genmix.data.samples import Request, Sample
from genmix.errors import InputError
from genmix.generators.base import GenerationError
from genmix.generators.prompts import PromptSettings, prompt_for
from genmix.generators.settings import Context

TOKENS_PER_MESSAGE = 16
"""More than any chat template spends around one message."""

TOKENS_PER_CALL = 256
"""Room for a system prompt that a server adds on its own."""

TRY_AGAIN = (408, 409, 425, 429)
"""Statuses below 500 that may pass."""

FILTERED = ("content_filter", "content_policy_violation")
"""What servers call a text that their filter refused; another seed may do better."""

PING_SECONDS = 10.0

MAY_NOT = frozenset({"n", "best_of", "stream", "stream_options", "messages", "model", "prompt"})
"""Keys of a request that would change what a sample is or costs."""

HAVE_SETTINGS = frozenset(
    {"temperature", "top_p", "max_tokens", "max_completion_tokens", "stop", "seed"}
)


class Price(BaseModel):
    """Money for a thousand tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input: float = Field(ge=0, allow_inf_nan=False, description="For 1000 tokens of the prompt.")
    output: float = Field(ge=0, allow_inf_nan=False, description="For 1000 generated tokens.")

    def of(self, input_tokens: int, output_tokens: int) -> float:
        return (input_tokens * self.input + output_tokens * self.output) / 1000


class Example(BaseModel):
    """One turn of a conversation that shows the model what is wanted."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    user: str = Field(description="What the user says.")
    assistant: str = Field(description="What the model should have answered.")


class OpenAIArm(PromptSettings):
    """A model behind an OpenAI-compatible endpoint."""

    model_config = ConfigDict(hide_input_in_errors=True)  # a key may stand where its name should

    needs: ClassVar[tuple[str, ...]] = ("openai",)
    extra: ClassVar[str] = "openai"
    prompt_required: ClassVar[bool] = True

    kind: Literal["openai"]
    model: str = Field(min_length=1, description="The model's name at the endpoint.")
    base_url: str | None = Field(
        None, description="The endpoint, such as http://127.0.0.1:8080/v1; by default OpenAI's own."
    )
    api_key_env: str | None = Field(
        None,
        description="NAME of the environment variable that holds the key; none for local servers.",
    )
    mode: Literal["chat", "completion"] = Field(
        "chat", description="chat for instructed models, completion to continue the prompt."
    )
    system: str | None = Field(None, description="The system prompt (chat).")
    examples: tuple[Example, ...] = Field(
        (), description="Turns shown before the prompt, each with user and assistant (chat)."
    )
    temperature: float | None = Field(
        None, ge=0, allow_inf_nan=False, description="By default the server's."
    )
    top_p: float | None = Field(None, gt=0, le=1, description="By default the server's.")
    max_tokens: int | None = Field(None, ge=1, description="The longest reply, in tokens.")
    max_tokens_name: Literal["max_tokens", "max_completion_tokens"] = Field(
        "max_tokens", description="What the server calls it; OpenAI's newer models want the second."
    )
    stop: str | tuple[str, ...] | None = Field(None, description="Where to end the text.")
    seed: bool = Field(True, description="Whether to send a seed; some servers refuse it.")
    price: Price | None = Field(
        None, description="Money for 1000 input and 1000 output tokens; without it the arm is free."
    )
    timeout: float = Field(
        120.0, gt=0, allow_inf_nan=False, description="Seconds to wait for the server."
    )
    extra_body: dict[str, JsonValue] = Field(
        default_factory=dict, description="Further keys of the request, sent as they are."
    )

    @field_validator("base_url")
    @classmethod
    def _plain_url(cls, value: str | None) -> str | None:
        return None if value is None else plain_url(value)

    @field_validator("api_key_env")
    @classmethod
    def _is_a_name(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[A-Z_][A-Z0-9_]*", value):
            raise ValueError(
                "api_key_env is no name: give the NAME of an environment variable, in capitals, "
                "such as OPENAI_API_KEY"
            )
        return value

    @field_validator("extra_body")
    @classmethod
    def _harmless(cls, value: dict[str, JsonValue]) -> dict[str, JsonValue]:
        for name in value:
            if name in MAY_NOT:
                raise ValueError(
                    f"extra_body holds {name!r}, which genmix sets itself: leave it out"
                )
            if name in HAVE_SETTINGS:
                raise ValueError(f"extra_body holds {name!r}: write it as a setting of the arm")
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> OpenAIArm:
        if self.base_url is None and self.api_key_env is None:
            raise ValueError("there is no endpoint: give base_url, or api_key_env for OpenAI's own")
        if self.mode == "completion" and (self.system is not None or self.examples):
            raise ValueError(
                "a completion has no system prompt and no examples: write them into the prompt"
            )
        return self

    def build(self, context: Context) -> OpenAIGenerator:
        package = need("openai", extra="openai", what="the openai generator")
        return OpenAIGenerator(self, self.read_prompts(context), package, self._key())

    def _key(self) -> str | None:
        if self.api_key_env is None:
            return None
        key = os.environ.get(self.api_key_env, "").strip()
        if not key:
            raise InputError(
                f"the environment variable {self.api_key_env} is not set: put the key into it."
            )
        if not re.fullmatch(r"[\x21-\x7e]+", key):
            raise InputError(
                f"the environment variable {self.api_key_env} holds characters that no key has: "
                "set it anew."
            )
        return key


class OpenAIGenerator:
    """Sends one request a sample, those of a batch at the same time; retries are the caller's."""

    def __init__(
        self, settings: OpenAIArm, prompts: tuple[str, ...], package: Any, key: str | None
    ) -> None:
        self._settings, self._prompts, self._package = settings, prompts, package
        self._secrets = () if key is None else (key,)
        self._client = package.AsyncOpenAI(
            api_key=key or NO_KEY,
            base_url=settings.base_url or OPENAI_URL,
            max_retries=0,
            timeout=settings.timeout,
        )
        self._where = str(self._client.base_url).rstrip("/")

    async def generate(self, requests: Sequence[Request]) -> list[Sample | GenerationError]:
        return list(await asyncio.gather(*(self._one(request) for request in requests)))

    async def _one(self, request: Request) -> Sample | GenerationError:
        prompt = prompt_for(request.index, self._prompts)
        assert prompt is not None
        try:
            raw = await self._send(prompt, request.seed)
        except Exception as error:
            return self._explained(error)  # made here, not raised: it carries no reference to it
        return self._read(raw.http_response, prompt)

    def _send(self, prompt: str, seed: int) -> Any:
        settings = self._settings
        stop = settings.stop
        wanted = {
            "model": settings.model,
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            settings.max_tokens_name: settings.max_tokens,
            "stop": list(stop) if isinstance(stop, tuple) and stop else stop or None,
            "seed": seed if settings.seed else None,
            "extra_body": settings.extra_body or None,
        }
        given = {name: value for name, value in wanted.items() if value is not None}
        if settings.mode == "completion":
            return self._client.completions.with_raw_response.create(prompt=prompt, **given)
        messages = self._messages(prompt)
        return self._client.chat.completions.with_raw_response.create(messages=messages, **given)

    def _messages(self, prompt: str) -> list[dict[str, str]]:
        settings = self._settings
        turns = [] if settings.system is None else [("system", settings.system)]
        for example in settings.examples:
            turns += [("user", example.user), ("assistant", example.assistant)]
        return [{"role": role, "content": said} for role, said in [*turns, ("user", prompt)]]

    # -- replies ---------------------------------------------------------------------------------

    def _read(self, response: Any, prompt: str) -> Sample | GenerationError:
        try:
            body = json.loads(response.content)
            choice = body["choices"][0]
            said = choice["message"]["content"] if self._settings.mode == "chat" else choice["text"]
            ending = choice.get("finish_reason")
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return GenerationError(f"{self._where} gave a malformed reply (status 200).")
        if said is not None and not isinstance(said, str):
            return GenerationError(f"{self._where} gave a reply whose content is no text.")
        paid = self._paid(body.get("usage"))
        text = storable(said or "").strip()
        if ending in FILTERED:
            return GenerationError(f"the filter of {self._where} refused the text.", **paid)
        if not text:
            why = "; raise max_tokens" if ending == "length" else ""
            return GenerationError(f"{self._where} gave an empty text{why}.", **paid)
        return Sample(text=text, prompt=prompt, **paid)

    def _paid(self, usage: Any) -> dict[str, Any]:
        """Cost and tokens; a server that does not count is taken to have charged the most it may."""
        names = {"input_tokens": "prompt_tokens", "output_tokens": "completion_tokens"}
        usage = usage if isinstance(usage, dict) else {}
        counts = {name: usage.get(theirs) for name, theirs in names.items()}
        if not all(type(count) is int and 0 <= count < 2**40 for count in counts.values()):
            return {"cost": self.most_cost()}
        price = self._settings.price
        return {"cost": 0.0 if price is None else price.of(**counts), **counts}

    # -- errors ----------------------------------------------------------------------------------

    def _explained(self, error: Exception) -> GenerationError:
        package, cause = self._package, type(error.__cause__).__name__
        if isinstance(error, package.APIStatusError):
            return self._refused(error.response)
        if cause in ("ConnectError", "ConnectTimeout"):
            return GenerationError(
                f"{self._where} cannot be reached: start the server or correct base_url."
            )
        if isinstance(error, package.APITimeoutError):
            return GenerationError(
                f"{self._where} gave no answer within {self._settings.timeout:g} seconds."
            )
        if isinstance(error, package.APIConnectionError):
            return GenerationError(f"{self._where} broke off its answer ({cause}).")
        said = fault(error, self._secrets)
        return GenerationError(f"the request to {self._where} failed ({said}).")

    def _refused(self, response: Any) -> GenerationError:
        """The error for a status of 400 or more."""
        status, (reason, code) = response.status_code, _reason(response)
        said = f"{status}: {quotable(reason, self._secrets)}" if reason else f"{status}"
        variable = self._settings.api_key_env
        if status in (401, 403):
            if variable is None:
                return _final(f"{self._where} wants a key ({said}): set api_key_env.")
            return _final(
                f"{self._where} does not accept the key in {variable} ({said}): correct it."
            )
        if code in FILTERED:
            return GenerationError(f"the filter of {self._where} refused it ({said}).", cost=0.0)
        if code == "insufficient_quota":
            return _final(f"the credit at {self._where} is used up ({said}): buy more.")
        if status in TRY_AGAIN or status >= 500:
            wait = retry_after(response.headers.get("retry-after"))
            return GenerationError(f"{self._where} is in trouble ({said}).", retry_after=wait)
        if status == 404:
            return _final(
                f"{self._where} does not know the model {self._settings.model!r}, or the address "
                f"is wrong ({said}): correct model or base_url."
            )
        return _final(f"{self._where} refuses the request ({said}): correct the arm's settings.")

    async def ping(self) -> None:
        """Ask for the list of models; only an unreachable server or a refused key is a bad sign."""
        found = None
        try:
            await self._client.models.with_raw_response.list(timeout=PING_SECONDS)
        except self._package.APIStatusError as error:
            if error.status_code in (401, 403):
                found = self._refused(error.response)
        except self._package.APIConnectionError as error:
            if type(error.__cause__).__name__ in ("ConnectError", "ConnectTimeout"):
                found = self._explained(error)
        if found is not None:
            raise found

    def most_cost(self) -> float | None:
        settings = self._settings
        if settings.price is None:
            return 0.0
        if settings.max_tokens is None:
            return None
        longest = max(self._most_input(prompt) for prompt in self._prompts)
        return settings.price.of(longest, settings.max_tokens)

    def _most_input(self, prompt: str) -> int:
        """An upper bound of a prompt's tokens: no token is shorter than a byte."""
        messages = self._messages(prompt)
        size = sum(len(message["content"].encode()) for message in messages)
        return size + TOKENS_PER_MESSAGE * len(messages) + TOKENS_PER_CALL

    def available(self) -> int | None:
        return None

    async def close(self) -> None:
        await self._client.close()


def _final(message: str) -> GenerationError:
    return GenerationError(message, retryable=False)


def _reason(response: Any) -> tuple[str, str | None]:
    """What the server says is wrong, and its short code for it."""
    try:
        body = json.loads(response.content)
    except (ValueError, RecursionError):
        return response.text, None
    found = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(found, dict):
        return str(found), None
    said = found.get("message") or found.get("detail") or found
    return str(said), next(
        (found[k] for k in ("code", "type") if isinstance(found.get(k), str)), None
    )
