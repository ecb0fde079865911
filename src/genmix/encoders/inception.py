"""Images through Inception as a TorchScript file: the features of FID."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from genmix.core.optional import need
from genmix.data.samples import Sample
from genmix.encoders.models import file_hash, pick_device
from genmix.encoders.rows import BatchEncoder, Rows, images_of
from genmix.encoders.settings import EncoderSettings
from genmix.errors import InputError

WHAT = "the inception encoder"
EXTRA = "inception"


class InceptionEncoder(EncoderSettings):
    """The file ``inception-2015-12-05.pt`` that StyleGAN and clean-fid use, by path."""

    needs: ClassVar[tuple[str, ...]] = ("torch", "PIL")
    extra: ClassVar[str] = EXTRA

    kind: Literal["inception"]
    path: str = Field(min_length=1, description="The TorchScript file inception-2015-12-05.pt.")
    device: str = Field("auto", description="auto (a GPU if there is one), cpu, cuda, cuda:1 …")
    batch: int = Field(32, ge=1, description="Images in one pass of the model.")

    def build(self, folder: Path) -> Inception:
        return Inception(self, folder)


class Inception(BatchEncoder):
    """Calls the script as StyleGAN does: on uint8 images of their own size, which it resizes itself."""

    def __init__(self, settings: InceptionEncoder, folder: Path) -> None:
        self._device = settings.device
        self._path = (folder / Path(settings.path).expanduser()).resolve()
        if not self._path.is_file():
            raise InputError(
                f"there is no TorchScript file {self._path}: download inception-2015-12-05.pt and "
                "give its path."
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
        self._torch = need("torch", extra=EXTRA, what=WHAT)
        need("PIL.Image", extra=EXTRA, what=WHAT)
        device = pick_device(self._torch, self._device)
        try:
            self._model = self._torch.jit.load(str(self._path), map_location=device).eval()
        except (RuntimeError, ValueError) as error:
            raise InputError(
                f"{self._path} is no TorchScript file: download inception-2015-12-05.pt anew."
            ) from error
        self._place = device

    def _embed(self, samples: Sequence[Sample]) -> Rows:
        images = [np.asarray(image) for image in images_of(samples, WHAT)]
        self.load()
        alike: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for place, image in enumerate(images):
            alike[image.shape].append(place)
        rows: list[Any] = [None] * len(images)
        for places in alike.values():
            found = self._features(np.stack([images[place] for place in places]))
            for place, row in zip(places, found, strict=True):
                rows[place] = row
        return np.stack(rows)

    def _features(self, images: Any) -> Any:
        """``(n, height, width, 3)`` to ``(n, 2048)``."""
        torch = self._torch
        pixels = torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))
        with torch.inference_mode():
            return self._model(pixels.to(self._place), return_features=True).float().cpu().numpy()

    def close(self) -> None:
        self._model = None
