"""How a run stands, as JSON values for the page."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from genmix.charts.style import arm_colours
from genmix.dashboard.actions import Actions
from genmix.dashboard.folder import read_inside
from genmix.dashboard.follower import Follower, Moment
from genmix.report.safe import without_secrets
from genmix.runs import lock
from genmix.runs.lock import holder
from genmix.runs.result import SUMMARY
from genmix.study.names import hyphenated, objectives

POINTS = 300
"""The most points of a curve; a screen shows no more."""

SPARKS = 48
NEWEST, FAILURES, EVENTS = 12, 20, 20
LETTERS = 600
"""Of a text on the page: a sample's, a prompt, a message."""

WINDOW, ENOUGH = 60.0, 20
"""The rate is that of the last minute if so many samples came in it, else of more."""

RESUMABLE = ("interrupted", "trouble", "unfinished")
REPORT = "report.html"
LARGEST_SUMMARY = 50_000_000


@dataclass(frozen=True)
class Life:
    """Whether a run runs, and how one can tell."""

    status: str
    """starting, running, stopping, ending, finished, interrupted, trouble or unfinished."""
    reason: str | None = None

    @property
    def is_active(self) -> bool:
        return self.status in ("starting", "running", "stopping", "ending")


def life_of(run: Follower, actions: Actions) -> Life:
    held, end = holder(run.folder), run.end
    if held is not None:
        if actions.is_stopping(run.folder, held) and end is None:
            return Life("stopping", "what is in flight is taken in")
        if end is None:
            return Life("running" if run.events else "starting")
        if _locked_at(run.folder) > end.at:
            return Life("starting", "the journal is read")
        return Life("ending", "the results are written")
    if end is not None and actions.is_ending(run.folder, end.at):
        return Life("ending", "the report is written")
    if actions.is_starting(run.folder):
        return Life("starting", "the models are loaded")
    trouble = actions.trouble(run.folder, run.last_start)
    if trouble is not None and (end is None or end.kind != "finished"):
        return Life("trouble", trouble)
    if end is not None:
        why = end.detail.get("why", "")
        return Life(end.kind, None if why == end.kind else fit_to_show(why))
    return Life("unfinished", "its process is gone")


def _report_at(folder: Path) -> float | None:
    """When the report was written, if there is one."""
    try:
        found = os.stat(folder / REPORT, follow_symlinks=False)
    except OSError:
        return None
    return found.st_mtime if stat.S_ISREG(found.st_mode) else None


def _locked_at(folder: Path) -> float:
    try:
        return os.stat(folder / lock.NAME, follow_symlinks=False).st_mtime
    except OSError:
        return 0.0


# -- one run -----------------------------------------------------------------------------------------


def state_of(name: str, run: Follower, actions: Actions) -> dict[str, Any]:
    """All that the page of a run shows."""
    with run.lock:
        run.look()
        life = life_of(run, actions)
        told, failed = run.newest(NEWEST, FAILURES, LETTERS)
        rate = rate_of(run) if life.is_active else None
        summary = None if life.is_active else summary_of(run.folder)
        written = _report_at(run.folder)
        return {
            "name": name,
            "study": str(run.study.get("name", "")),
            "objective": objective_words(run.study),
            "life": life_words(life, actions, run.folder),
            "samples": run.samples,
            "budget": run.study.get("budget", {}),
            "rate": rate,
            "left": time_left(run, rate) if life.is_active else None,
            "seconds": round(run.seconds(life.is_active), 1),
            "cost": run.cost,
            "scores": scores_of(run, summary),
            "arms": arms_of(run, life, summary),
            "chart": chart_of(run),
            "newest": [_sample(row) for row in told],
            "failed": run.failures.total(),
            "failures": [_failure(row) for row in failed],
            "events": [_event(e) for e in reversed(run.events[-EVENTS:])],
            "report": written is not None,
            "report_is_old": written is not None and written < (run.last_sign or 0.0),
        }


def life_words(life: Life, actions: Actions, folder: Path) -> dict[str, Any]:
    return {
        "status": life.status,
        "reason": life.reason,
        "active": life.is_active,
        "can_stop": life.status == "running",
        "can_stop_at_once": life.status == "stopping",
        "can_resume": life.status in RESUMABLE and not actions.is_starting(folder),
    }


