"""Encoders that use the pixels of a resized image as its embedding."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from genmix.core.optional import require
from genmix.data.samples import Sample
from genmix.encoders.base import BatchEncoder, EncoderSettings, Rows, images_of

BATCH = 256


class PixelsSettings(EncoderSettings):
    """Settings for an encoder that resizes images to a square and returns their pixels in [0, 1]."""

    needs: ClassVar[tuple[str, ...]] = ("PIL",)
    extra: ClassVar[str] = "images"

    kind: Literal["pixels"]
    size: int = Field(32, ge=1, le=1024, description="Side length of the square in pixels.")
    grey: bool = Field(False, description="Use one gray channel instead of red, green and blue.")

    def build(self, folder: Path) -> PixelsEncoder:
        return PixelsEncoder(self)


class PixelsEncoder(BatchEncoder):
    """Resizes images to ``size × size`` (bicubic, antialiased, stretched if not square)."""

    def __init__(self, settings: PixelsSettings) -> None:
        self._mode, channels = ("L", 1) if settings.grey else ("RGB", 3)
        self._side = settings.size
        name = f"pixels {self._side}×{self._side} {'grey' if settings.grey else 'RGB'}"
        dimension = channels * self._side**2
        super().__init__(name, batch=BATCH, normalise=settings.normalise, dimension=dimension)

    def embed(self, samples: Sequence[Sample]) -> Rows:
        image_module = require("PIL.Image", extra="images", what="the pixels encoder")
        side = (self._side, self._side)
        rows = [
            np.asarray(image.convert(self._mode).resize(side, image_module.Resampling.BICUBIC))
            for image in images_of(samples, "the pixels encoder")
        ]
        return np.asarray(np.stack(rows).reshape(len(rows), -1), np.float32) / np.float32(255)
