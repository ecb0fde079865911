"""What the pages show of groups of prompts, costs and changed arms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import genmix as gx
from genmix.dashboard.actions import Actions
from genmix.dashboard.page_data import comparison_data, run_data
from genmix.journal.prompts import GROUPS
from genmix.monitoring.facts import checked_groups
from genmix.monitoring.monitor import RunMonitor
from genmix.runs.timeline import Live
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
    for group in data["groups"]:
        expected = run.summary["score_by_group"][group["name"]]["vendi"]["value"]
        assert group["scores"]["vendi"] == pytest.approx(expected)
    (run.folder / GROUPS).unlink()  # as in runs of older versions
    data = run_data("run", RunMonitor(run.folder), Actions())
    assert {group["name"]: group["weights"] for group in data["groups"]} == shown
    assert all(not group["counts"] for group in data["groups"])


def test_a_running_study_shows_the_groups_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("genmix.runs.timeline.PAUSE", 0.0)  # at every point of the timeline
    pages: list[Any] = []

    def look(live: Live) -> None:
        if live.told >= 30 and not pages:
            pages.append(run_data("run", RunMonitor(live.folder), Actions()))
            pages.append({t: dict(w) for t, w in live.selector.weights_by_group.items()})

    gx.run(study(tmp_path, repeat=4), tmp_path / "run", callbacks=[look])
    page, weights = pages
    assert page["status"]["is_active"]
    assert sum(sum(group["counts"].values()) for group in page["groups"]) == page["samples"] == 30
    for group in page["groups"]:
        assert group["weights"] == weights[group["name"]]
        assert group["scores"]["vendi"] >= 1


@pytest.mark.parametrize("found", [None, 3, [1], {"a": "1"}, {"a": float("nan")}, {"a": {"b": 1}}])
def test_the_file_of_the_groups_may_contain_anything(found: Any) -> None:
    assert all(not group["weights"] for group in checked_groups(found))
    for key in ("weights", "scores", "counts"):
        [group] = checked_groups({"g": {key: found}})
        assert not group[key]


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
