"""Keep the signal handlers of this process while Ray starts."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

was_interrupted = False
"""Whether Ray's start was interrupted in this process."""


@contextmanager
def own_signals() -> Iterator[None]:
    """Keep the handler of SIGTERM, which Ray replaces, and delay Ctrl-C until Ray has started.

    If Ray's start is interrupted, Ray leaves processes behind, and Python crashes on exit. A second Ctrl-C
    interrupts the start immediately, in case it hangs.
    """
    global was_interrupted
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    interrupt, terminate = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    count = held = 0

    def hold(number: int, frame: FrameType | None) -> None:
        nonlocal count, held
        count, held = count + 1, held + 1
        if count > 1 and callable(interrupt):
            due, held = held, 0
            for _ in range(due):
                interrupt(number, frame)

    if callable(interrupt):
        signal.signal(signal.SIGINT, hold)
    try:
        yield
    except Exception:
        raise
    except BaseException:  # the handler raised it
        was_interrupted = True
        raise
    finally:
        signal.signal(signal.SIGTERM, terminate)
        if callable(interrupt):
            signal.signal(signal.SIGINT, interrupt)
        if held:
            signal.raise_signal(signal.SIGINT)
