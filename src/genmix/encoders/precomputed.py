"""Samples that carry their vectors already."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field, field_validator

from genmix.data.samples import Sample
from genmix.encoders.base import EncodingError
from genmix.encoders.rows import BatchEncoder, modality_of
from genmix.encoders.settings import EncoderSettings

BATCH = 4096


class PrecomputedEncoder(EncoderSettings):
    """For studies all of whose samples are features; it embeds nothing."""

    kind: Literal["precomputed"]
    normalise: bool = Field(False, description="Not for this kind: vectors stay as they are.")

    @field_validator("normalise")
    @classmethod
    def _as_they_are(cls, value: bool) -> bool:
        if value:
            raise ValueError(
                "precomputed vectors are used as they are: leave 'normalise' out and "
                "normalise the files, or use a cosine kernel"
            )
        return value

    def build(self, folder: Path) -> Precomputed:
        return Precomputed()


class Precomputed(BatchEncoder):
    """Hands the samples' own vectors through."""

    def __init__(self) -> None:
        super().__init__("precomputed", batch=BATCH, normalise=False)

    def _embed(self, samples: Sequence[Sample]) -> Any:
        vectors = [_vector(sample) for sample in samples]
        if len({vector.shape for vector in vectors}) > 1:
            raise EncodingError(
                "the samples carry vectors of several dimensions: use features of one encoder for all."
            )
        return np.stack(vectors)


def _vector(sample: Sample) -> Any:
    if sample.vector is None:
        raise EncodingError(
            f"the precomputed encoder was given a sample with {modality_of(sample)} and no vector: "
            "name an encoder that embeds it, or record features."
        )
    vector = np.asarray(sample.vector)
    if vector.ndim != 1 or not vector.size or vector.dtype.kind not in "fiub":
        raise EncodingError(
            f"a sample's vector has shape {vector.shape} and dtype {vector.dtype}: give real numbers (d,)."
        )
    return vector