def objective_words(study: dict[str, Any]) -> str:
    terms = study.get("objective", [])
    names = [next(iter(term), "") if isinstance(term, dict) else str(term) for term in terms]
    return " + ".join(names)


def rate_of(run: Follower) -> float | None:
    """Samples a second, lately in this session."""
    now, started = time.time(), run.started
    if started is None:
        return None
    times = [at for at in run.recent if at >= started]
    lately = [at for at in times if at >= now - WINDOW]
    if len(lately) >= ENOUGH and len(lately) < len(times):
        return len(lately) / WINDOW
    if not times:
        return None
    since = times[0] if len(times) == run.recent.maxlen else started
    return len(times) / max(now - since, 1e-3)


def time_left(run: Follower, rate: float | None) -> float | None:
    """Seconds until the first budget is spent at the present rate, if that can be said."""
    budget = run.study.get("budget", {})
    guesses = []
    if budget.get("samples") is not None and rate:
        guesses.append((budget["samples"] - run.samples) / rate)
    if budget.get("time") is not None:
        guesses.append(budget["time"] - run.seconds(is_running=True))
    if budget.get("cost") and run.cost and run.samples and rate:
        guesses.append((budget["cost"] - run.cost) / (run.cost / run.samples) / rate)
    return max(min(guesses), 0.0) if guesses else None


