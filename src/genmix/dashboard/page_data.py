"""The data for the pages, as JSON values."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from genmix.charts.leading import (
    MAX_COLORS,
    MAX_ROWS,
    OTHERS,
    Total,
    leading,
    name_parts,
    plain,
    stack,
)
from genmix.charts.style import arm_colors
from genmix.core.text import quotable
from genmix.dashboard.actions import Actions
from genmix.dashboard.status import status_data
from genmix.errors import GenmixError, StorageError
from genmix.journal.reader import Row
from genmix.monitoring.facts import (
    arm_names,
    changed_at,
    cost_of,
    groups_of,
    inactive_arms,
    kept_of,
    objective_words,
    read_summary,
    score_values,
    scores_of,
)
from genmix.monitoring.monitor import RunMonitor, TimelinePoint, invalid_data
from genmix.monitoring.status import safe_message, shown_reason
from genmix.runs.spending.budget import time_left

MAX_POINTS = 300
"""Maximum number of points on a curve; a screen cannot show more."""

MAX_SPARKLINE_POINTS = 48
MAX_EVENTS = 20
UNSHOWN = ("plan",)
RATE_WINDOW, RATE_SAMPLES = 60.0, 20
"""The rate covers the last minute if it contains at least this many samples, otherwise a longer period."""

GRAY = "#8C8C8C"
"""The color of arms without their own."""

REPORT = "report.html"


# -- one run -----------------------------------------------------------------------------------------


def run_data(name: str, run: RunMonitor, actions: Actions) -> dict[str, Any]:
    """Collect everything that a run's page shows; raise StorageError if its files are invalid."""
    try:
        found = _run_data(name, run, actions)
        json.dumps(found, allow_nan=False)
        return found
    except (GenmixError, FileNotFoundError):
        raise
    except Exception as error:
        raise StorageError(invalid_data("run folder", error)) from error


def _run_data(name: str, run: RunMonitor, actions: Actions) -> dict[str, Any]:
    with run.lock:
        run.refresh()
        status = status_data(run, actions)
        is_active = status["is_active"]
        rate = sample_rate(run) if is_active else None
        summary = None if is_active else read_summary(run)
        budget, seconds = run.study.get("budget", {}), run.seconds(is_active)
        report_time = changed_at(run.folder / REPORT)
        return {
            "name": name,
            "study": quotable(run.study.get("name", "")),
            "objective": objective_words(run.study),
            "status": status,
            "samples": run.samples,
            "budget": budget,
            "rate": rate,
            "time_left": time_left(budget, run.samples, run.cost or 0.0, seconds, rate)
            if is_active
            else None,
            "seconds": round(seconds, 1),
            "cost": cost_of(run, summary),
            "scores": scores_of(run, summary),
            "kept": kept_of(run),
            **arms_data(run, is_active, summary),
            "groups": groups_of(run, summary),
            "chart": chart_of(run),
            "newest": [row | {"image": row["image"] is not None} for row in run.newest_samples],
            "failure_count": run.failures.total(),
            "failures": [
                row | {"message": safe_message(row["message"])} for row in run.newest_failures
            ],
            "events": [_event(event) for event in _shown_events(run)],
            "report": report_time is not None,
            "report_is_old": report_time is not None and report_time < (run.last_write or 0.0),
        }


def _shown_events(run: RunMonitor) -> list[Row]:
    """Return the last events, newest first, without those that only restore the state of a run."""
    return [event for event in run.events if event["kind"] not in UNSHOWN][: -MAX_EVENTS - 1 : -1]


def _event(event: Row) -> dict[str, Any]:
    return {key: event[key] for key in ("id", "at", "kind", "arm")} | {"why": shown_reason(event)}


def sample_rate(run: RunMonitor) -> float | None:
    """Return the recent number of samples per second in the current session."""
    if run.last_start is None:
        return None
    now, started = time.time(), run.last_start["at"]
    times = [at for at in run.told_times if at >= started]
    recent = [at for at in times if at >= now - RATE_WINDOW]
    if RATE_SAMPLES <= len(recent) < len(times):
        return len(recent) / RATE_WINDOW
    if not times:
        return None
    since = times[0] if len(times) == run.told_times.maxlen else started
    return len(times) / max(now - since, 1e-3)


