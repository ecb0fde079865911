"""The timeline of a run: rows grow with the samples, change nothing, and continue after a stop."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.core import state
from genmix.journal.journal import Journal
from genmix.journal.schema import JOURNAL
from genmix.runs.session import Session
from genmix.runs.snapshot import SNAPSHOT
from genmix.runs.timeline import GROWTH, Timeline
from tests.support.conformance import assert_same_bits


@pytest.fixture
def arms(tmp_path: Path) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    found = {}
    for arm, scale in (("flat", [1, 1, 0.1, 0.1]), ("tall", [0.1, 0.1, 1, 1])):
        np.save(tmp_path / f"{arm}.npy", 1 + rng.normal(size=(400, 4)) * scale)
        found[arm] = {"kind": "recorded", "path": str(tmp_path / f"{arm}.npy")}
    return found


def study(arms: dict[str, Any], samples: int = 200, **more: Any) -> dict[str, Any]:
    return {"arms": arms, "objective": "vendi", "budget": {"samples": samples}, **more}


def test_rows_follow_the_growth_and_end_with_the_run(tmp_path: Path, arms: dict[str, Any]) -> None:
    run = gx.run(study(arms), tmp_path / "run")
    rows = run.timeline
    samples = [row["samples"] for row in rows]
    assert samples[0] == 1
    assert samples[-1] == 200
    steps = np.diff(samples)
    assert (steps[:-1] >= np.maximum(1, np.floor(GROWTH * np.array(samples[:-2])))).all()
    assert len(rows) > 50  # one a sample at first, then every fiftieth
    warm = [row for row in rows if row["score"] is not None]
    assert warm[0]["samples"] == 20
    assert all(row["pooled"] is None for row in rows[: rows.index(warm[0])])
    for row in rows:
        assert sum(row["weights"].values()) == pytest.approx(1)
    assert rows[-1]["weights"] == run.weights
    summary = run.summary
    assert rows[-1]["pooled"] == {"vendi": summary["pooled_score"]["vendi"]["value"]}
    assert rows[-1]["score"] == {"vendi": summary["score"]["vendi"]["value"]}


def test_a_sum_has_a_score_for_each_term(tmp_path: Path, arms: dict[str, Any]) -> None:
    plan = study(arms, 60, objective=["vendi", {"cost": {"weight": 0.1}}])
    last = gx.run(plan, tmp_path / "run").timeline[-1]
    assert set(last["score"]) == set(last["pooled"]) == {"vendi", "cost"}


def test_looking_does_not_change_the_run(
    tmp_path: Path, arms: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    gx.run(study(arms), tmp_path / "looked")
    monkeypatch.setattr(Timeline, "write", lambda self, at_end=False: None)
    gx.run(study(arms), tmp_path / "blind")
    assert gx.Run(tmp_path / "blind").timeline == []
    states = [
        gx.Selector.from_state_dict(state.load(tmp_path / name / SNAPSHOT)["selector"])
        for name in ("looked", "blind")
    ]
    assert_same_bits(states[0].state_dict(), states[1].state_dict())


def test_a_resumed_run_continues_its_timeline(tmp_path: Path, arms: dict[str, Any]) -> None:
    def stop(live: Any) -> None:
        if live.told >= 70:
            live.loop.stop("interrupted")

    first = gx.run(study(arms), tmp_path / "run", callbacks=[stop])
    assert first.status == "interrupted"
    before = first.timeline
    run = gx.resume(tmp_path / "run")
    after = run.timeline
    assert (
        after[: len(before) - 1] == before[:-1]
    )  # the last row belonged to the end of the session
    assert [row["samples"] for row in after[-1:]] == [200]
    whole = gx.run(study(arms), tmp_path / "whole")
    assert after[-1]["weights"] == whole.timeline[-1]["weights"]


def test_steps_do_not_know_of_it(tmp_path: Path, arms: dict[str, Any]) -> None:
    gx.run(study(arms, 50), tmp_path / "run")
    journal = Journal.open(tmp_path / "run")
    last = journal.last_step()
    journal.write_timeline(1000, {"flat": 1.0}, None, {"vendi": None})
    assert journal.last_step() == last
    assert {step.kind for step in journal.steps()} == {"ask", "told"}
    assert journal.timeline()[-1]["pooled"] == {"vendi": None}
    journal.close()


def test_a_journal_from_before_has_an_empty_one_and_gets_one(
    tmp_path: Path, arms: dict[str, Any]
) -> None:
    gx.run(study(arms, 50), tmp_path / "run")
    with sqlite3.connect(tmp_path / "run" / JOURNAL) as database:
        database.execute("DROP TABLE timeline")
        database.execute("DELETE FROM meta WHERE key = 'checksum'")
        database.execute("PRAGMA user_version = 1")
    database.close()
    assert gx.Run(tmp_path / "run").timeline == []
    journal = Journal.open(tmp_path / "run")
    assert journal.timeline() == []
    journal.write_timeline(50, {"flat": 1.0}, None, None)
    assert journal.timeline()[0]["weights"] == {"flat": 1.0}
    journal.close()


def test_before_the_first_sample_there_is_nothing_to_write(tmp_path: Path) -> None:
    session = Session(gx.Selector(["a", "b"], gx.Vendi()), Journal.create(tmp_path, {}), 0)
    timeline = Timeline(session)
    timeline.update()
    timeline.write()
    assert session.journal.timeline() == []
    assert timeline.latest is None
    session.journal.close()
