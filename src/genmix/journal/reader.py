"""Read a run's journal: the only interface for reports, the dashboard, exports and comparisons."""

from __future__ import annotations

import json
import math
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from numpy.typing import NDArray

from genmix.journal.private_copy import file_state, is_read_in_place
from genmix.journal.run_folders import check_run_folder
from genmix.journal.schema import (
    FORMATS,
    JOURNAL,
    READ,
    ChangedJournalError,
    Entry,
    JournalError,
    JournalStep,
    Limit,
    check_schema,
    corrupt,
    decoded,
    embedding_of,
    explained_opening,
    read_error,
    reading_connection,
)

TICKETS_PER_QUERY = 500
MAX_TEXT = 4000
"""Maximum number of characters of a text or prompt that ``samples_of`` returns."""

PROMPT_COLUMNS = "prompt columns"
"""The key of the dimension of the prompts' embeddings, if embeddings of samples begin with them."""

Row = dict[str, Any]


class JournalReader:
    """Read-only access to one run's journal.

    Use it as a context manager, e.g. ``with JournalReader.open(folder) as journal: ...``.
    """

    is_writer = False

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._db, self.path = connection, path
        self.has_checksum = True
        """False for journals from older versions."""
        self._state: tuple[object, ...] | None = None  # of a journal that is read without locks

    @classmethod
    def open(cls, folder: Path) -> Self:
        return cls._open(folder, reading_connection)

    @classmethod
    def open_limited(cls, folder: Path, limit: Limit) -> Self:
        """Open a journal that may be hostile; reading raises JournalError when it exceeds a limit."""
        return cls._open(folder, lambda path: reading_connection(path, limit))

    @classmethod
    def _open(cls, folder: Path, connect: Any) -> Self:
        path = folder / JOURNAL
        check_run_folder(folder)
        state = file_state(path) if not cls.is_writer and is_read_in_place(path) else None
        with explained_opening(path):
            journal = cls(connect(path), path)
        try:
            journal._check_format()
            check_schema(journal.query)
        except JournalError:
            journal.close()
            raise
        journal._state = state
        return journal

    def _check_format(self) -> None:
        [(found,)] = self.query("PRAGMA user_version")
        if found not in FORMATS:
            raise JournalError(
                f"{self.path} has format {found}, but this version of genmix reads formats "
                f"{FORMATS[0]} to {FORMATS[-1]}; use the version that wrote it, or start a new run."
            )
        self.has_checksum = found > 1

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close()
        is_doubtful = kind is None or issubclass(kind, JournalError)
        if is_doubtful and self._state is not None and self._state != file_state(self.path):
            raise ChangedJournalError(f"{self.path} changed while it was being read; try again.")

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Make all reads inside the context see one consistent state, even while the run is writing."""
        self.query("BEGIN")
        try:
            yield
        finally:
            if self._db.in_transaction:
                self._db.rollback()

    # -- metadata --------------------------------------------------------------------------------

    def meta(self, key: str) -> Any:
        rows = self.query("SELECT value FROM meta WHERE key = ?", key)
        return self._json(rows[0][0]) if rows else None

    def study(self) -> dict[str, Any]:
        """Return the study of the run as plain values."""
        found = self.meta("study")
        if not isinstance(found, dict):
            raise corrupt(self.path, "it does not contain the study")
        return found

    def study_folder(self) -> Path:
        """Return the folder that the study's paths are relative to.

        This is the folder recorded at the start. If the run was moved together with it, this is the
        folder at the same relative position, if it contains the study file or the old folder is gone.
        """
        recorded, home = Path(self.meta("folder") or "."), self.meta("home")
        if home is None:  # written by an older version
            return recorded
        here, file = self.path.parent.resolve(), self.meta("file")
        moved = Path(os.path.normpath(here / os.path.relpath(recorded, home)))
        has_study = file is not None and (moved / file).is_file()
        return moved if has_study or (moved.is_dir() and not recorded.is_dir()) else recorded

    def running_time(self) -> float:
        """Return the total running time of all sessions in seconds, up to the last write."""
        recorded = self.meta("seconds")
        return self._time_from_timestamps() if recorded is None else float(recorded)

    def _time_from_timestamps(self) -> float:
        """Return the running time of a journal from an older version, which did not record it."""
        stamps = self.query(
            "SELECT asked_at, 0 FROM tickets UNION ALL SELECT ended_at, 0 FROM tickets"
            " WHERE ended_at IS NOT NULL UNION ALL SELECT made_at, 0 FROM samples"
            " UNION ALL SELECT at, kind = 'start' FROM events ORDER BY 1, 2"
        )
        total, last = 0.0, None
        for at, starts in stamps:
            if last is not None and not starts:
                total += at - last
            last = at
        return total

    # -- the selector's history ------------------------------------------------------------------

    def steps(self, after: int = -1) -> Iterator[JournalStep]:
        """Iterate over the changes to the selector after this step, in order."""
        rows = self.each(
            """
            SELECT asked_step, iif(probe, 'probe', 'ask'), id, arm, NULL, NULL, NULL, NULL, NULL
                FROM tickets WHERE asked_step > ?1
            UNION ALL
            SELECT ended_step, outcome, id, arm, embedding, dtype, quality, cost, told_with
                FROM tickets LEFT JOIN samples ON ticket = id WHERE ended_step > ?1
            UNION ALL
            SELECT step, kind, NULL, arm, detail, NULL, NULL, NULL, NULL FROM events WHERE step > ?1
            ORDER BY 1
            """,
            after,
        )
        for number, kind, ticket, arm, blob, dtype, quality, cost, group in rows:
            row = decoded(blob, dtype) if kind == "told" else None
            detail = self._json(blob) if ticket is None else {}
            yield JournalStep(number, kind, ticket, arm, row, quality, cost, group, detail)

    def last_step(self) -> int:
        [(found,)] = self.query(
            "SELECT max(coalesce((SELECT max(asked_step) FROM tickets), -1),"
            " coalesce((SELECT max(ended_step) FROM tickets), -1),"
            " coalesce((SELECT max(step) FROM events), -1))"
        )
        return int(found)

    def last_ended_step(self) -> int | None:
        """Return the step of the last ticket that was told, failed or withdrawn."""
        [(found,)] = self.query("SELECT max(ended_step) FROM tickets")
        return None if found is None else int(found)

    # -- tickets ---------------------------------------------------------------------------------

    def open_tickets(self) -> list[tuple[Entry, Row | None]]:
        """Return the tickets without an outcome, each with its sample if already generated."""
        tickets = self._rows(
            "SELECT id, arm, place, seed, weight, propensity, probe FROM tickets"
            " WHERE outcome IS NULL ORDER BY id"
        )
        return [
            (Entry(**row | {"probe": bool(row["probe"])}), self._sample(row["id"]))
            for row in tickets
        ]

    def _sample(self, ticket: int) -> Row | None:
        found = self._rows(f"{READ['samples']} WHERE ticket = ?", ticket)
        return found[0] if found else None

    def ticket_counts(self) -> dict[str, int]:
        """Count the tickets of each arm, regardless of outcome."""
        return dict(self.query("SELECT arm, max(place) + 1 FROM tickets GROUP BY arm"))

    def told_counts(self) -> dict[str, int]:
        """Count the told samples by arm."""
        # The first query uses an index, and the second finds few rows; counting told tickets is slower.
        found = dict(self.query("SELECT arm, count(*) FROM tickets GROUP BY arm"))
        others = "SELECT arm, count(*) FROM tickets WHERE outcome IS NOT 'told' GROUP BY +arm"
        for arm, count in self.query(others):
            found[arm] -= count
        return found

    def in_flight(self) -> dict[str, int]:
        """Count the tickets without an outcome by arm."""
        query = "SELECT arm, count(*) FROM tickets WHERE outcome IS NULL GROUP BY +arm"
        return dict(self.query(query))

    def told_times(self, limit: int) -> list[float]:
        """Return the times when the last ``limit`` samples were told, oldest first."""
        rows = self.query(
            "SELECT ended_at FROM tickets WHERE ended_step IS NOT NULL AND outcome = 'told'"
            " ORDER BY ended_step DESC LIMIT ?",
            limit,
        )
        return [at for (at,) in reversed(rows)]

    def ended_after(self, step: int) -> list[Row]:
        """Return arm, outcome, time and cost of the tickets that ended after this step, in order."""
        return self._rows(
            "SELECT arm, outcome, ended_at, cost FROM tickets LEFT JOIN samples ON ticket = id"
            " WHERE ended_step > ? ORDER BY ended_step",
            step,
        )

    # -- samples ---------------------------------------------------------------------------------

    def told_numbers(self) -> list[tuple[int, str, float | None, float | None]]:
        """Return ticket, arm, quality and cost of every told sample, in order."""
        return self.query(
            "SELECT id, arm, quality, cost FROM tickets JOIN samples ON ticket = id"
            " WHERE outcome = 'told' ORDER BY ended_step"
        )

    @cached_property
    def prompt_columns(self) -> int:
        """How many numbers of every embedding are those of its prompt; 0 if it contains only the sample's."""
        found: int = self.meta(PROMPT_COLUMNS) or 0
        return found

    def output_of(self, row: Mapping[str, Any]) -> NDArray[Any]:
        """Return the embedding of a sample alone, without that of its prompt."""
        return embedding_of(row)[self.prompt_columns :]

    def told_rows(self) -> Iterator[Row]:
        """Iterate over the told samples with their tickets, in the order in which they were told."""
        return self._each_row(
            "SELECT id, arm, place, seed, weight, propensity, asked_at, ended_at, found.* FROM tickets"
            f" JOIN ({READ['samples']}) AS found ON ticket = id WHERE outcome = 'told'"
            " ORDER BY ended_step"
        )

    def samples_of(self, tickets: Sequence[int]) -> Iterator[Row]:
        """Iterate over the samples of these tickets in this order, with long texts truncated."""
        for first in range(0, len(tickets), TICKETS_PER_QUERY):
            part = tickets[first : first + TICKETS_PER_QUERY]
            marks = ", ".join("?" * len(part))
            rows = self._rows(f"{READ['samples']} WHERE ticket IN ({marks})", *part)
            found = {row["ticket"]: _truncated(row) for row in rows}
            yield from (found[ticket] for ticket in part)

    def newest_samples(self, limit: int, max_chars: int) -> list[Row]:
        """Return the last told samples, newest first, with truncated texts and the full ``length``."""
        return self._rows(
            "SELECT id, arm, ended_at AS at, substr(text, 1, ?1) AS text, length(text) AS length,"
            " image, substr(prompt, 1, ?1) AS prompt, source, quality, cost"
            " FROM tickets JOIN samples ON ticket = id"
            " WHERE ended_step IS NOT NULL AND outcome = 'told' ORDER BY ended_step DESC LIMIT ?2",
            max_chars,
            limit,
        )

    def image_of(self, ticket: int) -> str | None:
        """Return the file name of a sample's image."""
        found = self.query("SELECT image FROM samples WHERE ticket = ?", ticket)
        return found[0][0] if found else None

    # -- costs and tokens ------------------------------------------------------------------------

    def costs(self) -> list[float]:
        """Return the costs of all samples and failures."""
        rows = self.query(
            "SELECT cost FROM samples WHERE cost IS NOT NULL"
            " UNION ALL SELECT cost FROM failures WHERE cost IS NOT NULL"
        )
        return [cost for (cost,) in rows]

    def cost_by_arm(self) -> dict[str, float]:
        """Return the total cost by arm, including failures and rejected samples."""
        found: dict[str, list[float]] = {}
        for arm, cost in self.query(
            "SELECT arm, cost FROM samples JOIN tickets ON ticket = id WHERE cost IS NOT NULL"
            " UNION ALL SELECT arm, cost FROM failures WHERE cost IS NOT NULL"
        ):
            found.setdefault(arm, []).append(cost)
        return {arm: math.fsum(costs) for arm, costs in found.items()}

    def largest_costs(self) -> dict[str, float]:
        """Return the cost of the most expensive sample or failure of each arm that has costs."""
        rows = self.query(
            "SELECT arm, max(cost) FROM ("
            " SELECT arm, cost FROM samples JOIN tickets ON ticket = id"
            " UNION ALL SELECT arm, cost FROM failures"
            ") WHERE cost IS NOT NULL GROUP BY arm"
        )
        return dict(rows)

    def sample_costs_until(self, step: int) -> tuple[int, float]:
        """Return how many samples up to this step have a cost, and the sum of these costs."""
        [(count, total)] = self.query(
            "SELECT count(cost), total(cost) FROM samples JOIN tickets ON id = ticket"
            " WHERE +ended_step <= ?",
            step,
        )
        return count, total

    def tokens(self) -> tuple[int, int]:
        """Return the total input and output tokens of samples and failures."""
        [(inputs, outputs)] = self.query(
            "SELECT coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0) FROM ("
            " SELECT input_tokens, output_tokens FROM samples"
            " UNION ALL SELECT input_tokens, output_tokens FROM failures)"
        )
        return inputs, outputs

    def mean_tokens(self, arm: str) -> tuple[float | None, float | None]:
        """Return the mean numbers of input and output tokens of an arm's samples, if they are known."""
        [found] = self.query(
            "SELECT avg(input_tokens), avg(output_tokens) FROM samples JOIN tickets ON ticket = id"
            " WHERE arm = ? AND outcome = 'told'",
            arm,
        )
        return tuple(found)

    # -- failures, events, timeline --------------------------------------------------------------

    def failures(self) -> list[Row]:
        """Return every failed attempt, in order."""
        return self._rows(f"{READ['failures']} ORDER BY id")

    def failures_by_arm(self, after: int = -1) -> list[Row]:
        """Return the count, last id and total cost of the failures after this id, by arm."""
        return self._rows(
            "SELECT arm, count(*) AS count, max(id) AS last, sum(cost) AS cost FROM failures"
            " WHERE id > ? GROUP BY arm",
            after,
        )

    def newest_failures(self, limit: int, max_chars: int) -> list[Row]:
        """Return the last failures, newest first, with truncated messages."""
        return self._rows(
            "SELECT id, arm, at, stage, substr(message, 1, ?) AS message, ticket FROM failures"
            " ORDER BY id DESC LIMIT ?",
            max_chars,
            limit,
        )

    def events(self, after: int = -1) -> list[Row]:
        """Return the events after this id, in order: starts, ends, and retired and revived arms."""
        found = self._rows(f"{READ['events']} WHERE id > ? ORDER BY id", after)
        return [row | {"detail": self._json(row["detail"])} for row in found]

    def timeline(self, since: int = 0) -> list[Row]:
        """Return the weights and scores since a sample count; nothing in journals from older versions."""
        if not self.has_table("timeline"):
            return []
        found = self._rows(f"{READ['timeline']} WHERE samples >= ? ORDER BY samples", since)
        return [
            row | {key: self._json(row[key] or "null") for key in ("weights", "score", "pooled")}
            for row in found
        ]

    def told_histogram(self, bins: int) -> list[dict[str, int]]:
        """Count the told samples by arm in each of ``bins`` equal parts of the run; omit empty parts."""
        rows = self.query(
            "SELECT id * ? / (SELECT max(id) + 1 FROM tickets) AS bin, arm, count(*)"
            " FROM tickets WHERE outcome = 'told' GROUP BY bin, arm ORDER BY bin",
            bins,
        )
        found: dict[int, dict[str, int]] = {}
        for number, arm, count in rows:
            found.setdefault(number, {})[arm] = count
        return list(found.values())

    # -- queries ---------------------------------------------------------------------------------

    def has_table(self, name: str) -> bool:
        return bool(self.query("SELECT 1 FROM sqlite_master WHERE name = ?", name))

    def query(self, query: str, *parameters: Any) -> list[Any]:
        return list(self.each(query, *parameters))

    def _rows(self, query: str, *parameters: Any) -> list[Row]:
        return list(self._each_row(query, *parameters))

    def each(self, query: str, *parameters: Any) -> Iterator[Any]:
        with self._explained():
            yield from self._db.execute(query, parameters)

    def _each_row(self, query: str, *parameters: Any) -> Iterator[Row]:
        with self._explained():
            cursor = self._db.execute(query, parameters)
            names = [column[0] for column in cursor.description]
            for row in cursor:
                yield dict(zip(names, row, strict=True))

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, ValueError, OverflowError, MemoryError) as error:
            # It is corrupt: a name is not UTF-8, an integer too large, or a value absurdly long.
            raise read_error(self._db, self.path, error) from error

    def _json(self, text: Any) -> Any:
        try:
            return json.loads(text)
        except (TypeError, ValueError, RecursionError) as error:
            raise corrupt(self.path, "a value is not valid JSON") from error


def _truncated(row: Row) -> Row:
    return row | {key: row[key] and row[key][:MAX_TEXT] for key in ("text", "prompt")}
