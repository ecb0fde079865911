"""Determine whether a run is starting, running, stopping or done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from genmix.dashboard.actions import Actions
from genmix.dashboard.monitor import MAX_TEXT, RunMonitor
from genmix.journal.lock import holder, locked_at
from genmix.report.sanitize import without_secrets

ACTIVE = ("starting", "running", "stopping", "ending")
RESUMABLE = ("interrupted", "trouble", "unfinished")


@dataclass(frozen=True)
class RunStatus:
    """What a run is doing, and why."""

    name: str
    """starting, running, stopping, ending, finished, interrupted, trouble or unfinished."""
    reason: str | None = None


def status_of(run: RunMonitor, actions: Actions) -> RunStatus:
    lock_holder, end = holder(run.folder), run.end
    if lock_holder is not None:
        if actions.is_stopping(run.folder, lock_holder) and end is None:
            return RunStatus("stopping", "waiting for the samples in flight")
        if end is None:
            return RunStatus("running" if run.events else "starting")
        if locked_at(run.folder) > 1e9 * end["at"]:
            return RunStatus("starting", "reading the journal")
        return RunStatus("ending", "writing the results")
    if end is not None and actions.is_ending(run.folder, end["at"]):
        return RunStatus("ending", "writing the report")
    if actions.is_starting(run.folder):
        return RunStatus("starting", "loading the models")
    problem = actions.resume_problem(run.folder, run.last_start)
    if problem is not None and (end is None or end["kind"] != "finished"):
        return RunStatus("trouble", problem)
    if end is not None:
        return RunStatus(end["kind"], shown_reason(end))
    return RunStatus("unfinished", "its process no longer exists")


def status_data(run: RunMonitor, actions: Actions) -> dict[str, Any]:
    """Return the status as JSON values, with the actions that are available."""
    status = status_of(run, actions)
    return {
        "name": status.name,
        "reason": status.reason,
        "is_active": status.name in ACTIVE,
        "can_stop": status.name == "running",
        "can_stop_now": status.name == "stopping",
        "can_resume": status.name in RESUMABLE and not actions.is_starting(run.folder),
    }


def shown_reason(event: dict[str, Any]) -> str | None:
    """Return the reason for an event, if it says more than the event's kind."""
    why = event["detail"].get("why")
    return None if why in (None, "", event["kind"]) else safe_message(why)


def safe_message(text: Any) -> str:
    """Truncate a message and remove secrets, because other machines may have access to the page."""
    return without_secrets(str(text))[:MAX_TEXT]
