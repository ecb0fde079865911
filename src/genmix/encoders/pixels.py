"""Raw pixels: the image itself, made small, as a vector."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from genmix.core.optional import need
from genmix.data.samples import Sample
from genmix.encoders.rows import BatchEncoder, Rows, images_of
from genmix.encoders.settings import EncoderSettings

BATCH = 256


class PixelsEncoder(EncoderSettings):
    """Pixels in [0, 1], after resizing to a square."""

    needs: ClassVar[tuple[str, ...]] = ("PIL",)
    extra: ClassVar[str] = "images"

    kind: Literal["pixels"]
    size: int = Field(32, ge=1, le=1024, description="Side of the square in pixels.")
    grey: bool = Field(False, description="One channel of brightness instead of red, green, blue.")

    def build(self, folder: Path) -> Pixels:
        return Pixels(self)


class Pixels(BatchEncoder):
    """Images to ``size × size`` (bicubic with antialiasing, stretched if not square), row by row."""

    def __init__(self, settings: PixelsEncoder) -> None:
        self._mode, channels = ("L", 1) if settings.grey else ("RGB", 3)
        self._side = settings.size
        name = f"pixels {self._side}×{self._side} {'grey' if settings.grey else 'RGB'}"
        dimension = channels * self._side**2
        super().__init__(name, batch=BATCH, normalise=settings.normalise, dimension=dimension)

    def _embed(self, samples: Sequence[Sample]) -> Rows:
        image_module = need("PIL.Image", extra="images", what="the pixels encoder")
        side = (self._side, self._side)
        rows = [
            np.asarray(image.convert(self._mode).resize(side, image_module.Resampling.BICUBIC))
            for image in images_of(samples, "the pixels encoder")
        ]
        return np.asarray(np.stack(rows).reshape(len(rows), -1), np.float32) / np.float32(255)
