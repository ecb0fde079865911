"""The encoder protocol, and base classes for encoders and their settings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from genmix.cluster.resources import Resources
from genmix.core.text import counted, first_sentence
from genmix.data import png
from genmix.data.samples import FieldError, Sample
from genmix.errors import GenmixError

Rows = NDArray[np.float32]

DEEP_MODES = ("I", "F")
"""Prefixes of Pillow modes with more than 8 bits per channel; convert() would clip them."""


class EncodingError(Exception):
    """Samples could not be embedded. The message is one sentence."""


class Encoder(Protocol):
    """Embeds samples. Its methods block; the run loop calls them in a thread."""

    name: str
    """Kind, model and post-processing. Shown with every score and included in cache keys."""

    @property
    def dimension(self) -> int | None:
        """Dimension of the embeddings, or None if not yet known."""
        ...

    def encode(self, samples: Sequence[Sample]) -> NDArray[Any]:
        """Return float32 or float64 embeddings of shape ``(n, d)``.

        A row must not depend on the other samples in the batch.
        """
        ...

    def load(self) -> None:
        """Load models and check connections, so that errors appear before any sample is paid for."""
        ...

    def close(self) -> None:
        """Release models and connections."""
        ...


class EncoderSettings(BaseModel):
    """Settings for an encoder. Each subclass has a literal ``kind``, its name in study files."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    needs: ClassVar[tuple[str, ...]] = ()
    """Optional modules that this kind imports."""
    extra: ClassVar[str] = ""
    """The genmix extra that installs these modules."""

    normalise: bool = Field(False, description="Scale every embedding to unit length.")
    timeout: float = Field(
        600.0,
        gt=0,
        allow_inf_nan=False,
        description="Seconds that embedding a batch of up to 256 samples may take.",
    )
    resources: Resources = Field(
        default_factory=lambda: Resources.model_validate({}),
        description="What its workers need on Ray: num_cpus, num_gpus, replicas, max_restarts.",
    )

    def time_limit(self, samples: int) -> float:
        """Return how many seconds a run waits for the embeddings of this many samples."""
        return self.timeout

    @abstractmethod
    def build(self, folder: Path) -> Encoder:
        """Build the encoder, with paths relative to ``folder``; raise InputError if settings are invalid."""


class BatchEncoder(ABC):
    """Embeds samples in batches, then validates and normalizes the rows. Subclasses define ``embed``."""

    def __init__(
        self, name: str, *, batch: int, normalise: bool, dimension: int | None = None
    ) -> None:
        self.name = f"{name}, unit norm" if normalise else name
        self.dimension = dimension
        self._batch, self._normalise = batch, normalise

    def encode(self, samples: Sequence[Sample]) -> Rows:
        """Return float32 embeddings of shape ``(n, d)``."""
        parts = [
            self._checked(self._guarded(samples[start : start + self._batch]), start)
            for start in range(0, len(samples), self._batch)
        ]
        if not parts:
            return np.empty((0, self.dimension or 0), np.float32)
        widths = sorted({part.shape[1] for part in parts})
        if len(widths) > 1 or self.dimension not in (None, widths[0]):
            raise EncodingError(
                f"{self.name} returned vectors of dimension {widths[-1]} after vectors of dimension "
                f"{self.dimension or widths[0]}; use an encoder with a fixed dimension."
            )
        self.dimension = widths[0]
        return np.concatenate(parts)

    def _guarded(self, samples: Sequence[Sample]) -> Any:
        try:
            return self.embed(samples)
        except (EncodingError, GenmixError):
            raise
        except Exception as error:  # e.g. out of memory
            raise EncodingError(
                f"{self.name} failed on {counted(len(samples), 'sample')} "
                f"({type(error).__name__}: {first_sentence(error)}); use a smaller batch, or remove "
                "the samples."
            ) from error

    @abstractmethod
    def embed(self, samples: Sequence[Sample]) -> Any:
        """Return the embeddings ``(n, d)`` of one batch, with any real dtype."""

    def load(self) -> None:  # noqa: B027 - not every encoder has a model
        """Load the model now, so that errors appear before any sample is paid for."""

    def close(self) -> None:  # noqa: B027
        """Release the model."""

    def _checked(self, rows: Any, start: int) -> Rows:
        with np.errstate(over="ignore"):  # values too large for float32 become infinite
            matrix = np.asarray(rows, np.float32)
        bad = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
        if bad.size:
            raise EncodingError(
                f"{self.name} returned NaN or infinity for sample {start + bad[0]} of the batch; "
                "remove that sample, or use float32."
            )
        return self._normalised(matrix, start) if self._normalise else matrix

    def _normalised(self, matrix: Rows, start: int) -> Rows:
        norms = np.linalg.norm(matrix.astype(np.float64), axis=1, keepdims=True)
        if not norms.all():
            raise EncodingError(
                f"{self.name} returned the zero vector for sample {start + int(np.argmin(norms))} of "
                "the batch; remove that sample, or set 'normalise: false'."
            )
        return np.asarray(matrix / norms, np.float32)


def texts_of(samples: Sequence[Sample], encoder: str) -> list[str]:
    """Return the texts of the samples; raise EncodingError for samples of another modality."""
    return [_content(sample, "text", encoder) for sample in samples]


def images_of(samples: Sequence[Sample], encoder: str) -> list[Any]:
    """Return the images as RGB; raise EncodingError for samples of another modality."""
    return [open_image(_content(sample, "image", encoder)) for sample in samples]


def modality_of(sample: Sample) -> str:
    """Return ``text``, ``image`` or ``vector``."""
    if sample.text is not None:
        return "text"
    return "image" if sample.image is not None else "vector"


def _content(sample: Sample, modality: str, encoder: str) -> Any:
    given = modality_of(sample)
    if given != modality:
        article = "an" if given == "image" else "a"
        raise EncodingError(
            f"{encoder} embeds {modality}s but received {article} {given}; "
            f"use an encoder for {given}s."
        )
    return getattr(sample, modality)


def open_image(content: bytes) -> Any:
    """Decode a PNG, JPEG or WebP image into an RGB Pillow image; transparency is dropped."""
    try:
        image = png.open_image(content)
    except FieldError as error:
        raise EncodingError(
            f"an image of {len(content)} bytes cannot be read: it {error}; replace or remove it."
        ) from error
    if image.mode.startswith(DEEP_MODES):
        raise EncodingError(f"an image has the mode {image.mode}; save it with 8 bits per channel.")
    return image.convert("RGB")
