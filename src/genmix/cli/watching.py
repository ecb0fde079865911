"""Options for watching a run with other tools: metrics, logs and traces."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from genmix.cli import INTERRUPTED, print_note
from genmix.errors import InputError

if TYPE_CHECKING:
    from genmix.callbacks import JsonLog

MetricsPort = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        metavar="PORT",
        help="Serve Prometheus metrics on this port of 127.0.0.1, or on HOST:PORT.",
    ),
]
LogJson = Annotated[
    bool, typer.Option("--log-json", help="Log JSON lines to stderr instead of showing progress.")
]
Otel = Annotated[
    bool,
    typer.Option("--otel", help="Export OpenTelemetry spans (see OTEL_EXPORTER_OTLP_ENDPOINT)."),
]


@contextmanager
def logging(is_wanted: bool) -> Iterator[JsonLog | None]:
    """Log everything that goes to stderr as JSON lines, and finally the exit code."""
    if not is_wanted:
        yield None
        return
    from genmix.callbacks.json_log import JsonLog

    log, code, message = JsonLog(), 0, None
    with log.capturing():
        try:
            yield log
        except typer.Exit as exit:
            code = exit.exit_code
            message = None if exit.__cause__ is None else str(exit.__cause__) or None
            raise
        except BaseException:
            code = 1
            raise
        finally:
            level = "info" if code in (0, INTERRUPTED) else "error"
            log.event("exit", level=level, code=code, message=message)


@dataclass(frozen=True)
class Watching:
    """What watches a run besides the live view."""

    callbacks: Sequence[Any] = ()
    note: Callable[[str], None] = lambda line: None
    """Logs a message; does nothing without a log."""
    is_logged: bool = False


NOTHING = Watching()


@contextmanager
def watching(metrics: str | None, log: JsonLog | None, otel: bool) -> Iterator[Watching]:
    """Provide the callbacks for these options."""
    found: list[Any] = [] if log is None else [log]
    with ExitStack() as stack:
        if metrics is not None:
            from genmix.callbacks.metrics import Metrics

            host, port = _address(metrics)
            served = stack.enter_context(Metrics(port, host))
            print_note(f"metrics are served on {served.url}")
            found.append(served)
        if otel:
            from genmix.callbacks.opentelemetry import OpenTelemetry, exporting_provider

            provider = stack.enter_context(exporting_provider(print_note))
            found.append(OpenTelemetry(provider))
        yield Watching(found) if log is None else Watching(found, log.note, is_logged=True)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise InputError(
            f"--metrics is {text!r}; pass a port from 0 to 65535, or HOST:PORT, e.g. 9464."
        )
    return host.strip("[]") or "127.0.0.1", int(port)
