"""Follow one run's journal from another process; each refresh reads only what is new.

Anybody may have written the journal. Reading it is limited in time and size, and its values are checked,
so that a bad journal makes only its own run unreadable.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from genmix.errors import GenmixError
from genmix.journal.file_systems import file_system_of
from genmix.journal.reader import JournalReader, Row
from genmix.journal.schema import ChangedJournalError, JournalError, Limit, SlowJournalError
from genmix.journal.version import journal_version
from genmix.monitoring.checked import (
    MAX_ARMS,
    checked,
    checked_counts,
    checked_events,
    checked_failures,
    checked_rows,
    checked_samples,
    checked_study,
    checked_timeline,
    is_count,
    is_names,
    is_number,
    is_text,
    is_time,
    or_none,
)
from genmix.runs.result import ENDS

NEWEST_SAMPLES, NEWEST_FAILURES = 12, 20
MAX_TEXT = 600
"""Maximum number of characters of a sample, prompt or message on the page."""

MAX_MESSAGE = 10_000
"""Maximum number of characters of a failure to read. This is far more than the page shows, so that a
secret is not truncated before it can be detected."""

RECENT = 500
"""Number of samples whose times are kept to compute the rate."""

BINS = 200
"""Number of points on the curve for a journal without a timeline."""

GROWTH = 0.02
"""That curve is recomputed when the number of samples has grown by this fraction."""

RETRY_SECONDS = 5.0
"""Seconds before retrying a journal that could not be read, even if it has not changed."""

LIST_SECONDS, PAGE_SECONDS = 0.5, 8.0
"""Time limits for reading a journal. The list starts with the first limit and, if it is too short,
quadruples it up to the second; the page of a run waits longer."""

SLOW_RETRY = 10
"""A journal that could not be read in time is read again after this multiple of the time limit."""

NETWORK_PAUSE, NETWORK_SHARE = 2.0, 20
"""Seconds between reads of a journal on a network file system, and how many times as long as a read they
are at least: reading a run in progress copies its journal."""

COST_SECONDS = 60.0
MAX_VALUE_BYTES = 16_000_000
"""Maximum size of a text or any other value."""

COST_DELAY = 0.2
"""Seconds before past costs are summed, so that the request that triggers this is answered first."""


@dataclass(frozen=True)
class TimelinePoint:
    """Weights and scores at a given number of samples."""

    samples: int
    weights: Mapping[str, float | None]
    score: Mapping[str, float | None] = field(default_factory=dict)
    pooled: Mapping[str, float | None] = field(default_factory=dict)


class RunMonitor:
    """The current state of one run. Acquire ``lock`` to use it from several threads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lock = threading.RLock()
        self._run: str | None = None
        self._version: tuple[int, ...] | None = None
        self._problem: str | None = None
        self._retry_at = 0.0
        self._next_read = 0.0
        self.summary: tuple[float | None, dict[str, Any] | None] | None = None
        """The time and content of ``summary.json`` when it was last read."""
        self.kept: tuple[float | None, dict[str, Any] | None] | None = None
        """The time and content of ``kept.json`` when it was last read."""
        self.groups: tuple[float | None, list[dict[str, Any]]] | None = None
        """The time and content of ``groups.json`` when it was last read."""
        self._list_seconds = LIST_SECONDS
        self._is_slow = False
        self._reset()

    def _reset(self) -> None:
        self.study: dict[str, Any] = {}
        self.first_arms: list[str] = []
        """The arms with which the run began; empty if its study has not changed."""
        self.counts: Counter[str] = Counter()
        """Number of told samples by arm."""
        self.in_flight: dict[str, int] = {}
        self.failures: Counter[str] = Counter()
        """Number of failed attempts by arm."""
        self.events: list[Row] = []
        self.newest_samples: list[Row] = []
        self.newest_failures: list[Row] = []
        self.timeline: list[TimelinePoint] = []
        self.has_timeline = False
        self.told_times: deque[float] = deque(maxlen=RECENT)
        self._last_step = self._last_failure = -1
        self._seconds = 0.0
        """Running time at the last write."""
        self._cost = CostTotal(self.folder)

    @property
    def samples(self) -> int:
        return self.counts.total()

    @property
    def cost(self) -> float | None:
        """The total cost; None if nothing has a price, or while past costs are being summed."""
        return self._cost.total

    def wait_for_cost(self) -> float | None:
        """Return the total cost, after summing past costs; None if nothing has a price."""
        return self._cost.wait()

    def refresh(self, for_list: bool = False) -> None:
        """Read what is new; do nothing if the journal has not changed since the last refresh.

        Raises
        ------
        JournalError
            If the journal cannot be read in time or contains invalid values. None of it is kept.
        """
        version = journal_version(self.folder)
        is_due = time.monotonic() >= self._next_read
        is_new = version != self._version and not self._is_slow and is_due
        if is_new or (self._problem is not None and time.monotonic() >= self._retry_at):
            self._problem, self._is_slow = None, False
            try:
                self._read_within(self._list_seconds if for_list else PAGE_SECONDS)
            except FileNotFoundError:
                raise
            except Exception as error:  # whatever it contains, it must not affect other runs
                self._note_problem(error)
            self._version = version
        if self._problem is not None:
            raise JournalError(self._problem)

    def _read_within(self, seconds: float) -> None:
        start = time.monotonic()
        try:
            self._read_journal(seconds)
        except ChangedJournalError:  # a run has just begun to write to it
            self._reset()
            self._read_journal(seconds)
        except SlowJournalError:
            self._is_slow = True
            self._retry_at = time.monotonic() + SLOW_RETRY * seconds
            self._list_seconds = min(4 * self._list_seconds, PAGE_SECONDS)
            raise
        if file_system_of(self.folder).is_network:
            end = time.monotonic()
            self._next_read = end + max(NETWORK_PAUSE, NETWORK_SHARE * (end - start))

    def _read_journal(self, seconds: float) -> None:
        limit = Limit(seconds, MAX_VALUE_BYTES)
        with JournalReader.open_limited(self.folder, limit) as journal, journal.snapshot():
            self._read(journal)

    def _note_problem(self, error: Exception) -> None:
        if not self._is_slow:
            self._retry_at = time.monotonic() + RETRY_SECONDS
        is_explained = isinstance(error, GenmixError)
        self._problem = str(error) if is_explained else invalid_data("journal", error)
        self._run = None
        self._reset()

    def _read(self, journal: JournalReader) -> None:
        run = journal.meta("run")
        if run != self._run:  # another run has replaced this one, perhaps even in the same inode
            self._reset()
            self._run = run
        self._read_tickets(journal)
        self._read_failures(journal)
        after = self.events[-1]["id"] if self.events else -1
        new = checked_events(journal.events(after=after))
        self.events += new
        if not self.study or any(event["kind"] == "changed" for event in new):
            self.study = checked_study(journal.meta("study"))
            self.first_arms = checked(journal.meta("arms") or [], is_names, "arms")
        self._read_timeline(journal)
        self._seconds = checked(journal.running_time(), is_number, "seconds")
        self.in_flight = checked_counts(journal.in_flight())
        newest = journal.newest_samples(NEWEST_SAMPLES, MAX_TEXT)
        self.newest_samples = checked_samples(newest)
        failures = journal.newest_failures(NEWEST_FAILURES, MAX_MESSAGE)
        self.newest_failures = checked_failures(failures)

    def _read_tickets(self, journal: JournalReader) -> None:
        last = journal.last_ended_step()
        if last is None or last == self._last_step:
            return
        if self._last_step < 0:
            self.counts = Counter(checked_counts(journal.told_counts()))
            times = [checked(at, is_time, "ended_at") for at in journal.told_times(RECENT)]
            self.told_times.extend(times)
            self._cost.sum_later(last)
        else:
            for row in journal.ended_after(self._last_step):
                self._cost.add(checked(row["cost"], or_none(is_number), "cost"))
                if row["outcome"] == "told":
                    self.counts[checked(row["arm"], is_text, "arm")] += 1
                    self.told_times.append(checked(row["ended_at"], is_time, "ended_at"))
        self._last_step = last

    def _read_failures(self, journal: JournalReader) -> None:
        rows = journal.failures_by_arm(after=self._last_failure)
        checks = {"arm": is_text, "count": is_count, "last": is_count, "cost": or_none(is_number)}
        for row in checked_rows(rows, MAX_ARMS, **checks):
            self.failures[row["arm"]] += row["count"]
            self._last_failure = max(self._last_failure, row["last"])
            self._cost.add(row["cost"])

    def _read_timeline(self, journal: JournalReader) -> None:
        last = self.timeline[-1].samples if self.has_timeline else 0
        rows = checked_timeline(journal.timeline(since=last))
        if rows:
            kept = self.timeline[:-1] if self.has_timeline else []  # the last row may be rewritten
            keys = ("weights", "score", "pooled")
            new = [TimelinePoint(r["samples"], *(_finite(r[key]) for key in keys)) for r in rows]
            self.timeline, self.has_timeline = kept + new, True
        elif not self.has_timeline:
            self._read_shares(journal)

    def _read_shares(self, journal: JournalReader) -> None:
        """Replace a missing timeline with each arm's share of the samples so far."""
        last = self.timeline[-1].samples if self.timeline else 0
        if self.samples <= (1 + GROWTH) * last:
            return
        sums: Counter[str] = Counter()
        self.timeline = []
        for counts in journal.told_histogram(BINS):
            sums.update(counts)
            shares = {arm: count / sums.total() for arm, count in sums.items()}
            self.timeline.append(TimelinePoint(sums.total(), shares))

    # -- sessions --------------------------------------------------------------------------------

    @property
    def last_start(self) -> Row | None:
        """The event that started the last session."""
        return next((e for e in reversed(self.events) if e["kind"] == "start"), None)

    @property
    def last_write(self) -> float | None:
        """When the last sample or event was written."""
        times = [*(event["at"] for event in self.events[-1:]), *list(self.told_times)[-1:]]
        return max(times, default=None)

    @property
    def end(self) -> Row | None:
        """The event that ended the last session; None if it is running or was killed."""
        return self.events[-1] if self.events and self.events[-1]["kind"] in ENDS else None

    def seconds(self, is_running: bool) -> float:
        """Return the running time of all sessions in seconds."""
        since = time.time() - (self.last_write or math.inf) if is_running else 0.0
        return self._seconds + max(since, 0.0)

    def image_of(self, ticket: int) -> str | None:
        """Return the file name of a sample's image."""
        limit = Limit(PAGE_SECONDS, MAX_VALUE_BYTES)
        with JournalReader.open_limited(self.folder, limit) as journal:
            name = journal.image_of(ticket)
        return name if isinstance(name, str) else None


