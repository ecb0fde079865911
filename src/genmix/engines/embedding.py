"""The embedding queue: samples are embedded in batches, and one by one when a batch fails."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from genmix.core.masking import masked_error
from genmix.core.text import counted
from genmix.core.threads import in_thread
from genmix.data.samples import Sample
from genmix.encoders.base import Encoder, EncodingError
from genmix.errors import GenmixError, InputError
from genmix.journal.schema import Entry

MAX_BATCH = 256
ATTEMPTS = 3
"""Number of attempts to embed a single sample."""
MAX_REJECTED = 3
"""Number of consecutive rejected samples after which the run stops, to avoid further costs."""

Pair = tuple[Entry, Sample]


class EncoderTimeoutError(EncodingError):
    """The encoder did not finish in time. A thread of this process cannot be stopped and is abandoned."""

    def __init__(self, limit: float) -> None:
        super().__init__(
            f"the encoder did not finish within {limit:g} seconds; fix it, or increase its timeout"
        )


@dataclass(frozen=True)
class EmbeddedBatch:
    """A batch with its embeddings, or with the error that occurred instead."""

    pairs: Sequence[Pair]
    rows: Any = None
    error: Exception | None = None

    @property
    def is_fatal(self) -> bool:
        """Whether the study must be fixed because no other batch would succeed."""
        return isinstance(self.error, GenmixError)

    @property
    def is_late(self) -> bool:
        return isinstance(self.error, EncoderTimeoutError)


@dataclass
class EmbeddingQueue:
    """Embeds samples in the order in which they arrive, one batch at a time."""

    encoder: Encoder | None
    retry_delay: float = 1.0
    """Seconds before the second attempt at a single sample; doubled for the third."""
    time_limit: Callable[[int], float] = lambda samples: math.inf
    """Returns how many seconds the encoder may take for this number of samples."""
    started_at: float = -math.inf
    """When the last batch was started, on the monotonic clock."""
    rejected: list[Entry] = field(default_factory=list)
    """Open tickets whose samples the encoder or the selector rejected.

    They fail once another sample is accepted, which shows that the encoder works and they are at fault.
    """
    _pending: deque[Pair] = field(default_factory=deque)
    _is_embedding: bool = False
    _single: set[int] = field(default_factory=set)
    """Tickets to embed one at a time, because a batch that contained them failed."""

    @property
    def busy(self) -> bool:
        return self._is_embedding or bool(self._pending)

    def put(self, entry: Entry, sample: Sample) -> None:
        self._pending.append((entry, sample))

    def take_batch(self) -> list[Pair]:
        """Return the next samples to handle together; none while a batch is being embedded.

        Either all of them already have a vector, or all of them must go through :meth:`embed`.
        """
        if self._is_embedding or not self._pending:
            return []
        pairs = [self._pending.popleft()]
        is_vector = has_vector(pairs[0])
        if pairs[0][0].id in self._single:
            self._single.discard(pairs[0][0].id)
        else:
            while self._pending and len(pairs) < MAX_BATCH and self._joins(is_vector):
                pairs.append(self._pending.popleft())
        self._is_embedding, self.started_at = not is_vector, time.monotonic()
        return pairs

    def _joins(self, is_vector: bool) -> bool:
        """Return whether the next pending sample can join the batch."""
        following = self._pending[0]
        return has_vector(following) == is_vector and following[0].id not in self._single

    async def embed(self, pairs: Sequence[Pair]) -> EmbeddedBatch:
        """Embed a batch in a thread. A single sample gets several attempts, unless one takes too long."""
        attempts = ATTEMPTS if len(pairs) == 1 else 1
        for attempt in range(attempts):
            found = await self._try(pairs)
            if found.error is None or found.is_late or attempt + 1 == attempts:
                break
            await asyncio.sleep(self.retry_delay * 2**attempt)
        return found

    async def _try(self, pairs: Sequence[Pair]) -> EmbeddedBatch:
        samples = [sample for _, sample in pairs]
        limit = math.inf if self._keeps_time else self.time_limit(len(samples))
        try:
            async with asyncio.timeout(None if math.isinf(limit) else limit) as deadline:
                return EmbeddedBatch(pairs, await in_thread(lambda: self._encode(samples)))
        except Exception as error:  # an encoder may be user code
            if not deadline.expired():
                return EmbeddedBatch(pairs, error=masked_error(error))
        return EmbeddedBatch(pairs, error=EncoderTimeoutError(limit))

    @property
    def _keeps_time(self) -> bool:
        """Whether the encoder itself stops at the time limit."""
        return getattr(self.encoder, "keeps_time", False)

    def _encode(self, samples: Sequence[Sample]) -> Any:
        if self.encoder is None:
            raise InputError(
                "an arm returned text or an image, but the study has no encoder; add one."
            )
        rows = self.encoder.encode(samples)
        if len(rows) != len(samples):
            vectors, given = counted(len(rows), "vector"), counted(len(samples), "sample")
            raise ValueError(f"the encoder returned {vectors} for {given}")
        return rows

    def finish(self, batch: EmbeddedBatch) -> None:
        """Allow the next batch; queue the samples of a failed batch again, to be embedded one by one."""
        self._is_embedding = False
        if batch.error is not None and not batch.is_fatal and len(batch.pairs) > 1:
            self._single |= {entry.id for entry, _ in batch.pairs}
            self._pending.extendleft(reversed(batch.pairs))

    def take_rejected(self) -> list[Entry]:
        rejected, self.rejected = self.rejected, []
        return rejected

    def fault(self, counts: Mapping[str, int]) -> Literal["arm", "encoder"] | None:
        """Return what causes the rejections: the encoder, or an arm if only its samples are rejected.

        Return None if there are too few rejections to tell. ``counts`` is the number of told samples by arm.
        """
        rejected = {entry.arm for entry in self.rejected}
        if len(self.rejected) < MAX_REJECTED:
            return None
        others = {arm for arm, count in counts.items() if count} - rejected
        return "arm" if len(rejected) == 1 and others else "encoder"


def has_vector(pair: Pair) -> bool:
    return pair[1].vector is not None
