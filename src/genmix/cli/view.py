"""What a running study looks like in a terminal: a live table, or plain lines where there is none."""

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

from genmix.core.text import duration, shortened
from genmix.objectives.base import Score, Scores
from genmix.runs.run import Live

EVERY = 0.25
"""Seconds between two pictures of the live table."""

LINES_EVERY = 10.0
"""Seconds between two plain lines."""

SCORING_SHARE = 0.03
"""Share of the time that scores for the eye may take."""


@dataclass
class Scoreboard:
    """Scores that are read only as often as they are cheap."""

    pooled: Scores | None = None
    singles: dict[str, Scores] = field(default_factory=dict)
    _at: int = 0
    """Samples when they were read, and by now."""
    _told: int = 0
    _next: float = 0.0

    def look(self, live: Live) -> None:
        self._told = live.told
        if time.monotonic() < self._next:
            return
        begin = time.monotonic()
        self.pooled, self.singles = live.selector.pooled_score, live.selector.single_scores
        self._at, taken = live.told, time.monotonic() - begin
        self._next = begin + taken / SCORING_SHARE

    def words(self) -> str:
        if self.pooled is None:
            return "warm start"
        best = best_single(self.singles)
        alone = "" if best is None else f" (best arm alone {brief(best[1])}, {best[0]})"
        which = "all samples" if self._at == self._told else f"the first {self._at} samples"
        return f"{which}: {brief(self.pooled)}{alone}"


def brief(scores: Scores) -> str:
    found = [scores] if isinstance(scores, Score) else list(scores.values())
    return ", ".join(f"{s.name} {float(s):.4g} {'↑' if s.maximise else '↓'}" for s in found)


def best_single(singles: dict[str, Scores]) -> tuple[str, Scores] | None:
    """The arm that is best by itself; of a sum, by its first term."""
    if not singles:
        return None

    def key(item: tuple[str, Scores]) -> float:
        score = item[1] if isinstance(item[1], Score) else next(iter(item[1].values()))
        return float(score) if score.maximise else -float(score)

    return max(singles.items(), key=key)


class Tracker:
    """Numbers of a running study that both views show."""

    def __init__(self) -> None:
        self.board = Scoreboard()
        self._begin: tuple[float, int] | None = None

    def rate(self, live: Live) -> float:
        """Samples a second in this session."""
        if self._begin is None:
            self._begin = (time.monotonic(), live.told)
        seconds = time.monotonic() - self._begin[0]
        return (live.told - self._begin[1]) / seconds if seconds > 0 else 0.0

    def facts(self, live: Live) -> list[str]:
        """Told, rate, time left, cost, failures, as words."""
        budget, rate = live.study.budget, self.rate(live)
        told = f"{live.told}" if budget.samples is None else f"{live.told}/{budget.samples}"
        facts = [f"{told} samples", f"{rate:.3g}/s"]
        left = time_left(live, rate)
        if left is not None:
            facts.append(f"{duration(left)} left")
        money = live.loop.money
        if money.paid or money.limit is not None:
            limit = "" if money.limit is None else f" of {money.limit:g}"
            facts.append(f"cost {money.paid:.4g}{limit}")
        failed = sum(live.loop.failures.values())
        if failed:
            facts.append(f"{failed} failed attempts")
        resting = [arm.label for arm in live.loop.arms.values() if arm.suspended]
        if resting:
            facts.append(f"suspended: {', '.join(resting)}")
        return facts


def time_left(live: Live, rate: float) -> float | None:
    """Seconds until the first budget is spent at the present rate, if that can be said."""
    guesses = []
    if live.study.budget.samples is not None and rate > 0:
        guesses.append((live.study.budget.samples - live.told) / rate)
    if live.study.budget.time is not None:
        guesses.append(live.loop.clock.left)
    money = live.loop.money
    if money.limit and money.paid and live.told and rate > 0:
        guesses.append((money.limit - money.paid) / (money.paid / live.told) / rate)
    return max(min(guesses), 0.0) if guesses else None


class Lines:
    """One plain line now and then, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console, self._tracker, self._next = console, Tracker(), 0.0
        self._ending = False

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def note(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _is_due(self, live: Live, every: float) -> bool:
        """Now and then, and once more when the run is about to end."""
        self._tracker.rate(live)
        ending = live.loop.reason is not None and not self._ending
        if time.monotonic() < self._next and not ending:
            return False
        self._ending = live.loop.reason is not None
        self._next = time.monotonic() + every
        return True

    def __call__(self, live: Live) -> None:
        if not self._is_due(live, LINES_EVERY):
            return
        self._tracker.board.look(live)
        weights = live.selector.mixture.items()
        shares = " ".join(f"{arm}={weight:.2f}" for arm, weight in weights)
        facts = ", ".join(self._tracker.facts(live))
        words = f"{facts}; {self._tracker.board.words()}; {shares}"
        if live.loop.last_failure:
            words += f"; last failure: {shortened(live.loop.last_failure)}"
        self.note(words)


class LiveTable(Lines):
    """The live table."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._screen = Screen(console=console, auto_refresh=False, transient=False)
        self._open = False

    def __enter__(self) -> LiveTable:
        return self

    def __exit__(self, *_: object) -> None:
        if self._open:
            self._screen.stop()

    def __call__(self, live: Live) -> None:
        if not self._is_due(live, EVERY):
            return
        if not self._open:
            self._screen.start()
            self._open = True
        self._tracker.board.look(live)
        self._screen.update(self.picture(live), refresh=True)

    def picture(self, live: Live) -> Any:
        budget = live.study.budget
        facts = Text(", ".join(self._tracker.facts(live)))
        head = Table.grid(padding=(0, 2))
        if budget.samples is None:
            head.add_row(facts)
        else:
            head.add_row(ProgressBar(total=budget.samples, completed=live.told, width=30), facts)
        parts: list[Any] = [head, Text(self._tracker.board.words()), arm_table(live)]
        if live.loop.last_failure:
            parts.append(Text(f"last failure: {shortened(live.loop.last_failure)}", style="dim"))
        return Group(*parts)


def arm_table(live: Live) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("arm", "weight", "", "samples", "in flight", "failed", "state"):
        table.add_column(name, justify="left" if name in ("arm", "", "state") else "right")
    weights, counts = live.selector.mixture, live.selector.counts
    flying = Counter(ticket.arm for ticket in live.selector.in_flight)
    for label, arm in live.loop.arms.items():
        weight = weights.get(label)
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


def make_view(console: Console) -> Lines:
    return LiveTable(console) if console.is_terminal else Lines(console)
