"""A run whose terminal is closed finishes, or stops cleanly if it hears of it."""

from __future__ import annotations

import errno
import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

import genmix as gx
from genmix.cli.live.hang_up import stopped_by_hang_up
from genmix.cli.live.lasting_output import lasting_output
from genmix.monitoring.overview import run_details

ARMS = """
import time
from pathlib import Path

def make(seeds):
    with open("calls", "a") as file:
        file.write("call\\n")
    time.sleep(0.05)
    print("an arm that talks")
    return [[1.0, seed % 7] for seed in seeds]
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    (tmp_path / "slow.py").write_text(ARMS)
    (tmp_path / "study.yaml").write_text(
        "arms: {a: {kind: callable, function: 'slow:make'}, b: {kind: callable, function: 'slow:make'}}\n"
        "objective: vendi\nbudget: {samples: 40}\nin_flight: 1\n"
    )
    return tmp_path


def started(
    study: Path,
    *options: str,
    is_controlling: bool = True,
    on_hang_up: signal.Handlers = signal.SIG_DFL,
) -> tuple[int, subprocess.Popen[bytes]]:
    """Start a run in a new session on a new terminal; return the terminal's other end too."""
    ours, theirs = pty.openpty()

    def prepare() -> None:
        signal.signal(signal.SIGHUP, on_hang_up)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if is_controlling:
            fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

    command = [sys.executable, "-m", "genmix", "run", "study.yaml", "--out", "run", *options]
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
    process = subprocess.Popen(
        command, cwd=study, **streams, start_new_session=True, preexec_fn=prepare
    )
    os.close(theirs)
    return ours, process


def wait_for_calls(study: Path, terminal: int, least: int) -> None:
    """Wait until the arms were called; read the terminal, which would block the run when it is full."""
    calls, end = study / "calls", time.monotonic() + 60
    os.set_blocking(terminal, False)
    while not calls.exists() or len(calls.read_text().splitlines()) < least:
        assert time.monotonic() < end
        try:
            os.read(terminal, 1 << 16)
        except BlockingIOError:
            time.sleep(0.01)


def exit_code(process: subprocess.Popen[bytes]) -> int:
    """Wait for a run; do not leave it behind if it hangs."""
    try:
        return process.wait(60)
    finally:
        process.kill()


@pytest.mark.parametrize("options", [(), ("--json",), ("--log-json",)])
def test_a_run_finishes_without_its_terminal(study: Path, options: tuple[str, ...]) -> None:
    terminal, process = started(study, *options, is_controlling=False)
    wait_for_calls(study, terminal, 5)
    os.close(terminal)
    assert exit_code(process) == 0
    run = gx.Run(study / "run")
    assert (run.status, run.summary["samples"]) == ("finished", 40)


def test_a_closing_terminal_stops_a_run_like_one_ctrl_c(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal, process = started(study)
    wait_for_calls(study, terminal, 5)
    os.close(terminal)
    os.kill(process.pid, signal.SIGHUP)  # the shell sends it as well
    assert exit_code(process) == 130
    details, calls = run_details(study / "run"), (study / "calls").read_text().splitlines()
    assert details["status"] == "interrupted"
    assert details["samples"] == len(calls) < 40  # the reply in flight is not lost
    monkeypatch.chdir(study)  # where the arms count their calls
    assert gx.resume("run").status == "finished"


def test_nohup_lets_a_run_continue(study: Path) -> None:
    terminal, process = started(study, on_hang_up=signal.SIG_IGN)
    wait_for_calls(study, terminal, 5)
    os.close(terminal)
    assert exit_code(process) == 0
    assert gx.Run(study / "run").summary["samples"] == 40


def test_a_handler_of_the_caller_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGHUP)
    try:
        for handler in (signal.SIG_DFL, signal.SIG_IGN):
            signal.signal(signal.SIGHUP, handler)
            with stopped_by_hang_up():
                has_changed = signal.getsignal(signal.SIGHUP) is not handler
            assert has_changed == (handler is signal.SIG_DFL)
            assert signal.getsignal(signal.SIGHUP) is handler
    finally:
        signal.signal(signal.SIGHUP, before)


def test_only_progress_is_discarded_after_any_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "w") as out, open("/dev/full", "w") as progress:
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", progress)
        with lasting_output():
            print("progress", file=sys.stderr)
            with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
                print("result")


def test_a_stream_that_is_gone_from_the_start_is_lasting_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    stream = os.fdopen(writing, "w")
    stream.write("kept in the buffer")
    monkeypatch.setattr(sys, "stdout", stream)
    with lasting_output():
        print("nobody reads this", flush=True)
    with pytest.raises(BrokenPipeError):
        stream.close()
