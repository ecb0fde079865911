"""Find and load models that encoders run in this process, and choose a device."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from genmix.core.optional import require
from genmix.core.text import first_sentence
from genmix.core.torch_lock import loading
from genmix.data.text_files import resolved
from genmix.encoders.base import EncoderSettings
from genmix.errors import InputError

HASHED = (".json", ".txt", ".model", ".safetensors", ".bin")
"""Suffixes of the files that determine a model's output."""
PACKAGE = "package:"
HUB_SECONDS = 10.0
"""Time to wait for a reply from the Hub."""


class ModelSettings(EncoderSettings):
    """Settings for an encoder that runs a model in this process."""

    model: str = Field(
        min_length=1,
        description="A name on the Hugging Face Hub, a folder, or package:MODULE/FOLDER for a folder in "
        "an installed package.",
    )
    revision: str | None = Field(
        None,
        description="Commit, tag or branch on the Hub; a commit makes the embeddings reproducible.",
    )
    device: str = Field("auto", description="auto (a GPU if available), cpu, cuda, cuda:1, mps …")
    dtype: Literal["float32", "float16", "bfloat16"] = Field(
        "float32", description="Precision of the model; the embeddings are float32."
    )
    batch: int = Field(32, ge=1, description="Samples per forward pass.")

    def describe(self, source: ModelSource) -> str:
        """Return the kind, model and dtype, for use in the encoder's name."""
        kind: str = getattr(self, "kind")  # noqa: B009 - subclasses define it
        return f"{kind} {source.label}" + ("" if self.dtype == "float32" else f", {self.dtype}")


@dataclass(frozen=True)
class ModelSource:
    """The location of a model: a folder, or a name on the Hub."""

    where: str
    revision: str | None
    on_hub: bool
    label: str
    """A Hub name with its revision, or a folder name with a hash of its contents."""

    def load(self, load: Callable[..., Any]) -> Any:
        """Call ``load(where, …)``, offline if the model is cached. Never run code from the model."""
        options = {"revision": self.revision, "trust_remote_code": False}
        try:
            with _no_progress_bars(), loading():
                return load(self.where, local_files_only=True, **options)
        except Exception as error:  # the libraries raise OSError, ValueError and others
            if not self.on_hub:
                raise InputError(
                    f"the model in {self.where} cannot be loaded ({first_sentence(error)}); "
                    "check that it is complete and of the right kind."
                ) from error
        self._reach_hub()
        try:
            with loading():
                return load(self.where, local_files_only=False, **options)
        except Exception as error:
            raise InputError(
                f"the model {self.label} cannot be loaded ({first_sentence(error)}); "
                "check its name and kind."
            ) from error

    def _reach_hub(self) -> None:
        """Fail within seconds if the Hub is unavailable; the libraries would retry for minutes."""
        hub = require("huggingface_hub", extra="transformers", what="a model from the hub")
        try:
            hub.model_info(self.where, revision=self.revision, timeout=HUB_SECONDS)
        except (hub.errors.RepositoryNotFoundError, hub.errors.RevisionNotFoundError) as error:
            raise InputError(
                f"the Hub has no model {self.label} that you can access; check its name and revision."
            ) from error
        except Exception as error:
            raise InputError(
                f"the model {self.label} is not on this machine, and the Hub cannot be reached "
                f"({type(error).__name__}); download it first, or set the path to its folder."
            ) from error


def find_model(settings: ModelSettings, folder: Path, owner: str = "") -> ModelSource:
    """Find the model in a folder or, if there is no such folder, by its name on the Hub.

    ``owner`` is prepended to a Hub name without an owner.
    """
    model, revision = settings.model, settings.revision
    if model.startswith(PACKAGE):
        place, label = _in_package(model), model.removeprefix(PACKAGE)
    else:
        place = resolved(model, folder)
        label = place.name
    if not place.is_dir():
        if not re.fullmatch(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", model):
            raise InputError(f"no model folder found at {place}; correct the path.")
        full = model if "/" in model or not owner else f"{owner}/{model}"
        return ModelSource(full, revision, True, full + (f"@{revision}" if revision else ""))
    if revision is not None:
        raise InputError(
            f"the model {model} is a folder, which has no revisions; remove 'revision'."
        )
    return ModelSource(str(place), None, False, f"{label} #{fingerprint(place)}")


def _in_package(model: str) -> Path:
    module, _, inside = model.removeprefix(PACKAGE).partition("/")
    spec = importlib.util.find_spec(module) if module.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        raise InputError(
            f"no package named '{module}' was found for the model {model}; install it with "
            "pip install, or correct the name."
        )
    root = Path(spec.submodule_search_locations[0]).resolve()
    place = (root / inside).resolve()
    if not place.is_dir() or not place.is_relative_to(root):
        raise InputError(
            f"the {module} package has no model folder {inside}; correct the name {model!r}."
        )
    return place


def fingerprint(folder: Path) -> str:
    """Hash the weights, configuration and vocabulary in a folder, independently of its path."""
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        if file.suffix in HASHED and file.is_file():
            digest.update(f"{file.relative_to(folder).as_posix()} {file_hash(file)}\n".encode())
    return digest.hexdigest()[:12]


def file_hash(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def pick_device(torch: Any, device: str) -> Any:
    """Return a torch device; raise InputError if torch cannot use it."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(1, device=device).device
    except Exception as error:  # torch raises many types of exceptions
        raise InputError(
            f"torch cannot use the device {device!r} on this machine; use 'device: cpu'."
        ) from error


@contextlib.contextmanager
def _no_progress_bars() -> Iterator[None]:
    """Disable the progress bars of transformers, which would overwrite the live view."""
    logs = require("transformers.utils.logging", extra="transformers", what="a model")
    shown = logs.is_progress_bar_enabled()
    logs.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logs.enable_progress_bar()
