"""What the arms with a model in this process have in common."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any, Generic, Literal, TypeVar

from pydantic import Field, model_validator

from genmix.core.loading import computing
from genmix.core.optional import need
from genmix.core.text import fault
from genmix.core.threads import in_thread
from genmix.data.samples import Request, Sample
from genmix.errors import InputError
from genmix.generators.base import GenerationError
from genmix.generators.prompts import PromptSettings
from genmix.generators.settings import Context
from genmix.generators.shelf import Shared

CODE_FROM_ELSEWHERE = ("trust_remote_code", "custom_pipeline")

T = TypeVar("T")


class LocalModelSettings(PromptSettings):
    """A model from a folder or from the Hugging Face hub."""

    model: str = Field(
        min_length=1,
        description="A folder, relative to the study, or a name at the Hugging Face hub.",
    )
    revision: str | None = Field(None, description="Branch, tag or commit at the hub.")
    device: str = Field(
        "auto",
        pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$",
        description="auto (a GPU if there is one), cpu, mps, cuda or cuda:0.",
    )
    dtype: Literal["auto", "float32", "float16", "bfloat16"] = Field(
        "auto", description="Precision; auto: as the model was saved, float32 for image pipelines."
    )
    price: float = Field(
        0.0, ge=0, allow_inf_nan=False, description="What a sample costs, in machine time say."
    )

    @model_validator(mode="before")
    @classmethod
    def _no_foreign_code(cls, data: Any) -> Any:
        for name in CODE_FROM_ELSEWHERE:
            if isinstance(data, dict) and name in data:
                raise ValueError(
                    f"{name} is not offered: genmix runs no code that comes with a model; leave it out"
                )
        return data

    def find_model(self, context: Context, marker: str) -> str:
        """The folder of the model if there is one, else its name at the hub."""
        folder = context.path(self.model)
        if (folder / marker).is_file():
            return str(folder)
        if folder.is_dir() or Path(self.model).is_absolute() or self.model.startswith((".", "~")):
            raise InputError(f"there is no model in {folder} (it has no {marker}): check the path.")
        return self.model


def find_device(name: str, what: str) -> str:
    """The device to use, which must be there."""
    torch = need("torch", extra="torch", what=what)
    has_cuda, has_mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    if name == "auto":
        return "cuda" if has_cuda else "mps" if has_mps else "cpu"
    if (name.startswith("cuda") and not has_cuda) or (name == "mps" and not has_mps):
        raise InputError(f"there is no device {name} here: set 'device: cpu', or auto.")
    return name


def hide_progress(*packages: str) -> None:
    """No bars while they load, which would write into the terminal's live view."""
    for name in packages:
        with suppress(ModuleNotFoundError):
            importlib.import_module(f"{name}.utils.logging").disable_progress_bar()


class LocalGenerator(ABC, Generic[T]):
    """Makes samples one after the other in a thread, with a model that arms may share.

    One at a time, because rounding depends on what else is in a batch of a model, and a sample must
    depend on its request alone.
    """

    def __init__(
        self, settings: LocalModelSettings, shared: Shared[T], let_go: Callable[[Shared[T]], None]
    ) -> None:
        self.settings = settings
        self._shared: Shared[T] | None = shared
        self._let_go = let_go

    @abstractmethod
    def make(self, model: T, requests: Sequence[Request], stop: Event) -> list[Sample]:
        """Samples for some requests; Abandoned is raised soon after ``stop`` is set."""

    def groups(self, requests: Sequence[Request]) -> list[Sequence[Request]]:
        """Which requests go through the model together."""
        return [[request] for request in requests]

    async def generate(self, requests: Sequence[Request]) -> list[Sample | GenerationError]:
        shared = self._shared
        if shared is None:
            raise GenerationError("the arm is closed.", retryable=False)
        return await in_thread(lambda stop: self._work(shared, requests, stop))

    def _work(
        self, shared: Shared[T], requests: Sequence[Request], stop: Event
    ) -> list[Sample | GenerationError]:
        with shared.lock:
            if stop.is_set():
                return []
            try:
                model = shared.get()
            except Exception as error:
                raise GenerationError(
                    f"the model {self.settings.model} cannot be loaded ({fault(error)}): check it.",
                    retryable=False,
                ) from error
            found: list[Sample | GenerationError] = []
            for group in self.groups(requests):
                found += self._outcomes(model, group, stop)
            return found

    def _outcomes(
        self, model: T, requests: Sequence[Request], stop: Event
    ) -> list[Sample | GenerationError]:
        try:
            if stop.is_set():
                raise AbandonedError("nobody waits for it any more.")
            with computing():
                samples = self.make(model, requests, stop)
            return [self._worth(sample) for sample in samples]
        except GenerationError as error:
            return [error] * len(requests)
        except Exception as error:  # out of memory, say
            message = f"the model {self.settings.model} failed ({fault(error)})."
            return [GenerationError(message)] * len(requests)

    def _worth(self, sample: Sample) -> Sample | GenerationError:
        if sample.image is not None or sample.text:
            return sample
        return GenerationError(
            f"the model {self.settings.model} gave an empty text.",
            cost=sample.cost,
            input_tokens=sample.input_tokens,
            output_tokens=sample.output_tokens,
        )

    async def ping(self) -> None:
        """Loading a model is not for free."""

    def most_cost(self) -> float | None:
        return self.settings.price

    def available(self) -> int | None:
        return None

    async def close(self) -> None:
        shared, self._shared = self._shared, None
        if shared is not None:
            self._let_go(shared)


class AbandonedError(GenerationError):
    """The sample is not wanted any more."""
