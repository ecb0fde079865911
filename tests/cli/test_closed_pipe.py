"""A run whose output nobody reads anymore continues and keeps its exit code."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

import genmix as gx
from genmix.cli.live.lasting_output import lasting_output
from tests.support.dashboard_runs import write_study

CASES = [("stdout", None), ("stdout", "--json"), ("stderr", None), ("stderr", "--log-json")]


@pytest.mark.parametrize(("closed", "option"), [*CASES, ("both", "--quiet")])
def test_a_run_continues_without_its_reader(
    tmp_path: Path, closed: str, option: str | None
) -> None:
    study = write_study(tmp_path / "study", samples=30)
    reading, writing = os.pipe()
    os.close(reading)
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    streams |= dict.fromkeys(["stdout", "stderr"] if closed == "both" else [closed], writing)
    command = [sys.executable, "-m", "genmix", "run", str(study), "--out", str(tmp_path / "run")]
    done = subprocess.run(
        [*command, *([option] if option else [])], **streams, cwd=tmp_path, check=False
    )
    os.close(writing)
    assert done.returncode == 0
    run = gx.Run(tmp_path / "run")
    assert run.status == "finished"
    assert run.summary["samples"] == 30


def test_trouble_keeps_its_exit_code(tmp_path: Path) -> None:
    (tmp_path / "down.py").write_text("def make(seeds):\n    raise ValueError('down')\n")
    (tmp_path / "study.yaml").write_text(
        "arms: {a: {kind: callable, function: 'down:make'}}\nobjective: vendi\nbudget: {samples: 20}\n"
        "retries: {attempts: 1, give_up: 1}\n"
    )
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "genmix", "run", "study.yaml", "--quiet"]
    done = subprocess.run(command, cwd=tmp_path, stdout=writing, stderr=writing, check=False)
    os.close(writing)
    assert done.returncode == 3


def test_what_is_not_a_file_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = io.StringIO()
    monkeypatch.setattr(sys, "stdout", kept)
    monkeypatch.setattr(sys, "stderr", None)
    with lasting_output():
        assert (sys.stdout, sys.stderr) == (kept, None)


def test_a_file_gets_everything_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open(tmp_path / "out", "w", encoding="latin-1", errors="replace") as file:
        monkeypatch.setattr(sys, "stdout", file)
        print("before")
        with lasting_output():
            assert not sys.stdout.isatty()
            assert sys.stdout.fileno() == file.fileno()
            print("é €" * 50_000)
        print("after")
    written = (tmp_path / "out").read_text("latin-1")
    assert written == "before\n" + "é ?" * 50_000 + "\nafter\n"
