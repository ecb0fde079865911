"""Studies with ``keep``: which samples a run keeps, and that nothing changes them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import genmix as gx
from genmix.cli import app
from genmix.journal.kept import KEPT, current_kept, read_kept
from genmix.journal.reader import JournalReader
from genmix.monitoring.facts import kept_of
from genmix.monitoring.monitor import RunMonitor
from genmix.runs import timeline
from genmix.runs.check import check_study
from genmix.runs.timeline import KeptSoFar
from genmix.study.study import StudyError, study_from

runner = CliRunner()


@pytest.fixture(autouse=True)
def no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENMIX_REPORT", "off")


def study(folder: Path, samples: int = 60, **more: Any) -> dict[str, Any]:
    """Two arms of recorded vectors."""
    rng = np.random.default_rng(0)
    arms = {}
    for arm, scale in (("flat", [1, 1, 0.1, 0.1]), ("tall", [0.1, 0.1, 1, 1])):
        path = folder / f"{arm}.npy"
        if not path.exists():
            np.save(path, 1 + rng.normal(size=(150, 4)) * scale)
        arms[arm] = {"kind": "recorded", "path": str(path), "cost": 0.5}
    found = {"name": "t", "arms": arms, "objective": "vendi", "budget": {"samples": samples}}
    return found | {"warm_start": 5, "in_flight": 1, "keep": {"samples": 20}} | more


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of the study, and a finished run."""
    folder = tmp_path_factory.mktemp("first")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GENMIX_REPORT", "off")
        gx.run(study(folder), folder / "run")
    return folder


@pytest.fixture
def finished(first: Path, tmp_path: Path) -> Path:
    """A copy of the finished run."""
    return Path(shutil.copytree(first / "run", tmp_path / "run"))


def texts_with_quality(folder: Path) -> dict[str, Any]:
    rows = [{"text": "abcdefgh"[i % 8] * 3 + str(i), "quality": (i % 10) / 10} for i in range(80)]
    path = folder / "texts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "letters.py").write_text(
        "import numpy as np\n\n\ndef embed(texts):\n"
        "    return np.array([[1.0 * t.count(c) for c in 'abcdefgh'] for t in texts])\n"
    )
    return {
        "arms": {"one": {"kind": "recorded", "path": str(path)}},
        "encoder": {"kind": "callable", "function": "letters:embed"},
    }


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def ids(folder: Path) -> list[int]:
    found = read_kept(folder)
    assert found is not None
    chosen: list[int] = found["ids"]
    return chosen


def test_a_run_keeps_what_gx_keep_chooses(first: Path) -> None:
    run = gx.Run(first / "run")
    every = list(run.samples())
    with JournalReader.open(run.folder) as journal:
        rows = np.stack([np.frombuffer(r["embedding"], r["dtype"]) for r in journal.told_rows()])
    expected = gx.keep(rows, 20, gx.Vendi(), seed=0)
    assert [row["sample_id"] for row in every if row["kept"]] == [
        every[i]["sample_id"] for i in expected.indices
    ]
    kept = run.summary["kept"]
    assert kept["scores"]["vendi"]["value"] == pytest.approx(float(expected.score))  # type: ignore[arg-type]
    assert kept["bound"] == pytest.approx(expected.bound)
    assert (kept["count"], kept["samples"], sum(kept["arms"].values())) == (20, 60, 20)
    assert "ids" not in kept


def test_exports_contain_the_kept_samples_and_all_on_request(
    finished: Path, tmp_path: Path
) -> None:
    pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    folder = finished
    written = lines(folder / "samples.jsonl")
    assert [row["sample_id"] for row in written] == ids(folder)
    assert all(row["kept"] is True for row in written)
    everything = lines(gx.export(folder, "jsonl", tmp_path / "all.jsonl", all=True))
    assert len(everything) == 60
    assert sum(row["kept"] for row in everything) == 20
    assert [row["round"] for row in everything] == list(range(1, 61))
    table = parquet.read_table(gx.export(folder, "parquet", all=True))
    assert table["kept"].to_pylist() == [row["kept"] for row in everything]
    with np.load(gx.export(folder, "npz")) as content:
        assert content["sample_id"].tolist() == ids(folder)
    card = gx.export(folder, "hf") / "README.md"
    assert "name: kept\n    dtype: bool" in card.read_text()
    for more, count in (((), 20), (("--all",), 60)):
        result = runner.invoke(app, ["export", str(folder), "--out", "-", *more])
        assert len(result.stdout.splitlines()) == count


