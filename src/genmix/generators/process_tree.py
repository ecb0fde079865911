"""Signal a program and every process that it started, including those in sessions of their own.

On Linux, these processes are found in ``/proc``: by their parents, and by an environment variable that they
inherit, which also finds a process whose parent has exited. On other systems, a signal reaches only the
program's process group.
"""

from __future__ import annotations

import os
import signal
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MARK = "GENMIX_COMMAND"
"""An environment variable that contains the marks of all programs that a process descends from."""

PROC = Path("/proc")
ROUNDS = 10
"""Maximum number of searches for processes that were started while their parents were being signaled."""

KILL = getattr(signal, "SIGKILL", signal.SIGTERM)


def new_mark() -> str:
    """Return a value of ``MARK`` for a new program: its own mark, after those of this process."""
    return f"{os.environ.get(MARK, '')} {uuid.uuid4().hex}".strip()


@dataclass(frozen=True)
class _Status:
    """What ``/proc/PID/stat`` says about a process."""

    parent: int
    started: int
    """Clock ticks since the system started; a process ID can be reused, but not with the same start."""


class ProcessTree:
    """A program that leads its own session, and its descendants.

    Parameters
    ----------
    root : int
        The process ID of the program.
    mark : str
        The value of ``MARK`` in its environment.
    """

    def __init__(self, root: int, mark: str) -> None:
        self._root, self._mark = root, mark.split()[-1].encode()
        status = _status(root)
        self._started = 0 if status is None else status.started
        self._found = {root: self._started}
        """The processes known so far, and when they started."""

    def signal(self, number: int, is_root_alive: bool) -> None:
        """Send a signal to all processes; ``is_root_alive`` is False if the program has been reaped."""
        self._search()
        if is_root_alive:
            _send(self._root, number, to_group=True)
        signaled = {self._root}
        for _ in range(ROUNDS):
            new = set(self._found) - signaled
            if not new:
                break
            for process in new:
                _send(process, number)
            signaled |= new
            self._search()

    def _search(self) -> None:
        """Add processes that have been started, and remove those that have exited."""
        running = _running(since=self._started)
        found = {
            process
            for process, status in running.items()
            if self._found.get(process) == status.started or self._is_marked(process)
        }
        while new := {p for p, s in running.items() if s.parent in found and p not in found}:
            found |= new
        self._found = {process: running[process].started for process in found}

    def _is_marked(self, process: int) -> bool:
        try:
            return self._mark in (PROC / str(process) / "environ").read_bytes()
        except OSError:  # it has exited, or belongs to another user
            return False


def _running(since: int) -> dict[int, _Status]:
    """Return the other processes that have started since then, by process ID; none without ``/proc``."""
    try:
        numbers = [int(entry.name) for entry in PROC.iterdir() if entry.name.isdecimal()]
    except OSError:
        return {}
    found = {number: _status(number) for number in numbers if number != os.getpid()}
    return {p: s for p, s in found.items() if s is not None and s.started >= since}


def _status(process: int) -> _Status | None:
    try:
        stat = (PROC / str(process) / "stat").read_bytes()
    except OSError:
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()  # the name before it can contain spaces
    return _Status(parent=int(fields[1]), started=int(fields[19]))


def _send(process: int, number: int, to_group: bool = False) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if to_group and hasattr(os, "killpg"):
            os.killpg(process, number)
        else:
            os.kill(process, number)
