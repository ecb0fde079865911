"""What is not a run folder is named for what it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import genmix as gx
from genmix.cli import app
from genmix.journal.run_folders import check_run_folder
from genmix.journal.schema import JOURNAL

CASES = {
    "absent": "is not a run folder because it does not exist; check the path, or list the runs with",
    "empty": "is not a run folder because it has no journal.sqlite; pass the folder of a run.",
    "runs": "because it has no journal.sqlite; pass the folder of a run, e.g. runs/first.",
    "study.yaml": "is a file and not a run folder; start a run with `genmix run study.yaml`, or pass",
    "a.npy": "is a file and not a run folder; pass the folder of a run.",
    "runs/first/report.html": "and not a run folder; pass the folder of its run, runs/first.",
}
COMMANDS = {
    "report": (),
    "status": (),
    "resume": (),
    "plot": ("weights",),
    "export": ("--to", "jsonl", "--out", "a.npy"),
}


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("runs/first").mkdir(parents=True)
    for name in ("study.yaml", "a.npy", "runs/first/report.html", f"runs/first/{JOURNAL}"):
        Path(name).touch()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_says_what_it_got(command: str, name: str) -> None:
    result = CliRunner().invoke(app, [command, name, *COMMANDS[command]])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"genmix: {name} is ")
    assert CASES[name] in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_name_that_is_too_long_is_a_sentence_too() -> None:
    with pytest.raises(gx.InputError, match="does not exist"):
        check_run_folder(Path("x" * 5000))
