"""One run's journal, followed from outside: each look reads only what is new."""

from __future__ import annotations

import json
import math
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from genmix.runs.journal import NAME, Journal
from genmix.runs.result import ENDS

RECENT = 500
"""Samples whose times are remembered, to say how fast they come."""

BUCKETS = 200
"""Points of the curve of a journal that has no timeline."""

GROWTH = 0.02
"""Samples must have grown by this fraction before that curve is made again."""

HEAD_START = 0.2
"""Seconds before old costs are added up, so that the page which asks has its answer."""

LONGEST_MESSAGE = 10_000
"""Letters of a failure: far more than are shown, so that a secret among those is whole and seen as one."""


@dataclass(frozen=True)
class Moment:
    """A row of the timeline: how the run stood after so many samples."""

    samples: int
    weights: Mapping[str, float | None]
    score: Mapping[str, float | None] = field(default_factory=dict)
    pooled: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Event:
    """Something that happened beside tickets."""

    id: int
    at: float
    kind: str
    arm: str | None
    detail: Mapping[str, Any]

    @property
    def pid(self) -> Any:
        """Whose start it was."""
        return self.detail.get("pid")


class Follower:
    """What the journal of one run says. Not for two threads at once: see ``lock``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lock = threading.RLock()
        self._run: str | None = None
        self._forget()

    def _forget(self) -> None:
        """Know nothing of the run yet."""
        self.study: dict[str, Any] = {}
        self.counts: Counter[str] = Counter()
        """Told samples of every arm."""
        self.flying: dict[str, int] = {}
        self.failures: Counter[str] = Counter()
        self.events: list[Event] = []
        self.moments: list[Moment] = []
        self.has_timeline = False
        self.recent: deque[float] = deque(maxlen=RECENT)
        """When the last samples were told."""
        self._step = self._failure = -1
        self._signature: Any = None
        self._seconds = 0.0
        """That the sessions had run when something was last written."""
        self._cost = Costs(self.folder)

    @property
    def samples(self) -> int:
        return self.counts.total()

    @property
    def cost(self) -> float | None:
        """All that was paid; None if nothing has a price, or as long as it is being added up."""
        return self._cost.total

    def look(self) -> None:
        """Read what is new."""
        signature = _signature(self.folder)
        if signature == self._signature:
            return
        journal = Journal.open(self.folder, readonly=True)
        try:
            journal.query("BEGIN")
            run = journal.meta("run")
            if run != self._run:  # another one took the place of that run, perhaps its inode, too
                self._forget()
                self._run = run
            self._read(journal)
        finally:
            journal.close()
        self._signature = signature

    def _read(self, journal: Journal) -> None:
        if not self.study:
            self.study = journal.meta("study")
        self._read_tickets(journal)
        self._read_failures(journal)
        self._read_events(journal)
        self._read_timeline(journal)
        self._seconds = journal.running_time()
        self.flying = dict(
            journal.query("SELECT arm, count(*) FROM tickets WHERE outcome IS NULL GROUP BY +arm")
        )

    # -- tickets ---------------------------------------------------------------------------------

    def _read_tickets(self, journal: Journal) -> None:
        [(last,)] = journal.query("SELECT max(ended_step) FROM tickets")
        if last is None or last == self._step:
            return
        if self._step < 0:
            self._count_all(journal, last)
        else:
            self._count_new(journal)
        self._step = last

    def _count_all(self, journal: Journal, last: int) -> None:
        # The first goes through an index, the second finds few: together quicker than counting told ones.
        asked = journal.query("SELECT arm, count(*) FROM tickets GROUP BY arm")
        others = journal.query(
            "SELECT arm, count(*) FROM tickets WHERE outcome IS NOT 'told' GROUP BY +arm"
        )
        self.counts = Counter(dict(asked))
        self.counts.subtract(dict(others))
        times = journal.query(
            "SELECT ended_at FROM tickets WHERE ended_step IS NOT NULL AND outcome = 'told'"
            " ORDER BY ended_step DESC LIMIT ?",
            RECENT,
        )
        self.recent.extend(reversed([at for (at,) in times]))
        self._cost.leave_until(last)

    def _count_new(self, journal: Journal) -> None:
        rows = journal.query(
            "SELECT arm, outcome, ended_at, cost FROM tickets LEFT JOIN samples ON ticket = id"
            " WHERE ended_step > ? ORDER BY ended_step",
            self._step,
        )
        for arm, outcome, at, cost in rows:
            self._cost.add(cost)
            if outcome == "told":
                self.counts[arm] += 1
                self.recent.append(at)

    def _read_failures(self, journal: Journal) -> None:
        rows = journal.query(
            "SELECT arm, count(*), max(id), sum(cost) FROM failures WHERE id > ? GROUP BY arm",
            self._failure,
        )
        for arm, count, last, cost in rows:
            self.failures[arm] += count
            self._failure = max(self._failure, last)
            self._cost.add(cost)

    # -- what happened ---------------------------------------------------------------------------

    def _read_events(self, journal: Journal) -> None:
        last = self.events[-1].id if self.events else -1
        rows = journal.query(
            "SELECT id, at, kind, arm, detail FROM events WHERE id > ? ORDER BY id", last
        )
        for number, at, kind, arm, detail in rows:
            self.events.append(Event(number, at, kind, arm, json.loads(detail)))

    @property
    def started(self) -> float | None:
        """When the last session began."""
        return None if self.last_start is None else self.last_start.at

    @property
    def last_start(self) -> Event | None:
        return next((e for e in reversed(self.events) if e.kind == "start"), None)

    @property
    def last_sign(self) -> float | None:
        """When something was last written."""
        signs = [*(event.at for event in self.events[-1:]), *list(self.recent)[-1:]]
        return max(signs, default=None)

    @property
    def end(self) -> Event | None:
        """How the last session ended, if it did by itself."""
        last = self.events[-1] if self.events else None
        return last if last is not None and last.kind in ENDS else None

    def seconds(self, is_running: bool) -> float:
        """Running time of all sessions."""
        since = time.time() - (self.last_sign or math.inf) if is_running else 0.0
        return self._seconds + max(since, 0.0)

    # -- the timeline ----------------------------------------------------------------------------

    def _read_timeline(self, journal: Journal) -> None:
        last = self.moments[-1].samples if self.has_timeline else -1
        rows = []
        if journal.has_timeline():
            rows = journal.query(
                "SELECT samples, weights, score, pooled FROM timeline WHERE samples >= ?"
                " ORDER BY samples",
                last,
            )
        if rows:  # the last one known may have been written anew
            kept = self.moments[:-1] if self.has_timeline else []
            self.moments, self.has_timeline = kept, True
        for samples, *texts in rows:
            self.moments.append(Moment(samples, *map(_numbers, texts)))
        if not self.has_timeline:
            self._make_up(journal)

    def _make_up(self, journal: Journal) -> None:
        """Without a timeline: the arms' shares of the samples so far."""
        last = self.moments[-1].samples if self.moments else 0
        if self.samples <= (1 + GROWTH) * last:
            return
        rows = journal.query(
            "SELECT id * ? / (SELECT max(id) + 1 FROM tickets) AS bucket, arm, count(*)"
            " FROM tickets WHERE outcome = 'told' GROUP BY bucket, arm ORDER BY bucket",
            BUCKETS,
        )
        found: dict[int, dict[str, int]] = {}
        for bucket, arm, count in rows:
            found.setdefault(bucket, {})[arm] = count
        sums: Counter[str] = Counter()
        self.moments = []
        for counts in found.values():
            sums.update(counts)
            shares = {arm: count / sums.total() for arm, count in sums.items()}
            self.moments.append(Moment(sums.total(), shares))

    # -- the newest ------------------------------------------------------------------------------

    def newest(self, samples: int, failures: int, letters: int) -> tuple[list[Any], list[Any]]:
        """Rows of the newest samples and failures, the newest first."""
        journal = Journal.open(self.folder, readonly=True)
        try:
            told = journal.query(
                "SELECT id, arm, ended_at, substr(text, 1, ?), length(text), image,"
                " substr(prompt, 1, ?), source, quality, cost FROM tickets JOIN samples ON ticket = id"
                " WHERE ended_step IS NOT NULL AND outcome = 'told'"
                " ORDER BY ended_step DESC LIMIT ?",
                letters,
                letters,
                samples,
            )
            failed = journal.query(
                "SELECT id, arm, at, stage, substr(message, 1, ?), ticket FROM failures"
                " ORDER BY id DESC LIMIT ?",
                LONGEST_MESSAGE,
                failures,
            )
        finally:
            journal.close()
        return told, failed

    def image_of(self, ticket: int) -> str | None:
        """The name of a sample's image."""
        journal = Journal.open(self.folder, readonly=True)
        try:
            found = journal.query("SELECT image FROM samples WHERE ticket = ?", ticket)
        finally:
            journal.close()
        return found[0][0] if found else None


