"""The checksum of a journal: it detects changed values, and rows that vanished or were added.

The checksum is the number of writes so far and the sum of the hashes of all rows, so that a write updates it
without reading other rows. It is committed in the same transaction as the rows, in a row that the
transaction writes anyway: new tickets and samples contain it, and all other writes store it in ``meta``.
Columns that are written after the rest of their row are hashed separately, so that no row is hashed twice.

It detects damage, not forgery: anybody who can edit the journal can also compute it. If a run is killed,
a sample that was written last, after every other row, can vanish unnoticed.
"""

from __future__ import annotations

import json
import marshal
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from genmix.errors import StorageError
from genmix.journal.schema import DTYPES, JournalError, corrupt, page_in

if TYPE_CHECKING:
    from genmix.journal.reader import JournalReader

HASH_BYTES = 16
COUNTER_BYTES = 8
MODULUS = 1 << 8 * HASH_BYTES

CHECKSUM, SECONDS = "checksum", "seconds"
"""Keys of ``meta`` that change with most writes. The first contains a copy of the second."""

MAX_TIME = 1e11
"""Latest valid time in seconds since 1970, thousands of years from now."""


@dataclass(frozen=True)
class Part:
    """Columns of a table that are written together; the first is the primary key."""

    name: str
    table: str
    columns: tuple[str, ...]

    @cache  # noqa: B019 - there are few parts, and they live forever
    def insert(self, skip: int = 0, *more: str) -> str:
        """Return the statement that inserts a row without its first ``skip`` columns, plus ``more``."""
        columns = (*self.columns[skip:], *more)
        values = ", ".join("?" * len(columns))
        return f"INSERT INTO {self.table} ({', '.join(columns)}) VALUES ({values})"


META = Part("meta", "meta", ("key", "value"))
TICKETS = Part(
    "tickets",
    "tickets",
    ("id", "arm", "place", "seed", "weight", "propensity", "probe", "asked_step", "asked_at"),
)
OUTCOMES = Part("outcomes", "tickets", ("id", "outcome", "ended_step", "ended_at", "told_with"))
SAMPLES = Part(
    "samples",
    "samples",
    (
        *("ticket", "text", "image", "prompt", "source", "quality", "cost"),
        *("input_tokens", "output_tokens", "started_at", "made_at"),
    ),
)
EMBEDDINGS = Part("embeddings", "samples", ("ticket", "embedding", "dtype"))
FAILURES = Part(
    "failures",
    "failures",
    ("id", "ticket", "arm", "at", "stage", "message", "cost", "input_tokens", "output_tokens"),
)
EVENTS = Part("events", "events", ("id", "at", "kind", "arm", "step", "detail"))
TIMELINE_ROWS = Part("timeline", "timeline", ("samples", "at", "weights", "score", "pooled"))

PROMPT_ROWS = Part("prompts", "prompts", ("id", "text", "topic"))
PROMPTED = Part("prompted", "prompted", ("ticket", "prompt_id"))
PROMPT_VECTORS = Part("prompt_embeddings", "prompt_embeddings", ("prompt_id", "embedding", "dtype"))

PARTS = (META, TICKETS, OUTCOMES, SAMPLES, EMBEDDINGS, FAILURES, EVENTS, TIMELINE_ROWS)
OPTIONAL = (PROMPT_ROWS, PROMPTED, PROMPT_VECTORS)
"""Parts that only the journals of studies with prompts have."""


def row_hash(part: Part, row: tuple[Any, ...]) -> int:
    """Return the hash of one row, which must have the values and types that SQLite returns."""
    # Version 2 of this encoding is documented and will not change. Different rows have different encodings.
    encoded = marshal.dumps((part.name, *row), 2)
    return int.from_bytes(blake2b(encoded, digest_size=HASH_BYTES).digest(), "big")


