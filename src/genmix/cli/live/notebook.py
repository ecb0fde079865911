"""The live view of a run in a notebook: a progress bar, a status line and a small table, updated in place."""

from __future__ import annotations

import html
import time
from typing import TYPE_CHECKING, Any

from genmix.cli.leading_arms import shown_arms
from genmix.cli.live.terminal import Tracker
from genmix.core.text import printable, shortened

if TYPE_CHECKING:
    from genmix.runs.timeline import Live

INTERVAL = 0.5
"""Seconds between updates."""


class NotebookView:
    """A callback that displays progress below the cell that creates it."""

    def __init__(self) -> None:
        from IPython.display import HTML, display  # type: ignore[import-not-found, unused-ignore]

        self._html: Any = HTML
        self._handle: Any = display(HTML("<p>genmix: starting …</p>"), display_id=True)
        self._tracker, self._next = Tracker(), 0.0

    def __call__(self, live: Live) -> None:
        if time.monotonic() < self._next and live.loop.reason is None:
            return
        self._next = time.monotonic() + INTERVAL
        self._tracker.board.update(live)
        self._handle.update(self._html(render(live, self._tracker)))

    def finish(self, run: Any) -> None:
        """Show the status of a run that was already finished; otherwise keep the last update."""
        if not self._next:
            self._handle.update(self._html(f"<p>genmix: {_safe(run.status)}</p>"))


def render(live: Live, tracker: Tracker) -> str:
    """Render the progress bar, the status and one row per arm."""
    status = _safe(", ".join(tracker.status(live)))
    budget, told = live.study.budget.samples, live.told
    bar = (
        "<progress></progress>"
        if budget is None
        else f'<progress value="{min(told, budget)}" max="{budget}"></progress>'
    )
    weights, counts = live.selector.mixture, live.selector.counts
    shown, rest = shown_arms(weights, counts)
    rows = "".join(
        f"<tr><td>{_safe(arm)}</td><td>{_weight(weights.get(arm))}</td><td>{counts[arm]:,}</td></tr>"
        for arm in shown
    )
    rows += f'<tr><td colspan="3">{_safe(rest)}</td></tr>' if rest else ""
    failure = live.loop.last_failure
    last = f"<p>last failure: {_safe(shortened(failure))}</p>" if failure else ""
    return (
        f"<div><p>{bar} {status}</p><p>{_safe(tracker.board.text())}</p><table><thead><tr>"
        "<th>arm</th><th>weight</th><th>samples</th></tr></thead>"
        f"<tbody>{rows}</tbody></table>{last}</div>"
    )


def _weight(weight: float | None) -> str:
    if weight is None:
        return "–"
    return f'<meter value="{weight:.4f}" min="0" max="1"></meter> {weight:.3f}'


def _safe(text: str) -> str:
    return html.escape(printable(text))
