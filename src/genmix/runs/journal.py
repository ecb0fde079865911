"""Write a run's journal: one SQLite file with every ticket, sample, failure and event.

The journal uses a write-ahead log (WAL) with ``synchronous=NORMAL``. Committed transactions survive if the
process is killed at any moment. A power failure can lose the last transactions but never part of one; the
run then continues from a slightly earlier state.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from genmix.data.samples import Sample
from genmix.errors import InputError
from genmix.generators.base import GenerationError
from genmix.runs.journal_reader import JournalReader
from genmix.runs.journal_schema import (
    FORMAT,
    JOURNAL,
    TABLES,
    TIMELINE,
    Entry,
    JournalError,
    connect,
    explained_opening,
    write_error,
    writing_connection,
)


class Journal(JournalReader):
    """Read and write one run's journal.

    Use it as a context manager::

        with Journal.open(folder) as journal:
            journal.event("start")
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        super().__init__(connection, path)
        self._elapsed: Callable[[], float] | None = None

    @classmethod
    def create(cls, folder: Path, meta: Mapping[str, Any]) -> Journal:
        """Create a journal with its metadata; on failure, leave nothing behind."""
        path = folder / JOURNAL
        if path.exists():
            raise InputError(
                f"{folder} already contains a run; resume it, or choose another folder."
            )
        draft = path.with_name(f"{JOURNAL}.part")
        for leftover in folder.glob(f"{draft.name}*"):
            leftover.unlink()
        with explained_opening(path):
            # Do not use a write-ahead log here. Without it, a full disk makes the commit fail. With it,
            # the checkpoint on close would fail, which SQLite does not report.
            connection = connect(draft, "rwc")
        with cls(connection, draft) as journal, journal.transaction():
            for statement in TABLES.split(";\n"):
                journal._db.execute(statement)
            journal._db.execute(f"PRAGMA user_version = {FORMAT}")
            for key, value in meta.items():
                journal._set_meta(key, value)
        draft.rename(path)
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path) -> Self:
        journal = cls._open(folder, writing_connection)
        try:
            with journal.transaction():
                journal._db.execute(TIMELINE)
        except JournalError:
            journal.close()
            raise
        return journal

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit everything written inside, or nothing."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            raise write_error(self.path, error) from error
        finally:
            if self._db.in_transaction:
                self._db.rollback()

    # -- metadata --------------------------------------------------------------------------------

    def set_meta(self, key: str, value: Any) -> None:
        with self.transaction():
            self._set_meta(key, value)

    def _set_meta(self, key: str, value: Any) -> None:
        self._db.execute(
            "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            (key, json.dumps(value)),
        )

    def record_time(self, elapsed: Callable[[], float]) -> None:
        """Store the running time with every outcome and event from now on.

        ``elapsed`` returns the running time of all sessions. The wall clock is unsuitable: it can be
        changed, and it keeps running while a laptop sleeps.
        """
        self._elapsed = elapsed

    def _write_time(self) -> None:
        if self._elapsed is not None:
            self._set_meta("seconds", self._elapsed())

    # -- tickets and samples ---------------------------------------------------------------------

    def asked(self, entries: Sequence[Entry], first_step: int) -> None:
        now = time.time()
        with self.transaction():
            self._db.executemany(
                "INSERT INTO tickets (id, arm, place, seed, weight, propensity, probe, asked_step,"
                " asked_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [(*astuple(e), first_step + i, now) for i, e in enumerate(entries)],
            )

    def made(self, ticket: int, sample: Sample, image: str | None, started_at: float) -> None:
        """Record a generated sample, which has been paid for and is never generated again."""
        vector = None if sample.vector is None else _encoded(sample.vector)
        with self.transaction():
            self._db.execute(
                "INSERT INTO samples VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    ticket,
                    sample.text,
                    image,
                    sample.prompt,
                    sample.source,
                    sample.quality,
                    sample.cost,
                    sample.input_tokens,
                    sample.output_tokens,
                    started_at,
                    time.time(),
                    None if vector is None else vector.tobytes(),
                    None if vector is None else vector.dtype.str,
                ),
            )

    def told(self, ticket: int, embedding: NDArray[Any], step: int, group: int) -> None:
        """Record that the selector was told a sample; ``group`` is the first step of its batch."""
        row = _encoded(embedding)
        with self.transaction():
            self._db.execute(
                "UPDATE samples SET embedding = ?, dtype = ? WHERE ticket = ?",
                (row.tobytes(), row.dtype.str, ticket),
            )
            self._db.execute("UPDATE tickets SET told_with = ? WHERE id = ?", (group, ticket))
            self._end(ticket, "told", step)

    def failure(self, entry: Entry, stage: str, error: Exception) -> None:
        """Record a failed attempt; a retry of the ticket may still succeed."""
        paid = error if isinstance(error, GenerationError) else GenerationError("")
        with self.transaction():
            self._db.execute(
                "INSERT INTO failures (ticket, arm, at, stage, message, cost, input_tokens,"
                " output_tokens) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    entry.id,
                    entry.arm,
                    time.time(),
                    stage,
                    str(error),
                    paid.cost,
                    paid.input_tokens,
                    paid.output_tokens,
                ),
            )

    def ended(self, ticket: int, outcome: str, step: int) -> None:
        """Record that a ticket failed permanently or was withdrawn."""
        with self.transaction():
            self._end(ticket, outcome, step)

    def _end(self, ticket: int, outcome: str, step: int) -> None:
        self._db.execute(
            "UPDATE tickets SET outcome = ?, ended_step = ?, ended_at = ? WHERE id = ?",
            (outcome, step, time.time(), ticket),
        )
        self._write_time()

    # -- events and timeline ---------------------------------------------------------------------

    def event(
        self, kind: str, arm: str | None = None, step: int | None = None, **detail: Any
    ) -> None:
        with self.transaction():
            self._db.execute(
                "INSERT INTO events (at, kind, arm, step, detail) VALUES (?, ?, ?, ?, ?)",
                (time.time(), kind, arm, step, json.dumps(detail)),
            )
            self._write_time()

    def write_timeline(
        self,
        samples: int,
        weights: Mapping[str, float],
        score: Mapping[str, float | None] | None,
        pooled: Mapping[str, float | None] | None,
    ) -> None:
        """Record weights and scores at this number of samples."""
        scores = [None if found is None else json.dumps(found) for found in (score, pooled)]
        with self.transaction():
            self._db.execute(
                "INSERT OR REPLACE INTO timeline VALUES (?, ?, ?, ?, ?)",
                (samples, time.time(), json.dumps(weights), *scores),
            )


def _encoded(embedding: Any) -> NDArray[Any]:
    """Convert to little-endian float32 or float64 without losing precision."""
    row = np.ascontiguousarray(embedding)
    kind = "<f4" if row.dtype in (np.float16, np.float32) else "<f8"
    return row.astype(kind)
