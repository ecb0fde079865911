"""``genmix run`` on Ray, as in a terminal: Ctrl-C while Ray starts, and what is printed when workers die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.ray_runs import ENVIRONMENT, is_alive, study, wait_for

pytestmark = pytest.mark.ray


def start(path: Path, *options: str) -> subprocess.Popen[str]:
    """Start a run in a session of its own, so that Ctrl-C reaches it and its processes only."""
    pytest.importorskip("ray")
    return subprocess.Popen(
        [sys.executable, "-m", "genmix", "run", str(path), "--engine", "ray", *options],
        cwd=path.parent,
        env=ENVIRONMENT,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def processes(session: int, name: str = "") -> list[int]:
    """The processes of a session that are alive and whose command line contains a name."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            fields = (place / "stat").read_text().rpartition(")")[2].split()
            command = (place / "cmdline").read_text(errors="replace")
        except OSError:
            continue
        if int(fields[3]) == session and name in command and is_alive(int(place.name)):
            found.append(int(place.name))
    return found


@pytest.mark.parametrize("presses", [1, 2])
def test_ctrl_c_while_ray_starts_ends_the_command_with_130(tmp_path: Path, presses: int) -> None:
    process = start(study(tmp_path), "--quiet")
    wait_for(lambda: processes(process.pid, "raylet"))
    for press in range(presses):
        time.sleep(0.2 * press)
        os.killpg(process.pid, signal.SIGINT)
    try:
        _, said = process.communicate(timeout=60)
        assert process.returncode == 130
        assert said == "genmix: interrupted before any sample was generated.\n"
        if presses == 1:
            wait_for(lambda: not processes(process.pid))
    finally:
        for pid in processes(process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


DIES = """
import os
def make(seeds):
    os._exit(1)
"""


def test_a_dead_worker_is_reported_by_genmix_alone(tmp_path: Path) -> None:
    (tmp_path / "dying.py").write_text(DIES)
    dying = {"kind": "callable", "function": "dying:make", "resources": {"max_restarts": 0}}
    process = start(study(tmp_path, 20, more_arms={"dying": dying}), "--log-json")
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert "its worker died during the call" in said
    assert "raylet" not in said
    assert "\\u001b" not in said
