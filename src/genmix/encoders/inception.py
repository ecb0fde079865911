"""Inception features of images, as used for FID, computed by a TorchScript model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from genmix.core.optional import require_all
from genmix.data.samples import Sample
from genmix.data.text_files import resolved
from genmix.encoders.base import BatchEncoder, EncoderSettings, Rows, images_of
from genmix.encoders.local_models import file_hash, pick_device
from genmix.errors import InputError

WHAT = "the inception encoder"
EXTRA = "inception"


class InceptionSettings(EncoderSettings):
    """Settings for an encoder that uses ``inception-2015-12-05.pt``, as StyleGAN and clean-fid do."""

    needs: ClassVar[tuple[str, ...]] = ("torch", "PIL")
    extra: ClassVar[str] = EXTRA

    kind: Literal["inception"]
    path: str = Field(
        min_length=1, description="Path to the TorchScript file inception-2015-12-05.pt."
    )
    device: str = Field("auto", description="auto (a GPU if available), cpu, cuda, cuda:1 …")
    batch: int = Field(32, ge=1, description="Images per forward pass.")

    def build(self, folder: Path) -> InceptionEncoder:
        return InceptionEncoder(self, folder)


class InceptionEncoder(BatchEncoder):
    """Calls the script as StyleGAN does: with uint8 images of any size, which the script resizes."""

    def __init__(self, settings: InceptionSettings, folder: Path) -> None:
        self._device = settings.device
        self._path = resolved(settings.path, folder)
        if not self._path.is_file():
            raise InputError(
                f"no TorchScript file found at {self._path}; download inception-2015-12-05.pt and "
                "set its path."
            )
        self._model: Any = None
        super().__init__(
            f"inception {self._path.name} #{file_hash(self._path)[:12]}",
            batch=settings.batch,
            normalise=settings.normalise,
        )

    def load(self) -> None:
        if self._model is not None:
            return
        self._torch, _ = require_all(("torch", "PIL.Image"), extra=EXTRA, what=WHAT)
        device = pick_device(self._torch, self._device)
        try:
            self._model = self._torch.jit.load(str(self._path), map_location=device).eval()
        except (RuntimeError, ValueError) as error:
            raise InputError(
                f"{self._path} is not a TorchScript file; download inception-2015-12-05.pt again."
            ) from error
        self._model_device = device

    def embed(self, samples: Sequence[Sample]) -> Rows:
        images = [np.asarray(image) for image in images_of(samples, WHAT)]
        self.load()
        by_shape: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for position, image in enumerate(images):
            by_shape[image.shape].append(position)
        rows: list[Any] = [None] * len(images)
        for positions in by_shape.values():
            found = self._features(np.stack([images[position] for position in positions]))
            for position, row in zip(positions, found, strict=True):
                rows[position] = row
        return np.stack(rows)

    def _features(self, images: Any) -> Any:
        """Map pixels ``(n, height, width, 3)`` to features ``(n, 2048)``."""
        torch = self._torch
        pixels = torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))
        with torch.inference_mode():
            return (
                self._model(pixels.to(self._model_device), return_features=True)
                .float()
                .cpu()
                .numpy()
            )

    def close(self) -> None:
        self._model = None