def test_without_keep_nothing_changes(tmp_path: Path) -> None:
    run = gx.run(study(tmp_path, keep=None), tmp_path / "run")
    assert not (run.folder / KEPT).exists()
    assert "kept" not in run.summary
    written = lines(run.folder / "samples.jsonl")
    assert len(written) == 60
    assert "kept" not in written[0]
    assert gx.export(run.folder, "jsonl", tmp_path / "all.jsonl", all=True).read_text() == (
        run.folder / "samples.jsonl"
    ).read_text("utf-8")


def test_a_lost_or_damaged_file_is_replaced_by_the_same(finished: Path, tmp_path: Path) -> None:
    folder = finished
    before, chosen = (folder / KEPT).read_bytes(), ids(folder)
    for content in (None, b"[1", before.replace(b'"ids": [', b'"ids": [999, ')):
        (folder / KEPT).unlink(missing_ok=True)
        if content is not None:
            (folder / KEPT).write_bytes(content)
        exported = gx.export(folder, "jsonl", tmp_path / "again.jsonl")
        assert [row["sample_id"] for row in lines(exported)] == chosen
    gx.resume(folder)
    assert (folder / KEPT).read_bytes() == before


KILLED = """
import json, os, signal, sys
import genmix as gx
from genmix.runs import result

result.write_kept = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
gx.run(json.loads(sys.argv[1]), sys.argv[2])
"""


def test_a_run_killed_at_the_end_keeps_the_same_samples(first: Path, tmp_path: Path) -> None:
    whole = first / "run"
    command = [sys.executable, "-c", KILLED, json.dumps(study(first)), str(tmp_path / "killed")]
    done = subprocess.run(command, env={**os.environ, "GENMIX_REPORT": "off"})
    assert done.returncode == -signal.SIGKILL
    killed = tmp_path / "killed"
    assert not (killed / "samples.jsonl").exists()
    assert gx.resume(killed).status == "finished"
    assert ids(killed) == ids(whole)
    assert (killed / "samples.jsonl").read_text() == (whole / "samples.jsonl").read_text()


def test_an_extended_run_chooses_again(first: Path, finished: Path, tmp_path: Path) -> None:
    whole = gx.run(study(first, 75), tmp_path / "whole").folder
    before = gx.Run(finished).summary["kept"]
    after = gx.resume(finished, samples=75).summary["kept"]
    assert ids(finished) == ids(whole)
    assert after["samples"] == 75
    assert len(lines(finished / "samples.jsonl")) == 20
    assert after["scores"]["vendi"]["value"] > before["scores"]["vendi"]["value"]


def test_keep_can_change_in_a_finished_run(first: Path, finished: Path) -> None:
    run = gx.resume(finished, study=study(first, keep={"share": 0.2}))
    assert run.summary["kept"]["count"] == len(lines(finished / "samples.jsonl")) == 12
    gx.resume(finished, study=study(first, keep=None))
    assert len(lines(finished / "samples.jsonl")) == 60


def test_an_interrupted_search_is_repeated(finished: Path, tmp_path: Path) -> None:
    folder = finished
    before = (folder / KEPT).read_bytes()
    found = json.loads(before)
    found["ids"], found["interrupted"] = list(reversed(range(20))), True
    (folder / KEPT).write_text(json.dumps(found))
    exported = gx.export(folder, "jsonl", tmp_path / "some.jsonl")
    assert len(lines(exported)) == 20  # valid until somebody searches again
    gx.resume(folder)
    assert (folder / KEPT).read_bytes() == before


def test_samples_below_the_minimum_quality_are_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    parts = texts_with_quality(tmp_path)
    plan = study(tmp_path, 80, **parts, keep={"share": 0.25, "min_quality": 0.5})
    folder = gx.run(plan, tmp_path / "run").folder
    written = lines(folder / "samples.jsonl")
    assert len(written) == 20
    assert min(row["quality"] for row in written) >= 0.5
    few = gx.resume(folder, study=plan | {"keep": {"samples": 20, "min_quality": 0.85}})
    assert few.summary["kept"]["count"] == few.summary["kept"]["candidates"] == 8


def test_if_nothing_can_be_chosen_all_samples_are_exported(tmp_path: Path) -> None:
    plan = study(tmp_path, keep={"samples": 20, "min_quality": 0.5})
    run = gx.run(plan, tmp_path / "run")
    assert "not every sample has a quality" in run.summary["kept"]["problem"]
    written = lines(run.folder / "samples.jsonl")
    assert len(written) == 60
    assert {row["kept"] for row in written} == {None}


