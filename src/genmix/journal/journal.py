"""Write a run's journal: one SQLite file with every ticket, sample, failure and event.

The journal uses a write-ahead log (WAL) with ``synchronous=NORMAL``. Committed transactions survive if the
process is killed at any moment. A power failure can lose the last transactions but never part of one; the
run then continues from a slightly earlier state.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from genmix.core.atomic import move, remove
from genmix.data.prompts import Prompt
from genmix.data.samples import Sample
from genmix.errors import InputError
from genmix.generators.base import GenerationError
from genmix.journal.integrity import (
    CHECKSUM,
    EMBEDDINGS,
    EVENTS,
    FAILURES,
    META,
    OUTCOMES,
    PROMPT_ROWS,
    PROMPT_VECTORS,
    PROMPTED,
    SAMPLES,
    SECONDS,
    TICKETS,
    TIMELINE_ROWS,
    Checksum,
    Part,
    latest,
    row_hash,
)
from genmix.journal.reader import JournalReader
from genmix.journal.schema import (
    FORMAT,
    JOURNAL,
    PROMPT_EMBEDDINGS,
    PROMPTS,
    TABLES,
    TIMELINE,
    Entry,
    JournalError,
    connect,
    explained_opening,
    write_error,
    writing_connection,
)
from genmix.journal.watching import Watcher

SET_META = "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"


class Journal(JournalReader):
    """Read and write one run's journal.

    Use it as a context manager::

        with Journal.open(folder) as journal:
            journal.event("start")
    """

    is_writer = True

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        super().__init__(connection, path)
        self._elapsed: Callable[[], float] | None = None
        self._seconds: float | None = None
        """The running time at the last write."""
        self._checksum = Checksum()
        self._vectors: dict[int, int] = {}
        """Hashes of the embeddings of open tickets, which are replaced when their samples are told."""
        self.watch = Watcher()
        """What is told about the run as it happens."""

    @classmethod
    def create(
        cls,
        folder: Path,
        meta: Mapping[str, Any],
        prompts: Sequence[Prompt] = (),
        prompt_embeddings: NDArray[Any] | None = None,
    ) -> Journal:
        """Create a journal with its metadata and prompts; on failure, leave nothing behind.

        ``prompt_embeddings`` has one row per prompt, if the run uses them.
        """
        path = folder / JOURNAL
        if path.exists():
            raise InputError(
                f"{folder} already contains a run; resume it, or choose another folder."
            )
        draft = path.with_name(f"{JOURNAL}.part")
        for leftover in folder.glob(f"{draft.name}*"):
            remove(leftover)
        with explained_opening(path):
            # Do not use a write-ahead log here. Without it, a full disk makes the commit fail. With it,
            # the checkpoint on close would fail, which SQLite does not report.
            connection = connect(draft, "rwc")
        with cls(connection, draft) as journal, journal.transaction():
            for statement in (*TABLES.split(";\n"), TIMELINE, *(PROMPTS if prompts else ())):
                journal._db.execute(statement)
            journal._db.execute(f"PRAGMA user_version = {FORMAT}")
            for key, value in meta.items():
                journal._set_meta(key, value)
            for prompt in prompts:
                journal._add(PROMPT_ROWS, tuple(prompt))
            if prompt_embeddings is not None:
                journal._db.execute(PROMPT_EMBEDDINGS)
                for prompt, row in zip(prompts, prompt_embeddings, strict=True):
                    journal._add(PROMPT_VECTORS, (prompt.id, *_encoded(row)))
        move(draft, path)
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path) -> Self:
        journal = cls._open(folder, writing_connection)
        try:
            if journal.has_checksum:
                journal._load_checksum()
            else:
                with journal.transaction(seal=False):
                    journal._db.execute(TIMELINE)
        except JournalError:
            journal.close()
            raise
        return journal

    def _load_checksum(self) -> None:
        self._checksum, self._seconds = latest(self), self.meta(SECONDS)
        vectors = self.each(
            "SELECT ticket, embedding, dtype FROM samples JOIN tickets ON ticket = id"
            " WHERE outcome IS NULL AND embedding IS NOT NULL"
        )
        self._vectors = {row[0]: row_hash(EMBEDDINGS, row) for row in vectors}

    @contextmanager
    def transaction(self, seal: bool = True) -> Iterator[None]:
        """Commit everything written inside, or nothing.

        With ``seal``, also write the running time and the checksum. Otherwise, the rows must contain it.
        """
        before = self._checksum.writes, self._checksum.total
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield
            if seal:
                self._seal()
            self._db.execute("COMMIT")
        except BaseException as error:
            self._checksum = Checksum(*before)  # SQLite may have rolled back by itself
            if isinstance(error, sqlite3.Error):
                raise write_error(self.path, error) from error
            raise
        finally:
            if self._db.in_transaction:
                self._db.rollback()

    def _seal(self) -> None:
        if self._elapsed is not None:
            self._seconds = self._elapsed()
            self._db.execute(SET_META, (SECONDS, json.dumps(self._seconds)))
        if self.has_checksum:
            self._db.execute(SET_META, (CHECKSUM, self._checksum.to_json(self._seconds)))

    # -- metadata --------------------------------------------------------------------------------

    def set_meta(self, key: str, value: Any) -> None:
        with self.transaction():
            self._set_meta(key, value)

    def _set_meta(self, key: str, value: Any) -> None:
        row = (key, json.dumps(value))
        if key == SECONDS:
            self._seconds = value
        else:
            self._replace(META, row)
        self._db.execute(SET_META, row)

    def _replace(self, part: Part, row: tuple[Any, ...]) -> None:
        """Update the checksum for a row that may replace another one with the same key."""
        self._remove(part, row[0])
        self._checksum.add(part, row)

    def _remove(self, part: Part, key: Any) -> None:
        """Update the checksum for a row that is about to be replaced or deleted."""
        name, columns = part.columns[0], ", ".join(part.columns)
        query = f"SELECT {columns} FROM {part.table} WHERE {name} = ?"
        for old in self._db.execute(query, (key,)).fetchall():
            self._checksum.remove(row_hash(part, old))

    def record_time(self, elapsed: Callable[[], float]) -> None:
        """Store the running time with every outcome, failure and event from now on.

        ``elapsed`` returns the running time of all sessions. The wall clock is unsuitable: it can be
        changed, and it keeps running while a laptop sleeps.
        """
        self._elapsed = elapsed

    # -- tickets and samples ---------------------------------------------------------------------

    def asked(self, entries: Sequence[Entry], first_step: int) -> None:
        now = time.time()
        with self.transaction(seal=False):
            for step, e in enumerate(entries, first_step):
                numbers = (e.place, e.seed, _real(e.weight), _real(e.propensity), int(e.probe))
                if e.prompt is not None:
                    self._add(PROMPTED, (e.id, e.prompt.id))
                self._insert(TICKETS, (e.id, e.arm, *numbers, step, now))

    def made(self, ticket: int, sample: Sample, image: str | None, started_at: float) -> None:
        """Record a generated sample, which has been paid for and is never generated again."""
        row = (
            ticket,
            sample.text,
            image,
            sample.prompt,
            sample.source,
            _real(sample.quality),
            _real(sample.cost),
            sample.input_tokens,
            sample.output_tokens,
            float(started_at),
            time.time(),
        )
        with self.transaction(seal=False):
            if sample.vector is None:
                self._insert(SAMPLES, row)
                return
            blob, dtype = _encoded(sample.vector)
            added = self._checksum.add(EMBEDDINGS, (ticket, blob, dtype))
            self._insert(SAMPLES, row, embedding=blob, dtype=dtype)
        self._vectors[ticket] = added

    def _add(self, part: Part, row: tuple[Any, ...]) -> None:
        """Insert a row of a table without checksums."""
        self._checksum.add(part, row)
        self._db.execute(part.insert(), row)

    def _insert(self, part: Part, row: tuple[Any, ...], **more: Any) -> None:
        """Insert a row with the checksum that includes it."""
        self._checksum.add(part, row)
        if self.has_checksum:
            more["checksum"] = self._checksum.to_bytes()
        self._db.execute(part.insert(0, *more), (*row, *more.values()))

    def told(self, ticket: int, embedding: NDArray[Any], step: int, group: int) -> None:
        """Record that the selector was told a sample; ``group`` is the first step of its batch."""
        blob, dtype = _encoded(embedding)
        with self.transaction():
            stored = self._db.execute(
                "UPDATE samples SET embedding = ?, dtype = ? WHERE ticket = ?",
                (blob, dtype, ticket),
            )
            if stored.rowcount:
                self._checksum.remove(self._vectors.get(ticket, 0))
                self._checksum.add(EMBEDDINGS, (ticket, blob, dtype))
            self._end(ticket, "told", step, group)
        self._vectors.pop(ticket, None)

    def failure(self, entry: Entry, stage: str, error: Exception) -> None:
        """Record a failed attempt; a retry of the ticket may still succeed."""
        paid = error if isinstance(error, GenerationError) else GenerationError("")
        values = (
            entry.id,
            entry.arm,
            time.time(),
            stage,
            str(error),
            _real(paid.cost),
            paid.input_tokens,
            paid.output_tokens,
        )
        with self.transaction():
            self._append(FAILURES, values)
        told = {"stage": stage, "message": str(error), "cost": paid.cost}
        self.watch.event("failure", arm=entry.arm, ticket=entry.id, **told)

    def ended(self, ticket: int, outcome: str, step: int) -> None:
        """Record that a ticket failed permanently or was withdrawn."""
        with self.transaction():
            self._end(ticket, outcome, step)

    def _end(self, ticket: int, outcome: str, step: int, group: int | None = None) -> None:
        row = (outcome, step, time.time(), group)
        stored = self._db.execute(
            "UPDATE tickets SET outcome = ?, ended_step = ?, ended_at = ?, told_with = ? WHERE id = ?",
            (*row, ticket),
        )
        if stored.rowcount:
            self._checksum.add(OUTCOMES, (ticket, *row))

    # -- events and timeline ---------------------------------------------------------------------

    def event(
        self, kind: str, arm: str | None = None, step: int | None = None, **detail: Any
    ) -> None:
        with self.transaction():
            self._append(EVENTS, (time.time(), kind, arm, step, json.dumps(detail)))
        self.watch.event(kind, arm=arm, **detail)

    def changed(
        self, changes: Iterable[tuple[str | None, Mapping[str, Any]]], meta: Mapping[str, Any]
    ) -> None:
        """Record the changes of a study, each with its arm, together with the metadata that they change."""
        with self.transaction():
            for arm, detail in changes:
                self._append(EVENTS, (time.time(), "changed", arm, None, json.dumps(detail)))
            for key, value in meta.items():
                self._set_meta(key, value)

    def _append(self, part: Part, values: tuple[Any, ...]) -> None:
        """Insert a row with the next id."""
        stored = self._db.execute(part.insert(1), values)
        self._checksum.add(part, (stored.lastrowid, *values))

    def write_timeline(
        self,
        samples: int,
        weights: Mapping[str, float],
        score: Mapping[str, float | None] | None,
        pooled: Mapping[str, float | None] | None,
    ) -> None:
        """Record weights and scores at this number of samples."""
        scores = [None if found is None else json.dumps(found) for found in (score, pooled)]
        row = (samples, time.time(), json.dumps(weights), *scores)
        with self.transaction():
            self._replace(TIMELINE_ROWS, row)
            self._db.execute("INSERT OR REPLACE INTO timeline VALUES (?, ?, ?, ?, ?)", row)
        self.watch.event("progress", samples=samples, weights=weights, score=score, pooled=pooled)

    def remove_from_timeline(self, samples: int) -> None:
        """Remove what was recorded at this number of samples."""
        with self.transaction():
            self._remove(TIMELINE_ROWS, samples)
            self._db.execute("DELETE FROM timeline WHERE samples = ?", (samples,))


def _real(value: float | None) -> float | None:
    """Convert to what SQLite returns for a number: it has no NaN and no negative zero."""
    return None if value is None or value != value else float(value) + 0.0


def _encoded(embedding: Any) -> tuple[bytes, str]:
    """Convert to the bytes and dtype of little-endian float32 or float64 without losing precision."""
    row = np.ascontiguousarray(embedding)
    kind = "<f4" if row.dtype in (np.float16, np.float32) else "<f8"
    return row.astype(kind).tobytes(), kind
