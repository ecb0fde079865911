"""Naming studies, passing folders as studies, and the folders of repeated runs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import genmix as gx
from genmix.cli import app
from genmix.comparison.study_world import read_study_world
from genmix.journal.lock import FolderLock
from genmix.study.study import StudyError, read_study
from genmix.study.template import write_example


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a study of recorded arms in ``two-blobs``."""
    folder = tmp_path / "two-blobs"
    folder.mkdir()
    for seed, arm in enumerate(("one", "two")):
        points = np.random.default_rng(seed).normal(size=(80, 4)) + 3 * seed
        np.save(folder / f"{arm}.npy", points)
    (folder / "study.yaml").write_text(
        "name: blobs\n"
        "arms:\n"
        "  one: {kind: recorded, path: one.npy}\n"
        "  two: {kind: recorded, path: two.npy}\n"
        "objective: vendi\n"
        "budget: {samples: 40}  # enough\n"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


# -- init --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("my-study", "my-study"),
        ("deep/er", "er"),
        ("städte 2", "städte-2"),
        ("2024", "2024"),
        ("true", "true"),
        ("1e5", "1e5"),
        ("...", "study"),
        ("x" * 120, "x" * 100),
    ],
)
def test_the_example_is_named_after_its_folder(tmp_path: Path, folder: str, name: str) -> None:
    write_example(tmp_path / folder)
    assert read_study(tmp_path / folder / "study.yaml").name == name


def test_init_prints_the_next_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = invoke("init", "my study")
    assert result.stdout.splitlines()[0] == "my study/study.yaml"
    assert result.stderr == "Next, run it: genmix run 'my study'\n"
    assert invoke("init").stderr == "Next, run it: genmix run study.yaml\n"
    assert read_study("study.yaml").name == read_study(".").name == tmp_path.name


# -- folders as studies ------------------------------------------------------------------------------


def test_a_folder_with_a_study_is_a_study_everywhere(here: Path) -> None:
    assert invoke("check", "two-blobs").exit_code == 0
    assert invoke("doctor", "two-blobs").exit_code == 0
    assert invoke("run", "two-blobs", "--quiet").exit_code == 0
    assert read_study_world("two-blobs").world.arms.keys() == {"one", "two"}
    assert gx.run("two-blobs", "again").counts == gx.Run("runs/blobs").counts


def test_other_folders_are_refused_with_a_sentence(here: Path) -> None:
    gx.run("two-blobs", "runs/first")
    for command in ("run", "doctor"):
        result = invoke(command, "runs/first")
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr == (
            "genmix: runs/first is a run, not a study; continue it with `genmix resume runs/first`, "
            "or pass a study.\n"
        )
    assert invoke("check", "runs/first").stdout.startswith("journal: verified")
    with pytest.raises(StudyError, match=r"runs contains no study.yaml; .* 'genmix init runs'\."):
        gx.run("runs")


# -- where runs go -----------------------------------------------------------------------------------


def test_a_second_run_gets_the_next_free_folder(here: Path) -> None:
    first = invoke("run", "two-blobs", "--quiet")
    assert first.stderr == ""
    second = invoke("run", "two-blobs", "--quiet", "--json")
    assert json.loads(second.stdout)["folder"] == "runs/blobs-2"
    assert second.stderr == (
        "genmix: runs/blobs already contains a run; this run is saved in runs/blobs-2\n"
    )
    notes: list[str] = []
    assert gx.run("two-blobs", note=notes.append).folder == Path("runs/blobs-3")
    assert "runs/blobs-3" in notes[0]


def test_a_refused_run_does_not_say_where_it_is_saved(here: Path) -> None:
    invoke("run", "two-blobs", "--quiet")
    refused = invoke("run", "two-blobs", "--address", "auto")
    assert refused.exit_code == 2
    assert refused.stderr.startswith("genmix: an address (auto) is only used with Ray")
    notes: list[str] = []
    with pytest.raises(gx.InputError, match="only used with Ray"):
        gx.run("two-blobs", address="auto", note=notes.append)
    assert notes == []


