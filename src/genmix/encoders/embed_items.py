"""Embed texts and images that already exist, in batches and with progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genmix.core.text import counted
from genmix.data.loaded_arm import Item
from genmix.encoders.base import Encoder, EncodingError
from genmix.errors import InputError

BATCH = 64
"""Samples per call to the encoder; each batch is cached as soon as it is embedded."""

Report = Callable[[int, int], None]
"""A function that takes the number of embedded samples and the total."""


def embed_items(
    items: Sequence[Item], encoder: Encoder, where: str, report: Report
) -> NDArray[Any]:
    """Return embeddings of shape ``(n, d)``; if one fails, raise an InputError that names the sample.

    ``where`` begins the message, e.g. ``the reference real.jsonl``.
    """
    rows, total = [], len(items)
    for start in range(0, total, BATCH):
        report(start, total)
        batch = items[start : start + BATCH]
        rows.append(_encoded(batch, encoder, where))
        if len(rows[-1]) != len(batch):
            raise InputError(
                f"{where}: the encoder returned {counted(len(rows[-1]), 'vector')} for "
                f"{counted(len(batch), 'sample')}; fix the encoder."
            )
    report(total, total)
    return np.concatenate(rows)


def _encoded(items: Sequence[Item], encoder: Encoder, where: str) -> Any:
    samples = [get() for _, get in items]
    try:
        return encoder.encode(samples)
    except EncodingError as error:
        for (place, _), sample in zip(items, samples, strict=True):
            try:
                encoder.encode([sample])
            except EncodingError as fault:
                raise InputError(f"{where}, {place}: {fault}") from fault
        raise InputError(f"{where}: {error}") from error
