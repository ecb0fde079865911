"""What one run has achieved so far, for every list and page that shows runs."""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from genmix.charts.objective_titles import objective_title
from genmix.core.text import quotable
from genmix.journal.kept import KEPT
from genmix.journal.prompts import GROUPS
from genmix.journal.study_changes import arms_in_order
from genmix.monitoring.checked import is_count, is_number
from genmix.monitoring.finding import read_inside
from genmix.monitoring.monitor import RunMonitor, TimelinePoint
from genmix.runs.inactive import RETIRED
from genmix.runs.inactive import inactive_arms as journaled_states
from genmix.runs.result import SUMMARY
from genmix.study.components import hyphenated, objective_classes

MAX_OBJECTIVE = 2000
MAX_SUMMARY_BYTES = 5_000_000
MAX_KEPT_BYTES = 20_000_000
MAX_GROUPS = 200
MAX_GROUP_NAME = 200


def objective_text(study: Mapping[str, Any]) -> str:
    terms = study.get("objective", [])
    names = [next(iter(term), "") if isinstance(term, dict) else str(term) for term in terms]
    return quotable(" + ".join(map(str, names)), most=MAX_OBJECTIVE)


def objective_words(study: Mapping[str, Any]) -> str:
    """Return the objective in words, e.g. ``Vendi (order 1, cosine kernel)``, for the title of a page."""
    return quotable(objective_title(study.get("objective", [])), most=MAX_OBJECTIVE)


def scores_of(run: RunMonitor, summary: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Return the scores at the end of the timeline; without a timeline, those in the summary."""
    last = run.timeline[-1] if run.timeline else TimelinePoint(0, {})
    pooled, mixture = last.pooled, last.score
    if summary is not None and not pooled and not mixture:
        pooled, mixture = (score_values(summary.get(key)) for key in ("pooled_score", "score"))
    return [
        {
            "name": name,
            "maximise": is_maximised(name),
            "pooled": pooled.get(name),
            "mixture": mixture.get(name),
        }
        for name in dict.fromkeys([*pooled, *mixture])
    ]


def score_values(scores: Any) -> dict[str, float | None]:
    """Return the scores in a summary that are numbers; the file may contain anything."""
    if not isinstance(scores, dict):
        return {}
    found = {k: score.get("value") for k, score in scores.items() if isinstance(score, dict)}
    return {name: value for name, value in found.items() if value is None or is_number(value)}


def is_maximised(name: str) -> bool:
    objective: Any = objective_classes().get(hyphenated(name.split(" ")[0]))
    return objective is None or bool(objective.maximise)


def arm_names(run: RunMonitor) -> list[str]:
    """Return the arms in the order in which they appeared."""
    arms = [*map(str, run.study.get("arms", {})), *run.counts]
    return arms_in_order(run.first_arms, run.events, arms)


def inactive_arms(run: RunMonitor) -> dict[str, str]:
    """Return the state of each arm that is retired or suspended."""
    last_told = run.told_times[-1] if run.told_times else -math.inf
    # The last arm is never retired, so there is no event that revives it.
    found = journaled_states(
        e for e in run.events if e["kind"] != "suspend" or e["at"] >= last_told
    )
    detail = run.end["detail"] if run.end is not None else {}
    included, excluded = (detail.get(key) for key in ("included", "excluded"))
    for arm in included if isinstance(included, list) else ():
        found.pop(str(arm), None)
    for arm in excluded if isinstance(excluded, list) else ():
        found.setdefault(str(arm), RETIRED)
    return found


def groups_of(run: RunMonitor, summary: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Return the weights, scores and sample counts of each group of prompts.

    Runs of older versions have only weights, in the summary.
    """
    changed = changed_at(run.folder / GROUPS)
    if changed is None:
        found = (summary or {}).get("weights_by_group")
        rows = found if isinstance(found, dict) else {}
        return checked_groups({name: {"weights": weights} for name, weights in rows.items()})
    if run.groups is None or run.groups[0] != changed:
        content = _read_json(run, GROUPS, MAX_SUMMARY_BYTES)
        found = content.get("groups") if isinstance(content, dict) else None
        run.groups = changed, checked_groups(found)
    return run.groups[1]


def checked_groups(found: Any) -> list[dict[str, Any]]:
    """Return what a page shows of the groups; the file may contain anything."""
    rows = found.items() if isinstance(found, dict) else ()
    return [
        {
            "name": quotable(name, most=MAX_GROUP_NAME),
            "weights": _numbers(row.get("weights"), is_number),
            "scores": _numbers(row.get("scores"), is_number),
            "counts": _numbers(row.get("counts"), is_count),
        }
        for name, row in list(rows)[:MAX_GROUPS]
        if isinstance(row, dict)
    ]


def _numbers(found: Any, is_valid: Callable[[Any], bool]) -> dict[str, Any]:
    items = found.items() if isinstance(found, dict) else ()
    return {name: value for name, value in items if is_valid(value)}


def cost_of(run: RunMonitor, summary: Mapping[str, Any] | None) -> float | None:
    """Return the cost of a run; until it has been added up, the cost in an up-to-date summary."""
    if run.cost is not None or summary is None or summary.get("samples") != run.samples:
        return run.cost
    found = summary.get("cost")
    return found if found and is_number(found) else None


def read_summary(run: RunMonitor) -> dict[str, Any] | None:
    """Return the summary of a run if it has a valid one; parse it only if it has changed."""
    changed = changed_at(run.folder / SUMMARY)
    if run.summary is None or run.summary[0] != changed:
        found = _read_json(run, SUMMARY, MAX_SUMMARY_BYTES)
        run.summary = changed, found if isinstance(found, dict) else None
    return run.summary[1]


def _read_json(run: RunMonitor, name: str, max_bytes: int) -> Any:
    """Return the content of a file in the run folder; None if it does not exist or is not valid JSON."""
    content = read_inside(run.folder, name, max_bytes=max_bytes)
    try:
        return None if content is None else json.loads(content)
    except (ValueError, RecursionError):
        return None


def kept_of(run: RunMonitor) -> dict[str, Any] | None:
    """Return the scores of the samples that the run keeps, or would keep now; None if it keeps all."""
    if not run.study.get("keep"):
        return None
    changed = changed_at(run.folder / KEPT)
    if run.kept is None or run.kept[0] != changed:
        run.kept = changed, _checked_kept(_read_json(run, KEPT, MAX_KEPT_BYTES))
    return run.kept[1]


def _checked_kept(found: Any) -> dict[str, Any] | None:
    """Return what the page shows; the file may contain anything."""
    if not isinstance(found, dict):
        return None
    count, samples = found.get("count"), found.get("samples")
    scores = score_values(found.get("scores"))
    if not is_count(count) or not is_count(samples) or not scores:
        return None
    bound, is_final = found.get("bound"), found.get("is_final") is True
    return {
        "count": count,
        "samples": samples,
        "scores": scores,
        "bound": bound if is_number(bound) else None,
        "is_final": is_final,
    }


def changed_at(path: Path) -> float | None:
    """Return when a file was written; None if there is no such file."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return found.st_mtime if stat.S_ISREG(found.st_mode) else None
