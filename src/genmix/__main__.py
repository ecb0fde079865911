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
        if end.code == INTERRUPTED and "ray._raylet" in sys.modules:
            _exit_without_cleanup(INTERRUPTED)
        raise
    finally:
        # Another Ctrl-C while Python shuts down would replace the exit code with that of the signal.
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _exit_without_cleanup(code: int) -> None:
    """Exit before Python shuts down: if Ray's start was interrupted, its threads crash there."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # its reader has left
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
