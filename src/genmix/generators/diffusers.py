"""Arms that run an image pipeline from Hugging Face ``diffusers``."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from threading import Event
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from genmix.core.optional import require, require_all
from genmix.data.png import as_png
from genmix.data.samples import Request, Sample
from genmix.generators.base import Context, GenerationError
from genmix.generators.local_models import (
    AbandonedError,
    LocalGenerator,
    LocalModelSettings,
    SharedModels,
    find_device,
    hide_progress_bars,
)
from genmix.generators.prompts import prompt_for

WHAT = "the diffusers generator"

PIPELINE_NAMES = {
    "steps": "num_inference_steps",
    "guidance": "guidance_scale",
    "height": "height",
    "width": "width",
    "negative_prompt": "negative_prompt",
}
"""Names of pipeline arguments, keyed by the arm's settings."""


class DiffusersArm(LocalModelSettings):
    """Settings for an arm that runs a diffusion pipeline; arms with the same model share one."""

    needs: ClassVar[tuple[str, ...]] = ("torch", "diffusers", "PIL")
    extra: ClassVar[str] = "diffusers"

    kind: Literal["diffusers"]
    steps: int | None = Field(
        None, ge=1, description="Number of denoising steps; the pipeline's default if not set."
    )
    guidance: float | None = Field(
        None,
        ge=0,
        allow_inf_nan=False,
        description="Guidance scale; the pipeline's default if not set.",
    )
    height: int | None = Field(
        None, ge=1, description="Height in pixels; the pipeline's default if not set."
    )
    width: int | None = Field(
        None, ge=1, description="Width in pixels; the pipeline's default if not set."
    )
    negative_prompt: str | None = Field(None, description="What the image should not show.")

    @model_validator(mode="after")
    def _check_negative_prompt(self) -> DiffusersArm:
        prompts = (self.prompt, self.prompts, self.prompts_file)
        if self.negative_prompt is not None and not any(prompts):
            raise ValueError("negative_prompt needs a prompt; add one, or remove negative_prompt")
        return self

    def build(self, context: Context) -> DiffusersGenerator:
        require_all(("torch", "diffusers", "PIL.Image"), extra="diffusers", what=WHAT)
        model = self.find_model(context, "model_index.json")
        device = find_device(self.device, WHAT)
        key = (model, self.revision, device, self.dtype)
        return DiffusersGenerator(
            self, _pipelines.acquire(key, lambda: _load(*key)), self.read_prompts(context)
        )


_pipelines: SharedModels[Any] = SharedModels()


def _load(name: str, revision: str | None, device: str, dtype: str) -> Any:
    import torch

    package = require("diffusers", extra="diffusers", what=WHAT)
    hide_progress_bars("diffusers", "transformers")
    pipeline = package.DiffusionPipeline.from_pretrained(
        name,
        revision=revision,
        dtype=torch.float32 if dtype == "auto" else getattr(torch, dtype),
        trust_remote_code=False,
    )
    pipeline.set_progress_bar_config(disable=True)
    return pipeline.to(device)


class DiffusersGenerator(LocalGenerator[Any]):
    """Generates one image at a time, with CPU noise so that all devices start from the same noise."""

    settings: DiffusersArm

    def make(self, model: Any, requests: Sequence[Request], stop: Event) -> list[Sample]:
        return [self._image(model, request, stop) for request in requests]

    def _image(self, pipeline: Any, request: Request, stop: Event) -> Sample:
        import torch

        prompt = prompt_for(request, self._prompts)
        made = pipeline(
            **self._arguments(pipeline, prompt, stop),
            generator=torch.Generator("cpu").manual_seed(request.seed),
            output_type="pil",
        )
        if stop.is_set():
            raise AbandonedError
        if any(getattr(made, "nsfw_content_detected", None) or ()):
            raise GenerationError(
                f"the safety checker of {self.settings.model} rejected the image.",
                cost=self.settings.price,
            )
        return Sample(image=as_png(made.images[0]), prompt=prompt, cost=self.settings.price)

    def _arguments(self, pipeline: Any, prompt: str | None, stop: Event) -> dict[str, Any]:
        """Return the arguments for the pipeline; raise an error if it does not support a setting."""
        known = inspect.signature(pipeline.__call__).parameters
        given = {name: getattr(self.settings, ours) for ours, name in PIPELINE_NAMES.items()}
        given["prompt"] = prompt
        wanted = {name: value for name, value in given.items() if value is not None}
        ours = {theirs: name for name, theirs in PIPELINE_NAMES.items()}
        unknown = next((name for name in wanted if name not in known), None)
        if unknown is not None:
            raise self._unsupported(
                pipeline, f"does not support {ours.get(unknown, unknown)!r}; remove it"
            )
        if "prompt" in known and prompt is None:
            raise self._unsupported(
                pipeline, "needs a prompt; set one of prompt, prompts and prompts_file"
            )
        if "callback_on_step_end" in known:
            wanted["callback_on_step_end"] = _Stopper(stop)
        return wanted

    def _unsupported(self, pipeline: Any, phrase: str) -> GenerationError:
        return GenerationError(f"the pipeline {type(pipeline).__name__} {phrase}.", retryable=False)


class _Stopper:
    """Callback that, after each step, stops the pipeline if the request was abandoned."""

    def __init__(self, stop: Event) -> None:
        self._stop = stop

    def __call__(self, pipeline: Any, step: int, time: Any, values: dict[str, Any]) -> Any:
        if self._stop.is_set():
            raise AbandonedError
        return values
