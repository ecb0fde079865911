"""The processes that a command starts: all of them end with the run, and nothing else does."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from genmix.generators import CommandArm, Context, collect
from genmix.generators import process_tree as tree
from genmix.generators.base import Request
from tests.runs.test_interrupts import reset_interrupts
from tests.support.asking import ask
from tests.support.dashboard_server import wait_until

LINUX = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="only Linux's /proc shows all processes"
)
"""Elsewhere, genmix promises to end only the process group, which one test below checks everywhere."""

PROGRAM = """
import json, os, subprocess, sys, time

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]

def plain():
    return subprocess.Popen(SLEEP).pid

def own_session():
    return subprocess.Popen(SLEEP, start_new_session=True).pid

def daemon():
    '''Its parent exits, so it no longer descends from this program.'''
    code = f"import subprocess; print(subprocess.Popen({SLEEP!r}, start_new_session=True).pid)"
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    parent.wait()
    return int(parent.stdout.readline())

def without_environment():
    return subprocess.Popen(SLEEP, start_new_session=True, env={}).pid

def stubborn():
    '''It ignores SIGTERM.'''
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1); time.sleep(600)"
    process = subprocess.Popen([sys.executable, "-uc", code], stdout=subprocess.PIPE, start_new_session=True)
    process.stdout.readline()
    return process.pid

child = globals()[sys.argv[1]]()
for line in sys.stdin:
    if json.loads(line)["index"] == 1:
        AT_ONE
    print(json.dumps({"text": str(child)}), flush=True)
"""

KINDS = ["plain", "own_session", "daemon", "without_environment", "stubborn"]


def arm_of(folder: Path, kind: str, at_one: str = "pass") -> Any:
    (folder / "program.py").write_text(PROGRAM.replace("AT_ONE", at_one))
    settings = {"kind": "command", "command": [sys.executable, "program.py", kind]}
    return CommandArm.model_validate(settings).build(Context(folder, 0, "arm"))


def is_running(process: int) -> bool:
    """Whether it runs; a zombie that nobody waits for does not."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def assert_ends(process: int) -> None:
    deadline = time.monotonic() + 20
    while is_running(process) and time.monotonic() < deadline:
        threading.Event().wait(0.01)
    assert not is_running(process)


@LINUX
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_program_started_ends_with_it(tmp_path: Path, kind: str) -> None:
    (sample,) = ask(arm_of(tmp_path, kind))
    assert_ends(int(sample.text))


@LINUX
@pytest.mark.parametrize("kind", ["own_session", "daemon"])
@pytest.mark.parametrize("at_one", ["time.sleep(600)", "os._exit(3)"])
def test_it_also_ends_after_a_timeout_or_a_crash(tmp_path: Path, kind: str, at_one: str) -> None:
    generator = arm_of(tmp_path, kind, at_one)

    async def play() -> str:
        (first,) = await collect(generator, [Request(0, 0)])
        try:
            async with asyncio.timeout(0.3 if "sleep" in at_one else 60):
                await collect(generator, [Request(1, 0)])
        except TimeoutError:
            assert "sleep" in at_one
        found = str(first.text)
        await asyncio.to_thread(assert_ends, int(found))  # before the arm is closed
        await generator.close()
        return found

    asyncio.run(play())


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


@LINUX
def test_other_processes_of_the_user_are_left_alone(
    tmp_path: Path, bystander: subprocess.Popen[bytes]
) -> None:
    generator = arm_of(tmp_path, "own_session")
    later: list[subprocess.Popen[bytes]] = []

    async def play() -> None:
        await collect(generator, [Request(0, 0)])
        later.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]))
        await generator.close()

    asyncio.run(play())
    try:
        assert bystander.poll() is None
        assert later[0].poll() is None
    finally:
        later[0].kill()
        later[0].wait()


def test_without_proc_the_process_group_is_signaled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "PROC", tmp_path / "no-proc")
    (sample,) = ask(arm_of(tmp_path, "plain"))
    assert_ends(int(sample.text))


@LINUX
def test_a_program_inside_a_program_keeps_the_marks_of_both(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outer = tree.new_mark()
    monkeypatch.setenv(tree.MARK, outer)
    assert tree.new_mark().split()[0] == outer


@LINUX
def test_a_process_id_that_was_reused_is_not_signaled(
    monkeypatch: pytest.MonkeyPatch, bystander: subprocess.Popen[bytes]
) -> None:
    found = tree.ProcessTree(bystander.pid, tree.new_mark())
    found._found[bystander.pid] -= 1  # as if another process had had this ID
    found.signal(signal.SIGKILL, is_root_alive=False)
    assert bystander.poll() is None


# -- the end of a run -------------------------------------------------------------------------------

SCRIPT = """
import sys
import genmix as gx
arms = {"one": {"kind": "command", "command": [sys.executable, "program.py", sys.argv[1]]}}
encoder = {"kind": "callable", "function": "encoder:embed"}
study = {"arms": arms, "encoder": encoder, "objective": "vendi", "budget": {"samples": 4}, "warm_start": 2}
run = gx.run(study, "run")
print(run.status, next(run.samples())["text"])
"""


EMBED = "import numpy as np\ndef embed(texts): return np.ones((len(texts), 2))\n"


def run_script(folder: Path, kind: str, at_one: str) -> subprocess.CompletedProcess[str]:
    arm_of(folder, kind, at_one)
    (folder / "encoder.py").write_text(EMBED)
    environment = {"OMP_NUM_THREADS": "1", "GENMIX_REPORT": "off", "GENMIX_CACHE": str(folder)}
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, kind],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=100,
    )


STUDY = """
arms: {one: {kind: command, command: [PYTHON, program.py, own_session]}}
encoder: {kind: callable, function: "encoder:embed"}
objective: vendi
budget: {samples: 4}
warm_start: 2
"""


@LINUX
def test_a_run_that_is_stopped_at_once_leaves_no_process_behind(tmp_path: Path) -> None:
    arm_of(tmp_path, "own_session", "open('child', 'w').write(str(child)); time.sleep(600)")
    (tmp_path / "encoder.py").write_text(EMBED)
    (tmp_path / "study.yaml").write_text(STUDY.replace("PYTHON", sys.executable))
    process = subprocess.Popen(
        [sys.executable, "-m", "genmix", "run", "study.yaml", "--quiet"],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1", "GENMIX_CACHE": str(tmp_path)},
        preexec_fn=reset_interrupts,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    child = tmp_path / "child"
    wait_until(lambda: child.exists() and child.read_text() != "")
    lock = tmp_path / "runs" / "study" / "lock"
    process.send_signal(signal.SIGINT)
    wait_until(lambda: "stopping" in lock.read_text())
    process.send_signal(signal.SIGINT)
    assert "stopped immediately" in process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert_ends(int(child.read_text()))


@LINUX
@pytest.mark.parametrize("at_one", ["pass", "os._exit(3) if seen() else None"])
def test_a_run_ends_quietly_although_a_process_kept_the_pipes(tmp_path: Path, at_one: str) -> None:
    once = at_one.replace("seen()", "not os.path.exists('seen') and not open('seen', 'w').close()")
    done = run_script(tmp_path, "own_session", once)
    status, child = done.stdout.split()
    assert (status, done.returncode) == ("finished", 0)
    assert done.stderr == ""
    assert_ends(int(child))
