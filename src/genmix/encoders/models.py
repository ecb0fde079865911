"""Where a model's files are, and what it runs on: for the encoders that load weights."""

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

from genmix.core.loading import loading
from genmix.core.optional import need
from genmix.core.text import gist
from genmix.encoders.settings import EncoderSettings
from genmix.errors import InputError

WEIGHED = (".json", ".txt", ".model", ".safetensors", ".bin")
"""Endings of the files that decide what a model computes."""
PACKAGE = "package:"
HUB_PATIENCE = 10.0
"""Seconds to wait for a sign of life of the hub."""


class ModelSettings(EncoderSettings):
    """Settings of an encoder that runs a model here."""

    model: str = Field(
        min_length=1,
        description="Name on the Hugging Face hub, a folder, or package:MODULE/FOLDER for a folder "
        "of an installed package.",
    )
    revision: str | None = Field(
        None, description="Commit, tag or branch on the hub; pin a commit to pin the vectors."
    )
    device: str = Field(
        "auto", description="auto (a GPU if there is one), cpu, cuda, cuda:1, mps …"
    )
    dtype: Literal["float32", "float16", "bfloat16"] = Field(
        "float32", description="What the model computes in; the vectors are float32."
    )
    batch: int = Field(32, ge=1, description="Samples in one pass of the model.")

    def describe(self, source: Source) -> str:
        """Kind, model and dtype, for the encoder's name."""
        kind: str = getattr(self, "kind")  # noqa: B009 - every subclass has its own
        return f"{kind} {source.label}" + ("" if self.dtype == "float32" else f", {self.dtype}")


@dataclass(frozen=True)
class Source:
    """A model's folder, or its name on the hub."""

    where: str
    revision: str | None
    on_hub: bool
    label: str
    """A hub name with its revision, or a folder's name with a hash of what is in it."""

    def load(self, load: Callable[..., Any]) -> Any:
        """``load(where, …)``, from this machine if the model is here; its own code is never run."""
        options = {"revision": self.revision, "trust_remote_code": False}
        try:
            with _no_bars(), loading():
                return load(self.where, local_files_only=True, **options)
        except Exception as error:  # the libraries raise OSError, ValueError and others
            if not self.on_hub:
                raise InputError(
                    f"the model in {self.where} could not be loaded ({gist(error)}): "
                    "check that it is whole and of the right kind."
                ) from error
        self._reach_hub()
        try:
            with loading():
                return load(self.where, local_files_only=False, **options)
        except Exception as error:
            raise InputError(
                f"the model {self.label} could not be loaded ({gist(error)}): "
                "check its name and kind."
            ) from error

    def _reach_hub(self) -> None:
        """Raise in seconds if the model cannot come from the hub; the libraries would try for minutes."""
        hub = need("huggingface_hub", extra="transformers", what="a model of the hub")
        try:
            hub.model_info(self.where, revision=self.revision, timeout=HUB_PATIENCE)
        except (hub.errors.RepositoryNotFoundError, hub.errors.RevisionNotFoundError) as error:
            raise InputError(
                f"the hub has no model {self.label} that you may read: check the name and revision."
            ) from error
        except Exception as error:
            raise InputError(
                f"the model {self.label} is not on this machine and the hub cannot be reached "
                f"({type(error).__name__}): download it first, or name a folder that holds it."
            ) from error


def find_model(settings: ModelSettings, folder: Path, owner: str = "") -> Source:
    """A folder (of an installed package, or by path) before a name on the hub.

    ``owner`` is whose a hub name without one is.
    """
    model, revision = settings.model, settings.revision
    if model.startswith(PACKAGE):
        place, label = _in_package(model), model.removeprefix(PACKAGE)
    else:
        place = (folder / Path(model).expanduser()).resolve()
        label = place.name
    if not place.is_dir():
        if not re.fullmatch(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", model):
            raise InputError(f"there is no model folder {place}: check the path.")
        full = model if "/" in model or not owner else f"{owner}/{model}"
        return Source(full, revision, True, full + (f"@{revision}" if revision else ""))
    if revision is not None:
        raise InputError(
            f"the model {model} is a folder and has no revision {revision}: leave 'revision' out."
        )
    return Source(str(place), None, False, f"{label} #{fingerprint(place)}")


def _in_package(model: str) -> Path:
    module, _, inside = model.removeprefix(PACKAGE).partition("/")
    spec = importlib.util.find_spec(module) if module.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        raise InputError(f"the model {model}: no package {module} is installed: pip install it.")
    root = Path(spec.submodule_search_locations[0]).resolve()
    place = (root / inside).resolve()
    if not place.is_dir() or not place.is_relative_to(root):
        raise InputError(f"the model {model}: the package has no folder {inside}: check the name.")
    return place


def fingerprint(folder: Path) -> str:
    """A hash of the weights, settings and vocabularies in a folder, whatever its name and place."""
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        if file.suffix in WEIGHED and file.is_file():
            digest.update(f"{file.relative_to(folder).as_posix()} {file_hash(file)}\n".encode())
    return digest.hexdigest()[:12]


def file_hash(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def pick_device(torch: Any, device: str) -> Any:
    """A torch device that is there."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(1, device=device).device
    except Exception as error:  # torch raises what it likes
        raise InputError(
            f"torch cannot use the device {device!r} here: use 'device: cpu'."
        ) from error


@contextlib.contextmanager
def _no_bars() -> Iterator[None]:
    """Without the bars that transformers draws over whatever else is on the terminal."""
    logs = need("transformers.utils.logging", extra="transformers", what="a model")
    shown = logs.is_progress_bar_enabled()
    logs.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logs.enable_progress_bar()
