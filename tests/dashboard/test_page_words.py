"""What the dashboard's pages say of a run: no Python, no bookkeeping, and the cause of an arm's end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.dashboard.actions import Actions
from genmix.dashboard.page_data import run_data
from genmix.journal.journal import Journal
from genmix.monitoring.monitor import RunMonitor


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A run of two recorded arms, one of which runs out of samples."""
    monkeypatch.setenv("GENMIX_REPORT", "off")
    arms = {}
    for k, (arm, size) in enumerate([("few", 12), ("many", 90)]):
        np.save(tmp_path / f"{arm}.npy", np.random.default_rng(k).normal(size=(size, 3)))
        path = str(tmp_path / f"{arm}.npy")
        arms[arm] = {"kind": "recorded", "path": path, "exhausted": "retire"}
    study = {"arms": arms, "objective": "vendi", "policy": "uniform", "budget": {"samples": 60}}
    run = gx.run(study | {"warm_start": 20}, tmp_path / "run")
    with Journal.open(run.folder) as journal:
        journal.event("plan", mean_cost=1.0)
    return run_data("run", RunMonitor(run.folder), Actions())


def test_words(data: dict[str, Any]) -> None:
    assert data["objective"] == "Vendi (order 1, cosine kernel)"
    assert {arm["name"]: arm["state"] for arm in data["arms"]}["few"] == "out of samples"
    kinds = [event["kind"] for event in data["events"]]
    assert "plan" not in kinds
    assert kinds[-1] == "start"
