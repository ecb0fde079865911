"""Stop and resume runs in other processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from genmix.core.text import quotable
from genmix.errors import InputError, StorageError
from genmix.journal.lock import Holder, holder
from genmix.journal.reader import Row
from genmix.monitoring.finding import read_inside
from genmix.study.secrets import without_secrets

LOG = "resume.log"
"""The file in the run folder that receives the output of a resumed run."""

MAX_LOG_BYTES = 10_000_000
GOOD_EXIT_CODES = (0, 130, -signal.SIGINT)

SessionKey = tuple[int, int]


class Actions:
    """Stops and resumes runs, and remembers which ones it stopped and started."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stopped: dict[Path, SessionKey] = {}
        self._started: dict[Path, subprocess.Popen[bytes]] = {}
        self._started_at: dict[Path, float] = {}

    # -- stop ------------------------------------------------------------------------------------

    def stop(self, folder: Path, at_once: bool = False) -> None:
        """Act like Ctrl-C, or with ``at_once`` like a second Ctrl-C, which does not wait for samples."""
        with self._lock:
            held_by = holder(folder)
            if held_by is None:
                raise InputError("The run is not running; there is nothing to stop.")
            if at_once != self.is_stopping(folder, held_by):
                state = "is not stopping yet" if at_once else "is already stopping"
                raise InputError(f"The run {state}; reload the page.")
            _interrupt(held_by)
            self._stopped[folder] = _session_key(held_by)

    def is_stopping(self, folder: Path, held_by: Holder) -> bool:
        """Return whether the run is stopping, or will be once it handles a signal that was sent here."""
        return held_by.is_stopping or self._stopped.get(folder) == _session_key(held_by)

    # -- resume ----------------------------------------------------------------------------------

    def resume(self, folder: Path) -> None:
        """Start ``genmix resume`` in a process that outlives this one."""
        with self._lock:
            if holder(folder) is not None or self.is_starting(folder):
                raise InputError("The run is already running; reload the page.")
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
            try:
                log = os.open(folder / LOG, flags, 0o644)
            except OSError as error:
                raise StorageError(
                    f"could not write to the run folder ({error.strerror}); "
                    "check its permissions and free space."
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
        """Return whether a process that was started here is alive."""
        started = self._started.get(folder)
        return started is not None and started.poll() is None

    def is_ending(self, folder: Path, ended: float) -> bool:
        """Return whether a process started here has finished its session and is writing the report."""
        return self.is_starting(folder) and ended > self._started_at[folder]

    def resume_problem(self, folder: Path, last_start: Row | None) -> str | None:
        """Return why the process that was started here failed; None if it did not fail."""
        started = self._started.get(folder)
        if started is None or started.poll() is None or started.returncode in GOOD_EXIT_CODES:
            return None
        is_later = last_start is not None and last_start["at"] > self._started_at[folder]
        if last_start is not None and is_later and last_start["detail"].get("pid") != started.pid:
            return None  # another process has resumed the run since
        log = (read_inside(folder, LOG, max_bytes=MAX_LOG_BYTES) or b"").decode(errors="replace")
        last = [line for line in log.splitlines() if line.strip()][-1:]
        message = quotable(without_secrets(last[0]), most=500) if last else "no output"
        return f"genmix resume exited with code {started.returncode}: {message}"


def _interrupt(held_by: Holder) -> None:
    if held_by.process is None:
        raise InputError(
            "The run is in a process on another machine or in another container; stop it there."
        )
    if not held_by.hears_signals:
        raise InputError(
            f"The run is in a thread of process {held_by.process}, which does not receive signals; "
            "stop it in that process."
        )
    try:
        os.kill(held_by.process, signal.SIGINT)
    except OSError as error:
        raise InputError(
            f"could not stop process {held_by.process} ({error.strerror}); "
            "stop it as the user who started it."
        ) from error


def _session_key(held_by: Holder) -> SessionKey:
    """Return the process and the time of the lock, because one process can lock a run several times."""
    return held_by.process or 0, held_by.locked_at
