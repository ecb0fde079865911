"""Encoders that embed texts with the sentence-transformers library (SBERT)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from genmix.core.optional import require_all
from genmix.core.torch_lock import computing
from genmix.data.samples import Sample
from genmix.encoders.base import BatchEncoder, texts_of
from genmix.encoders.local_models import ModelSettings, find_model, pick_device

WHAT = "the sentence-transformers encoder"
EXTRA = "sentence-transformers"


class SentenceTransformersSettings(ModelSettings):
    """Settings for a sentence-transformers encoder, with unit-length embeddings by default."""

    needs: ClassVar[tuple[str, ...]] = ("torch", "sentence_transformers")
    extra: ClassVar[str] = EXTRA

    kind: Literal["sentence-transformers"]
    normalise: bool = Field(True, description="Scale every embedding to unit length.")

    def build(self, folder: Path) -> SentenceTransformersEncoder:
        return SentenceTransformersEncoder(self, folder)


class SentenceTransformersEncoder(BatchEncoder):
    """Embeds texts; truncates them to the model's maximum length (256 word pieces for MiniLM)."""

    def __init__(self, settings: SentenceTransformersSettings, folder: Path) -> None:
        self._settings = settings
        self._source = find_model(settings, folder, owner="sentence-transformers")
        self._model: Any = None
        super().__init__(
            settings.describe(self._source), batch=settings.batch, normalise=settings.normalise
        )

    def load(self) -> None:
        if self._model is not None:
            return
        modules = ("torch", "sentence_transformers")
        torch, library = require_all(modules, extra=EXTRA, what=WHAT)
        device = pick_device(torch, self._settings.device)

        def read(where: str, **options: Any) -> Any:
            return library.SentenceTransformer(where, device=str(device), **options)

        model = self._source.load(read)
        self._model = model.to(getattr(torch, self._settings.dtype)).eval()
        self.dimension = model.get_embedding_dimension()

    def embed(self, samples: Sequence[Sample]) -> Any:
        texts = texts_of(samples, WHAT)
        self.load()
        with computing():
            rows = self._model.encode(
                texts, batch_size=self._batch, convert_to_tensor=True, show_progress_bar=False
            )
        return rows.float().cpu().numpy()

    def close(self) -> None:
        self._model = None