class Costs:
    """What a run has paid.

    Old samples are added up beside, and only if somebody asks: their rows are long, and there are many.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._old: float | None = 0.0
        self._new = 0.0
        self._is_priced = False
        self._until: int | None = None

    @property
    def total(self) -> float | None:
        if self._until is not None:
            timer = threading.Timer(HEAD_START, self._add_all, args=(self._until,))
            self._until = None
            timer.daemon = True
            timer.start()
        return self._old + self._new if self._is_priced and self._old is not None else None

    def add(self, cost: float | None) -> None:
        if cost is not None:
            self._is_priced = True
            self._new += cost

    def leave_until(self, step: int) -> None:
        """All the samples up to this step are still to be added up."""
        self._old, self._until = None, step

    def _add_all(self, step: int) -> None:
        try:
            journal = Journal.open(self._folder, readonly=True)
            try:
                [(count, total)] = journal.query(
                    "SELECT count(cost), total(cost) FROM samples JOIN tickets ON id = ticket"
                    " WHERE +ended_step <= ?",
                    step,
                )
            finally:
                journal.close()
        except Exception:  # the page says the same of the journal, in words
            return
        self._is_priced |= count > 0
        self._old = total


def _numbers(text: str | None) -> dict[str, float | None]:
    """A JSON map; what is not finite is not there."""
    found = {} if text is None else json.loads(text)
    return {k: v if v is not None and math.isfinite(v) else None for k, v in found.items()}


def _signature(folder: Path) -> Any:
    """Differs if something was written."""
    found = []
    for name in (NAME, NAME + "-wal"):
        try:
            status = os.stat(folder / name, follow_symlinks=False)
            found.append((status.st_mtime_ns, status.st_size))
        except FileNotFoundError:
            found.append((0, 0))
    return found
