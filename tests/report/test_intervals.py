"""The intervals of the weights in a report: those of the library, for runs that are not too large."""

from __future__ import annotations

from pathlib import Path

import pytest

import genmix as gx
from genmix.core.text import interval_text
from genmix.journal.reader import JournalReader
from genmix.journal.schema import embedding_of
from genmix.report import intervals
from genmix.report.facts import Facts
from genmix.report.page import render_page
from tests.support.report_runs import feature_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> gx.Run:
    return feature_run(tmp_path_factory.mktemp("run"), 120)


def test_they_are_those_of_the_library(run: gx.Run) -> None:
    facts = Facts(run.folder)
    arms: dict[str, list[object]] = {arm: [] for arm in facts.scoring.best.weights}
    with JournalReader.open(run.folder) as journal:
        told = journal.told_numbers()
        for sample, row in zip(told, journal.samples_of([t[0] for t in told]), strict=True):
            arms[sample[1]].append(embedding_of(row))
    expected = gx.optimal_mixture(arms, gx.Vendi()).intervals()
    for arm, interval in expected.weights.items():
        assert facts.intervals.weights[arm] == pytest.approx(interval, abs=1e-6)
    page = render_page(facts)
    for interval in facts.intervals.weights.values():
        assert interval_text(interval) in page
    assert "The gap, in contrast, covers only the samples of this run" in page


def test_copies_are_called_interchangeable(tmp_path: Path) -> None:
    import numpy as np

    rng, arms = np.random.default_rng(1), {}
    for arm, modes in (("one", [0, 1]), ("two", [0, 1]), ("other", [2, 3])):
        np.save(tmp_path / f"{arm}.npy", np.eye(4)[rng.choice(modes, 200, p=[0.7, 0.3])])
        arms[arm] = {"kind": "recorded", "path": str(tmp_path / f"{arm}.npy")}
    study = {"name": "t", "arms": arms, "objective": "vendi", "budget": {"samples": 200}}
    run = gx.run(study, tmp_path / "run", note=lambda line: None)
    assert "one and two are interchangeable" in render_page(Facts(run.folder))


@pytest.mark.parametrize("limit", ["MAX_SAMPLES", "MAX_DIMENSION"])
def test_large_runs_have_none(run: gx.Run, limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intervals, limit, 3)
    facts = Facts(run.folder)
    assert facts.intervals is None
    assert "bootstrap" not in render_page(facts)


def test_a_policy_that_does_not_learn_has_none(tmp_path: Path) -> None:
    run = feature_run(tmp_path, 60, policy="uniform")
    assert Facts(run.folder).intervals is None
