"""An encoder whose samples are embedded by the workers of a Ray cluster."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genmix.cluster.resources import Resources
from genmix.cluster.room import living_nodes, not_started
from genmix.data.samples import Sample
from genmix.encoders.base import Encoder, EncodingError
from genmix.engines.embedding import EncoderTimeoutError
from genmix.engines.ray_workers import EncoderFailure, died
from genmix.errors import InputError


class RayEncoder:
    """Splits a batch into one part per worker. Embedding a part again after its worker died is harmless.

    ``described`` is the same encoder in this process. It has the name and loads no model. ``retries`` is
    how many times a part may be embedded again if its worker dies.
    """

    keeps_time = True
    """The time limit is for embedding. It does not include the start of a worker that replaces another."""

    def __init__(
        self,
        described: Encoder,
        create: Callable[[], Any],
        *,
        resources: Resources,
        retries: int,
        start_limit: float,
        time_limit: Callable[[int], float],
    ) -> None:
        self.name = described.name
        self._described, self._create, self._retries = described, create, retries
        self._resources = resources
        self._start_limit, self._time_limit = start_limit, time_limit
        self._actors: list[Any] = [None] * resources.replicas
        self._dimension = described.dimension
        self._lock, self._is_closed = threading.Lock(), False

    @property
    def dimension(self) -> int | None:
        return self._dimension

    def load(self) -> None:
        """Load the model on every worker."""
        try:
            self._start(range(len(self._actors)))
        except EncodingError as error:
            raise InputError(str(error)) from None

    def encode(self, samples: Sequence[Sample]) -> NDArray[Any]:
        size = max(math.ceil(len(samples) / len(self._actors)), 1)
        parts = [list(samples[start : start + size]) for start in range(0, len(samples), size)]
        waiting, limit = dict(enumerate(parts or [[]])), self._time_limit(len(samples))
        rows: dict[int, Any] = {}
        lost: dict[int, Exception] = {}
        for _ in range(self._retries + 1):
            self._start(waiting)
            calls = {place: (part,) for place, part in waiting.items()}
            found, lost = self._call("encode", calls, limit)
            rows |= found
            waiting = {place: waiting[place] for place in lost}
            if not waiting:
                break
        _check_alive(lost)
        matrix = np.concatenate([rows[place] for place in sorted(rows)])
        self._dimension = matrix.shape[1]
        return matrix

    def _start(self, places: Iterable[int]) -> None:
        """Create the missing workers, and load their models, however long that takes."""
        new = [place for place in places if self._actors[place] is None]
        if not new:
            return
        try:
            for place in new:
                self._create_at(place)
            self._wait_for(new)
            found, lost = self._call("load", dict.fromkeys(new, ()), math.inf)
            _check_alive(lost)
        except BaseException:  # also Ctrl-C
            self._kill(new)
            raise
        if self._dimension is None:
            self._dimension = found[new[0]]

    def _create_at(self, place: int) -> None:
        with self._lock:
            if self._is_closed:  # the run ended and abandoned this call
                raise EncodingError("the encoder is closed.")
            try:
                self._actors[place] = self._create()
            except Exception as error:  # Ray raises many types
                raise EncodingError(
                    f"a worker of the encoder cannot be created ({died(error)})."
                ) from error

    def _wait_for(self, places: Sequence[int]) -> None:
        limit = self._start_limit
        try:
            _, lost = self._call("present", dict.fromkeys(places, ()), limit)
        except EncoderTimeoutError:
            nodes = living_nodes()
            message = not_started("a worker of the encoder", limit, self._resources, nodes)
            raise InputError(message) from None
        _check_alive(lost)

    def _call(
        self, method: str, calls: Mapping[int, tuple[Any, ...]], limit: float
    ) -> tuple[dict[int, Any], dict[int, Exception]]:
        """Call workers at the same time; return the answers, and why other workers died.

        Workers that do not answer in time are killed: nothing else stops a call that hangs.
        """
        import ray
        from ray.exceptions import RayError

        sent = {p: getattr(self._actors[p], method).remote(*args) for p, args in calls.items()}
        timeout = None if math.isinf(limit) else limit
        _, late = ray.wait(list(sent.values()), num_returns=len(sent), timeout=timeout)
        if late:
            self._kill(place for place, reference in sent.items() if reference in late)
            raise EncoderTimeoutError(limit)
        found: dict[int, Any] = {}
        lost: dict[int, Exception] = {}
        for place, reference in sent.items():
            try:
                found[place] = ray.get(reference)
            except RayError as error:
                lost[place] = error
        self._kill(lost)
        for answer in found.values():
            if isinstance(answer, EncoderFailure):
                raise (InputError if answer.is_fatal else EncodingError)(answer.message)
        return found, lost

    def _kill(self, places: Iterable[int]) -> None:
        import ray

        for place in places:
            actor, self._actors[place] = self._actors[place], None
            if actor is not None:
                with suppress(Exception):  # it is gone already, or Ray is
                    ray.kill(actor)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._kill(range(len(self._actors)))
        self._described.close()


def _check_alive(lost: Mapping[int, Exception]) -> None:
    for error in lost.values():
        raise EncodingError(f"a worker of the encoder died ({died(error)}).")
