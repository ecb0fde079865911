"""From samples to rows: what every encoder does before and after its model."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genmix.core.optional import need
from genmix.core.text import gist
from genmix.data.png import FORMATS
from genmix.data.samples import Sample
from genmix.encoders.base import EncodingError
from genmix.errors import InputError

Rows = NDArray[np.float32]

DEEP_MODES = ("I", "F")
"""How Pillow's names of more than 8 bits a channel begin; it would clip them, not scale."""


class BatchEncoder(ABC):
    """An encoder that embeds a batch at a time and loads its model when the first one comes."""

    def __init__(
        self, name: str, *, batch: int, normalise: bool, dimension: int | None = None
    ) -> None:
        self.name = f"{name}, unit norm" if normalise else name
        self.dimension = dimension
        self._batch, self._normalise = batch, normalise

    def encode(self, samples: Sequence[Sample]) -> Rows:
        """``(n, d)``, a float32 row for each sample."""
        parts = [
            self._checked(self._guarded(samples[start : start + self._batch]), start)
            for start in range(0, len(samples), self._batch)
        ]
        if not parts:
            return np.empty((0, self.dimension or 0), np.float32)
        widths = sorted({part.shape[1] for part in parts})
        if len(widths) > 1 or self.dimension not in (None, widths[0]):
            raise EncodingError(
                f"{self.name} gave vectors of {widths[-1]} dimensions after {self.dimension or widths[0]}: "
                "use an encoder of one dimension."
            )
        self.dimension = widths[0]
        return np.concatenate(parts)

    def _guarded(self, samples: Sequence[Sample]) -> Any:
        try:
            return self._embed(samples)
        except (EncodingError, InputError):
            raise
        except Exception as error:  # a model that runs out of memory, say
            raise EncodingError(
                f"{self.name} failed on {len(samples)} samples ({type(error).__name__}: {gist(error)}): "
                "try a smaller batch, or leave them out."
            ) from error

    @abstractmethod
    def _embed(self, samples: Sequence[Sample]) -> Any:
        """The rows of one batch, ``(n, d)``, of any real dtype."""

    def load(self) -> None:  # noqa: B027 - most have a model to load, some do not
        """Load the model now, so that what is wrong with it shows before a sample is paid for."""

    def close(self) -> None:  # noqa: B027
        """Let go of the model."""

    def _checked(self, rows: Any, start: int) -> Rows:
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite
            matrix = np.asarray(rows, np.float32)
        bad = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
        if bad.size:
            raise EncodingError(
                f"{self.name} gave NaN or infinity for sample {start + bad[0]} of the batch: "
                "leave that sample out, or use float32."
            )
        return self._unit(matrix, start) if self._normalise else matrix

    def _unit(self, matrix: Rows, start: int) -> Rows:
        lengths = np.linalg.norm(matrix.astype(np.float64), axis=1, keepdims=True)
        if not lengths.all():
            raise EncodingError(
                f"{self.name} gave the zero vector for sample {start + int(np.argmin(lengths))} of the "
                "batch, which has no direction: leave that sample out, or set 'normalise: false'."
            )
        return np.asarray(matrix / lengths, np.float32)


def texts_of(samples: Sequence[Sample], who: str) -> list[str]:
    """The samples' texts; anything else is an error."""
    return [_part(sample, "text", who) for sample in samples]


def images_of(samples: Sequence[Sample], who: str) -> list[Any]:
    """The samples' images, decoded, as RGB; anything else is an error."""
    return [open_image(_part(sample, "image", who)) for sample in samples]


def modality_of(sample: Sample) -> str:
    """``text``, ``image`` or ``vector``."""
    if sample.text is not None:
        return "text"
    return "image" if sample.image is not None else "vector"


def _part(sample: Sample, modality: str, who: str) -> Any:
    given = modality_of(sample)
    if given != modality:
        raise EncodingError(
            f"{who} embeds {modality}s and was given {_an(given)}: use an encoder for {given}s."
        )
    return getattr(sample, modality)


def _an(word: str) -> str:
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"


def open_image(content: bytes) -> Any:
    """A PNG, JPEG or WebP as a Pillow image in RGB; transparency is dropped."""
    image_module = need("PIL.Image", extra="images", what="an encoder of images")
    try:
        image = image_module.open(io.BytesIO(content), formats=FORMATS)
        image.load()
    except Exception as error:  # Pillow raises many kinds: unknown, truncated, too large
        raise EncodingError(
            f"an image of {len(content)} bytes could not be read ({type(error).__name__}): "
            "give a whole PNG, JPEG or WebP."
        ) from error
    if image.mode.startswith(DEEP_MODES):
        raise EncodingError(
            f"an image has pixels of mode {image.mode}: save it with 8 bits a channel."
        )
    return image.convert("RGB")
