"""An encoder whose samples are embedded by the workers of a Ray cluster."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genmix.data.samples import Sample
from genmix.encoders.base import Encoder, EncodingError
from genmix.engines.ray_workers import EncoderFailure, died
from genmix.errors import InputError

GRACE = 1.0
"""Seconds after the time limit of the run after which a worker that hangs is killed."""


class RayEncoder:
    """Splits a batch into one part per worker. Embedding a part again after its worker died is harmless.

    ``described`` is the same encoder in this process. It has the name and loads no model.
    """

    def __init__(
        self,
        described: Encoder,
        create: Callable[[], Any],
        *,
        replicas: int,
        time_limit: Callable[[int], float],
    ) -> None:
        self.name = described.name
        self._described, self._create, self._time_limit = described, create, time_limit
        self._actors: list[Any] = [None] * replicas
        self._dimension = described.dimension

    @property
    def dimension(self) -> int | None:
        return self._dimension

    def load(self) -> None:
        """Load the model on every worker."""
        found = self._call([(place, "load", ()) for place in range(len(self._actors))], math.inf)
        self._dimension = found[0] if self._dimension is None else self._dimension

    def encode(self, samples: Sequence[Sample]) -> NDArray[Any]:
        size = max(math.ceil(len(samples) / len(self._actors)), 1)
        parts = [samples[start : start + size] for start in range(0, len(samples), size)]
        calls = [(place, "encode", (list(part),)) for place, part in enumerate(parts or [samples])]
        rows = np.concatenate(self._call(calls, self._time_limit(len(samples)) + GRACE))
        self._dimension = rows.shape[1]
        return rows

    def _call(self, calls: Sequence[tuple[int, str, tuple[Any, ...]]], limit: float) -> list[Any]:
        """Call one method of each worker at the same time, and wait for all of them."""
        import ray
        from ray.exceptions import GetTimeoutError, RayError

        references = [getattr(self._actor(p), name).remote(*args) for p, name, args in calls]
        try:
            found = ray.get(references, timeout=None if math.isinf(limit) else limit)
        except GetTimeoutError:
            for actor in self._actors:
                if actor is not None:
                    ray.kill(actor, no_restart=False)
            raise EncodingError(f"the encoder did not finish within {limit:g} seconds.") from None
        except RayError as error:
            self._actors = [None] * len(self._actors)
            raise EncodingError(f"a worker of the encoder died ({died(error)}).") from None
        for each in found:
            if isinstance(each, EncoderFailure):
                raise (InputError if each.is_fatal else EncodingError)(each.message)
        return list(found)

    def _actor(self, place: int) -> Any:
        if self._actors[place] is None:
            self._actors[place] = self._create()
        return self._actors[place]

    def close(self) -> None:
        import ray

        for actor in self._actors:
            if actor is not None:
                with suppress(Exception):  # it is gone already, or Ray is
                    ray.kill(actor)
        self._actors = [None] * len(self._actors)
        self._described.close()
