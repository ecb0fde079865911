"""Determine from a run's lock and journal whether it is starting, running, stopping or done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from genmix.journal.lock import Holder, locked_at
from genmix.journal.study_changes import change_in_words
from genmix.monitoring.monitor import MAX_TEXT, RunMonitor
from genmix.study.secrets import without_secrets

ACTIVE = ("starting", "running", "stopping", "ending")
RESUMABLE = ("interrupted", "trouble", "unfinished")


@dataclass(frozen=True)
class RunStatus:
    """What a run is doing, and why."""

    name: str
    """starting, running, stopping, ending, finished, interrupted, trouble or unfinished."""
    reason: str | None = None

    @property
    def is_active(self) -> bool:
        return self.name in ACTIVE

    @property
    def is_resumable(self) -> bool:
        return self.name in RESUMABLE


def run_status(run: RunMonitor, lock_holder: Holder | None) -> RunStatus:
    """Return the status of a run; ``lock_holder`` is the process that is writing to its folder."""
    end = run.end
    if lock_holder is None:
        if end is not None:
            return RunStatus(end["kind"], shown_reason(end))
        return RunStatus("unfinished", "its process no longer exists")
    if end is None and lock_holder.is_stopping:
        return RunStatus("stopping", "waiting for the samples in flight")
    if end is None:
        return RunStatus("running" if run.events else "starting")
    if locked_at(run.folder) > 1e9 * end["at"]:
        return RunStatus("starting", "reading the journal")
    return RunStatus("ending", "writing the results")


def shown_reason(event: dict[str, Any]) -> str | None:
    """Return the reason for an event, if it says more than the event's kind."""
    why = change_in_words(event) if event["kind"] == "changed" else event["detail"].get("why")
    return None if why in (None, "", event["kind"]) else safe_message(why)


def safe_message(text: Any) -> str:
    """Truncate a message and remove secrets, because other people may see it."""
    return without_secrets(str(text))[:MAX_TEXT]
