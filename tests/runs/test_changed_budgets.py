"""Runs whose cost budget, prices or arms change while they are planned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.journal.reader import JournalReader
from tests.runs.test_budget_plans import check_cost, plan_events, study


@pytest.fixture(autouse=True)
def _no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENMIX_REPORT", "off")


@pytest.mark.parametrize("budget", [{"samples": 200}, {"cost": 100.0}])
def test_without_the_limit_the_mixture_is_free_again(
    tmp_path: Path, budget: dict[str, float]
) -> None:
    run = gx.run(study(60, 15.0), tmp_path / "run")
    assert run.weights["big"] < 0.2
    more = gx.resume(run, study=study(None, None, budget=budget))
    planned = [event for event in plan_events(run.folder) if "mean_cost" in event]
    assert planned[-1] == {"mean_cost": None}
    assert more.weights["big"] > 0.4
    assert more.summary["mean_cost"] is None


def test_an_arm_of_unknown_cost_joins_a_planned_run(tmp_path: Path) -> None:
    def local(seeds: list[int]) -> list[Any]:
        rows = [2 * np.eye(4)[2] + np.random.default_rng(s).normal(size=4) / 2 for s in seeds]
        return [row.tolist() for row in rows]

    run = gx.run(study(40, 16.0), tmp_path / "run")
    arms = study(40, 16.0)["arms"] | {"local": {"kind": "callable", "function": local}}
    more = gx.resume(run, study=study(90, 36.0, arms=arms))
    with JournalReader.open(run.folder) as journal:
        assert journal.failures() == []
    assert sum(more.counts.values()) == 90
    assert more.counts["local"] > 15
    check_cost(more, 36.0)
