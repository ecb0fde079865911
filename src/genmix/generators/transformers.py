"""Arms that run a language model with Hugging Face ``transformers``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from genmix.core.optional import require, require_all
from genmix.data.samples import Request, Sample, without_surrogates
from genmix.generators.base import Context, GenerationError
from genmix.generators.local_models import (
    AbandonedError,
    LocalGenerator,
    LocalModelSettings,
    SharedModels,
    find_device,
    hide_progress_bars,
)
from genmix.generators.prompts import filled, prompt_for

WHAT = "the transformers generator"


class TransformersArm(LocalModelSettings):
    """Settings for an arm that runs a causal language model; arms with the same model share it."""

    needs: ClassVar[tuple[str, ...]] = ("torch", "transformers")
    extra: ClassVar[str] = "transformers"
    prompt_required: ClassVar[bool] = True

    kind: Literal["transformers"]
    chat: bool = Field(False, description="Apply the model's chat template to the prompt.")
    system: str | None = Field(None, description="System prompt (requires chat).")
    max_new_tokens: int = Field(128, ge=1, description="Maximum length of the text in tokens.")
    temperature: float = Field(
        1.0,
        ge=0,
        allow_inf_nan=False,
        description="Sampling temperature; 0 always chooses the most likely token.",
    )
    top_p: float = Field(
        1.0,
        gt=0,
        le=1,
        description="Nucleus sampling: draw from the most likely tokens with this total probability.",
    )
    top_k: int | None = Field(
        None, ge=1, description="Draw only from this many of the most likely tokens."
    )
    repetition_penalty: float = Field(
        1.0, gt=0, allow_inf_nan=False, description="Values above 1 discourage repetition."
    )
    stop: tuple[str, ...] = Field(
        (), description="Strings at which generation stops; they are removed."
    )
    together: bool = Field(
        False,
        description="Generate all texts in a batch together. This is faster on a GPU but, because of "
        "rounding, makes each text depend on the others in its batch.",
    )

    @model_validator(mode="after")
    def _check_system(self) -> TransformersArm:
        if self.system is not None and not self.chat:
            raise ValueError("system requires a chat model; set 'chat: true', or remove system")
        return self

    def build(self, context: Context) -> TransformersGenerator:
        require_all(("torch", "transformers"), extra="transformers", what=WHAT)
        model = self.find_model(context, "config.json")
        device = find_device(self.device, WHAT)
        key = (model, self.revision, device, self.dtype)
        return TransformersGenerator(
            self, _models.acquire(key, lambda: _load(*key)), self.read_prompts(context)
        )


@dataclass(frozen=True)
class LanguageModel:
    """A model, its tokenizer, and its end-of-text tokens."""

    model: Any
    tokenizer: Any
    ends: frozenset[int]


_models: SharedModels[LanguageModel] = SharedModels()


def _load(name: str, revision: str | None, device: str, dtype: str) -> LanguageModel:
    package = require("transformers", extra="transformers", what=WHAT)
    hide_progress_bars("transformers")
    source = {"pretrained_model_name_or_path": name, "revision": revision or "main"}
    tokenizer = package.AutoTokenizer.from_pretrained(**source, trust_remote_code=False)
    model = package.AutoModelForCausalLM.from_pretrained(
        **source, dtype=dtype, trust_remote_code=False
    )
    model.to(device).eval()
    given = model.generation_config.eos_token_id
    ends = given if isinstance(given, list) else [given, tokenizer.eos_token_id]
    return LanguageModel(model, tokenizer, frozenset(end for end in ends if end is not None))


class TransformersGenerator(LocalGenerator[LanguageModel]):
    """Samples each text with a separate random number generator, independent of other threads."""

    settings: TransformersArm

    def groups(self, requests: Sequence[Request]) -> list[Sequence[Request]]:
        return [requests] if self.settings.together else super().groups(requests)

    def make(self, model: LanguageModel, requests: Sequence[Request], stop: Event) -> list[Sample]:
        prompts = [prompt_for(request, self._prompts) or "" for request in requests]
        asked = zip(prompts, requests, strict=True)
        inputs = [self._tokenize(model.tokenizer, prompt, r.prompt) for prompt, r in asked]
        outputs = self._complete(model, inputs, [request.seed for request in requests], stop)
        if stop.is_set():
            raise AbandonedError
        return [
            Sample(
                text=self._decode(model.tokenizer, tokens),
                prompt=prompt,
                cost=self.settings.price,
                input_tokens=len(before),
                output_tokens=len(tokens),
            )
            for prompt, before, tokens in zip(prompts, inputs, outputs, strict=True)
        ]

    def _tokenize(self, tokenizer: Any, prompt: str, asked: str | None) -> list[int]:
        if not self.settings.chat:
            return list(tokenizer(prompt)["input_ids"])
        if tokenizer.chat_template is None:
            raise GenerationError(
                f"the model {self.settings.model} has no chat template; set 'chat: false'.",
                retryable=False,
            )
        system = self.settings.system
        turns = [] if system is None else [{"role": "system", "content": filled(system, asked)}]
        turns.append({"role": "user", "content": prompt})
        text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])

    def _complete(
        self, model: LanguageModel, inputs: Sequence[list[int]], seeds: Sequence[int], stop: Event
    ) -> list[list[int]]:
        """Return the tokens generated for each prompt, without the end-of-text token."""
        import torch
        from transformers import LogitsProcessorList, StoppingCriteriaList

        settings, device = self.settings, model.model.device
        longest = max(map(len, inputs))
        padding = model.tokenizer.pad_token_id
        if padding is None:
            padding = min(model.ends, default=0)
        ids = torch.tensor(
            [[padding] * (longest - len(row)) + row for row in inputs], device=device
        )
        mask = torch.tensor(
            [[0] * (longest - len(r)) + [1] * len(r) for r in inputs], device=device
        )
        with torch.inference_mode():
            out = model.model.generate(
                input_ids=ids,
                attention_mask=mask,
                do_sample=False,  # the last processor draws the token
                num_beams=1,
                max_new_tokens=settings.max_new_tokens,
                repetition_penalty=settings.repetition_penalty,
                temperature=None,
                top_p=None,
                top_k=None,
                eos_token_id=sorted(model.ends) or None,
                pad_token_id=padding,
                logits_processor=LogitsProcessorList(self._processors(seeds)),
                stopping_criteria=StoppingCriteriaList(
                    [_Stopped(stop), self._found_stop(model, longest)]
                ),
            )
        ends = model.ends | {padding} if model.ends and len(inputs) > 1 else model.ends
        return [_until(row, ends) for row in out[:, longest:].tolist()]

    def _found_stop(self, model: LanguageModel, start: int) -> Any:
        """Return a criterion that ends a row at a stop string, even if it spans several tokens."""
        import torch

        def ended(input_ids: Any, scores: Any, **_: Any) -> Any:
            rows = input_ids[:, start:].tolist() if self.settings.stop else [()] * len(input_ids)
            texts = [model.tokenizer.decode(row) if row else "" for row in rows]
            done = [any(end in text for end in self.settings.stop) for text in texts]
            return torch.tensor(done, device=input_ids.device)

        return ended

    def _processors(self, seeds: Sequence[int]) -> list[Any]:
        """Return the logits processors that draw the next token."""
        from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

        settings = self.settings
        if settings.temperature == 0:
            return []
        steps: list[Any] = [TemperatureLogitsWarper(settings.temperature)]
        if settings.top_k is not None:
            steps.append(TopKLogitsWarper(settings.top_k))
        if settings.top_p < 1:
            steps.append(TopPLogitsWarper(settings.top_p))
        return [*steps, _Draw(seeds)]

    def _decode(self, tokenizer: Any, tokens: list[int]) -> str:
        text = without_surrogates(tokenizer.decode(tokens, skip_special_tokens=True))
        cuts = [text.find(end) for end in self.settings.stop if end in text]
        return text[: min(cuts, default=len(text))].strip()


class _Draw:
    """Draws the next token of each row with the row's own generator and rules out all others."""

    def __init__(self, seeds: Sequence[int]) -> None:
        import torch

        self._generators = [torch.Generator().manual_seed(seed) for seed in seeds]

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        import torch

        cumulative = scores.to("cpu", torch.float64).softmax(-1).cumsum(-1)
        uniform = [torch.rand(1, generator=g, dtype=torch.float64) for g in self._generators]
        heights = torch.stack(uniform) * cumulative[:, -1:]
        chosen = (cumulative <= heights).sum(-1, keepdim=True).to(scores.device)
        return torch.full_like(scores, -torch.inf).scatter_(1, chosen, 0.0)


class _Stopped:
    """Ends all rows once ``stop`` is set."""

    def __init__(self, stop: Event) -> None:
        self._stop = stop

    def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        import torch

        return torch.full((len(input_ids),), self._stop.is_set(), device=input_ids.device)


def _until(tokens: list[int], ends: frozenset[int]) -> list[int]:
    return tokens[: next((i for i, token in enumerate(tokens) if token in ends), len(tokens))]
