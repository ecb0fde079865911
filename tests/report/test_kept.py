"""The section of the report on kept samples."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import genmix as gx
from genmix.journal.kept import KEPT
from genmix.report.facts import Facts
from genmix.report.kept import fidelity_sentences, kept_section
from genmix.report.page import render_page
from tests.support.report_runs import feature_run, text_run


@pytest.fixture(autouse=True)
def no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENMIX_REPORT", "off")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GENMIX_REPORT", "off")
        path = tmp_path_factory.mktemp("kept")
        return text_run(path, keep={"samples": 30}).folder


def test_the_page_says_what_keeping_did(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("genmix.report.page.FIGURES", {})  # charts take seconds
    page = html.unescape(render_page(Facts(folder)))
    assert "The run keeps 30 of its 120 samples, those that score best together" in page
    assert "No other choice of 30 samples" in page
    assert re.search(r"<h2>Kept samples</h2>", page)
    for title in ("Precision ↑", "Density ↑", "Distance to the nearest other sample"):
        assert title in page
    assert "Most unusual kept" in page


def test_the_section_agrees_with_the_file(folder: Path) -> None:
    section = kept_section(Facts(folder))
    found = json.loads((folder / KEPT).read_text())
    assert section is not None
    assert sum(arm.kept for arm in section.arms) == 30
    assert sum(arm.samples for arm in section.arms) == 120
    assert {sample.ticket for sample in section.unusual} <= set(found["ids"])
    for pair in section.pairs:
        dropped, kept = (sample.ticket for sample in pair.samples)
        assert dropped not in found["ids"]
        assert kept in found["ids"]
    distances = [float(pair.distance.replace(",", "")) for pair in section.pairs]
    assert distances == sorted(distances)
    assert all(each > 0 for each in distances)


def test_a_missing_file_is_computed(folder: Path) -> None:
    before, content = kept_section(Facts(folder)), (folder / KEPT).read_bytes()
    (folder / KEPT).unlink()
    after = kept_section(Facts(folder))
    assert before is not None
    assert after is not None
    assert set(after.sentences) < set(before.sentences)  # only the prediction is missing
    assert replace(after, sentences=before.sentences) == before
    (folder / KEPT).write_bytes(content)


def test_the_cost_per_kept_sample_includes_dropped_ones(tmp_path: Path) -> None:
    run = feature_run(tmp_path, 60, keep={"samples": 30})
    section = kept_section(Facts(run.folder))
    assert section is not None
    each = run.summary["cost"] / 30
    assert any(f"costs {each:.4g} per kept sample" in text for text in section.sentences)
    assert "Cost per sample" in [line.title for line in section.lines]
    assert section.unusual == [] or section.unusual[0].source


def test_without_keep_there_is_no_section(tmp_path: Path) -> None:
    run = feature_run(tmp_path, 40)
    assert kept_section(Facts(run.folder)) is None


def test_a_problem_is_stated(tmp_path: Path) -> None:
    run = feature_run(tmp_path, 40, keep={"samples": 20, "min_quality": 1.0})
    section = kept_section(Facts(run.folder))
    assert section is not None
    assert section.lines == []
    assert section.lead.startswith("All samples are kept: a minimum quality was set")


def found(**more: Any) -> dict[str, Any]:
    return {"measures": {"precision": {}, "quality": {}}, "warnings": []} | more


def test_fidelity_is_always_mentioned() -> None:
    [fine] = fidelity_sentences(found())
    assert fine.startswith(
        "Diversity alone prefers outliers, but precision and quality did not fall"
    )
    [bad] = fidelity_sentences(found(warnings=["the mean quality is 1 and 2."]))
    assert bad.startswith("Keeping reduced fidelity. The mean quality is 1 and 2. Diversity alone")
    assert fidelity_sentences({"measures": {}, "warnings": []}) == []


def test_a_kept_run_exports_through_gx(folder: Path, tmp_path: Path) -> None:
    assert len(gx.export(folder, "jsonl", tmp_path / "x.jsonl").read_text().splitlines()) == 30
