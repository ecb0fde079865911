"""Log a running study as JSON lines."""

from __future__ import annotations

import io
import json
import math
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from datetime import UTC, datetime
from typing import Any, TextIO

from genmix.core.masking import mask
from genmix.journal.watching import Watcher
from genmix.study.secrets import without_secrets

LEVELS = {
    "sample": "debug",
    "failure": "warning",
    "retry": "warning",
    "suspend": "warning",
    "retire": "warning",
    "interrupted": "warning",
    "trouble": "error",
}
"""The levels of events; the others are ``info``."""


class JsonLog(Watcher):
    """A callback that writes one JSON object per line for everything that happens in a run.

    Every line has ``time`` (UTC), ``level`` (``debug``, ``info``, ``warning``, ``error``), ``event``, and the
    values of the event, e.g. ``arm``, ``ticket``, ``message`` and ``cost``. Known secrets are masked.

    Parameters
    ----------
    stream : text file, optional
        Where to write. Default: stderr at the time of the call.

    Examples
    --------
    >>> import io
    >>> from genmix.callbacks import JsonLog
    >>> stream = io.StringIO()
    >>> JsonLog(stream).event("retry", arm="sdxl", seconds=0.5)
    >>> print(stream.getvalue(), end="")
    {"time": "...Z", "level": "warning", "event": "retry", "arm": "sdxl", "seconds": 0.5}
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._lock = threading.Lock()

    def event(self, name: str, /, **values: Any) -> None:
        """Write one line. Values that are None are left out, and arms with weight 0."""
        if "weights" in values:
            values["weights"] = {arm: w for arm, w in values["weights"].items() if w}
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {"time": now, "level": values.pop("level", None) or LEVELS.get(name, "info")}
        line |= {"event": name} | {k: _plain(v) for k, v in values.items() if v is not None}
        with self._lock:
            self._stream.write(json.dumps(line, allow_nan=False) + "\n")
            self._stream.flush()

    def note(self, line: str) -> None:
        """Log a message of the run."""
        self.event("note", message=line)

    @contextmanager
    def capturing(self) -> Iterator[None]:
        """Log what Python code writes to stderr, one event for each line."""
        lines = _Lines(self)
        with redirect_stderr(lines):
            try:
                yield
            finally:
                lines.close()


class _Lines(io.TextIOBase):
    def __init__(self, log: JsonLog) -> None:
        self._log, self._rest = log, ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._put(line)
        return len(text)

    def _put(self, line: str) -> None:
        if line.strip():
            self._log.note(line.strip().removeprefix("genmix: "))

    def close(self) -> None:
        self._put(self._rest)
        self._rest = ""


def _plain(value: Any) -> Any:
    """Return the value as JSON can represent it, without secrets."""
    if isinstance(value, str):
        return without_secrets(mask(value))
    if isinstance(value, dict):
        return {_plain(str(key)): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, int | float | None) else _plain(str(value))