class Checksum:
    """The checksum of all rows written so far."""

    def __init__(self, writes: int = 0, total: int = 0) -> None:
        self.writes, self.total = writes, total

    def add(self, part: Part, row: tuple[Any, ...]) -> int:
        """Add a row, and return its hash."""
        found = row_hash(part, row)
        self.writes += 1
        self.total = (self.total + found) % MODULUS
        return found

    def remove(self, hashed: int) -> None:
        """Remove a row that is about to be replaced, given its hash."""
        self.total = (self.total - hashed) % MODULUS

    def to_bytes(self) -> bytes:
        """Return the checksum for a ticket or a sample; later ones are larger."""
        return self.writes.to_bytes(COUNTER_BYTES, "big") + self.total.to_bytes(HASH_BYTES, "big")

    def to_json(self, seconds: float | None) -> str:
        """Return the checksum for ``meta``."""
        shown = json.dumps(seconds)
        return f'{{"writes": {self.writes}, "total": "{self.total:x}", "{SECONDS}": {shown}}}'


# -- checking a run ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunCheck:
    """The result of checking a run folder."""

    run: str
    journal: Literal["verified", "unverified", "corrupt"]
    """``unverified`` if it is from an older version, which did not write checksums."""
    selector: Literal["valid", "missing", "damaged", "unchecked"]
    """``unchecked`` if the journal is corrupt."""
    rows: dict[str, int]
    """Number of rows by table; empty if the journal is corrupt."""
    problems: list[str]

    @property
    def is_intact(self) -> bool:
        """Whether nothing is lost; a damaged ``selector.npz`` is computed again from the journal."""
        return self.journal != "corrupt"


def check_run(folder: Path) -> RunCheck:
    """Verify a run's journal and its snapshot of the selector."""
    from genmix.journal.reader import JournalReader
    from genmix.runs.snapshot import SNAPSHOT, read_snapshot

    problems: list[str] = []
    try:
        with JournalReader.open(folder) as journal:
            try:  # first, because a run that is still active may replace the file later
                selector: Any = "missing" if read_snapshot(journal) is None else "valid"
            except StorageError as error:
                selector = "damaged"
                problems.append(
                    f"{folder / SNAPSHOT} cannot be used ({str(error).rstrip('.')}), but the journal "
                    f"suffices; `genmix resume {folder}` writes the file again."
                )
            with journal.snapshot():
                state: Any = "verified" if verify(journal) else "unverified"
                rows = row_counts(journal)
    except JournalError as error:
        return RunCheck(str(folder), "corrupt", "unchecked", {}, [str(error)])
    return RunCheck(str(folder), state, selector, rows, problems)


# -- verification ------------------------------------------------------------------------------------


def verify(journal: JournalReader) -> bool:
    """Read a whole journal and check its structure, its values and its checksum.

    Call it within ``journal.snapshot()`` if the run may be writing.

    Returns
    -------
    bool
        False if the journal is from an older version, which did not write checksums.

    Raises
    ------
    JournalError
        If the journal is corrupt.
    """
    _check_structure(journal)
    total = sum(
        row_hash(part, row) for part in (*PARTS, *OPTIONAL) for row in _valid_rows(journal, part)
    )
    if not journal.has_checksum:
        if journal.meta(CHECKSUM) is not None:
            raise corrupt(journal.path, "its format has changed since it was written")
        return False
    if total % MODULUS != latest(journal).total:
        raise corrupt(journal.path, "its content has changed since it was written")
    return True


def latest(journal: JournalReader) -> Checksum:
    """Return the checksum after the last write."""
    saved = journal.meta(CHECKSUM)
    try:
        found = Checksum(int(saved["writes"]), int(saved["total"], 16))
        seconds = saved[SECONDS]
    except (KeyError, TypeError, ValueError) as error:
        raise corrupt(journal.path, "its checksum is missing") from error
    if seconds != journal.meta(SECONDS):
        raise corrupt(journal.path, "its running time has changed since it was written")
    for blob in _open_checksums(journal):
        if not isinstance(blob, bytes) or len(blob) != COUNTER_BYTES + HASH_BYTES:
            raise corrupt(journal.path, "a checksum is invalid")
        counter, total = blob[:COUNTER_BYTES], blob[COUNTER_BYTES:]
        if int.from_bytes(counter, "big") > found.writes:
            found = Checksum(int.from_bytes(counter, "big"), int.from_bytes(total, "big"))
    return found


