"""The command line as a program: ``genmix`` or ``python -m genmix``."""

import os
import signal
import sys
from contextlib import suppress

from genmix.cli import INTERRUPTED, app


def main() -> None:
    try:
        app(prog_name="genmix")
    except SystemExit as end:
        if end.code == INTERRUPTED and _has_interrupted_ray():
            _exit_without_cleanup(INTERRUPTED)
        raise
    finally:
        # Another Ctrl-C while Python shuts down would replace the exit code with that of the signal.
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _has_interrupted_ray() -> bool:
    """Return whether Ray's start was interrupted; Ray's threads then crash while Python shuts down."""
    signals = sys.modules.get("genmix.cluster.signals")
    return signals is not None and signals.was_interrupted


def _exit_without_cleanup(code: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # it is closed
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
