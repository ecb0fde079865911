"""Runs that start at the same time get folders of their own."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import genmix as gx
from genmix.journal.lock import FolderLock
from genmix.runs.new_folder import DefaultFolder, NewFolder

STUDY = """\
name: twins
arms:
  one: {kind: callable, function: "arms:make"}
objective: vendi
budget: {samples: 12}
"""
ARMS = """\
# This file is imported after a run has chosen its default folder, and before it locks the folder.
import os, pathlib, time

pathlib.Path(f"here-{os.getpid()}").touch()
while len(list(pathlib.Path(".").glob("here-*"))) < 3:
    time.sleep(0.01)

def make(seeds):
    return [[1.0, seed % 7, seed % 3] for seed in seeds]
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_processes_that_choose_the_same_default_folder(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(STUDY)
    (tmp_path / "arms.py").write_text(ARMS)
    command = [sys.executable, "-m", "genmix", "run", "study.yaml", "--quiet", "--no-report"]
    running = [
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    messages = [process.communicate(timeout=120)[1] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0], messages
    folders = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert folders == ["twins", "twins-2", "twins-3"]
    assert all(gx.Run(tmp_path / "runs" / name).summary["samples"] == 12 for name in folders)
    notes = sorted(message.splitlines()[-1:] for message in messages)
    assert notes[0] == []
    assert all("this run is saved in runs/twins-" in line for [line] in notes[1:])


def test_a_default_folder_that_another_run_takes_is_left_to_it() -> None:
    notes: list[str] = []
    place = DefaultFolder("twins", notes.append)
    assert place.path == Path("runs/twins")
    with NewFolder(Path("runs/twins")).locked(True), place.locked(True) as folder:
        assert folder == place.path == place.own == Path("runs/twins-2")
        assert notes == [
            "another run has just started in runs/twins; this run is saved in runs/twins-2"
        ]
        with pytest.raises(gx.InputError, match="runs/twins-2 is in use by process"):
            FolderLock(folder).__enter__()
    (Path("runs/twins-2") / "notes.txt").touch()
    assert DefaultFolder("twins", notes.append).path == Path("runs/twins")  # only a lock is there


def test_a_folder_that_is_not_empty_is_not_left_locked() -> None:
    Path("mine").mkdir()
    (Path("mine") / "notes.txt").touch()
    with pytest.raises(gx.InputError, match=r"contains other files \(notes.txt\)"):
        NewFolder(Path("mine")).locked(True).__enter__()
    with FolderLock(Path("mine")):
        pass


def refuse(file: int, operation: int) -> None:
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


def never_free(file: int, operation: int) -> None:
    if operation & fcntl.LOCK_EX:
        raise BlockingIOError


@pytest.mark.parametrize(
    ("flock", "error", "message"),
    [
        (refuse, gx.StorageError, "could not lock runs/twins/lock"),
        (never_free, gx.InputError, "runs/twins is in use"),
    ],
)
def test_a_file_system_without_locks_ends_the_search(
    monkeypatch: pytest.MonkeyPatch,
    flock: Callable[[int, int], None],
    error: type[Exception],
    message: str,
) -> None:
    monkeypatch.setattr("genmix.journal.lock.fcntl.flock", flock)
    monkeypatch.setattr("genmix.journal.lock.ATTEMPTS", 1)
    place = DefaultFolder("twins", lambda line: None)
    with pytest.raises(error, match=message):
        place.locked(True).__enter__()
    assert place.own is None
