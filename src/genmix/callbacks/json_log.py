"""Log a running study as JSON lines."""

from __future__ import annotations

import io
import json
import math
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from datetime import UTC, datetime
from typing import Any, TextIO

from genmix.core.masking import longest_form, mask_end
from genmix.journal.watching import Watcher
from genmix.study.secrets import exportable

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

MAX_LINE = 100_000
"""Maximum number of characters of a line captured from stderr; only the end of a longer one is logged."""

LINE_END = re.compile(rb"[\r\n]")
"""Progress bars return to the start of the line instead of ending it."""


class JsonLog(Watcher):
    """A callback that writes one JSON object per line for everything that happens in a run.

    Every line has ``time`` (UTC), ``level`` (``debug``, ``info``, ``warning``, ``error``), ``event``, and the
    values of the event, e.g. ``arm``, ``ticket``, ``message`` and ``cost``. Known secrets are masked.

    Parameters
    ----------
    stream : text file, optional
        Where to write. Default: ``sys.stderr`` when the callback is created.

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
        self._lock = threading.RLock()  # a finalizer may write to stderr at any time

    def event(self, name: str, /, **values: Any) -> None:
        """Write one line, without values that are None and arms with weight 0."""
        if name == "retire" and "pause" in values:
            name = "suspend"  # the journal records a suspension as a retirement with a pause
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
        lines = _Lines(self, sys.stderr)
        # It reports UTF-8, whatever the locale is, and what is written to its buffer is captured as well.
        stream = io.TextIOWrapper(
            lines, encoding="utf-8", errors="backslashreplace", newline="", write_through=True
        )
        with redirect_stderr(stream):
            try:
                yield
            finally:
                lines.end()


class _Lines(io.RawIOBase):
    """Logs what is written to it. For other programs, it is the file descriptor of the real stderr."""

    name = "<stderr>"

    def __init__(self, log: JsonLog, stderr: TextIO) -> None:
        self._log, self._stderr = log, stderr
        self._rest, self._is_cut = bytearray(), False

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stderr.fileno()

    def write(self, data: Any) -> int:
        data = bytes(data)
        first, *more = LINE_END.split(data)
        with self._log._lock:
            self._add(first)
            for part in more:
                self.end()
                self._add(part)
        return len(data)

    def _add(self, part: bytes) -> None:
        self._rest += part
        most = 4 * (MAX_LINE + longest_form())  # a character has up to four bytes
        if len(self._rest) > 2 * most:
            del self._rest[:-most]
            self._is_cut = True

    def end(self) -> None:
        """Log the current line."""
        with self._log._lock:
            line, is_cut = self._rest.decode("utf-8", "replace"), self._is_cut
            self._rest, self._is_cut = bytearray(), False
            if len(line) > MAX_LINE:
                line = mask_end(line, MAX_LINE, is_cut)
            if line.strip():
                self._log.note(line.strip().removeprefix("genmix: "))


def _plain(value: Any) -> Any:
    """Return the value as JSON can represent it, without secrets."""
    if isinstance(value, str):
        return exportable(value)
    if isinstance(value, dict):
        return {_plain(str(key)): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, int | float | None) else _plain(str(value))
