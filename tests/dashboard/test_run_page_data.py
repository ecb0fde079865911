"""What the pages show of groups of prompts, costs and changed arms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import genmix as gx
from genmix.dashboard.actions import Actions
from genmix.dashboard.page_data import comparison_data, run_data
from genmix.monitoring.facts import groups_of
from genmix.monitoring.monitor import RunMonitor
from tests.report.test_budget import study as priced_study
from tests.runs.test_prompts import TOPICS, study


@pytest.fixture(autouse=True)
def _no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENMIX_REPORT", "off")


def test_each_group_of_prompts_has_its_weights(tmp_path: Path) -> None:
    run = gx.run(study(tmp_path), tmp_path / "run")
    data = run_data("run", RunMonitor(run.folder), Actions())
    shown = {group["name"]: group["weights"] for group in data["groups"]}
    assert shown == run.summary["weights_by_group"]
    assert set(shown) == set(TOPICS)


@pytest.mark.parametrize(
    "found", [None, 3, {"a": 3}, {"a": {"x": "1"}}, {"a": {"x": float("nan")}}]
)
def test_a_summary_may_contain_anything(found: Any) -> None:
    assert all(not group["weights"] for group in groups_of({"weights_by_group": found}))


def test_the_first_comparison_has_costs_and_a_removed_arm_keeps_its_color(tmp_path: Path) -> None:
    plain = priced_study({"samples": 30, "cost": 100.0}) | {"warm_start": 5}
    run = gx.run(plain, tmp_path / "run")
    before = comparison_data({"run": RunMonitor(run.folder)}, Actions())
    assert before["runs"][0]["cost"] == pytest.approx(run.summary["cost"])
    del plain["arms"]["big"]
    run = gx.resume(run, study=plain | {"budget": {"samples": 36, "cost": 100.0}})
    after = comparison_data({"run": RunMonitor(run.folder)}, Actions())
    assert after["colors"] == before["colors"]
    events = run_data("run", RunMonitor(run.folder), Actions())["events"]
    assert ("big", "removed from the study") in [(e["arm"], e["why"]) for e in events]
