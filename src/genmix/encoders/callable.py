"""Encoders that call a Python function written by the user."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue

from genmix.core.arrays import to_numpy
from genmix.core.python_objects import OR_OBJECT, PythonObject
from genmix.core.text import counted, first_sentence
from genmix.core.user_functions import FUNCTION_NAME, load_function, shown_name, source_of_module
from genmix.data.samples import Sample
from genmix.encoders.base import BatchEncoder, EncoderSettings, EncodingError, modality_of
from genmix.encoders.local_models import file_hash
from genmix.errors import InputError


class CallableSettings(EncoderSettings):
    """Settings for an encoder whose ``function(contents, **arguments)`` returns an array ``(n, d)``.

    Contents are texts (str) or images (PNG bytes).
    """

    kind: Literal["callable"]
    function: Annotated[str, Field(pattern=FUNCTION_NAME), OR_OBJECT] = Field(
        description="module:function; the module is next to the study file or installed.",
    )
    arguments: dict[str, JsonValue] = Field(
        default_factory=dict, description="Keyword arguments for every call."
    )
    batch: int = Field(32, ge=1, description="Maximum number of samples per call.")
    dimension: int | None = Field(None, ge=1, description="Dimension of the embeddings, if known.")

    def build(self, folder: Path) -> CallableEncoder:
        return CallableEncoder(self, folder)


class CallableEncoder(BatchEncoder):
    """Calls a user function. The name includes a hash of the source, because it is used in cache keys."""

    def __init__(self, settings: CallableSettings, folder: Path) -> None:
        self._function_name, self._shown = settings.function, shown_name(settings.function)
        self._folder, self._arguments = folder, settings.arguments
        self._function: Callable[..., Any] | None = None
        super().__init__(
            _describe(settings, folder),
            batch=settings.batch,
            normalise=settings.normalise,
            dimension=settings.dimension,
        )

    def load(self) -> None:
        if self._function is None:
            self._function = load_function(self._function_name, self._folder)

    def embed(self, samples: Sequence[Sample]) -> Any:
        self.load()
        assert self._function is not None
        contents = [_content(sample, self._shown) for sample in samples]
        try:
            rows = to_numpy(self._function(contents, **self._arguments))
        except Exception as error:
            raise EncodingError(
                f"the encoder {self._shown} failed "
                f"({type(error).__name__}: {first_sentence(error)}); fix the function."
            ) from error
        if rows.ndim != 2 or len(rows) != len(samples) or rows.dtype.kind not in "fiub":
            raise EncodingError(
                f"the encoder {self._shown} returned shape {rows.shape} and dtype {rows.dtype} for "
                f"{counted(len(samples), 'sample')}; return real numbers of shape ({len(samples)}, d)."
            )
        return rows


def _content(sample: Sample, name: str) -> str | bytes:
    content = sample.text if sample.text is not None else sample.image
    if content is None:
        raise EncodingError(
            f"the encoder {name} embeds texts and images but received a {modality_of(sample)}; "
            "use the precomputed encoder."
        )
    return content


def _describe(settings: CallableSettings, folder: Path) -> str:
    name = settings.function
    if isinstance(name, PythonObject):
        digest = name.digest
    else:
        digest = file_hash(_find(name.partition(":")[0], folder, name))[:12]
    written = json.dumps(settings.arguments, sort_keys=True, ensure_ascii=False)
    return f"callable {shown_name(name)} #{digest}{' ' + written if settings.arguments else ''}"


def _find(module: str, folder: Path, name: str) -> Path:
    file = source_of_module(module, folder)
    if file is None:
        raise InputError(
            f"the encoder {name} needs the module {module}, which is neither next to the study nor "
            "installed; correct the name."
        )
    return file