def test_a_run_without_a_snapshot_says_what_to_do(finished: Path, tmp_path: Path) -> None:
    folder = finished
    for name in (KEPT, "selector.npz"):
        (folder / name).unlink()
    with pytest.raises(gx.InputError, match=r"has not chosen the samples to keep yet; finish it"):
        gx.export(folder, "jsonl", tmp_path / "x.jsonl")
    assert {row["kept"] for row in gx.Run(folder).samples()} == {None}


@pytest.mark.parametrize(
    ("keep", "words"),
    [
        ({"samples": 61}, "keep.samples is 61, but the budget is 60 samples; lower keep.samples."),
        ({"samples": 0}, "keep.samples is 0"),
        ({"share": 1.2}, "keep.share is 1.2"),
        ({}, "set exactly one of samples"),
        ({"samples": 5, "share": 0.5}, "set exactly one of samples"),
        ({"min_quality": 0.5}, "set exactly one of samples"),
        ({"count": 5}, "count"),
    ],
)
def test_check_refuses(tmp_path: Path, keep: dict[str, Any], words: str) -> None:
    with pytest.raises(StudyError) as caught:
        check_study(study(tmp_path, keep=keep))
    assert words in str(caught.value)


def test_an_objective_needs_enough_samples(tmp_path: Path) -> None:
    objective = {"rke": {"unbiased": True}}
    with pytest.raises(StudyError, match=r"keep.samples is 1, but the objective needs 2 samples"):
        study_from(study(tmp_path, objective=objective, keep={"samples": 1}))


def test_the_summary_in_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(json.dumps(study(tmp_path)))
    command = ["run", str(tmp_path / "study.yaml"), "--out", str(tmp_path / "run"), "--quiet"]
    result = runner.invoke(app, command)
    assert "Kept 20 of 60 samples: vendi" in result.stdout
    assert "No other choice of 20 samples scores better than" in result.stdout


# -- during the run ----------------------------------------------------------------------------------


def test_the_best_set_so_far_is_shown_and_not_kept(finished: Path, tmp_path: Path) -> None:
    run = gx.Run(finished)
    before = (run.folder / KEPT).read_bytes()
    (run.folder / KEPT).unlink()
    so_far = KeptSoFar(study_from(study(tmp_path)), run.folder)
    so_far.update(60, gx.Vendi())
    assert so_far._thread is not None
    so_far._thread.join()
    found = read_kept(run.folder)
    assert found is not None
    assert not found["is_final"]
    assert "ids" not in found
    assert (
        found["all_scores"]["vendi"]["value"] <= found["scores"]["vendi"]["value"] <= found["bound"]
    )
    with JournalReader.open(run.folder) as journal:
        assert current_kept(journal) is None
    monitor = RunMonitor(run.folder)
    monitor.refresh()
    shown = kept_of(monitor)
    assert shown is not None
    assert (shown["count"], shown["samples"]) == (20, 60)
    assert shown["scores"]["vendi"] == found["scores"]["vendi"]["value"]
    assert not shown["is_final"]
    gx.resume(run.folder)
    assert (run.folder / KEPT).read_bytes() == before
    shown = kept_of(monitor)
    assert shown is not None
    assert shown["is_final"]


def test_searches_are_rare_and_stop_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Any] = []
    monkeypatch.setattr(timeline, "write_kept_so_far", lambda *a: started.append(a))
    monkeypatch.setattr(timeline, "PAUSE", 0.0)
    so_far = KeptSoFar(study_from(study(tmp_path)), tmp_path)
    for told in range(20, 200):
        so_far.update(told, gx.Vendi())
        so_far._thread.join()  # type: ignore[union-attr]
    assert 8 <= len(started) <= 14
    so_far.stop()
    with pytest.raises(KeyboardInterrupt):
        started[-1][-1](None)
    none = KeptSoFar(study_from(study(tmp_path, keep=None)), tmp_path)
    none.update(100, gx.Vendi())
    none.stop()
    assert none._thread is None


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"count": "x"}',
        '{"count": 1, "samples": 2, "scores": {"a": {"value": "b"}}}',
    ],
)
def test_a_foreign_file_is_not_shown(finished: Path, content: str) -> None:
    (finished / KEPT).write_text(content)
    monitor = RunMonitor(finished)
    monitor.refresh()
    assert kept_of(monitor) is None
