"""Arms that are out of use: suspended, out of samples, or retired."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import genmix as gx
from genmix.monitoring import facts
from genmix.monitoring.monitor import RunMonitor
from genmix.runs.inactive import inactive_arms
from genmix.runs.loop import EXHAUSTED, UNAVAILABLE

PAUSE = {"pause": 5.0}


def event(arm: str | None, kind: str, **detail: Any) -> dict[str, Any]:
    return {"arm": arm, "kind": kind, "detail": detail}


def test_an_arm_that_was_suspended_and_revived_is_not_called_suspended() -> None:
    events = [
        event("a", "retire", **PAUSE),
        event("b", "suspend", **PAUSE),
        event("c", "retire"),
        event("a", "revive"),
        event(None, "finished"),
    ]
    assert inactive_arms(events) == {"b": "suspended", "c": "retired"}
    kept = event("b", "retire", why=UNAVAILABLE)  # another arm is back
    assert inactive_arms([*events, kept])["b"] == "suspended"
    gone = event("b", "retire", why="removed from the study")
    assert inactive_arms([*events, gone])["b"] == "retired"


def test_an_arm_without_samples_stays_out_of_samples_if_its_last_ticket_fails() -> None:
    events = [event("few", "retire", why=EXHAUSTED), event("few", "suspend", **PAUSE)]
    assert inactive_arms(events) == {"few": "out of samples"}
    again = [event("few", "revive"), event("few", "retire", **PAUSE)]  # its file got more samples
    assert inactive_arms([*events, *again]) == {"few": "suspended"}


def embed(texts: list[str]) -> list[list[float]]:
    if "bad" in texts:
        raise ValueError("not this one.")
    return [[1.0, len(text), text.count("a")] for text in texts]


def test_a_run_does_not_list_an_arm_without_samples_as_suspended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GENMIX_REPORT", "off")
    arms = {}
    for name, texts in (("few", ["a", "bad"]), ("many", ["a" * n + "b" for n in range(30)])):
        lines = [json.dumps({"text": text}) for text in texts]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
        path = str(tmp_path / f"{name}.jsonl")
        arms[name] = {"kind": "recorded", "path": path, "exhausted": "retire"}
    study = {
        "arms": arms,
        "encoder": embed,
        "objective": "vendi",
        "policy": "uniform",
        "budget": {"samples": 20},
        "retries": {"suspend_after": 1, "probe_after": 1000},
        "in_flight": 1,
        "warm_start": 2,
    }
    run = gx.run(study, tmp_path / "run")
    assert run.counts == {"few": 1, "many": 19}
    assert run.summary["suspensions"] == {"few": 1}  # its last sample was rejected
    assert (run.summary["suspended"], run.summary["retired"]) == ([], ["few"])
    monitor = RunMonitor(run.folder)
    monitor.refresh()
    assert facts.inactive_arms(monitor)["few"] == "out of samples"