def _check_structure(journal: JournalReader) -> None:
    """Raise JournalError if SQLite finds an inconsistent page, index or value."""
    [(found,)] = journal.query("PRAGMA integrity_check(1)")
    if found != "ok":
        raise corrupt(journal.path, page_in(found) or found)


def _open_checksums(journal: JournalReader) -> list[Any]:
    """Return the checksums in open tickets and their samples; no other rows contain later ones."""
    rows = journal.query(
        "SELECT tickets.checksum, samples.checksum FROM tickets"
        " LEFT JOIN samples ON ticket = id WHERE outcome IS NULL"
    )
    return [found for row in rows for found in row if found is not None]


def row_counts(journal: JournalReader) -> dict[str, int]:
    """Return the number of rows of each table."""
    tables = dict.fromkeys(
        part.table for part in (*PARTS, *OPTIONAL) if journal.has_table(part.table)
    )
    return {table: journal.query(f"SELECT count(*) FROM {table}")[0][0] for table in tables}


def _valid_rows(journal: JournalReader, part: Part) -> Any:
    """Iterate over the rows that count: those in which anything but the key is set."""
    checks = [VALID[name] for name in part.columns]
    is_required = journal.has_checksum and part not in OPTIONAL
    if not is_required and not journal.has_table(part.table):
        return
    for row in journal.each(f"SELECT {', '.join(part.columns)} FROM {part.table}"):
        for name, is_valid, value in zip(part.columns, checks, row, strict=True):
            if value is not None and not is_valid(value):
                raise corrupt(journal.path, f"{part.table}.{name} of row {row[0]!r} is invalid")
        if row.count(None) == len(row) - 1 or (part is META and row[0] in (CHECKSUM, SECONDS)):
            continue
        if part in (EMBEDDINGS, PROMPT_VECTORS) and not _is_embedding(*row[1:]):
            what = "sample" if part is EMBEDDINGS else "prompt"
            raise corrupt(journal.path, f"the embedding of {what} {row[0]} is invalid")
        yield row


def _is_embedding(blob: Any, dtype: Any) -> bool:
    return blob is not None and dtype in DTYPES and len(blob) % int(dtype[-1]) == 0


def _is_number(value: Any) -> bool:
    return isinstance(value, float) and math.isfinite(value)


def _is_time(value: Any) -> bool:
    return isinstance(value, float) and 0 <= value <= MAX_TIME


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and value >= 0


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_json(value: Any) -> bool:
    try:
        json.loads(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _is_map(value: Any) -> bool:
    return _is_json(value) and isinstance(json.loads(value), dict)


def _is_numbers(value: Any) -> bool:
    """Return whether this is a JSON map from names to finite numbers or null."""
    return _is_map(value) and all(
        number is None or (isinstance(number, int | float) and math.isfinite(number))
        for number in json.loads(value).values()
    )


VALID: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("id", "ticket", "place", "seed", "probe", "samples", "prompt_id"), _is_count),
    **dict.fromkeys(("asked_step", "ended_step", "told_with", "step"), _is_count),
    **dict.fromkeys(("input_tokens", "output_tokens"), _is_count),
    **dict.fromkeys(("asked_at", "ended_at", "started_at", "made_at", "at"), _is_time),
    **dict.fromkeys(("quality", "cost", "weight", "propensity"), _is_number),
    **dict.fromkeys(
        ("arm", "text", "image", "prompt", "source", "dtype", "key", "topic"), _is_text
    ),
    **dict.fromkeys(("stage", "message", "kind", "outcome"), _is_text),
    **dict.fromkeys(("weights", "score", "pooled"), _is_numbers),
    "detail": _is_map,
    "value": _is_json,
    "embedding": lambda value: isinstance(value, bytes),
}
"""Checks, by column, of whether genmix could have written a value; SQLite checks NULL."""
