"""The journal of a run: one SQLite file that knows every ticket, sample, failure and event.

Written ahead (WAL) with ``synchronous=NORMAL``: what was committed survives the death of the process
at any moment. A power cut may take the last transactions with it, never tear one: the run then goes on
from a little earlier.

A *step* counts what was done to the selector, in order: a ticket asked for, told, failed or withdrawn,
an arm retired or brought back. Doing the same steps again gives the same selector.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genmix.data.samples import Sample
from genmix.errors import InputError, StorageError
from genmix.generators.base import GenerationError
from genmix.runs.connection import connect, is_damage, reader, writer

FORMAT = 1
NAME = "journal.sqlite"
DTYPES = ("<f4", "<f8")
TICKETS_AT_ONCE = 500
LETTERS = 4000
SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE tickets (
    id INTEGER PRIMARY KEY,
    arm TEXT NOT NULL,
    place INTEGER NOT NULL,         -- which one of the arm, from 0
    seed INTEGER NOT NULL,
    weight REAL NOT NULL,           -- of the arm, when it was drawn
    propensity REAL NOT NULL,
    asked_step INTEGER NOT NULL UNIQUE,
    asked_at REAL NOT NULL,
    probe INTEGER NOT NULL,         -- whether it was asked for to see if the arm works again
    ended_step INTEGER UNIQUE,
    ended_at REAL,
    told_with INTEGER,              -- the first step of those told at once
    outcome TEXT CHECK (outcome IN ('told', 'failed', 'withdrawn')),
    UNIQUE (arm, place)
) STRICT;
CREATE TABLE samples (
    ticket INTEGER PRIMARY KEY REFERENCES tickets (id),
    text TEXT,
    image TEXT,                     -- the name of a file in the folder images
    prompt TEXT,
    source TEXT,                    -- the file and row of a recorded sample
    quality REAL,
    cost REAL,
    input_tokens INTEGER,
    output_tokens INTEGER,
    started_at REAL NOT NULL,
    made_at REAL NOT NULL,
    embedding BLOB,
    dtype TEXT
) STRICT;
CREATE TABLE failures (
    id INTEGER PRIMARY KEY,
    ticket INTEGER NOT NULL REFERENCES tickets (id),
    arm TEXT NOT NULL,
    at REAL NOT NULL,
    stage TEXT NOT NULL,            -- generate or encode
    message TEXT NOT NULL,
    cost REAL,
    input_tokens INTEGER,
    output_tokens INTEGER
) STRICT;
CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    kind TEXT NOT NULL,
    arm TEXT,
    step INTEGER UNIQUE,            -- if it was done to the selector
    detail TEXT NOT NULL
) STRICT;
CREATE INDEX open_tickets ON tickets (id) WHERE outcome IS NULL;
"""

TIMELINE = """
CREATE TABLE IF NOT EXISTS timeline (
    samples INTEGER PRIMARY KEY,    -- told when it was written
    at REAL NOT NULL,
    weights TEXT NOT NULL,          -- JSON: arm -> weight
    score TEXT,                     -- JSON: name -> score of the mixture
    pooled TEXT                     -- JSON: name -> score of all samples
) STRICT
"""
"""How the run went, for people to look at; runs of before it had none go on and get one."""


class JournalError(StorageError):
    """The journal could not be read or written; everything committed before is safe."""


@dataclass(frozen=True)
class Entry:
    """A ticket as the journal knows it."""

    id: int
    arm: str
    place: int
    seed: int
    weight: float
    propensity: float
    probe: bool = False
    """Asked for to see whether a suspended arm works again."""


@dataclass(frozen=True)
class Step:
    """One thing that was done to the selector."""

    number: int
    kind: str
    """ask, probe, told, failed, withdrawn, retire or revive."""
    ticket: int | None
    arm: str
    embedding: NDArray[Any] | None = None
    quality: float | None = None
    cost: float | None = None
    group: int | None = None
    """The first step of the samples told at once with this one."""


