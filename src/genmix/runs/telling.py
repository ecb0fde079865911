"""The part of the run loop that embeds samples and tells them to the selector."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from genmix.core.inbox import Inbox
from genmix.data.samples import Sample
from genmix.engines.embedding import EmbeddedBatch, EmbeddingQueue, Pair, has_vector
from genmix.errors import InputError
from genmix.journal.schema import Entry
from genmix.runs.arm import ArmState
from genmix.runs.session import Session
from genmix.runs.spending.budget import Money


class Telling:
    """The methods of :class:`Loop` that handle samples once they have been generated."""

    session: Session
    arms: Mapping[str, ArmState]
    embedding: EmbeddingQueue
    money: Money
    reason: str | None
    _inbox: Inbox[Any]
    _last_told: float

    @abstractmethod
    def _give_up(self, trouble: str) -> None: ...

    @abstractmethod
    def _suspend(self, arm: ArmState, why: str) -> None: ...

    @abstractmethod
    def _revive(self, arm: ArmState) -> None: ...

    @abstractmethod
    def _record_failure(self, entry: Entry, stage: str, error: Exception) -> None: ...

    async def _start_embedding(self) -> None:
        while pairs := self.embedding.take_batch():
            if has_vector(pairs[0]):
                await self._tell(pairs, self._paired(pairs, [s.vector for _, s in pairs]))
            else:
                self._inbox.spawn(self._embed(pairs))

    async def _embed(self, pairs: Sequence[Pair]) -> EmbeddedBatch:
        tickets = [entry.id for entry, _ in pairs]
        with self.session.journal.watch.span("encode", tickets=tickets) as report:
            batch = await self.embedding.embed(pairs)
            if batch.error is not None:
                report(batch.error)
        return batch

    async def _on_embedded(self, batch: EmbeddedBatch) -> None:
        self.embedding.finish(batch)
        if batch.error is None:
            await self._tell(batch.pairs, self._paired(batch.pairs, batch.rows))
        elif batch.is_fatal or (batch.is_late and self.reason is not None):
            self._give_up(str(batch.error).rstrip("."))
        elif len(batch.pairs) == 1:  # the samples of larger batches are embedded again one by one
            self._reject(batch.pairs[0][0], batch.error)
            self._find_fault(batch.error)

    def _paired(self, pairs: Sequence[Pair], rows: Sequence[Any]) -> list[Any]:
        """Return the embeddings as the objective compares them, with those of the prompts if it uses them."""
        entries = (entry for entry, _ in pairs)
        return [
            self.session.paired(e, np.asarray(row)) for e, row in zip(entries, rows, strict=True)
        ]

    async def _tell(self, pairs: Sequence[Pair], rows: Sequence[Any]) -> None:
        """Tell the selector the samples that it accepts, and reject the others."""
        accepted, error = [], None
        for (entry, sample), row in zip(pairs, rows, strict=True):
            try:
                self.session.selector.check(entry.id, row, sample.quality, sample.cost)
                accepted.append((entry, sample, row))
            except InputError as problem:
                error = problem
                self._reject(entry, problem)
        if accepted:
            self._fail_rejected()
            await self._tell_accepted(accepted)
        elif error is not None:
            self._find_fault(error)

    async def _tell_accepted(self, accepted: Sequence[tuple[Entry, Sample, Any]]) -> None:
        try:
            await self.session.tell(accepted)
        except InputError:  # not valid together, e.g. different dimensions in the first batch
            if len(accepted) == 1:
                raise
            for entry, sample, row in accepted:
                await self._tell([(entry, sample)], [row])
            return
        self._last_told = time.monotonic()
        for entry, sample, _ in accepted:
            told = {"arm": entry.arm, "ticket": entry.id, "cost": sample.cost}
            self.session.journal.watch.event("sample", **told)
            self.money.release(entry.id)
            arm = self.arms[entry.arm]
            arm.retries.rejections = 0
            if arm.retries.probing:
                arm.retries.end_probe()
                self._revive(arm)
        self.session.save_snapshot()

    def _reject(self, entry: Entry, error: Exception) -> None:
        """Record the failure; the ticket stays open until the cause is known."""
        self._record_failure(entry, "encode", error)
        self.money.release(entry.id)
        self.embedding.rejected.append(entry)

    def _find_fault(self, error: Exception) -> None:
        """After several rejections, fail the samples if one arm is at fault; otherwise stop the run."""
        fault = self.embedding.fault(self.session.selector.counts)
        if fault == "arm":
            self._fail_rejected()
        elif fault == "encoder":
            self._give_up(f"no sample could be embedded and told ({str(error).rstrip('.')})")

    def _fail_rejected(self) -> None:
        """Fail the rejected samples; the encoder works, so the samples are at fault."""
        for entry in self.embedding.take_rejected():
            self.session.fail(entry)
            retries = self.arms[entry.arm].retries
            retries.rejections += 1
            if retries.should_suspend and not retries.suspended:
                self._suspend(self.arms[entry.arm], "its samples were rejected.")