def arms_data(
    run: RunMonitor, is_active: bool, summary: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return the arms; if there are many, the leading ones by weight and the sum of the others."""
    every, weights = arms_of(run, is_active, summary), last_weights(run)
    names = [arm["name"] for arm in every]
    shown = set(leading(names, weights, run.counts))
    parts = name_parts(names, weights, run.counts)
    found: dict[str, Any] = {
        "arms": every,
        "other_arms": None,
        "parts": [[*map(plain, part)] for part in parts],
    }
    others = [arm for arm in every if arm["name"] not in shown]
    if others:
        total = plain(Total.of(OTHERS, [a["name"] for a in others], weights, run.counts))
        sums = {key: sum(arm[key] for arm in others) for key in ("in_flight", "failures")}
        listed = [arm for arm in every if arm["name"] in shown]
        listed.sort(key=lambda arm: (-(arm["weight"] or 0.0), -arm["count"]))
        found |= {"arms": listed, "other_arms": total | sums | {"color": GRAY}}
    return found


def every_arm(run: RunMonitor, actions: Actions) -> list[dict[str, Any]]:
    """Return all arms, for a page that shows only the leading ones at first."""
    with run.lock:
        run.refresh()
        is_active = status_data(run, actions)["is_active"]
        found = arms_of(run, is_active, None if is_active else read_summary(run))
    return sorted(found, key=lambda arm: (-(arm["weight"] or 0.0), -arm["count"]))


def last_weights(run: RunMonitor) -> Mapping[str, float | None]:
    return run.timeline[-1].weights if run.timeline else {}


def colors_of(run: RunMonitor) -> dict[str, str]:
    """Assign a color to each arm; if there are many, only the leading ones get their own."""
    names = arm_names(run)
    if len(names) <= MAX_ROWS + 1:
        return arm_colors(names)
    named = leading(names, last_weights(run), run.counts, MAX_COLORS)
    return dict.fromkeys(names, GRAY) | arm_colors(named)


def arms_of(
    run: RunMonitor, is_active: bool, summary: Mapping[str, Any] | None
) -> list[dict[str, Any]]:
    weights = last_weights(run) if run.has_timeline else {}
    states = inactive_arms(run)
    single_scores = (summary or {}).get("single_scores")
    single_scores = single_scores if isinstance(single_scores, dict) else {}
    return [
        {
            "name": arm,
            "color": color,
            "weight": weights.get(arm),
            "count": run.counts[arm],
            "in_flight": run.in_flight.get(arm, 0) if is_active else 0,
            "failures": run.failures[arm],
            "state": states.get(arm, "active"),
            "single_scores": score_values(single_scores.get(arm)),
        }
        for arm, color in colors_of(run).items()
    ]


# -- curves ------------------------------------------------------------------------------------------


def chart_of(run: RunMonitor) -> dict[str, Any]:
    """Return weights and scores as functions of the number of samples."""
    points = thinned(run.timeline, MAX_POINTS)
    names = list(dict.fromkeys(n for p in points for n in (*p.pooled, *p.score)))
    colors = colors_of(run)
    most = MAX_COLORS if len(colors) > MAX_ROWS + 1 else MAX_ROWS
    layers = stack(list(colors), last_weights(run), run.counts, most)
    rows = [p.weights if most == MAX_ROWS else layers.weights(p.weights) for p in points]
    drawn = colors if layers.part is None else arm_colors(layers.members)
    return {
        "part": layers.part,
        "colors": {name: drawn.get(name, GRAY) for name in layers.members},
        "x": [p.samples for p in points],
        "kind": "weight" if run.has_timeline or not points else "share",
        "weights": {name: _column(name, rows) for name in layers.members},
        "pooled": {name: _column(name, [p.pooled for p in points]) for name in names},
        "mixture": {name: _column(name, [p.score for p in points]) for name in names},
    }


def _rest(weights: Mapping[str, float | None], named: Collection[str]) -> float | None:
    """Return the weight of the arms that are not named."""
    named = set(named)
    return _rounded(sum(w or 0.0 for arm, w in weights.items() if arm not in named))


def _column(name: str, rows: Sequence[Mapping[str, float | None]]) -> list[float | None]:
    return [_rounded(row.get(name)) for row in rows]


def _rounded(value: float | None) -> float | None:
    """Round to as many digits as a curve can show."""
    return None if value is None else float(f"{value:.7g}")


def thinned(points: Sequence[TimelinePoint], limit: int) -> list[TimelinePoint]:
    """Keep at most ``limit`` points, evenly spaced, including the first and the last."""
    if len(points) <= limit:
        return list(points)
    step = (points[-1].samples - points[0].samples) / (limit - 1)
    found = [points[0]]
    for point in points[1:-1]:
        if point.samples - found[-1].samples >= step:
            found.append(point)
    return [*found[: limit - 1], points[-1]]


def sparkline_of(run: RunMonitor) -> list[list[float]]:
    """Return the points of the first pooled score."""
    name = next((n for p in run.timeline for n in p.pooled), None)
    if name is None:
        return []
    scored = [p for p in run.timeline if p.pooled.get(name) is not None]
    few = thinned(scored, MAX_SPARKLINE_POINTS)
    return [[p.samples, _rounded(p.pooled[name]) or 0.0] for p in few]


# -- many runs ---------------------------------------------------------------------------------------


def list_entry(name: str, run: RunMonitor, actions: Actions) -> dict[str, Any]:
    """Return a run's entry in the list of runs."""
    try:
        entry = _list_entry(name, run, actions)
        json.dumps(entry, allow_nan=False)
        return entry
    except GenmixError as error:
        return unreadable_entry(name, safe_message(error))
    except Exception as error:  # one bad run must not hide the others
        return unreadable_entry(name, invalid_data("run folder", error))


def unreadable_entry(name: str, reason: str, status: str = "unreadable") -> dict[str, Any]:
    return {"name": name, "status": {"name": status, "reason": reason, "is_active": False}}


def _list_entry(name: str, run: RunMonitor, actions: Actions) -> dict[str, Any]:
    with run.lock:
        run.refresh(for_list=True)
        status = status_data(run, actions)
        needs_summary = not status["is_active"] and not run.has_timeline
        summary = read_summary(run) if needs_summary else None
        return {
            "name": name,
            "study": quotable(run.study.get("name", "")),
            "status": status,
            "samples": run.samples,
            "budget": run.study.get("budget", {}),
            "objective": objective_words(run.study),
            "score": next(iter(scores_of(run, summary)), None),
            "sparkline": sparkline_of(run),
            "weights": _weights(run),
            "started": run.events[0]["at"] if run.events else None,
            "last_write": run.last_write,
        }


def _weights(run: RunMonitor) -> list[dict[str, Any]]:
    last, colors = last_weights(run), colors_of(run)
    is_many = len(colors) > MAX_ROWS + 1
    drawn = leading(list(colors), last, run.counts, MAX_COLORS) if is_many else list(colors)
    found = [{"arm": a, "weight": last[a], "color": colors[a]} for a in drawn if last.get(a)]
    rest = _rest(last, drawn)
    return [*found, {"arm": OTHERS, "weight": rest, "color": GRAY}] if rest else found


def comparison_data(runs: Mapping[str, RunMonitor], actions: Actions) -> dict[str, Any]:
    """Collect the data for several runs, giving each arm the same color in all of them."""
    found = [_compared_run(name, run, actions) for name, run in runs.items()]
    arms = [name for run in found for name in run.get("arms", [])]
    shown = {each["arm"] for run in found for each in run.get("weights", [])}
    return {"runs": found, "colors": arm_colors(arms) | dict.fromkeys(shown - set(arms), GRAY)}


def _compared_run(name: str, run: RunMonitor, actions: Actions) -> dict[str, Any]:
    entry = list_entry(name, run, actions)
    is_active = entry["status"]["is_active"]
    if "samples" not in entry:
        return entry
    try:
        with run.lock:
            summary = None if is_active else read_summary(run)
            entry |= {
                "scores": scores_of(run, summary),
                "cost": cost_of(run, summary),
                "seconds": round(run.seconds(is_active), 1),
                "arms": [name for name, color in colors_of(run).items() if color != GRAY],
                "chart": chart_of(run),
            }
        json.dumps(entry, allow_nan=False)
        return entry
    except Exception as error:
        return unreadable_entry(name, invalid_data("run folder", error))
