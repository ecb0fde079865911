"""Trace a running study with OpenTelemetry."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from genmix.core.optional import require, require_all
from genmix.journal.watching import Report, Watcher
from genmix.study.secrets import exportable

if TYPE_CHECKING:
    from genmix.runs.timeline import Live

MODULES = (
    "opentelemetry.trace",
    "opentelemetry.sdk.resources",
    "opentelemetry.sdk.trace",
    "opentelemetry.sdk.trace.export",
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
)

EXPORT_SECONDS = 3.0
"""Maximum time to export the last spans at the end of a run."""


class OpenTelemetry(Watcher):
    """A callback that creates a span for every call to a generator, every embedded batch and every re-solve.

    The spans are named ``genmix.generate``, ``genmix.encode`` and ``genmix.solve``. They have the attributes
    ``genmix.run``, ``genmix.arm`` and ``genmix.tickets``. Errors are recorded without secrets. Spans that a
    generator or an encoder creates itself, e.g. of its HTTP requests, become their children.

    Parameters
    ----------
    provider : opentelemetry.trace.TracerProvider, optional
        Where spans go. Default: OpenTelemetry's global provider.

    Raises
    ------
    InputError
        If the ``opentelemetry-api`` package is not installed.

    Examples
    --------
    >>> import genmix as gx
    >>> from genmix.callbacks import OpenTelemetry
    >>> gx.run("study.yaml", callbacks=[OpenTelemetry()])  # doctest: +SKIP
    """

    def __init__(self, provider: Any = None) -> None:
        from genmix import __version__

        self._trace = require("opentelemetry.trace", extra="otel", what="OpenTelemetry()")
        self._tracer = self._trace.get_tracer("genmix", __version__, tracer_provider=provider)
        self._run = ""

    def __call__(self, live: Live) -> None:
        """Remember the name of the run."""
        self._run = self._run or live.folder.resolve().name

    @contextmanager
    def span(self, name: str, /, **values: Any) -> Iterator[Report]:
        found = {
            f"genmix.{key}": exportable(value) if isinstance(value, str) else value
            for key, value in ({"run": self._run} | values).items()
        }
        with self._tracer.start_as_current_span(f"genmix.{name}", attributes=found) as span:

            def report(error: Exception) -> None:
                message = exportable(str(error))
                span.add_event("exception", {"exception.message": message})
                span.set_status(self._trace.StatusCode.ERROR, message)

            yield report


@contextmanager
def exporting_provider(note: Callable[[str], None]) -> Iterator[Any]:
    """Provide the global provider if one is set up; otherwise one that exports with OTLP over HTTP.

    The standard environment variables apply, e.g. ``OTEL_EXPORTER_OTLP_ENDPOINT``. Only genmix's own provider
    is shut down at the end; ``note`` is called if its last spans could not be exported in time.
    """
    trace, resources, sdk, export, otlp = require_all(MODULES, extra="otel", what="--otel")
    if isinstance(found := trace.get_tracer_provider(), sdk.TracerProvider):
        yield found
        return
    name = os.environ.get("OTEL_SERVICE_NAME", "genmix")
    resource = resources.Resource.create({"service.name": name})
    provider = sdk.TracerProvider(resource=resource, shutdown_on_exit=False)
    exporter = otlp.OTLPSpanExporter()
    provider.add_span_processor(export.BatchSpanProcessor(exporter))
    try:
        yield provider
    finally:
        _close(provider, exporter, note)


def _close(provider: Any, exporter: Any, note: Callable[[str], None]) -> None:
    """Export the last spans. OpenTelemetry has no time limit for this, so it happens in a thread."""
    flushing = threading.Thread(target=provider.force_flush, name="genmix-otel", daemon=True)
    flushing.start()
    flushing.join(EXPORT_SECONDS)
    if not flushing.is_alive():
        provider.shutdown()  # nothing is left to export
        return
    note(
        f"the last spans could not be exported within {EXPORT_SECONDS:g} seconds; "
        "check OTEL_EXPORTER_OTLP_ENDPOINT and the collector."
    )
    # What its threads would still report comes after the end of genmix's own output.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL + 1)
    exporter.shutdown()  # ends the wait for the next attempt
