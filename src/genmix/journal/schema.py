"""The journal file: its SQL schema, its records, and how to open it.

Everything that changes the selector is a numbered *step*: a ticket is asked for, told, failed or
withdrawn, an arm joins or is retired or revived, or the plan for the budget changes. Repeating the same steps
reproduces the same selector.
"""

from __future__ import annotations

import math
import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genmix.core.text import quotable
from genmix.data.prompts import Prompt
from genmix.errors import StorageError
from genmix.journal.file_systems import file_system_of
from genmix.journal.lock import holder
from genmix.journal.private_copy import has_log, private_copy

JOURNAL = "journal.sqlite"
FORMAT = 2
"""Format 1 has no checksums; it is still read, and runs in it can be resumed."""
FORMATS = (1, FORMAT)
DTYPES = ("<f4", "<f8")
"""Data types in which embeddings are stored."""

TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE tickets (
    id INTEGER PRIMARY KEY,
    arm TEXT NOT NULL,
    place INTEGER NOT NULL,         -- index among the arm's tickets, from 0
    seed INTEGER NOT NULL,
    weight REAL NOT NULL,           -- of the arm when the ticket was drawn
    propensity REAL NOT NULL,
    asked_step INTEGER NOT NULL UNIQUE,
    asked_at REAL NOT NULL,
    probe INTEGER NOT NULL,         -- whether it tests if a suspended arm works again
    ended_step INTEGER UNIQUE,
    ended_at REAL,
    told_with INTEGER,              -- first step of the batch it was told in
    outcome TEXT CHECK (outcome IN ('told', 'failed', 'withdrawn')),
    checksum BLOB,                  -- of the whole journal when the ticket was written
    UNIQUE (arm, place)
) STRICT;
CREATE TABLE samples (
    ticket INTEGER PRIMARY KEY REFERENCES tickets (id),
    text TEXT,
    image TEXT,                     -- file name in the folder images
    prompt TEXT,
    source TEXT,                    -- file and row of a recorded sample
    quality REAL,
    cost REAL,
    input_tokens INTEGER,
    output_tokens INTEGER,
    started_at REAL NOT NULL,
    made_at REAL NOT NULL,
    embedding BLOB,
    dtype TEXT,
    checksum BLOB                   -- of the whole journal when the sample was written
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
    step INTEGER UNIQUE,            -- set if it changed the selector
    detail TEXT NOT NULL
) STRICT;
CREATE INDEX open_tickets ON tickets (id) WHERE outcome IS NULL;
"""

TIMELINE = """
CREATE TABLE IF NOT EXISTS timeline (
    samples INTEGER PRIMARY KEY,    -- samples told when the row was written
    at REAL NOT NULL,
    weights TEXT NOT NULL,          -- JSON: arm -> weight
    score TEXT,                     -- JSON: name -> score of the mixture
    pooled TEXT                     -- JSON: name -> score of all samples
) STRICT
"""
"""Progress over time. Journals from older versions lack this table until they are opened for writing."""

PROMPTS = (
    """
CREATE TABLE prompts (
    id INTEGER PRIMARY KEY,         -- row in the file of the study
    text TEXT NOT NULL,
    topic TEXT                      -- the group, if there are groups
) STRICT
""",
    """
CREATE TABLE prompted (             -- which prompt a ticket answers
    ticket INTEGER PRIMARY KEY,
    prompt_id INTEGER NOT NULL REFERENCES prompts (id)
) STRICT
""",
)
"""Tables that only the journals of studies with prompts have."""
PROMPT_EMBEDDINGS = """
CREATE TABLE prompt_embeddings (
    prompt_id INTEGER PRIMARY KEY REFERENCES prompts (id),
    embedding BLOB NOT NULL,
    dtype TEXT NOT NULL
) STRICT
"""
"""A table that only journals have whose objective or policy uses the embeddings of the prompts."""

READ = {
    "samples": "SELECT ticket, text, image, prompt, source, quality, cost, input_tokens, output_tokens,"
    " started_at, made_at, embedding, dtype FROM samples",
    "failures": "SELECT id, ticket, arm, at, stage, message, cost, input_tokens, output_tokens"
    " FROM failures",
    "events": "SELECT id, at, kind, arm, step, detail FROM events",
    "timeline": "SELECT samples, at, weights, score, pooled FROM timeline",
}
"""Queries by table. They name the columns, so that SQLite reports those that a damaged file lacks."""

CORRUPT = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)
NOT_WRITABLE = (
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
)
"""SQLite's error codes for when it cannot create the shared-memory file that a reader needs."""


