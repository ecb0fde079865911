"""Stop a run and go on with one, from outside its process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from genmix.core.text import quotable
from genmix.dashboard.folder import read_inside
from genmix.dashboard.follower import Event
from genmix.errors import InputError
from genmix.report.safe import without_secrets
from genmix.runs import lock
from genmix.runs.lock import Holder, holder

LOG = "resume.log"
"""What a resumed run says, in its folder."""

LONGEST_LOG = 10_000_000
GOOD_ENDS = (0, 130, -signal.SIGINT)

Session = tuple[int, int]


class Actions:
    """What was done to runs from here."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stopped: dict[Path, Session] = {}
        self._started: dict[Path, subprocess.Popen[bytes]] = {}
        self._started_at: dict[Path, float] = {}

    # -- stopping --------------------------------------------------------------------------------

    def stop(self, folder: Path, at_once: bool = False) -> None:
        """As Ctrl-C does: what is in flight is taken in; ``at_once`` as a second Ctrl-C does."""
        with self._lock:
            held = holder(folder)
            if held is None:
                raise InputError("The run is not running: there is nothing to stop.")
            if at_once != self.is_stopping(folder, held):
                words = "was not stopped yet" if at_once else "is stopping already"
                raise InputError(f"The run {words}: look at the page again.")
            session = _session(folder, held)
            _interrupt(held)
            self._stopped[folder] = session

    def is_stopping(self, folder: Path, held: Holder) -> bool:
        """It says so itself; what was sent from here a moment ago it may not have heard yet."""
        return held.is_stopping or self._stopped.get(folder) == _session(folder, held)

    # -- going on --------------------------------------------------------------------------------

    def resume(self, folder: Path) -> None:
        """Start ``genmix resume`` in a process of its own, which outlives this one."""
        with self._lock:
            if holder(folder) is not None or self.is_starting(folder):
                raise InputError("The run is running already.")
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
            try:
                log = os.open(folder / LOG, flags, 0o644)
            except OSError as error:
                raise InputError(
                    f"The run's folder cannot be written ({error.strerror})."
                ) from error
            try:
                self._started_at[folder] = time.time()
                self._started[folder] = subprocess.Popen(
                    [sys.executable, "-P", "-m", "genmix", "resume", "--", str(folder)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            finally:
                os.close(log)

    def is_starting(self, folder: Path) -> bool:
        """Whether a process that was started here lives."""
        started = self._started.get(folder)
        return started is not None and started.poll() is None

    def is_ending(self, folder: Path, ended: float) -> bool:
        """Whether a process that was started here has ended its session and lives: it writes the report."""
        return self.is_starting(folder) and ended > self._started_at[folder]

    def trouble(self, folder: Path, begun: Event | None) -> str | None:
        """What the process that was started here said when it ended badly; ``begun``: the last start."""
        started = self._started.get(folder)
        if started is None or started.poll() is None or started.returncode in GOOD_ENDS:
            return None
        if begun is not None and begun.at > self._started_at[folder] and begun.pid != started.pid:
            return None  # somebody else has gone on with it since
        said = (read_inside(folder, LOG, most=LONGEST_LOG) or b"").decode(errors="replace")
        last = [line for line in said.splitlines() if line.strip()][-1:]
        words = quotable(without_secrets(last[0]), most=500) if last else "it said nothing"
        return f"genmix resume ended with {started.returncode}: {words}"


def _interrupt(held: Holder) -> None:
    if held.process is None:
        raise InputError(
            "The run goes on in a process that cannot be seen from here, on another machine or in another "
            "container: stop it there."
        )
    if not held.hears_signals:
        raise InputError(
            f"The run goes on in a thread of process {held.process}, where no signal reaches it: "
            "stop it there."
        )
    try:
        os.kill(held.process, signal.SIGINT)
    except OSError as error:
        raise InputError(
            f"Process {held.process}, which holds the run, cannot be stopped ({error.strerror})."
        ) from error


def _session(folder: Path, held: Holder) -> Session:
    """The process and when it took the lock: a process may hold a run more than once."""
    process = held.process or 0
    try:
        return process, os.stat(folder / lock.NAME, follow_symlinks=False).st_mtime_ns
    except OSError:
        return process, 0