def scores_of(run: Follower, summary: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """The last of the timeline, or what the summary has."""
    last = run.moments[-1] if run.moments else Moment(0, {})
    pooled, mixture = last.pooled, last.score
    if summary is not None and not pooled and not mixture:
        pooled, mixture = (_values(summary.get(key)) for key in ("pooled_score", "score"))
    return [
        {
            "name": name,
            "maximise": is_maximised(name),
            "pooled": pooled.get(name),
            "mixture": mixture.get(name),
        }
        for name in dict.fromkeys([*pooled, *mixture])
    ]


def _values(scores: Any) -> dict[str, float | None]:
    return {name: score.get("value") for name, score in (scores or {}).items()}


def is_maximised(name: str) -> bool:
    known = objectives().get(hyphenated(name.split(" ")[0]))
    return known is None or bool(known.maximise)  # type: ignore[attr-defined]


def arms_of(run: Follower, life: Life, summary: dict[str, Any] | None) -> list[dict[str, Any]]:
    arms = arms_in_order(run)
    colours = arm_colours(arms)
    weights = run.moments[-1].weights if run.moments and run.has_timeline else {}
    resting = _resting(run)
    singles = (summary or {}).get("single_scores") or {}
    return [
        {
            "name": arm,
            "colour": colours[arm],
            "weight": weights.get(arm),
            "count": run.counts[arm],
            "flying": run.flying.get(arm, 0) if life.is_active else 0,
            "failures": run.failures[arm],
            "state": resting.get(arm, ""),
            "alone": _values(singles.get(arm)),
        }
        for arm in arms
    ]


def arms_in_order(run: Follower) -> list[str]:
    """As the study has them."""
    return list(dict.fromkeys([*map(str, run.study.get("arms", {})), *run.counts]))


def _resting(run: Follower) -> dict[str, str]:
    """Arms that are not drawn from, and why."""
    found: dict[str, str] = {}
    for event in run.events:
        if event.arm is None:
            continue
        if event.kind == "suspend" and run.recent and run.recent[-1] > event.at:
            continue  # the last arm is not retired and so not revived either
        if event.kind in ("retire", "suspend"):
            found[event.arm] = "suspended" if "pause" in event.detail else "retired"
        elif event.kind == "revive":
            found.pop(event.arm, None)
    return found


def summary_of(folder: Path) -> dict[str, Any] | None:
    content = read_inside(folder, SUMMARY, most=LARGEST_SUMMARY)
    try:
        found = None if content is None else json.loads(content)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


# -- curves ------------------------------------------------------------------------------------------


def chart_of(run: Follower) -> dict[str, Any]:
    """Weights and scores over the samples, thinned out."""
    moments = thinned(run.moments, POINTS)
    names = list(dict.fromkeys(n for m in moments for n in (*m.pooled, *m.score)))
    return {
        "x": [m.samples for m in moments],
        "kind": "weight" if run.has_timeline or not moments else "share of the samples",
        "weights": {arm: _column(arm, [m.weights for m in moments]) for arm in arms_in_order(run)},
        "pooled": {name: _column(name, [m.pooled for m in moments]) for name in names},
        "mixture": {name: _column(name, [m.score for m in moments]) for name in names},
    }


def _column(name: str, rows: Sequence[Mapping[str, float | None]]) -> list[float | None]:
    return [short(row.get(name)) for row in rows]


def short(value: float | None) -> float | None:
    """As many digits as a curve shows."""
    return None if value is None else float(f"{value:.7g}")


def thinned(moments: Sequence[Moment], most: int) -> list[Moment]:
    """So few that they are at least a step apart, with the first and the last."""
    if len(moments) <= most:
        return list(moments)
    step = (moments[-1].samples - moments[0].samples) / (most - 1)
    found = [moments[0]]
    for moment in moments[1:-1]:
        if moment.samples - found[-1].samples >= step:
            found.append(moment)
    return [*found[: most - 1], moments[-1]]


# -- rows --------------------------------------------------------------------------------------------


def _sample(row: Sequence[Any]) -> dict[str, Any]:
    names = ("id", "arm", "at", "text", "letters", "image", "prompt", "source", "quality", "cost")
    found = dict(zip(names, row, strict=True))
    found["image"] = found["image"] is not None
    return found


def _failure(row: Sequence[Any]) -> dict[str, Any]:
    found = dict(zip(("id", "arm", "at", "stage", "message", "ticket"), row, strict=True))
    return found | {"message": fit_to_show(found["message"])}


def _event(event: Any) -> dict[str, Any]:
    why = event.detail.get("why")
    words = None if why in (None, event.kind) else fit_to_show(why)
    return {"id": event.id, "at": event.at, "kind": event.kind, "arm": event.arm, "why": words}


def fit_to_show(text: Any) -> str:
    """The beginning of a message, without secrets: the page may be open to a network."""
    return without_secrets(str(text))[:LETTERS]


# -- many runs ---------------------------------------------------------------------------------------


def entry_of(name: str, run: Follower, actions: Actions) -> dict[str, Any]:
    """A run in the list."""
    try:
        with run.lock:
            run.look()
            life = life_of(run, actions)
            summary = None if life.is_active or run.has_timeline else summary_of(run.folder)
            return {
                "name": name,
                "study": str(run.study.get("name", "")),
                "status": life.status,
                "reason": life.reason,
                "active": life.is_active,
                "samples": run.samples,
                "budget": run.study.get("budget", {}),
                "objective": objective_words(run.study),
                "score": next(iter(scores_of(run, summary)), None),
                "spark": spark_of(run),
                "weights": _top(run),
                "failed": run.failures.total(),
                "begun": run.events[0].at if run.events else None,
                "at": run.last_sign,
            }
    except Exception as error:  # one damaged journal must not hide the others
        return unreadable(name, error)


def unreadable(name: str, error: Exception) -> dict[str, Any]:
    return {"name": name, "status": "unreadable", "reason": str(error), "active": False}


def spark_of(run: Follower) -> list[list[float]]:
    """Points of the first pooled score."""
    name = next((n for m in run.moments for n in m.pooled), None)
    if name is None:
        return []
    scored = [m for m in run.moments if m.pooled.get(name) is not None]
    return [[m.samples, short(m.pooled[name]) or 0.0] for m in thinned(scored, SPARKS)]


def _top(run: Follower) -> list[dict[str, Any]]:
    last = run.moments[-1].weights if run.moments else {}
    colours = arm_colours(arms_in_order(run))
    return [
        {"arm": arm, "weight": last[arm], "colour": colours[arm]}
        for arm in colours
        if last.get(arm)
    ]


def curve_of(name: str, run: Follower, actions: Actions) -> dict[str, Any]:
    """A run among those that are compared."""
    entry = entry_of(name, run, actions)
    if entry["status"] == "unreadable":
        return entry
    with run.lock:
        summary = None if entry["active"] else summary_of(run.folder)
        return {
            **entry,
            "scores": scores_of(run, summary),
            "cost": run.cost,
            "seconds": round(run.seconds(entry["active"]), 1),
            "arms": arms_of(run, Life(entry["status"]), None),
            "chart": chart_of(run),
        }


def compared(curves: list[dict[str, Any]]) -> dict[str, Any]:
    """Runs on one chart, an arm of the same name in the same colour."""
    arms = [arm["name"] for curve in curves for arm in curve.get("arms", [])]
    return {"runs": curves, "colours": arm_colours(arms)}
