"""What a study looks like in a terminal, in a pipe, and at its end."""

from __future__ import annotations

import io
import json
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import genmix as gx
from genmix.cli import app
from genmix.cli.live import terminal as live_terminal
from genmix.cli.summary import arm_rows, summary_lines
from genmix.objectives import Score
from genmix.runs.prepare import Plan
from genmix.runs.run import Options, start
from genmix.study.study import study_from

ARMS = """
import numpy as np

def make(seeds, letters):
    print("an arm that talks")
    return ["".join(np.random.default_rng(seed).choice(list(letters), 6)) for seed in seeds]

def dead(seeds):
    raise RuntimeError("no [bold]luck[/]")

def embed(texts):
    return np.array([[1.0 + text.count(c) for c in "abcdefgh"] for text in texts])
"""


@pytest.fixture
def study(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "talk.py").write_text(ARMS)
    arm = {"kind": "callable", "price": 0.01}
    return {
        "name": "seen",
        "arms": {
            "[red]ab": {**arm, "function": "talk:make", "arguments": {"letters": "ab"}},
            "cdef": {**arm, "function": "talk:make", "arguments": {"letters": "cdef"}},
            "dead": {**arm, "function": "talk:dead"},
        },
        "encoder": {"kind": "callable", "function": "talk:embed"},
        "objective": "vendi",
        "budget": {"samples": 60, "cost": 5.0, "time": "1h"},
        "warm_start": 5,
        "retries": {"attempts": 1, "suspend_after": 1, "probe_after": 100},
    }


def watched(study: dict[str, Any], folder: Path, terminal: bool, monkeypatch: Any) -> str:
    monkeypatch.setattr(live_terminal, "TABLE_INTERVAL", 0.0)
    monkeypatch.setattr(live_terminal, "LINE_INTERVAL", 0.0)
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=120, color_system=None)
    seen = live_terminal.TableView(console) if terminal else live_terminal.LineView(console)
    with seen:
        start(Plan(study_from(study), folder), folder / "run", Options((seen,), seen.note))
    return out.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_a_running_study_shows_how_it_stands(
    study: dict[str, Any], tmp_path: Path, terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = watched(study, tmp_path, terminal, monkeypatch)
    assert "60/60 samples" in shown
    assert "[red]ab" in shown
    assert "warm start" in shown
    assert "best arm alone: vendi" in shown
    assert "cost 0.6 of 5" in shown
    assert "left" in shown
    assert "1 failed attempt" in shown
    assert "1 failed attempts" not in shown
    assert "last failure: dead: talk:dead failed (RuntimeError: no [bold]luck[/])" in shown
    assert "suspended: dead" in shown
    if terminal:
        assert "in flight" in shown


def test_looking_seldom_costs_little(monkeypatch: pytest.MonkeyPatch) -> None:
    board, clock = live_terminal.Scoreboard(), [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])

    class Slow:
        single_scores: dict[str, Any] = {}  # noqa: RUF012
        counts = {"a": 7}  # noqa: RUF012
        arms = ("a",)

        @property
        def pooled_score(self) -> None:
            clock[0] += 0.3
            looks.append(clock[0])

    class Live:
        selector = Slow()
        told = 7

    looks: list[float] = []
    for _ in range(1000):
        clock[0] += 0.1
        board.update(Live())  # type: ignore[arg-type]
    assert 0.3 * len(looks) <= 0.04 * (clock[0] - 100)


def test_scores_of_before_say_so() -> None:
    score = Score(2.0, "vendi", True, {})
    assert live_terminal.Scoreboard(score, {}, 9, 9).text() == "all samples: vendi 2 ↑"
    assert live_terminal.Scoreboard(score, {}, 5, 9).text() == "first 5 samples: vendi 2 ↑"


