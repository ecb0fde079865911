"""What happens to a run when its terminal is closed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stopped_by_hang_up() -> Iterator[None]:
    """Treat SIGHUP, which a closing terminal sends, like one Ctrl-C: the run stops cleanly.

    By default, SIGHUP would kill the process, and replies that are being paid for would be lost. Terminal
    and shell may both send it, so it counts once. With ``nohup``, which ignores it, the run continues.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGHUP) is not signal.SIG_DFL:
        yield
        return
    is_hung_up = False

    def stop(*_: object) -> None:
        nonlocal is_hung_up
        if not is_hung_up:
            is_hung_up = True
            signal.raise_signal(signal.SIGINT)

    signal.signal(signal.SIGHUP, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