class Journal:
    """Reads and writes one run's journal."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._db, self.path = connection, path
        self._elapsed: Callable[[], float] | None = None

    @classmethod
    def create(cls, folder: Path, meta: Mapping[str, Any]) -> Journal:
        """A new journal; complete with its meta data, or not there at all.

        The draft is not written ahead: what a full disk has no room for then is missed at its commit, not
        when it is closed, of which SQLite says nothing.
        """
        path = folder / NAME
        if path.exists():
            raise InputError(f"{folder} holds a run already: resume it, or name another folder.")
        draft = path.with_name(NAME + ".part")
        for leftover in folder.glob(draft.name + "*"):
            leftover.unlink()
        with _explained(path):
            connection = connect(draft, "rwc")
        with closing(cls(connection, draft)) as journal, journal.transaction():
            for statement in SCHEMA.split(";\n"):
                journal._db.execute(statement)
            journal._db.execute(f"PRAGMA user_version = {FORMAT}")
            for key, value in meta.items():
                journal._set(key, value)
        draft.rename(path)
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path, readonly: bool = False) -> Journal:
        path = folder / NAME
        if not path.exists():
            raise InputError(f"{folder} is no run folder: it has no {NAME}.")
        with _explained(path):
            journal = cls(reader(path) if readonly else writer(path), path)
        try:
            journal._check_format()
            if not readonly:
                with journal.transaction():
                    journal._db.execute(TIMELINE)
        except JournalError:
            journal.close()
            raise
        return journal

    def _check_format(self) -> None:
        [(found,)] = self.query("PRAGMA user_version")
        if found != FORMAT:
            raise JournalError(
                f"{self.path} has format {found} and this genmix reads format {FORMAT}: "
                "use the genmix that wrote it, or start a new run."
            )

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of what is written inside, or none of it."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            raise JournalError(
                f"the journal {self.path} could not be written ({error}): "
                "make room or mend the disk, then resume the run."
            ) from error
        finally:
            if self._db.in_transaction:
                self._db.rollback()

    # -- meta data -------------------------------------------------------------------------------

    def meta(self, key: str) -> Any:
        rows = self.query("SELECT value FROM meta WHERE key = ?", key)
        return json.loads(rows[0][0]) if rows else None

    def set_meta(self, key: str, value: Any) -> None:
        with self.transaction():
            self._set(key, value)

    def _set(self, key: str, value: Any) -> None:
        self._db.execute(
            "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            (key, json.dumps(value)),
        )

    def study_folder(self) -> Path:
        """Where the study's own files are: where they were, or, if they went to another place together
        with the run, there: known by the study's file, or by there being no other."""
        before, home = Path(self.meta("folder") or "."), self.meta("home")
        if home is None:  # a run from before this was kept
            return before
        here, file = self.path.parent.resolve(), self.meta("file")
        near = Path(os.path.normpath(here / os.path.relpath(before, home)))
        is_known = file is not None and (near / file).is_file()
        return near if is_known or (near.is_dir() and not before.is_dir()) else before

    # -- writing ---------------------------------------------------------------------------------

    def asked(self, entries: Sequence[Entry], first_step: int) -> None:
        now = time.time()
        with self.transaction():
            self._db.executemany(
                "INSERT INTO tickets (id, arm, place, seed, weight, propensity, probe, asked_step,"
                " asked_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [(*astuple(e), first_step + i, now) for i, e in enumerate(entries)],
            )

    def made(self, ticket: int, sample: Sample, image: str | None, started_at: float) -> None:
        """A sample came; from here on it is paid for and will not be made again."""
        vector = None if sample.vector is None else _stored(sample.vector)
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
        row = _stored(embedding)
        with self.transaction():
            self._db.execute(
                "UPDATE samples SET embedding = ?, dtype = ? WHERE ticket = ?",
                (row.tobytes(), row.dtype.str, ticket),
            )
            self._db.execute("UPDATE tickets SET told_with = ? WHERE id = ?", (group, ticket))
            self._end(ticket, "told", step)

    def failure(self, entry: Entry, stage: str, error: Exception) -> None:
        """An attempt that failed; the ticket may still succeed."""
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
        """A ticket that failed for good, or was withdrawn before its sample was made."""
        with self.transaction():
            self._end(ticket, outcome, step)

    def _end(self, ticket: int, outcome: str, step: int) -> None:
        self._db.execute(
            "UPDATE tickets SET outcome = ?, ended_step = ?, ended_at = ? WHERE id = ?",
            (outcome, step, time.time(), ticket),
        )
        self._write_time()

    def event(
        self, kind: str, arm: str | None = None, step: int | None = None, **detail: Any
    ) -> None:
        with self.transaction():
            self._db.execute(
                "INSERT INTO events (at, kind, arm, step, detail) VALUES (?, ?, ?, ?, ?)",
                (time.time(), kind, arm, step, json.dumps(detail)),
            )
            self._write_time()

    def keep_time(self, elapsed: Callable[[], float]) -> None:
        """Write down with all that ends or happens how long the run has run, by the clock of its sessions:
        that of the wall can be set, and goes on while a laptop sleeps."""
        self._elapsed = elapsed

    def _write_time(self) -> None:
        if self._elapsed is not None:
            self._set("seconds", self._elapsed())

    def went(
        self,
        samples: int,
        weights: Mapping[str, float],
        score: Mapping[str, float | None] | None,
        pooled: Mapping[str, float | None] | None,
    ) -> None:
        """Where the run stands at this number of samples."""
        scores = [None if found is None else json.dumps(found) for found in (score, pooled)]
        with self.transaction():
            self._db.execute(
                "INSERT OR REPLACE INTO timeline VALUES (?, ?, ?, ?, ?)",
                (samples, time.time(), json.dumps(weights), *scores),
            )

    # -- reading ---------------------------------------------------------------------------------

    def timeline(self) -> list[dict[str, Any]]:
        """Samples, time, weights and scores as the run went; empty if nothing was written down."""
        if not self.has_timeline():
            return []
        found = self._rows("SELECT * FROM timeline ORDER BY samples")
        return [
            row | {key: json.loads(row[key] or "null") for key in ("weights", "score", "pooled")}
            for row in found
        ]

    def has_timeline(self) -> bool:
        """False of a journal from before there were timelines."""
        return bool(self.query("SELECT 1 FROM sqlite_master WHERE name = 'timeline'"))

    def steps(self, after: int = -1) -> Iterator[Step]:
        """What was done to the selector, in order, from the step after this one."""
        rows = self._db.execute(
            """
            SELECT asked_step, iif(probe, 'probe', 'ask'), id, arm, NULL, NULL, NULL, NULL, NULL FROM tickets
                WHERE asked_step > :after
            UNION ALL
            SELECT ended_step, outcome, id, arm, embedding, dtype, quality, cost, told_with
                FROM tickets LEFT JOIN samples ON ticket = id WHERE ended_step > :after
            UNION ALL
            SELECT step, kind, NULL, arm, NULL, NULL, NULL, NULL, NULL FROM events
                WHERE step > :after
            ORDER BY 1
            """,
            {"after": after},
        )
        for number, kind, ticket, arm, blob, dtype, quality, cost, group in rows:
            embedding = _read(blob, dtype) if kind == "told" else None
            yield Step(number, kind, ticket, arm, embedding, quality, cost, group)

    def last_step(self) -> int:
        (found,) = self._db.execute(
            "SELECT max(coalesce((SELECT max(asked_step) FROM tickets), -1),"
            " coalesce((SELECT max(ended_step) FROM tickets), -1),"
            " coalesce((SELECT max(step) FROM events), -1))"
        ).fetchone()
        return int(found)

    def unfinished(self) -> list[tuple[Entry, dict[str, Any] | None]]:
        """Tickets without an end, each with its sample's row if that was made already."""
        tickets = self._rows(
            "SELECT id, arm, place, seed, weight, propensity, probe FROM tickets"
            " WHERE outcome IS NULL ORDER BY id"
        )
        return [
            (Entry(**row | {"probe": bool(row["probe"])}), self._sample(row["id"]))
            for row in tickets
        ]

    def _sample(self, ticket: int) -> dict[str, Any] | None:
        found = self._rows("SELECT * FROM samples WHERE ticket = ?", ticket)
        return found[0] if found else None

    def places(self) -> dict[str, int]:
        """How many tickets each arm has had."""
        return dict(self._db.execute("SELECT arm, max(place) + 1 FROM tickets GROUP BY arm"))

    def spent(self) -> list[float]:
        """Every cost there was, of samples and of failures."""
        rows = self._db.execute(
            "SELECT cost FROM samples WHERE cost IS NOT NULL"
            " UNION ALL SELECT cost FROM failures WHERE cost IS NOT NULL"
        )
        return [cost for (cost,) in rows]

    def paid(self) -> dict[str, float]:
        """What every arm has cost, its failures and samples that were refused among it."""
        found: dict[str, list[float]] = {}
        for arm, cost in self._db.execute(
            """
            SELECT arm, cost FROM samples JOIN tickets ON ticket = id WHERE cost IS NOT NULL
            UNION ALL SELECT arm, cost FROM failures WHERE cost IS NOT NULL
            """
        ):
            found.setdefault(arm, []).append(cost)
        return {arm: math.fsum(costs) for arm, costs in found.items()}

    def largest_costs(self) -> dict[str, float]:
        """The dearest sample or failure of every arm that has had a cost."""
        rows = self._db.execute(
            """
            SELECT arm, max(cost) FROM (
                SELECT arm, cost FROM samples JOIN tickets ON ticket = id
                UNION ALL SELECT arm, cost FROM failures
            ) WHERE cost IS NOT NULL GROUP BY arm
            """
        )
        return dict(rows)

    def tokens(self) -> tuple[int, int]:
        """Tokens in and out, of samples and of failures."""
        rows = self._db.execute(
            "SELECT coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0) FROM ("
            " SELECT input_tokens, output_tokens FROM samples"
            " UNION ALL SELECT input_tokens, output_tokens FROM failures)"
        )
        return rows.fetchone()  # type: ignore[no-any-return]

    def failures(self) -> list[dict[str, Any]]:
        """Every attempt that failed, in order."""
        return self._rows("SELECT * FROM failures ORDER BY id")

    def events(self) -> list[dict[str, Any]]:
        """Everything that happened beside tickets, in order."""
        found = self._rows("SELECT * FROM events ORDER BY id")
        return [row | {"detail": json.loads(row["detail"])} for row in found]

    def running_time(self) -> float:
        """Seconds that all sessions together have run, up to the last sign of life."""
        kept = self.meta("seconds")
        return self._time_by_stamps() if kept is None else float(kept)

    def _time_by_stamps(self) -> float:
        """The same of a run whose time was not kept, from its times of day."""
        signs = self._db.execute(
            "SELECT asked_at, 0 FROM tickets UNION ALL SELECT ended_at, 0 FROM tickets"
            " WHERE ended_at IS NOT NULL UNION ALL SELECT made_at, 0 FROM samples"
            " UNION ALL SELECT at, kind = 'start' FROM events ORDER BY 1, 2"
        )
        total, last = 0.0, None
        for at, starts in signs:
            if last is not None and not starts:
                total += at - last
            last = at
        return total

    def told_numbers(self) -> list[tuple[int, str, float | None, float | None]]:
        """Ticket, arm, quality and cost of every told sample, in order; contents stay on the disk."""
        return self._db.execute(
            "SELECT id, arm, quality, cost FROM tickets JOIN samples ON ticket = id"
            " WHERE outcome = 'told' ORDER BY ended_step"
        ).fetchall()

    def samples_of(self, tickets: Sequence[int]) -> Iterator[dict[str, Any]]:
        """The samples of these tickets, in this order; of a text that is long, the beginning."""
        for first in range(0, len(tickets), TICKETS_AT_ONCE):
            part = tickets[first : first + TICKETS_AT_ONCE]
            marks = ", ".join("?" * len(part))
            rows = self._rows(f"SELECT * FROM samples WHERE ticket IN ({marks})", *part)
            found = {row["ticket"]: _begun(row) for row in rows}
            yield from (found[ticket] for ticket in part)

    def told_rows(self) -> Iterator[dict[str, Any]]:
        """Every told sample with its ticket, in the order in which they were told."""
        cursor = self._db.execute(
            """
            SELECT id, arm, place, seed, weight, propensity, asked_at, ended_at, samples.*
            FROM tickets JOIN samples ON ticket = id WHERE outcome = 'told' ORDER BY ended_step
            """
        )
        names = [column[0] for column in cursor.description]
        for row in cursor:
            yield dict(zip(names, row, strict=True))

    def query(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """What one who watches the run from outside wants to know."""
        try:
            return self._db.execute(query, parameters).fetchall()
        except (sqlite3.Error, OverflowError) as error:  # damaged, or a number that SQLite has not
            raise JournalError(
                f"the journal {self.path} could not be read ({error}): if it is damaged, restore a copy."
            ) from error

    def _rows(self, query: str, *parameters: Any) -> list[dict[str, Any]]:
        cursor = self._db.execute(query, parameters)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]


