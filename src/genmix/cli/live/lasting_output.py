"""Output that outlasts its pipe, as in ``genmix run study.yaml 2>&1 | head``."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


@contextmanager
def lasting_output() -> Iterator[None]:
    """Discard output after its pipe is closed; an error would end a run that costs money."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(_lasting, before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _lasting(stream: Any) -> Any:
    """Return a stream that writes to the same file; the stream itself if it is not a file."""
    if not isinstance(stream, io.TextIOWrapper):  # it is closed, or belongs to a notebook or a test
        return stream
    with suppress(OSError, ValueError):
        stream.flush()
        return io.TextIOWrapper(
            _Pipe(stream.fileno()), stream.encoding, stream.errors, write_through=True
        )
    return stream


class _Pipe(io.RawIOBase):
    """Writes to a file descriptor until nobody can read it anymore."""

    def __init__(self, number: int) -> None:
        self._number = number

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._number

    def isatty(self) -> bool:
        return os.isatty(self._number)

    def write(self, data: Any) -> int:
        rest = memoryview(data)
        with suppress(BrokenPipeError):
            while rest:
                rest = rest[os.write(self._number, rest) :]
        return len(data)
