"""One run as JSON values: a short entry for a list of runs, and everything about its status."""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from genmix.core.text import quotable
from genmix.errors import GenmixError, StorageError
from genmix.journal.continuing import resume_command
from genmix.journal.lock import holder
from genmix.journal.prompts import prompts_of
from genmix.journal.reader import JournalReader
from genmix.journal.run_folders import check_run_folder
from genmix.monitoring.checked import is_number
from genmix.monitoring.facts import (
    arm_names,
    inactive_arms,
    kept_of,
    objective_text,
    read_summary,
    scores_of,
)
from genmix.monitoring.finding import find_runs
from genmix.monitoring.monitor import RunMonitor, invalid_data
from genmix.monitoring.status import RunStatus, run_status, safe_message
from genmix.offline.keeping import Rules

Entry = dict[str, Any]

BUDGETS = ("samples", "cost", "time")
NO_EXTENSION: Entry = {"raise_first": None, "extend_with": None}
LISTED = ("folder", "name", "status", "reason", "samples", "budget", "cost", "scores", "updated")
"""The fields of a run in a list of runs."""


def list_runs(folder: Path) -> list[Entry]:
    """Return an entry for every run below a folder, newest first.

    A damaged run has the status ``unreadable`` with the problem as its reason, and comes last.
    """
    found = [_entry(folder / name) for name, _ in sorted(find_runs(folder))]
    return sorted(found, key=lambda entry: entry["updated"] or "", reverse=True)


def _entry(folder: Path) -> Entry:
    try:
        details = run_details(folder)
        return {field: details[field] for field in LISTED}
    except GenmixError as error:
        problem = {"folder": str(folder), "status": "unreadable", "reason": safe_message(error)}
        return dict.fromkeys(LISTED) | problem


def run_details(folder: Path) -> Entry:
    """Return everything that ``genmix status`` shows.

    Raises
    ------
    GenmixError
        If the folder is not a run folder, or its journal cannot be read.
    """
    check_run_folder(folder)
    run = RunMonitor(folder)
    try:
        run.refresh()
        found = _details(run)
        json.dumps(found, allow_nan=False)
    except GenmixError:
        raise
    except Exception as error:  # the journal may contain anything
        raise StorageError(invalid_data("run folder", error)) from error
    return found


def _details(run: RunMonitor) -> Entry:
    status = run_status(run, holder(run.folder))
    summary = None if status.is_active else _current_summary(run)
    gap, budget = (summary or {}).get("gap"), run.study.get("budget", {})
    keep = run.study.get("keep")
    limits = {key: budget[key] for key in BUDGETS if budget.get(key) is not None}
    return {
        "folder": str(run.folder),
        "name": quotable(run.study.get("name", "")),
        "status": status.name,
        "reason": status.reason,
        "objective": objective_text(run.study),
        "samples": run.samples,
        "budget": limits,
        "keep": None if keep is None else str(Rules(**keep)),
        "kept": kept_of(run),
        "cost": run.wait_for_cost(),
        "seconds": round(run.seconds(status.is_active), 1),
        "started": _time(run.events[0]["at"] if run.events else None),
        "updated": _time(run.last_write),
        "scores": scores_of(run, summary),
        "gap": gap if is_number(gap) else None,
        "arms": _arms(run, status, summary),
        "failures": run.failures.total(),
        "last_failure": _last_failure(run),
        "continue_with": _resume_call(run) if status.is_resumable else None,
        **(_extension(run, limits) if status.name == "finished" else NO_EXTENSION),
    }


def _extension(run: RunMonitor, limits: Entry) -> Entry:
    """Return how to extend a finished run, and the setting of its study that must be raised first."""
    prompts = run.study.get("prompts")
    if prompts is None or limits["samples"] < _number_of_prompts(run) * prompts["repeat"]:
        return NO_EXTENSION | {"extend_with": _resume_call(run, limits)}
    others = [key for key in limits if key != "samples"]
    if run.samples < limits["samples"] and others:
        return NO_EXTENSION | {"extend_with": _resume_call(run, others)}
    return {
        "raise_first": "prompts.repeat",
        "extend_with": resume_command(run.folder, run.study, changed_study="study.yaml"),
    }


def _number_of_prompts(run: RunMonitor) -> int:
    with JournalReader.open(run.folder) as journal:
        return len(prompts_of(journal))


def _resume_call(run: RunMonitor, limits: Collection[str] = ()) -> str:
    """Return how to continue a run with new totals for ``limits``."""
    return resume_command(run.folder, run.study, **dict.fromkeys(limits, "TOTAL"))


def _current_summary(run: RunMonitor) -> Entry | None:
    """Return the summary, unless the run has continued since it was written."""
    summary = read_summary(run)
    return summary if summary is not None and summary.get("samples") == run.samples else None


def _arms(run: RunMonitor, status: RunStatus, summary: Entry | None) -> list[Entry]:
    weights: Any = run.timeline[-1].weights if run.has_timeline else None
    if weights is None:
        weights = (summary or {}).get("weights")
    weights = weights if isinstance(weights, dict) else {}
    states = inactive_arms(run)
    return [
        {
            "name": arm,
            "weight": weights.get(arm) if is_number(weights.get(arm)) else None,
            "samples": run.counts[arm],
            "in_flight": run.in_flight.get(arm, 0) if status.is_active else 0,
            "failures": run.failures[arm],
            "state": states.get(arm, "active"),
        }
        for arm in arm_names(run)
    ]


def _last_failure(run: RunMonitor) -> Entry | None:
    if not run.newest_failures:
        return None
    last = run.newest_failures[0]
    return {
        "arm": last["arm"],
        "at": _time(last["at"]),
        "message": safe_message(last["message"]),
    }


def _time(at: float | None) -> str | None:
    return (
        None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
    )