GUARDS = ("trusted_schema = OFF", "cell_size_check = ON")
"""Settings for reading a file that anybody may have written."""

SHARED_LOG_PAGES = 16384
"""Pages of the write-ahead log (64 MB) after which it is restarted, on a network file system."""

COPY_FACTOR = 10
"""A copy may take this many times as long as the queries."""

OPERATIONS_PER_CHECK = 5000
"""Steps of SQLite's virtual machine between checks of a time limit; they take less than a millisecond."""


class JournalError(StorageError):
    """The journal could not be read or written. Everything committed earlier is safe."""


class SlowJournalError(JournalError):
    """Reading the journal exceeded its time limit."""


class ChangedJournalError(JournalError):
    """A journal that is read without locks changed during the read; what was read may be inconsistent."""


@dataclass(frozen=True)
class Entry:
    """A ticket as the journal records it."""

    id: int
    arm: str
    place: int
    """Index among the arm's tickets."""
    seed: int
    weight: float
    propensity: float
    probe: bool = False
    """Whether the ticket checks if a suspended arm works again."""
    prompt: Prompt | None = None
    """The prompt to answer, in a study with prompts."""


@dataclass(frozen=True)
class JournalStep:
    """One change to the selector."""

    number: int
    kind: str
    """ask, probe, told, failed, withdrawn, retire, revive, join or plan."""
    ticket: int | None
    arm: str
    embedding: NDArray[Any] | None = None
    quality: float | None = None
    cost: float | None = None
    group: int | None = None
    """The first step of the batch that this sample was told in."""
    detail: Mapping[str, Any] = field(default_factory=dict)
    """What a change of an arm or of the plan consists of."""


# -- connections -------------------------------------------------------------------------------------


def reading_connection(path: Path, limit: Limit | None = None) -> sqlite3.Connection:
    """Open for reading; this also works on read-only media.

    SQLite creates an empty log beside a journal that it reads, and only a connection that may write removes
    it. Therefore a journal without limits and without a writer is opened for writing, with all writes
    disabled. A journal that may be hostile never is, nor one on a network file system.
    """
    if file_system_of(path.parent).is_network:
        return _unlocked_connection(path, limit)
    try:
        if limit is None and not has_log(path) and holder(path.parent) is None:
            return connect(path, "rw", "query_only = ON", *GUARDS)
        return connect(path, "ro", *GUARDS, limit=limit)
    except sqlite3.Error as error:
        if _code(error) not in NOT_WRITABLE:
            raise
    return _unlocked_connection(path, limit)


def _unlocked_connection(path: Path, limit: Limit | None) -> sqlite3.Connection:
    """Open without locks and without files beside the journal; a copy, if it has a write-ahead log."""
    if not has_log(path):
        return connect(path, "ro&immutable=1", *GUARDS, limit=limit)
    deadline = time.monotonic() + (math.inf if limit is None else COPY_FACTOR * limit.seconds)

    def check_time() -> None:
        if time.monotonic() > deadline:
            raise slow(path)

    # The files are removed while they are open; their space is freed when the connection is closed.
    with private_copy(path, check_time) as copy:
        return connect(copy, "ro", *GUARDS, limit=limit)


def decoded(blob: bytes, dtype: str) -> NDArray[Any]:
    """Return an embedding from its bytes and data type."""
    if dtype not in DTYPES or len(blob) % int(dtype[-1]):
        raise JournalError("The journal contains a corrupt embedding; restore it from a backup.")
    return np.frombuffer(blob, dtype=dtype)


@dataclass(frozen=True)
class Limit:
    """Limits on reading a journal that may be hostile or corrupt."""

    seconds: float
    """Maximum time from opening the journal to the end of the last query."""
    max_bytes: int
    """Maximum size of one value."""
    max_rows: int = 500_000
    """Maximum number of rows of one query."""

    def connect(self, uri: str) -> sqlite3.Connection:
        limit = self

        class Cursor(sqlite3.Cursor):
            rows = 0

            def __next__(self) -> Any:
                row = super().__next__()
                self.rows += 1
                if self.rows > limit.max_rows:
                    raise sqlite3.DataError(f"a table has more than {limit.max_rows} rows")
                return row

        class Connection(sqlite3.Connection):
            def execute(self, *query: Any) -> sqlite3.Cursor:
                return self.cursor(Cursor).execute(*query)

        return sqlite3.connect(
            uri, uri=True, isolation_level=None, check_same_thread=False, factory=Connection
        )

    def apply(self, connection: sqlite3.Connection) -> None:
        deadline = time.monotonic() + self.seconds
        connection.set_progress_handler(lambda: time.monotonic() > deadline, OPERATIONS_PER_CHECK)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, self.max_bytes)
        connection.execute(f"PRAGMA busy_timeout = {int(1000 * self.seconds)}").close()