def test_the_best_arm_is_called_active_if_others_are_retired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scores of single arms leave out retired ones, which may have scored better."""
    monkeypatch.setattr(live_terminal, "SCORING_SHARE", np.inf)  # always score, however slowly
    np.save(tmp_path / "wide.npy", np.eye(12))
    np.save(
        tmp_path / "dot.npy", np.ones((60, 12)) + np.random.default_rng(0).normal(size=(60, 12))
    )
    arms = {
        name: {"kind": "recorded", "path": str(tmp_path / f"{name}.npy"), "exhausted": "retire"}
        for name in ("wide", "dot")
    }
    board, shown = live_terminal.Scoreboard(), list[str]()

    def look(live: Any) -> None:
        board.update(live)
        shown.append(board.text())

    plan = {"arms": arms, "objective": "vendi", "budget": {"samples": 40}, "in_flight": 1}
    gx.run(plan, tmp_path / "run", callbacks=[look])
    assert any("(best arm alone: " in text and text.endswith("wide)") for text in shown)
    assert "(best active arm alone: " in shown[-1]
    assert shown[-1].endswith("dot)")


def test_the_words_for_times() -> None:
    assert [live_terminal.duration(s) for s in (0.4, 59, 61, 7300)] == [
        "0 s",
        "59 s",
        "1 min 01 s",
        "2 h 01 min",
    ]


def test_the_command_prints_the_closing_table_and_json_alone(
    study: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "study.yaml").write_text(json.dumps(study))
    out = str(tmp_path / "run")
    result = CliRunner().invoke(app, ["run", str(tmp_path / "study.yaml"), "--out", out])
    assert result.exit_code == 0, result.output
    assert "[red]ab" in result.stdout
    assert re.search(r"dead\W+suspended", result.stdout)
    assert "All samples: vendi" in result.stdout
    assert "Arm 'dead' was suspended 1×" in result.stdout
    assert "an arm that talks" not in result.stdout
    result = CliRunner().invoke(app, ["resume", out, "--quiet", "--json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["samples"] == 60
    result = CliRunner().invoke(app, ["export", out, "--to", "jsonl"])
    assert Path(result.stdout.strip()).exists()
    assert CliRunner().invoke(app, ["export", out, "--to", "csv"]).exit_code == 2


def test_a_run_in_trouble_says_so_and_exits_with_3(study: dict[str, Any], tmp_path: Path) -> None:
    for arm in study["arms"].values():
        arm["function"] = "talk:dead"
        arm.pop("arguments", None)
    study["retries"]["give_up"] = 0.01
    (tmp_path / "study.yaml").write_text(json.dumps(study))
    command = ["run", str(tmp_path / "study.yaml"), "--out", str(tmp_path / "run"), "-q"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 3, result.output
    assert "Continue with: genmix resume" in result.stderr


def test_init_writes_a_study_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["init", "here"]).exit_code == 0
    assert CliRunner().invoke(app, ["init", "here"]).exit_code == 2
    assert CliRunner().invoke(app, ["run", "here/study.yaml", "-q"]).exit_code == 0
    assert gx.Run(tmp_path / "runs" / "here").summary["samples"] == 200
    assert np.isclose(sum(gx.Run(tmp_path / "runs" / "here").weights.values()), 1)


def test_the_table_distinguishes_suspended_arms_from_retired_ones() -> None:
    counts = {"a": 3, "b": 2, "c": 1}
    summary = {"score": None, "weights": {}, "counts": counts, "failures": {}, "single_scores": {}}
    words = [row[1] for row in arm_rows(summary | {"suspended": ["b"]})[1]]
    assert words == ["retired", "suspended", "retired"]
    assert [row[1] for row in arm_rows(summary)[1]] == ["retired"] * 3  # of an older version


@pytest.mark.parametrize("count", [0, 2])
def test_the_gap_names_the_samples_that_it_is_about(tmp_path: Path, count: int) -> None:
    """Samples of retired arms can make all samples score better than every mixture of the others."""
    summary = nowhere() | {"gap": 1e-3, "weights": {"a": 1.0}, "counts": {"a": 9, "b": count}}
    which = "the samples of the remaining arms" if count else "these samples"
    expected = f"The mixture's loss is at most 0.001 above the minimum on {which}."
    assert summary_lines(summary, tmp_path)[0] == expected


def test_words_of_a_run_that_never_got_anywhere(tmp_path: Path) -> None:
    assert summary_lines(nowhere(), tmp_path)[0] == "0 samples in 3 s; every arm fails"


def nowhere() -> dict[str, Any]:
    """The summary of a run without samples."""
    return {
        "score": None,
        "pooled_score": None,
        "gap": None,
        "samples": 0,
        "seconds": 3.0,
        "cost": 0.0,
        "output_tokens": 0,
        "reason": "every arm fails",
        "suspensions": {},
        "status": "trouble",
    }
