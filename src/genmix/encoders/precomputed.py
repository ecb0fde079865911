"""The encoder for samples that are already vectors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field, field_validator

from genmix.data.samples import Sample
from genmix.encoders.base import BatchEncoder, EncoderSettings, EncodingError, modality_of

BATCH = 4096


class PrecomputedSettings(EncoderSettings):
    """Settings for the precomputed encoder, used when all samples are vectors."""

    kind: Literal["precomputed"]
    normalise: bool = Field(False, description="Must be false: vectors are used unchanged.")

    @field_validator("normalise")
    @classmethod
    def _check_normalise(cls, value: bool) -> bool:
        if value:
            raise ValueError(
                "precomputed vectors are used unchanged; remove 'normalise', and normalize the files "
                "or use the cosine kernel"
            )
        return value

    def build(self, folder: Path) -> PrecomputedEncoder:
        return PrecomputedEncoder()


class PrecomputedEncoder(BatchEncoder):
    """Returns the vectors of the samples unchanged."""

    def __init__(self) -> None:
        super().__init__("precomputed", batch=BATCH, normalise=False)

    def embed(self, samples: Sequence[Sample]) -> Any:
        vectors = [_vector(sample) for sample in samples]
        if len({vector.shape for vector in vectors}) > 1:
            raise EncodingError(
                "the samples have vectors of different dimensions; use features from the same encoder."
            )
        return np.stack(vectors)


def _vector(sample: Sample) -> Any:
    if sample.vector is None:
        raise EncodingError(
            f"the precomputed encoder received a sample without a vector ({modality_of(sample)}); "
            f"use an encoder for {modality_of(sample)}s, or record features."
        )
    vector = np.asarray(sample.vector)
    if vector.ndim != 1 or not vector.size or vector.dtype.kind not in "fiub":
        raise EncodingError(
            f"the vector of a sample has shape {vector.shape} and dtype {vector.dtype}; "
            "pass real numbers of shape (d,)."
        )
    return vector
