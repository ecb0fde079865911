"""Output that outlasts its pipe or terminal, as in ``genmix run study.yaml 2>&1 | head``."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

GONE = (errno.EPIPE, errno.EIO, errno.ENXIO)
"""What writing to a closed pipe or terminal fails with."""


@contextmanager
def lasting_output() -> Iterator[None]:
    """Discard output after its pipe or terminal is closed; an error would end a run that costs money.

    Progress on stderr is discarded after any error, e.g. if it goes to a file on a full disk.
    """
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _lasting(sys.stdout), _lasting(sys.stderr, is_vital=False)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _lasting(stream: Any, is_vital: bool = True) -> Any:
    """Return a stream that writes to the same file; the stream itself if it is not a file."""
    if not isinstance(stream, io.TextIOWrapper):  # it is closed, or belongs to a notebook or a test
        return stream
    with suppress(OSError, ValueError):
        number = stream.fileno()
        with suppress(OSError):  # its reader is gone already
            stream.flush()
        return io.TextIOWrapper(
            _Lasting(number, is_vital), stream.encoding, stream.errors, write_through=True
        )
    return stream


class _Lasting(io.RawIOBase):
    """Writes to a file descriptor until nobody can read it anymore."""

    def __init__(self, number: int, is_vital: bool) -> None:
        self._number, self._is_vital = number, is_vital

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._number

    def isatty(self) -> bool:
        return os.isatty(self._number)

    def write(self, data: Any) -> int:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._number, rest) :]
        except OSError as error:
            if self._is_vital and error.errno not in GONE:
                raise
        return len(data)
