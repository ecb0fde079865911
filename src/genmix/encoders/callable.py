"""A function of your own as an encoder."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, JsonValue

from genmix.core.arrays import to_numpy
from genmix.core.functions import load_function
from genmix.core.text import gist
from genmix.data.samples import Sample
from genmix.encoders.base import EncodingError
from genmix.encoders.models import file_hash
from genmix.encoders.rows import BatchEncoder, modality_of
from genmix.encoders.settings import EncoderSettings
from genmix.errors import InputError


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
            self._function = load_function(self._what, self._folder)

    def _embed(self, samples: Sequence[Sample]) -> Any:
        self.load()
        assert self._function is not None
        contents = [_content(sample, self._what) for sample in samples]
        try:
            rows = to_numpy(self._function(contents, **self._arguments))
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


def _describe(settings: CallableEncoder, folder: Path) -> str:
    source = _find(settings.function.partition(":")[0], folder, settings.function)
    written = json.dumps(settings.arguments, sort_keys=True, ensure_ascii=False)
    return (
        f"callable {settings.function} #{file_hash(source)[:12]}"
        f"{' ' + written if settings.arguments else ''}"
    )


def _find(module: str, folder: Path, what: str) -> Path:
    """The module's file: beside the study, else where it is installed. Nothing of it is run."""
    beside = folder.resolve().joinpath(*module.split("."))
    for file in (beside.with_suffix(".py"), beside / "__init__.py"):
        if file.is_file():
            return file
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