def test_folders_that_are_not_free_are_skipped(here: Path) -> None:
    (here / "runs" / "blobs").mkdir(parents=True)
    (here / "runs" / "blobs" / "notes.txt").write_text("mine")
    (here / "runs" / "blobs-2").write_text("a file")
    (here / "runs" / "blobs-3").mkdir()
    with FolderLock(here / "runs" / "blobs-3"):  # another run is about to start there
        assert gx.run("two-blobs").folder == Path("runs/blobs-4")
    assert gx.run("two-blobs").folder == Path("runs/blobs-3")


def test_an_unfinished_run_is_mentioned_but_a_named_folder_is_never_changed(here: Path) -> None:
    def stop(live: gx.Selector) -> None:
        live.loop.stop("interrupted")  # type: ignore[attr-defined]

    gx.run("two-blobs", callbacks=[stop])  # type: ignore[list-item]
    result = invoke("run", "two-blobs", "--quiet")
    assert "(continue it with `genmix resume runs/blobs`); this run is saved" in result.stderr
    result = invoke("run", "two-blobs", "--out", "runs/blobs")
    assert result.exit_code == 2
    assert "runs/blobs already contains a run; continue it with" in result.stderr


# -- export ------------------------------------------------------------------------------------------


def test_export_to_stdout_is_jsonl(here: Path) -> None:
    folder = gx.run("two-blobs").folder
    printed = invoke("export", folder, "--out", "-")
    assert printed.exit_code == 0
    assert printed.stdout_bytes == (folder / "samples.jsonl").read_bytes()
    assert len([json.loads(line) for line in printed.stdout.splitlines()]) == 40
    assert invoke("export", folder, "--to", "jsonl", "--out", "-").stdout == printed.stdout
    assert not Path("-").exists()


def test_export_without_a_usable_format(here: Path) -> None:
    folder = gx.run("two-blobs").folder
    for options, words in (
        (("--to", "parquet", "--out", "-"), "parquet cannot be printed; use --to jsonl, or pass a"),
        ((), "the format is missing; pass --to parquet"),
    ):
        result = invoke("export", folder, *options)
        assert (result.exit_code, result.stdout) == (2, "")
        assert words in result.stderr


# -- options that replace settings -------------------------------------------------------------------


def test_options_replace_settings_and_resume_keeps_them(here: Path) -> None:
    options = ("--samples", 30, "--cost", 5, "--time", "1h", "--seed", 9, "--name", "other")
    result = invoke("run", "two-blobs", *options, "--json", "--quiet")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["folder"], found["name"], found["seed"]) == ("runs/other", "other", 9)
    assert found["samples"] == 30
    again = json.loads(invoke("resume", "runs/other", "--json", "--quiet").stdout)
    assert (again["samples"], again["seed"], again["counts"]) == (30, 9, found["counts"])
    copied = read_study("runs/other/study.yaml")
    assert (copied.name, copied.seed, copied.budget.time) == ("other", 9, 3600)
    assert "# enough" in Path("runs/other/study.yaml").read_text()
    assert (
        gx.run({**plain(here), "seed": 9, "budget": {"samples": 30}}, "same").counts
        == (found["counts"])
    )


def plain(here: Path) -> dict[str, object]:
    """The same study as a dict."""
    arms = {arm: {"kind": "recorded", "path": f"two-blobs/{arm}.npy"} for arm in ("one", "two")}
    return {"arms": arms, "objective": "vendi"}


def test_a_study_without_a_budget_runs_with_one_from_the_command_line(here: Path) -> None:
    file = here / "two-blobs" / "study.yaml"
    file.write_text(file.read_text().replace("budget:", "# budget:"))
    assert invoke("run", "two-blobs", "--quiet").exit_code == 2
    result = invoke("run", "two-blobs", "--quiet", "--json", "--samples", 25)
    assert json.loads(result.stdout)["samples"] == 25


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--samples", "-1", "budget.samples is -1; use a whole number of at least 1."),
        ("--time", "soon", "budget.time is 'soon'; use seconds"),
        ("--name", "a/b", "name is 'a/b'; use at most"),
        ("--seed", "-4", "seed is -4"),
    ],
)
def test_bad_options_are_refused_like_bad_settings(
    here: Path, option: str, value: str, words: str
) -> None:
    result = invoke("run", "two-blobs", option, value)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr
    assert not Path("runs").exists()
