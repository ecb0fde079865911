"""Keep working when the reader of an output has left, as in ``genmix run study.yaml 2>&1 | head``."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import IO


def discard(stream: IO[str]) -> None:
    """Send what is still written to a stream nowhere; otherwise every later line would raise an error."""
    with suppress(OSError, ValueError):  # not a file, or closed
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
