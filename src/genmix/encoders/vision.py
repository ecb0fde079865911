"""Encoders for DINOv2 features of images, and CLIP features of images and texts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from genmix.core.optional import require_all
from genmix.core.torch_lock import computing
from genmix.data.samples import Sample
from genmix.encoders.base import BatchEncoder, Rows, images_of, modality_of, texts_of
from genmix.encoders.local_models import ModelSettings, find_model, pick_device
from genmix.errors import InputError

EXTRA = "transformers"


class VisionSettings(ModelSettings):
    """Settings for a vision model."""

    needs: ClassVar[tuple[str, ...]] = ("torch", "transformers", "PIL")
    extra: ClassVar[str] = EXTRA

    crop: bool = Field(
        True,
        description="Resize and center-crop as the model's processor does; if false, resize the whole "
        "image to the model's square input size, as dgm-eval does.",
    )


class DinoV2Settings(VisionSettings):
    """Settings for an encoder that returns DINOv2's class token after the last layer norm."""

    kind: Literal["dinov2"]
    model: str = Field(
        "facebook/dinov2-large",  # ViT-L/14
        min_length=1,
        description="A DINOv2 model: a name on the Hugging Face Hub, a folder, or package:MODULE/FOLDER.",
    )

    def build(self, folder: Path) -> DinoV2Encoder:
        return DinoV2Encoder(self, folder)


class ClipSettings(VisionSettings):
    """Settings for an encoder that returns CLIP's projected features of images and texts."""

    kind: Literal["clip"]
    model: str = Field(
        "openai/clip-vit-large-patch14",
        min_length=1,
        description="A CLIP model: a name on the Hugging Face Hub, a folder, or package:MODULE/FOLDER.",
    )

    def build(self, folder: Path) -> ClipEncoder:
        return ClipEncoder(self, folder)


class VisionModel(BatchEncoder):
    """Base class for vision encoders. Uses the Pillow image processor, which does not need torchvision."""

    what: ClassVar[str]
    types: ClassVar[tuple[str, ...]]
    """Values of ``model_type`` that this encoder supports."""

    def __init__(self, settings: VisionSettings, folder: Path) -> None:
        self._settings = settings
        self._source = find_model(settings, folder)
        self._model: Any = None
        name = settings.describe(self._source) + ("" if settings.crop else ", whole image")
        super().__init__(name, batch=settings.batch, normalise=settings.normalise)

    def load(self) -> None:
        if self._model is not None:
            return
        modules = ("torch", "transformers", "PIL.Image")
        self._torch, self._library, _ = require_all(modules, extra=EXTRA, what=self.what)
        device = pick_device(self._torch, self._settings.device)
        self._check_type()
        self._load_processors()
        model = self._source.load(self._library.AutoModel.from_pretrained)
        dtype = getattr(self._torch, self._settings.dtype)
        self._model = model.to(device=device, dtype=dtype).eval()

    def _check_type(self) -> None:
        found = self._source.load(self._library.AutoConfig.from_pretrained).model_type
        if found not in self.types:
            raise InputError(
                f"the model {self._source.label} is of type {found}; use a model of type {self.types[0]} "
                f"with {self.what}."
            )

    def _load_processors(self) -> None:
        def read(where: str, **options: Any) -> Any:
            return self._library.AutoImageProcessor.from_pretrained(where, backend="pil", **options)

        self._processor = self._source.load(read)

    @abstractmethod
    def _features(self, pixels: Any) -> Any:
        """Compute the features of pixels ``(n, 3, height, width)``."""

    def embed(self, samples: Sequence[Sample]) -> Any:
        images = images_of(samples, self.what)
        self.load()
        return self._embed_images(images)

    def _embed_images(self, images: Sequence[Any]) -> Rows:
        found = self._processor(images, return_tensors="pt", **self._squeeze())
        with computing(), self._torch.inference_mode():
            pixels = found["pixel_values"].to(device=self._model.device, dtype=self._model.dtype)
            return _rows(self._features(pixels))

    def _squeeze(self) -> dict[str, Any]:
        if self._settings.crop:
            return {}
        side = self._processor.crop_size
        return {
            "do_center_crop": False,
            "size": {"height": side["height"], "width": side["width"]},
        }

    def close(self) -> None:
        self._model = None


class DinoV2Encoder(VisionModel):
    """Embeds images with DINOv2."""

    what = "the dinov2 encoder"
    types = ("dinov2", "dinov2_with_registers")

    def _features(self, pixels: Any) -> Any:
        return self._model(pixel_values=pixels).pooler_output


class ClipEncoder(VisionModel):
    """Embeds images and texts with CLIP; truncates texts to 77 tokens."""

    what = "the clip encoder"
    types = ("clip",)

    def _load_processors(self) -> None:
        super()._load_processors()
        self._tokenizer = self._source.load(self._library.AutoTokenizer.from_pretrained)

    def _features(self, pixels: Any) -> Any:
        return self._model.get_image_features(pixel_values=pixels).pooler_output

    def embed(self, samples: Sequence[Sample]) -> Any:
        texts = [sample for sample in samples if modality_of(sample) == "text"]
        images = images_of([s for s in samples if modality_of(s) != "text"], self.what)
        self.load()
        parts = iter(self._embed_texts(texts_of(texts, self.what)) if texts else ())
        others = iter(self._embed_images(images) if images else ())
        return np.stack([next(parts if modality_of(s) == "text" else others) for s in samples])

    def _embed_texts(self, texts: list[str]) -> Rows:
        found = self._tokenizer(texts, padding=True, truncation=True, return_tensors="pt")
        with computing(), self._torch.inference_mode():
            tokens = found.to(self._model.device)
            return _rows(self._model.get_text_features(**tokens).pooler_output)


def _rows(features: Any) -> Rows:
    return np.asarray(features.float().cpu().numpy())
