"""What an encoder is: samples in, one vector each out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from numpy.typing import NDArray

from genmix.data.samples import Sample


class EncodingError(Exception):
    """Samples that could not be embedded; the message is one sentence."""


class Encoder(Protocol):
    """Embeds samples. It blocks; whoever must not wait calls it in a thread."""

    name: str
    """Printed with every score: kind, model, and what is done to the vectors."""

    @property
    def dimension(self) -> int | None:
        """Of the vectors, if it is known before the first one."""
        ...

    def encode(self, samples: Sequence[Sample]) -> NDArray[Any]:
        """``(n, d)``, float32 or float64, a row for each sample, whatever else is in the batch."""
        ...

    def load(self) -> None:
        """Make ready what :meth:`encode` needs, so that a fault shows before a sample is paid for."""
        ...

    def close(self) -> None:
        """Let go of models and connections."""
        ...
