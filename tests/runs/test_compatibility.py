"""Run folders that version 0.1 wrote: they resume, export and report."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import genmix as gx
from genmix.journal.reader import JournalReader

FOLDER = Path(__file__).parent / "data" / "v0.1"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A copy of the study and its runs, since opening a journal writes into its folder."""
    return Path(shutil.copytree(FOLDER, tmp_path / "v0.1"))


def rows_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def assert_same_rows(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    assert len(found) == len(expected)
    for row, other in zip(found, expected, strict=True):
        for name in ("weight_at_draw", "propensity"):
            assert row.pop(name) == pytest.approx(other.pop(name), rel=1e-6)
        assert row == other


@pytest.mark.parametrize("name", ["killed", "interrupted"])
def test_an_interrupted_run_resumes_to_the_data_set_of_a_whole_one(old: Path, name: str) -> None:
    """``killed`` ended with SIGKILL, one ticket open; ``interrupted`` left a snapshot of its selector."""
    run = gx.resume(old / name)
    assert run.status == "finished"
    assert_same_rows(
        rows_of(old / name / "samples.jsonl"), rows_of(FOLDER / "finished/samples.jsonl")
    )
    whole = json.loads((FOLDER / "finished" / "summary.json").read_text("utf-8"))
    assert run.counts == whole["counts"]
    assert run.weights == pytest.approx(whole["weights"], rel=1e-6)
    assert run.summary["failures"] == whole["failures"]
    assert run.summary["cost"] == pytest.approx(whole["cost"])
    assert run.summary["retired"] == whole["retired"]


def test_a_finished_run_exports_its_samples(old: Path) -> None:
    expected = rows_of(FOLDER / "finished" / "samples.jsonl")
    assert rows_of(gx.export(old / "finished", "jsonl", old / "again.jsonl")) == expected
    assert gx.export(old / "finished", "parquet", old / "again.parquet").exists()
    assert list(gx.Run(old / "finished").samples()) == expected


def test_a_finished_run_keeps_its_words_and_gets_a_report(old: Path) -> None:
    run = gx.Run(old / "finished")
    assert run.status == "finished"
    path = run.report()
    assert "letters" in path.read_text("utf-8")
    before = json.loads((FOLDER / "finished" / "summary.json").read_text("utf-8"))
    after = gx.resume(old / "finished").summary
    assert after["reason"] == before["reason"]
    assert after["weights"] == pytest.approx(before["weights"], rel=1e-6)
    with JournalReader.open(old / "finished") as journal:
        kinds = [event["kind"] for event in journal.events()]
    assert kinds == ["start", "retire", "revive", "finished"]
