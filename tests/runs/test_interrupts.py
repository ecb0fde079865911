"""Ctrl-C while a run executes in a thread, as in a notebook, whose main thread waits for it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import genmix as gx
from genmix.dashboard.actions import Actions
from genmix.journal.lock import FolderLock, Holder, holder
from genmix.journal.reader import JournalReader
from genmix.journal.watching import Watcher
from tests.support.dashboard_runs import write_study
from tests.support.dashboard_server import wait_until

AS_IN_A_NOTEBOOK = """
import asyncio, sys
import genmix as gx

async def cell():
    print("status:", gx.run(sys.argv[1], sys.argv[2], progress=False).status, flush=True)

START
"""
LOOPS = {
    "a notebook's loop": "asyncio.new_event_loop().run_until_complete(cell())",
    "asyncio.run": "asyncio.run(cell())",  # whose own handler would keep the first interrupt
}


def reset_interrupts() -> None:
    """A shell starts background jobs with SIGINT ignored, and child processes inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(study: Path, folder: Path, loop: str = "a notebook's loop") -> subprocess.Popen[str]:
    code = AS_IN_A_NOTEBOOK.replace("START", LOOPS[loop])
    return subprocess.Popen(
        [sys.executable, "-c", code, str(study), str(folder)],
        cwd=study.parent,
        env=os.environ | {"OMP_NUM_THREADS": "1", "GENMIX_REPORT": "off"},
        preexec_fn=reset_interrupts,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def told(folder: Path) -> int:
    if not (folder / "journal.sqlite").exists():
        return 0
    try:
        journal = JournalReader.open(folder)
    except gx.InputError:  # it is being made
        return 0
    try:
        return sum(1 for _ in journal.told_rows())
    finally:
        journal.close()


@pytest.mark.parametrize("loop", LOOPS)
def test_the_first_interrupt_ends_a_notebooks_run_cleanly(tmp_path: Path, loop: str) -> None:
    study = write_study(tmp_path / "study", samples=5000, wait=0.01)
    process = start(study, tmp_path / "run", loop)
    wait_until(lambda: told(tmp_path / "run") > 10)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=240)
    assert out.strip() == "status: interrupted", err
    assert process.returncode == 0
    assert 10 < told(tmp_path / "run") < 5000


def test_an_interrupt_that_another_thread_is_given_ends_it_too(tmp_path: Path) -> None:
    """The system chooses the thread; the one that waits, and answers, is not woken by it."""
    study = write_study(tmp_path / "study", samples=600, wait=0.01)
    given: list[int] = []

    def give(live: Any) -> None:
        if live.told > 10 and not given:
            given.append(threading.get_ident())
            signal.pthread_kill(given[0], signal.SIGINT)

    async def cell() -> gx.Run:
        return gx.run(study, tmp_path / "run", callbacks=[give])

    assert asyncio.run(cell()).status == "interrupted"
    assert given[0] != threading.get_ident()


def test_the_second_interrupt_ends_it_at_once(tmp_path: Path) -> None:
    study = write_study(tmp_path / "study", samples=50, wait=4.0)
    process = start(study, tmp_path / "run")
    wait_until(lambda: (tmp_path / "run" / "journal.sqlite").exists())
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=240)
    assert "KeyboardInterrupt" in err.splitlines()[-1]
    assert out == ""
    assert gx.Run(tmp_path / "run").folder.exists()


def test_an_interrupt_before_the_first_sample_ends_it(tmp_path: Path) -> None:
    study = write_study(tmp_path / "study", samples=50)
    slow = "import time\ntime.sleep(3)\n"
    arms = study.with_name("dashboard_arms.py")
    arms.write_text(slow + arms.read_text())
    process = start(study, tmp_path / "run")
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=240)
    assert process.returncode != 0
    assert "KeyboardInterrupt" in err
    assert not (tmp_path / "run" / "journal.sqlite").exists()


def test_a_run_in_a_thread_of_its_own_is_not_stopped_by_a_signal(tmp_path: Path) -> None:
    """The signal would reach whatever the main thread does: here, these tests."""
    study = write_study(tmp_path / "study", samples=200, wait=0.01)
    folder = tmp_path / "run"
    thread = threading.Thread(target=gx.run, args=(study, folder))
    thread.start()
    try:
        wait_until(lambda: told(folder) > 5)
        assert holder(folder) == Holder(os.getpid(), hears_signals=False)
        with pytest.raises(gx.InputError, match=f"in a thread of process {os.getpid()}"):
            Actions().stop(folder)
        with pytest.raises(gx.InputError, match=f"in use by process {os.getpid()}; wait"):
            gx.resume(folder)
    finally:
        thread.join()
    assert gx.Run(folder).status == "finished"


@pytest.mark.parametrize("handler", [lambda *_: None, signal.SIG_IGN, signal.default_int_handler])
def test_the_callers_signals_are_the_callers_again(tmp_path: Path, handler: Any) -> None:
    study = write_study(tmp_path / "study", samples=20)
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, handler) for number in numbers}
    during: list[Any] = []
    try:
        gx.run(
            study,
            tmp_path / "run",
            callbacks=[lambda live: during.extend(map(signal.getsignal, numbers))],
        )
        assert handler not in during
        assert [signal.getsignal(number) for number in numbers] == [handler] * 2
    finally:
        for number in numbers:
            signal.signal(number, before[number])


def test_a_holder_says_whether_it_hears(tmp_path: Path) -> None:
    with FolderLock(tmp_path, hears_signals=False):
        assert holder(tmp_path) == Holder(os.getpid(), hears_signals=False)
    with FolderLock(tmp_path):
        assert holder(tmp_path) == Holder(os.getpid())


def test_the_note_counts_only_samples_that_are_being_generated(tmp_path: Path) -> None:
    """A sample that waits for another attempt is in flight, but the run does not wait for it."""

    class Interrupt(Watcher):
        def event(self, name: str, /, **values: Any) -> None:
            if name == "retry":
                signal.raise_signal(signal.SIGINT)

    def fail(seeds: list[int]) -> list[str]:
        raise OSError("busy")

    study = {
        "arms": {"a": fail},
        "encoder": lambda texts: np.ones((len(texts), 2)),
        "objective": "vendi",
        "budget": {"samples": 10},
        "in_flight": 1,
    }
    notes: list[str] = []
    run = gx.run(study, tmp_path / "run", callbacks=[Interrupt()], note=notes.append)
    assert run.status == "interrupted"
    assert any("being generated (0)" in note for note in notes), notes
