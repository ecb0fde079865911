"""A run whose output nobody reads any more continues and keeps its exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import genmix as gx
from tests.support.dashboard_runs import write_study


@pytest.mark.parametrize("closed", ["stdout", "stderr", "both"])
@pytest.mark.parametrize("option", [None, "--log-json"])
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
