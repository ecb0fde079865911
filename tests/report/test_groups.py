"""The report of a study with prompts: weights by group, and what to use for each of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import genmix as gx
from genmix.report.facts import Facts
from genmix.report.gallery import common_prompt, gallery
from genmix.report.groups import group_section
from genmix.report.page import render_page
from genmix.report.sampling import SampleSubset
from tests.runs.test_prompts import TOPICS, specialist, study


@pytest.fixture(autouse=True)
def _no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENMIX_REPORT", "off")


def test_each_group_has_its_weights_scores_and_advice(tmp_path: Path) -> None:
    run = gx.run(study(tmp_path, repeat=12), tmp_path / "run")
    facts = Facts(run.folder)
    section = group_section(facts)
    assert section is not None
    assert section.arms == list(TOPICS)
    for row in section.rows:
        by_arm = dict(zip(section.arms, row.cells, strict=True))
        weights = run.summary["weights_by_group"][row.name]
        assert by_arm[row.name].level == round(10 * weights[row.name]) >= 8
        assert sum(cell.samples for cell in row.cells) == row.samples == 48
        assert row.advice.startswith(f"For {row.name}, use {row.name}")
    page = render_page(facts)
    assert 'class="heat-10"' in page or 'class="heat-9"' in page
    assert "There is no mixture to score yet" not in page
    assert "unknown: every group of prompts has its own mixture." in page


def test_prompts_without_answers_are_listed(tmp_path: Path) -> None:
    plain = study(tmp_path)
    for topic, arm in plain["arms"].items():
        arm["function"] = specialist(topic, refuses="question 7")
    page = render_page(Facts(gx.run(plain, tmp_path / "run").folder))
    assert "food question 7 (every arm failed: code, food and travel)" in page


def test_an_older_summary_with_prompts_that_no_arm_failed_can_be_shown(tmp_path: Path) -> None:
    folder = gx.run(study(tmp_path, budget={"samples": 20}), tmp_path / "run").folder
    summary = json.loads((folder / "summary.json").read_text("utf-8"))
    summary["unanswered"] = [{"id": 1, "prompt": "food question 1", "failed": []}]
    (folder / "summary.json").write_text(json.dumps(summary), "utf-8")
    assert "Prompts without answers" not in render_page(Facts(folder))


def test_a_study_without_prompts_has_no_such_section(tmp_path: Path) -> None:
    plain = study(tmp_path, budget={"samples": 12})
    del plain["prompts"]
    for arm in plain["arms"].values():
        arm["function"] = lambda seeds: [[1.0, float(seed % 7)] for seed in seeds]
    facts = Facts(gx.run(plain, tmp_path / "run").folder)
    assert group_section(facts) is None
    assert "Groups of prompts" not in render_page(facts)


def test_samples_are_arranged_by_group_and_a_shared_prompt_is_found() -> None:
    def subset(prompts: list[str]) -> SampleSubset:
        blank = {"image": None, "source": None}
        rows = [{"ticket": i, "text": f"t{i}", "prompt": p, **blank} for i, p in enumerate(prompts)]
        return SampleSubset(rows, np.array(["x", "y", "x", "y"]), np.eye(4), 4)

    found = subset(["a", "a", "b", "b"])
    shelves = gallery(found, ["food", "code"], Path(), False, ["food", "food", "code", None])
    assert [shelf.name for shelf in shelves] == ["food", "code"]
    shown = [{(s.arm, s.prompt) for s in shelf.typical + shelf.unusual} for shelf in shelves]
    assert shown == [{("x", "a"), ("y", "a")}, {("x", "b")}]
    assert common_prompt(found) is None
    assert common_prompt(subset(["a"] * 4)) == "a"
