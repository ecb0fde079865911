"""The live view of a run: a table in a terminal, plain lines in a log or a pipe."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, Group
from rich.live import Live as Screen
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from genmix.cli.leading_arms import shown_arms
from genmix.core.text import counted, duration, number, shortened
from genmix.objectives import Score, Scores
from genmix.runs.spending.budget import time_left
from genmix.runs.timeline import Live

TABLE_INTERVAL = 0.25
"""Seconds between updates of the table."""

LINE_INTERVAL = 10.0
"""Seconds between plain lines."""

MAX_NAMED = 8
"""Maximum number of arms that a line names."""

MAX_LINES = 16
"""Maximum number of arms in the table, so that it fits on the screen."""

SCORING_SHARE = 0.03
"""Maximum fraction of the time spent computing scores for display."""


@dataclass
class Scoreboard:
    """Scores to display; the longer they take to compute, the less often they are updated."""

    pooled: Scores | None = None
    singles: dict[str, Scores] = field(default_factory=dict)
    _scored: int = 0
    """Number of samples when the scores were computed."""
    _told: int = 0
    """Current number of samples."""
    _next: float = 0.0
    _has_retired: bool = False
    """Whether an arm with samples is not among the single scores, because it is no longer active."""

    def update(self, live: Live) -> None:
        self._told = live.told
        if time.monotonic() < self._next:
            return
        start = time.monotonic()
        self.pooled, self.singles = live.selector.pooled_score, live.selector.single_scores
        counts, active = live.selector.counts, live.selector.arms
        self._has_retired = any(count and arm not in active for arm, count in counts.items())
        self._scored, taken = live.told, time.monotonic() - start
        self._next = start + taken / SCORING_SHARE

    def text(self) -> str:
        if self.pooled is None:
            return "warm start"
        best = best_single(self.singles)
        arm = "active arm" if self._has_retired else "arm"
        alone = "" if best is None else f" (best {arm} alone: {format_scores(best[1])}, {best[0]})"
        which = (
            "all samples"
            if self._scored == self._told
            else f"first {counted(self._scored, 'sample')}"
        )
        return f"{which}: {format_scores(self.pooled)}{alone}"


def format_scores(scores: Scores) -> str:
    each = [scores] if isinstance(scores, Score) else list(scores.values())
    return ", ".join(f"{s.name} {number(float(s))} {'↑' if s.maximise else '↓'}" for s in each)


def best_single(singles: dict[str, Scores]) -> tuple[str, Scores] | None:
    """Return the arm that scores best alone; the first term decides if the objective is a sum."""
    if not singles:
        return None

    def key(item: tuple[str, Scores]) -> float:
        score = item[1] if isinstance(item[1], Score) else next(iter(item[1].values()))
        return float(score) if score.maximise else -float(score)

    return max(singles.items(), key=key)


class Tracker:
    """The numbers that every live view shows."""

    def __init__(self) -> None:
        self.board = Scoreboard()
        self._start: tuple[float, int] | None = None

    def rate(self, live: Live) -> float:
        """Return the number of samples per second in this session."""
        if self._start is None:
            self._start = (time.monotonic(), live.told)
        seconds = time.monotonic() - self._start[0]
        return (live.told - self._start[1]) / seconds if seconds > 0 else 0.0

    def status(self, live: Live) -> list[str]:
        """Describe samples, rate, time left, cost, failures and suspended arms."""
        budget, rate = live.study.budget, self.rate(live)
        told = counted(live.told, "sample")
        if budget.samples is not None:
            told = f"{live.told:,}/{counted(budget.samples, 'sample')}"
        parts = [told, f"{number(rate, 3)}/s"]
        money = live.loop.money
        left = time_left(budget.model_dump(), live.told, money.paid, live.loop.clock.elapsed, rate)
        if left is not None:
            parts.append(f"{duration(left)} left")
        if money.paid or money.limit is not None:
            limit = "" if money.limit is None else f" of {number(money.limit)}"
            parts.append(f"cost {number(money.paid)}{limit}")
        failed = sum(live.loop.failures.values())
        if failed:
            parts.append(counted(failed, "failed attempt"))
        suspended = [arm.label for arm in live.loop.arms.values() if arm.suspended]
        if suspended:
            more = len(suspended) - MAX_NAMED
            named = suspended[:MAX_NAMED] if more > 1 else suspended
            parts.append(
                f"suspended: {', '.join(named)}{f' and {more} others' if more > 1 else ''}"
            )
        return parts


class LineView:
    """A plain line every few seconds, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console, self._tracker, self._next = console, Tracker(), 0.0
        self._ending = False

    def __enter__(self) -> LineView:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def note(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def report_progress(self, done: int, total: int) -> None:
        """Say that the report is being written; this can take longer than the samples."""
        if not done:
            self.note("writing the report")

    def _take_turn(self, live: Live, interval: float) -> bool:
        """Return whether to update now: every ``interval`` seconds, and once more at the end of the run."""
        self._tracker.rate(live)
        ending = live.loop.reason is not None and not self._ending
        if time.monotonic() < self._next and not ending:
            return False
        self._ending = live.loop.reason is not None
        self._next = time.monotonic() + interval
        return True

    def __call__(self, live: Live) -> None:
        if not self._take_turn(live, LINE_INTERVAL):
            return
        self._tracker.board.update(live)
        weights = live.selector.mixture
        shown, rest = shown_arms(weights, dict.fromkeys(weights, 0), MAX_NAMED)
        shares = " ".join(
            [*(f"{arm}={weights[arm]:.2f}" for arm in shown), *([rest] if rest else [])]
        )
        status = ", ".join(self._tracker.status(live))
        line = f"{status}; {self._tracker.board.text()}; {shares}"
        if live.loop.last_failure:
            line += f"; last failure: {shortened(live.loop.last_failure)}"
        self.note(line)


class TableView(LineView):
    """A table that is updated in place, and cleared at the end to make room for the summary."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._screen = Screen(console=console, auto_refresh=False, transient=True)
        self._open = False
        self._table: Any = Text()

    def __enter__(self) -> TableView:
        return self

    def __exit__(self, *_: object) -> None:
        if self._open:
            self._screen.stop()
            self._open = False

    def _show(self, content: Any) -> None:
        if not self._open:
            self._screen.start()
            self._open = True
        self._screen.update(content, refresh=True)

    def report_progress(self, done: int, total: int) -> None:
        progress = Table.grid(padding=(0, 2))
        bar = ProgressBar(total=total, completed=done, width=30)
        progress.add_row(bar, f"writing the report, {done}/{total}")
        self._show(Group(self._table, progress))

    def __call__(self, live: Live) -> None:
        if not self._take_turn(live, TABLE_INTERVAL):
            return
        self._tracker.board.update(live)
        self._table = self.render(live)
        self._show(self._table)

    def render(self, live: Live) -> Any:
        budget = live.study.budget
        status = Text(", ".join(self._tracker.status(live)))
        head = Table.grid(padding=(0, 2))
        if budget.samples is None:
            head.add_row(status)
        else:
            head.add_row(ProgressBar(total=budget.samples, completed=live.told, width=30), status)
        parts: list[Any] = [head, Text(self._tracker.board.text()), arm_table(live)]
        if live.loop.last_failure:
            parts.append(Text(f"last failure: {shortened(live.loop.last_failure)}", style="dim"))
        return Group(*parts)


def arm_table(live: Live, most: int = MAX_LINES) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("arm", "weight", "", "samples", "in flight", "failed", "state"):
        table.add_column(name, justify="left" if name in ("arm", "", "state") else "right")
    weights, counts = live.selector.mixture, live.selector.counts
    flying = Counter(ticket.arm for ticket in live.selector.in_flight)
    shown, rest = shown_arms(weights, {label: counts[label] for label in live.loop.arms}, most)
    table.caption, table.caption_justify = rest or None, "left"
    for label in shown:
        weight, arm = weights.get(label), live.loop.arms[label]
        table.add_row(
            Text(label),
            "–" if weight is None else f"{weight:.3f}",
            ProgressBar(total=1.0, completed=weight or 0.0, width=20),
            str(counts[label]),
            str(flying[label]),
            str(live.loop.failures[label]),
            "suspended" if arm.suspended else "" if weight is not None else "retired",
        )
    return table


def make_view(console: Console) -> LineView:
    return TableView(console) if console.is_terminal else LineView(console)