def embedding_of(row: Mapping[str, Any]) -> NDArray[Any]:
    """Return the embedding in a row of the ``samples`` table."""
    return decoded(row["embedding"], row["dtype"])


def writing_connection(path: Path) -> sqlite3.Connection:
    """Open for writing. On a network file system, this is the only process that may open the file.

    A write-ahead log usually needs shared memory, which machines do not share. With an exclusive lock, SQLite
    keeps its index of the log in its own memory instead. The log may grow, because readers must copy the
    journal before the log is restarted.
    """
    is_shared = file_system_of(path.parent).is_network
    locking = ("locking_mode = EXCLUSIVE", f"wal_autocheckpoint = {SHARED_LOG_PAGES}")
    settings = ("journal_mode = WAL", "synchronous = NORMAL", "foreign_keys = ON")
    return connect(path, "rw", *(locking if is_shared else ()), *settings)


def connect(
    path: Path, mode: str, *settings: str, limit: Limit | None = None
) -> sqlite3.Connection:
    uri = f"{path.resolve().as_uri()}?mode={mode}"
    if limit is None:
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
    else:
        connection = limit.connect(uri)
    try:
        if limit is not None:
            limit.apply(connection)
        for setting in (*settings, "user_version"):  # the last one makes SQLite read the file
            connection.execute(f"PRAGMA {setting}").fetchall()
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def check_schema(query: Callable[[str], list[Any]]) -> None:
    """Refuse what can make SQLite compute on reading or writing; genmix writes only plain tables."""
    found = query(
        "SELECT type, name FROM sqlite_master WHERE type IN ('view', 'trigger')"
        " OR sql LIKE 'CREATE VIRTUAL%'"
        " UNION ALL SELECT 'computed column', c.name FROM sqlite_master AS t,"
        " pragma_table_xinfo(t.name) AS c WHERE t.type = 'table' AND c.hidden <> 0 LIMIT 1"
    )
    for kind, name in found:
        kind = "virtual table" if kind == "table" else kind
        raise JournalError(
            f"The journal contains a {kind} ({quotable(name, most=40)}), which genmix does not write; "
            "restore it from a backup."
        )


# -- errors ------------------------------------------------------------------------------------------


@contextmanager
def explained_opening(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, ValueError, OSError) as error:
        raise JournalError(
            f"{path} is not a journal ({quotable(error)}); restore it from a backup."
            if _code(error) in CORRUPT
            else f"could not open {path} ({quotable(error)}); check the folder's permissions and free space, "
            "or copy the run elsewhere."
        ) from error


def read_error(connection: sqlite3.Connection, path: Path, error: Exception) -> JournalError:
    if _code(error) == sqlite3.SQLITE_INTERRUPT:
        return slow(path)
    if _code(error) in CORRUPT:
        return corrupt(path, _corrupt_page(connection) or error)
    return JournalError(
        f"could not read {path} ({quotable(error)}); check the disk, or restore the journal from a backup."
    )


def slow(path: Path) -> SlowJournalError:
    return SlowJournalError(
        f"reading {path} takes too long; check whether it is corrupt, very large or on a slow disk."
    )


def corrupt(path: Path, where: object) -> JournalError:
    shown = quotable(where, most=100)
    return JournalError(f"The journal {path} is corrupt ({shown}); restore it from a backup.")


def write_error(path: Path, error: Exception) -> JournalError:
    return JournalError(
        f"could not write {path} ({quotable(error)}); free disk space or check the disk, then run "
        "`genmix resume`."
    )


def _corrupt_page(connection: sqlite3.Connection) -> str | None:
    try:
        [(report,)] = connection.execute("PRAGMA quick_check(1)").fetchall()
    except (sqlite3.Error, ValueError):
        return None
    return page_in(report)


def page_in(report: str) -> str | None:
    """Return ``page N`` if SQLite's report on a corrupt file names the page."""
    found = re.search(r"page \d+", report, re.IGNORECASE)
    return found[0].lower() if found else None


def _code(error: Exception) -> int:
    """Return SQLite's primary error code, without the extended bits."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
