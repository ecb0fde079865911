"""The status of a run, including what the dashboard itself has started or stopped."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from genmix.dashboard.actions import Actions
from genmix.journal.lock import holder
from genmix.monitoring.monitor import RunMonitor
from genmix.monitoring.status import RunStatus, run_status


def status_of(run: RunMonitor, actions: Actions) -> RunStatus:
    lock_holder, end = holder(run.folder), run.end
    if lock_holder is not None:
        is_stopping = actions.is_stopping(run.folder, lock_holder)
        return run_status(run, replace(lock_holder, is_stopping=is_stopping))
    if end is not None and actions.is_ending(run.folder, end["at"]):
        return RunStatus("ending", "writing the report")
    if actions.is_starting(run.folder):
        return RunStatus("starting", "loading the models")
    problem = actions.resume_problem(run.folder, run.last_start)
    if problem is not None and (end is None or end["kind"] != "finished"):
        return RunStatus("trouble", problem)
    return run_status(run, None)


def status_data(run: RunMonitor, actions: Actions) -> dict[str, Any]:
    """Return the status as JSON values, with the actions that are available."""
    status = status_of(run, actions)
    return {
        "name": status.name,
        "reason": status.reason,
        "is_active": status.is_active,
        "can_stop": status.name == "running",
        "can_stop_now": status.name == "stopping",
        "can_resume": status.is_resumable
        and not actions.is_starting(run.folder)
        and os.access(run.folder, os.W_OK),
    }
