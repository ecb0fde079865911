"""``genmix ls`` and ``genmix status`` on real, damaged, running and killed runs."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import genmix as gx
from genmix.cli import app
from genmix.core.text import ago
from genmix.journal.lock import FolderLock, mark_stopping
from tests.support.dashboard_runs import write_study


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)))


def found_by(*arguments: str | Path) -> Any:
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interrupted run, then a finished one in a subfolder, and a damaged one."""
    root = tmp_path_factory.mktemp("found")
    study = write_study(root / "study", samples=60)

    def stop(live: Any) -> None:
        if live.told >= 45:
            live.loop.stop("interrupted")

    gx.run(study, root / "runs" / "early one", callbacks=[stop])
    gx.run(study, root / "runs" / "more" / "late")
    (root / "runs" / "damaged").mkdir()
    (root / "runs" / "damaged" / "journal.sqlite").write_text("not a database")
    return root / "runs"


def test_ls_lists_runs_newest_first_and_damaged_ones_with_their_problem(runs: Path) -> None:
    result = invoke("ls", runs)
    assert result.exit_code == 0
    head, late, early, damaged, problem = result.stdout.splitlines()
    assert head.split() == ["run", "status", "samples", "cost", "score", "updated"]
    assert re.search(r"more/late +finished +60/60 +[\d.]+ +vendi [\d.]+ ↑ +\d+ \w+ ago$", late)
    assert re.search(r"early one +interrupted +\d\d/60 ", early)
    assert re.search(r"damaged +unreadable +– +– +– +–$", damaged)
    assert problem.endswith("(file is not a database); restore it from a backup.")


def test_ls_as_json(runs: Path) -> None:
    late, early, damaged = found_by("ls", runs)
    assert [entry["status"] for entry in (late, early, damaged)] == [
        "finished",
        "interrupted",
        "unreadable",
    ]
    summary = gx.Run(runs / "more" / "late").summary
    assert late["folder"] == str(runs / "more" / "late")
    assert (late["samples"], late["budget"]) == (60, {"samples": 60})
    assert late["cost"] == pytest.approx(summary["cost"])
    assert late["scores"][0]["pooled"] == pytest.approx(summary["pooled_score"]["vendi"]["value"])
    assert damaged["samples"] is None
    assert "not a database" in damaged["reason"]
    assert late.keys() == damaged.keys()


def test_ls_of_one_run_is_that_run(runs: Path) -> None:
    [entry] = found_by("ls", runs / "more" / "late")
    assert entry["folder"] == str(runs / "more" / "late")


def test_ls_without_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = invoke("ls")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "genmix: there is no folder runs; pass the folder that contains the runs, or start a run with "
        "`genmix run`.\n"
    )
    (tmp_path / "runs").mkdir()
    result = invoke("ls")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "genmix: there are no runs in runs.\n"
    assert found_by("ls") == []


def test_status_of_a_finished_run_agrees_with_its_summary(runs: Path) -> None:
    folder = runs / "more" / "late"
    found, summary = found_by("status", folder), gx.Run(folder).summary
    assert {arm["name"]: arm["weight"] for arm in found["arms"]} == pytest.approx(
        summary["weights"]
    )
    assert {arm["name"]: arm["samples"] for arm in found["arms"]} == summary["counts"]
    assert found["failures"] == sum(summary["failures"].values()) > 0
    assert found["gap"] == summary["gap"]
    assert found["continue_with"] is None
    shown = invoke("status", folder).stdout
    assert "finished (the budget of 60 samples is spent)" in shown
    assert "samples:  60 of 60 (100%)" in shown
    assert "the mixture's loss is at most" in shown
    assert "flaky: dashboard_arms:flaky failed (RuntimeError: <b>no</b> luck today)" in shown
    assert shown.endswith(f"Extend it with: genmix resume {folder} --samples TOTAL\n")


def test_status_of_an_interrupted_run_says_how_to_continue(runs: Path) -> None:
    shown = invoke("status", runs / "early one").stdout
    assert "early one: interrupted\n" in shown
    assert shown.endswith(f"Continue with: genmix resume '{runs / 'early one'}'\n")


def killed(runs: Path, folder: Path) -> Path:
    """A copy of the interrupted run as if it had been killed before it could say so."""
    shutil.copytree(runs / "early one", folder)
    with sqlite3.connect(folder / "journal.sqlite") as journal:
        journal.execute("DELETE FROM events WHERE id = (SELECT max(id) FROM events)")
    return folder