def embedding_of(row: Mapping[str, Any]) -> NDArray[Any]:
    """The embedding in a row of samples."""
    return _read(row["embedding"], row["dtype"])


def _begun(row: dict[str, Any]) -> dict[str, Any]:
    """A sample with the beginnings of its texts, for those who look at many."""
    return row | {key: row[key] and row[key][:LETTERS] for key in ("text", "prompt")}


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """What keeps a journal from being opened, in a sentence."""
    try:
        yield
    except sqlite3.Error as error:
        raise JournalError(
            f"{path} is no journal ({error}): restore it from a copy."
            if is_damage(error)
            else f"the journal {path} could not be opened ({error}): check the rights and the room of its "
            "folder, or copy the run to another."
        ) from error


def _stored(embedding: Any) -> NDArray[Any]:
    """As little-endian float32 or float64, whichever holds it without loss."""
    row = np.ascontiguousarray(embedding)
    kind = "<f4" if row.dtype in (np.float16, np.float32) else "<f8"
    return row.astype(kind)


def _read(blob: bytes, dtype: str) -> NDArray[Any]:
    if dtype not in DTYPES or len(blob) % int(dtype[-1]):
        raise JournalError("the journal holds a damaged embedding: restore it from a copy.")
    return np.frombuffer(blob, dtype=dtype)
