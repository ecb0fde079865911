"""A function of your own as an encoder."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import numpy as np
from pydantic import Field, JsonValue

from genmix.encoders.base import EncodingError
from genmix.encoders.rows import BatchEncoder, gist, modality_of
from genmix.encoders.settings import EncoderSettings
from genmix.errors import InputError
from genmix.generators.base import Sample


class CallableEncoder(EncoderSettings):
    """``function`` is called with a list of texts (str) or images (bytes) and returns ``(n, d)``."""

    kind: Literal["callable"]
    function: str = Field(
        pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$",
        description="module:function; the module lies beside the study, or is installed.",
    )
    arguments: dict[str, JsonValue] = Field(
        default_factory=dict, description="Keyword arguments for every call."
    )
    batch: int = Field(32, ge=1, description="Samples in one call at most.")
    dimension: int | None = Field(None, ge=1, description="Of the vectors, if you know it.")

    def build(self, folder: Path) -> CallableRows:
        return CallableRows(self, folder)


class CallableRows(BatchEncoder):
    """Calls the function; its name carries a hash of the source, because embeddings are cached by name."""

    def __init__(self, settings: CallableEncoder, folder: Path) -> None:
        self._what = settings.function
        module, self._function_name = settings.function.split(":")
        self._module, self._folder = module, folder
        self._source = _find(module, folder, settings.function)
        self._arguments = settings.arguments
        self._function: Callable[..., Any] | None = None
        super().__init__(
            self._describe(),
            batch=settings.batch,
            normalise=settings.normalise,
            dimension=settings.dimension,
        )

    def _describe(self) -> str:
        digest = hashlib.sha256(self._source.read_bytes()).hexdigest()[:12]
        written = json.dumps(self._arguments, sort_keys=True, ensure_ascii=False)
        return f"callable {self._what} #{digest}{' ' + written if self._arguments else ''}"

    def load(self) -> None:
        if self._function is not None:
            return
        module = _import(self._module, self._source, self._folder, self._what)
        found = getattr(module, self._function_name, None)
        if not callable(found):
            raise InputError(
                f"the encoder {self._what}: {self._source.name} has no function "
                f"{self._function_name}: check the name."
            )
        self._function = found

    def _embed(self, samples: Sequence[Sample]) -> Any:
        self.load()
        assert self._function is not None
        contents = [_content(sample, self._what) for sample in samples]
        try:
            rows = np.asarray(self._function(contents, **self._arguments))
        except Exception as error:
            raise EncodingError(
                f"the encoder {self._what} failed ({type(error).__name__}: {gist(error)}): mend it."
            ) from error
        if rows.ndim != 2 or len(rows) != len(samples) or rows.dtype.kind not in "fiub":
            raise EncodingError(
                f"the encoder {self._what} returned shape {rows.shape} and dtype {rows.dtype} for "
                f"{len(samples)} samples: return real numbers ({len(samples)}, d)."
            )
        return rows


def _content(sample: Sample, what: str) -> str | bytes:
    content = sample.text if sample.text is not None else sample.image
    if content is None:
        raise EncodingError(
            f"the encoder {what} embeds texts and images and was given a {modality_of(sample)}: "
            "use the precomputed encoder."
        )
    return content


def _find(module: str, folder: Path, what: str) -> Path:
    """The module's file: beside the study, else where it is installed. Nothing of it is run."""
    beside = _beside(module, folder)
    if beside.is_file():
        return beside
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):  # a parent that is not there, a module without a spec
        spec = None
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        raise InputError(
            f"the encoder {what}: there is no module {module} beside the study or installed: "
            "check the name."
        )
    return Path(spec.origin)


def _beside(module: str, folder: Path) -> Path:
    return folder.resolve().joinpath(*module.split(".")).with_suffix(".py")


def _import(module: str, source: Path, folder: Path, what: str) -> ModuleType:
    try:
        if source == _beside(module, folder):
            return _run_file(module, source, folder)
        return importlib.import_module(module)
    except Exception as error:  # it is other people's code
        raise InputError(
            f"the encoder {what}: {source.name} could not be imported "
            f"({type(error).__name__}: {gist(error)}): mend it."
        ) from error


def _run_file(module: str, source: Path, folder: Path) -> ModuleType:
    """The file as a module of its own, so that it neither hides nor is hidden by an installed one."""
    if str(folder.resolve()) not in sys.path:
        sys.path.append(str(folder.resolve()))  # for what lies beside it
    name = f"genmix_study_{hashlib.sha256(str(source).encode()).hexdigest()[:12]}_{module}"
    spec = importlib.util.spec_from_file_location(name, source)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = made = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(made)
    except BaseException:
        del sys.modules[name]
        raise
    return made