class CostTotal:
    """The total cost of a run.

    Summing the costs of past samples reads many long rows. This happens in a background thread, and only
    after the total is first requested.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._past: float | None = 0.0
        self._new = 0.0
        self._has_price = False
        self._until: int | None = None

    @property
    def total(self) -> float | None:
        if self._until is not None:
            timer = threading.Timer(COST_DELAY, self._sum_past, args=(self._until,))
            self._until = None
            timer.daemon = True
            timer.start()
        return self._sum

    @property
    def _sum(self) -> float | None:
        return self._past + self._new if self._has_price and self._past is not None else None

    def wait(self) -> float | None:
        """Sum past costs in this thread instead of in the background."""
        if self._until is not None:
            self._sum_past(self._until)
            self._until = None
        return self._sum

    def add(self, cost: float | None) -> None:
        if cost is not None:
            self._has_price = True
            self._new += cost

    def sum_later(self, step: int) -> None:
        """Defer summing the costs of the samples up to this step."""
        self._past, self._until = None, step

    def _sum_past(self, step: int) -> None:
        try:
            limit = Limit(COST_SECONDS, MAX_VALUE_BYTES)
            with JournalReader.open_limited(self._folder, limit) as journal:
                count, total = journal.sample_costs_until(step)
        except Exception:  # the page already reports an unreadable journal
            return
        if not math.isfinite(total):
            return
        self._has_price |= count > 0
        self._past = total


def invalid_data(what: str, error: Exception) -> str:
    """Say in a sentence that a file contains something that genmix did not write."""
    kind = type(error).__name__
    return f"The {what} contains data that genmix did not write ({kind}); restore it from a backup."


def _finite(values: Mapping[str, float | None] | None) -> dict[str, float | None]:
    """Replace values that are not finite with None, because JSON cannot represent them."""
    return {k: v if v is not None and math.isfinite(v) else None for k, v in (values or {}).items()}
