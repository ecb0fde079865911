"""Keep the signal handlers of this process while Ray starts."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def own_signals() -> Iterator[None]:
    """Keep the handler of SIGTERM, which Ray replaces, and call that of Ctrl-C at the end.

    If Ray's start is interrupted, Ray leaves processes behind, and Python crashes when it exits. A second
    Ctrl-C interrupts the start anyway, in case it takes long.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    interrupt, terminate = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    count = 0

    def hold(number: int, frame: FrameType | None) -> None:
        nonlocal count
        count += 1
        if count > 1 and callable(interrupt):
            interrupt(number, frame)

    if callable(interrupt):
        signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, terminate)
        if callable(interrupt):
            signal.signal(signal.SIGINT, interrupt)
        if count == 1:
            signal.raise_signal(signal.SIGINT)
