"""Base classes for arms that run a model in this process, and models shared between arms."""

from __future__ import annotations

import importlib
import threading
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any, ClassVar, Generic, Literal, TypeVar

from pydantic import Field, model_validator

from genmix.core.optional import require
from genmix.core.text import describe_error
from genmix.core.threads import iterate_in_thread
from genmix.core.torch_lock import computing, loading
from genmix.data.samples import Request, Sample
from genmix.errors import InputError
from genmix.generators.base import Context, GenerationError, Generator, Outcome, Outcomes
from genmix.generators.prompts import PromptSettings

REMOTE_CODE_OPTIONS = ("trust_remote_code", "custom_pipeline")

T = TypeVar("T")


class LocalModelSettings(PromptSettings):
    """Settings for an arm with a model from a folder or the Hugging Face Hub."""

    billed: ClassVar[bool] = False

    model: str = Field(
        min_length=1,
        description="A folder relative to the study, or a name on the Hugging Face Hub.",
    )
    revision: str | None = Field(None, description="Branch, tag or commit on the Hub.")
    device: str = Field(
        "auto",
        pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$",
        description="auto (a GPU if available), cpu, mps, cuda or cuda:0.",
    )
    dtype: Literal["auto", "float32", "float16", "bfloat16"] = Field(
        "auto",
        description="Precision; auto uses the precision of the saved model, or float32 for image models.",
    )
    price: float = Field(
        0.0, ge=0, allow_inf_nan=False, description="Cost of one sample, e.g. in machine time."
    )

    @model_validator(mode="before")
    @classmethod
    def _forbid_remote_code(cls, data: Any) -> Any:
        for name in REMOTE_CODE_OPTIONS:
            if isinstance(data, dict) and name in data:
                raise ValueError(
                    f"{name} is not supported, because genmix never runs code that comes with a "
                    "model; remove it"
                )
        return data

    def describe(self, context: Context) -> Generator:
        self.read_prompts(context)  # raises the error if they are missing
        return _PricedModel(self.price)

    def find_model(self, context: Context, marker: str) -> str:
        """Return the model's folder if it contains ``marker``, else its name on the Hub."""
        folder = context.path(self.model)
        if (folder / marker).is_file():
            return str(folder)
        if folder.is_dir() or Path(self.model).is_absolute() or self.model.startswith((".", "~")):
            raise InputError(
                f"there is no model in {folder} ({marker} is missing); correct the path."
            )
        return self.model


class _PricedModel(Generator):
    """What is known about a model that runs on another machine."""

    def __init__(self, price: float) -> None:
        self._price = price

    async def generate(self, requests: Sequence[Request]) -> Outcomes:
        raise GenerationError("the model runs on another machine.", retryable=False)
        yield

    def most_cost(self) -> float | None:
        return self._price


def find_device(name: str, what: str) -> str:
    torch = require("torch", extra="torch", what=what)
    has_cuda, has_mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    if name == "auto":
        return "cuda" if has_cuda else "mps" if has_mps else "cpu"
    if (name.startswith("cuda") and not has_cuda) or (name == "mps" and not has_mps):
        raise InputError(
            f"the device {name} is not available on this machine; use 'device: cpu' or auto."
        )
    return name


def hide_progress_bars(*packages: str) -> None:
    """Disable progress bars, which would overwrite the live view in the terminal."""
    for name in packages:
        with suppress(ModuleNotFoundError):
            importlib.import_module(f"{name}.utils.logging").disable_progress_bar()


# -- shared models -----------------------------------------------------------------------------------


class SharedModel(Generic[T]):
    """A model shared by several arms. Hold its lock while loading or using it."""

    def __init__(self, pool: SharedModels[T], key: Hashable, load: Callable[[], T]) -> None:
        self._pool, self._key, self._load = pool, key, load
        self.lock = threading.RLock()
        self.users = 0
        self._model: T | None = None

    def get(self) -> T:
        """Return the model, loading it on first use; if loading fails, the next call tries again."""
        with self.lock:
            if self._model is None:
                with loading():
                    self._model = self._load()
            return self._model

    def release(self) -> None:
        """Unregister a user; the model is freed when no users remain."""
        with self._pool.lock:
            self.users -= 1
            if not self.users:
                del self._pool.models[self._key]


class SharedModels(Generic[T]):
    """Models by key (folder, device, …), each loaded once for all users."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.models: dict[Hashable, SharedModel[T]] = {}

    def acquire(self, key: Hashable, load: Callable[[], T]) -> SharedModel[T]:
        """Register a user of the model; nothing is loaded yet."""
        with self.lock:
            found = self.models.setdefault(key, SharedModel(self, key, load))
            found.users += 1
            return found


# -- generating --------------------------------------------------------------------------------------


class AbandonedError(GenerationError):
    """The request was abandoned, so its sample is no longer needed."""

    def __init__(self) -> None:
        super().__init__("the request was abandoned.")


class LocalGenerator(Generator, Generic[T]):
    """Generates samples in a thread, one at a time, with a model that several arms can share.

    A sample must depend only on its request, but in a batch, rounding depends on the other samples.
    Samples are therefore not batched.
    """

    def __init__(
        self, settings: LocalModelSettings, shared: SharedModel[T], prompts: Sequence[str] = ()
    ) -> None:
        self.settings = settings
        self._shared: SharedModel[T] | None = shared
        self._prompts = prompts

    @abstractmethod
    def make(self, model: T, requests: Sequence[Request], stop: Event) -> list[Sample]:
        """Generate the samples; raise AbandonedError if ``stop`` is set."""

    def groups(self, requests: Sequence[Request]) -> list[Sequence[Request]]:
        """Split the requests into groups that the model processes together."""
        return [[request] for request in requests]

    def generate(self, requests: Sequence[Request]) -> Outcomes:
        shared = self._shared
        return iterate_in_thread(lambda stop: enumerate(self._work(shared, requests, stop)))

    def _work(
        self, shared: SharedModel[T] | None, requests: Sequence[Request], stop: Event
    ) -> Iterator[Outcome]:
        if shared is None:
            raise GenerationError("the arm is closed.", retryable=False)
        with shared.lock:
            if stop.is_set():
                return
            try:
                model = shared.get()
            except Exception as error:
                raise GenerationError(
                    f"the model {self.settings.model} cannot be loaded ({describe_error(error)}); "
                    "check its name and files.",
                    retryable=False,
                ) from error
            for group in self.groups(requests):
                yield from self._outcomes(model, group, stop)

    def _outcomes(self, model: T, requests: Sequence[Request], stop: Event) -> list[Outcome]:
        try:
            if stop.is_set():
                raise AbandonedError
            with computing():
                samples = self.make(model, requests, stop)
            return [self._checked(sample) for sample in samples]
        except GenerationError as error:
            return [error] * len(requests)
        except Exception as error:  # e.g. out of memory
            message = f"the model {self.settings.model} failed ({describe_error(error)})."
            return [GenerationError(message)] * len(requests)

    def _checked(self, sample: Sample) -> Outcome:
        if sample.image is not None or sample.text:
            return sample
        return GenerationError(
            f"the model {self.settings.model} returned an empty text.",
            cost=sample.cost,
            input_tokens=sample.input_tokens,
            output_tokens=sample.output_tokens,
        )

    def most_cost(self) -> float | None:
        return self.settings.price

    def may_be_charged(self, request: Request) -> bool:
        return False  # it is computed locally, so nobody sends a bill

    async def close(self) -> None:
        shared, self._shared = self._shared, None
        if shared is not None:
            shared.release()