def test_status_says_how_to_extend_a_run_with_prompts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [
        "import numpy as np",
        "def make(seeds, prompts):",
        "    return [{'vector': np.random.default_rng(s).normal(size=3), 'cost': 0.5} for s in seeds]",
    ]
    Path("arms.py").write_text("\n".join(lines))
    Path("prompts.txt").write_text("one\ntwo\nthree\n")
    study = {
        "arms": {"a": {"kind": "callable", "function": "arms:make", "price": 0.5}},
        "prompts": {"file": "prompts.txt", "repeat": 4},
        "objective": "vendi",
        "warm_start": 3,
        "in_flight": 1,
    }

    def ending(budget: dict[str, Any], name: str) -> str:
        file = Path(f"{name}.yaml")
        file.write_text(json.dumps(study | ({"budget": budget} if budget else {})))
        assert gx.run(file, name).status == "finished"
        return invoke("status", name).stdout.splitlines()[-1]

    assert ending({"samples": 6}, "few") == "Extend it with: genmix resume few --samples TOTAL"
    assert ending({"cost": 4.0}, "poor") == "Extend it with: genmix resume poor --cost TOTAL"
    assert ending({}, "all") == (
        "To extend it, raise prompts.repeat in its study, then: "
        "genmix resume all --study study.yaml"
    )


def test_status_names_every_limit_that_an_extension_needs(tmp_path: Path) -> None:
    def make(seeds: list[int]) -> list[dict[str, Any]]:
        return [{"vector": [1.0, seed % 7, seed % 3], "cost": 0.01} for seed in seeds]

    arm = {"kind": "callable", "function": make}
    budget = {"samples": 20, "cost": 1.0}

    def stop(live: Any) -> None:
        if live.told == 12:
            live.loop.stop("interrupted")

    study = {"arms": {"a": arm}, "objective": "vendi", "budget": budget, "in_flight": 1}
    folder = tmp_path / "run"
    gx.run(study, folder, callbacks=[stop])
    # the journal contains only the name of the function, so the command could not continue this run
    call = f"gx.resume({str(folder)!r}, study=study"
    assert invoke("status", folder).stdout.endswith(f"Continue with: {call})\n")
    gx.resume(folder, study=study)
    shown = invoke("status", folder).stdout
    assert shown.endswith(f"Extend it with: {call}, samples=TOTAL, cost=TOTAL)\n")
    np.save(tmp_path / "a.npy", np.random.default_rng(0).normal(size=(20, 3)))
    recorded = {"kind": "recorded", "path": str(tmp_path / "a.npy")}
    gx.run(study | {"arms": {"a": recorded}}, tmp_path / "plain")
    shown = invoke("status", tmp_path / "plain").stdout
    command = f"genmix resume {tmp_path / 'plain'} --samples TOTAL --cost TOTAL"
    assert shown.endswith(f"Extend it with: {command}\n")


def test_status_while_a_run_is_active_and_after_it_was_killed(runs: Path, tmp_path: Path) -> None:
    folder = killed(runs, tmp_path / "run")
    found = found_by("status", folder)
    assert (found["status"], found["reason"]) == ("unfinished", "its process no longer exists")
    assert found["continue_with"] == f"genmix resume {folder}"
    with FolderLock(folder):
        found = found_by("status", folder)
        assert (found["status"], found["gap"]) == ("running", None)
        assert found["continue_with"] is None
        assert "genmix dashboard" in invoke("status", folder).stdout
        mark_stopping(folder)
        assert found_by("status", folder)["status"] == "stopping"


def test_a_summary_from_before_the_run_continued_is_not_used(runs: Path, tmp_path: Path) -> None:
    folder = killed(runs, tmp_path / "run")
    summary = json.loads((folder / "summary.json").read_text())
    assert found_by("status", folder)["gap"] == summary["gap"]
    (folder / "summary.json").write_text(json.dumps(summary | {"samples": 12}))
    assert found_by("status", folder)["gap"] is None


def test_status_of_something_else_is_one_sentence(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text("name: cities\n")
    expected = {
        runs / "damaged": "not a journal",
        tmp_path: "not a run folder",
        tmp_path / "study.yaml": "is a file and not a run folder; start a run with `genmix run",
    }
    for folder, words in expected.items():
        result = invoke("status", folder)
        assert (result.exit_code, result.stdout) == (2, "")
        assert words in result.stderr
        assert result.stderr.count("\n") == 1


def test_the_words_for_past_times() -> None:
    assert [ago(s) for s in (-1, 4.4, 59, 60, 3599, 7300, 200_000)] == [
        "0 s ago",
        "4 s ago",
        "59 s ago",
        "1 min ago",
        "60 min ago",
        "2 h ago",
        "2 d ago",
    ]


def test_listing_changes_no_file_of_a_run(runs: Path) -> None:
    def contents() -> dict[Path, bytes]:
        files = [path for path in runs.rglob("*") if path.is_file()]
        return {path: path.read_bytes() for path in files if "-shm" not in path.name}

    before = contents()
    invoke("ls", runs)
    assert contents() == before
