"""What the pages show of groups of prompts, of costs and of changed arms, and how scripts format numbers."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import genmix as gx
from genmix.core.text import number
from genmix.dashboard.actions import Actions
from genmix.dashboard.page_data import comparison_data, run_data
from genmix.monitoring.facts import groups_of
from genmix.monitoring.monitor import RunMonitor
from tests.report.test_budget import study as priced_study
from tests.runs.test_prompts import TOPICS, study

SCRIPT = Path(gx.__file__).parent / "dashboard" / "static" / "dom.js"


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


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_pages_and_reports_have_the_same_numbers() -> None:
    values = [
        0,
        1,
        -1.5,
        12.34567,
        999.4,
        1234.6,
        1234567.8,
        1.2e7,
        4.8e-5,
        9.99999e-5,
        5.2e-14,
        -3e-9,
    ]
    text = SCRIPT.read_text("utf-8")
    part = text[text.index("/** Format a number") : text.index("export function percent")]
    code = f"{part.replace('export ', '')}\nconsole.log(JSON.stringify({values}.map(number)))"
    found = subprocess.run(["node", "-e", code], capture_output=True, text=True, check=True)
    assert json.loads(found.stdout) == [number(value) for value in values]
