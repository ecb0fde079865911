"""The command line as a program: ``genmix`` or ``python -m genmix``."""

import signal

from genmix.cli import app


def main() -> None:
    try:
        app(prog_name="genmix")
    finally:
        # Another Ctrl-C while Python shuts down would replace the exit code with that of the signal.
        signal.signal(signal.SIGINT, signal.SIG_IGN)


if __name__ == "__main__":
    main()
