"""Trace a running study with OpenTelemetry."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from genmix.core.masking import mask
from genmix.core.optional import require, require_all
from genmix.journal.watching import Report, Watcher

if TYPE_CHECKING:
    from genmix.runs.timeline import Live

MODULES = (
    "opentelemetry.trace",
    "opentelemetry.sdk.resources",
    "opentelemetry.sdk.trace",
    "opentelemetry.sdk.trace.export",
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
)


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
        found = {f"genmix.{key}": value for key, value in values.items()}
        with self._tracer.start_as_current_span(
            f"genmix.{name}", attributes={"genmix.run": self._run} | found
        ) as span:

            def report(error: Exception) -> None:
                message = mask(str(error))
                span.add_event("exception", {"exception.message": message})
                span.set_status(self._trace.StatusCode.ERROR, message)

            yield report


def exporting_provider() -> Any:
    """Return the global provider if one is set up; otherwise one that exports with OTLP over HTTP.

    The standard environment variables apply, e.g. ``OTEL_EXPORTER_OTLP_ENDPOINT``.
    """
    trace, resources, sdk, export, otlp = require_all(MODULES, extra="otel", what="--otel")
    if isinstance(found := trace.get_tracer_provider(), sdk.TracerProvider):
        return found
    name = os.environ.get("OTEL_SERVICE_NAME", "genmix")
    provider = sdk.TracerProvider(resource=resources.Resource.create({"service.name": name}))
    provider.add_span_processor(export.BatchSpanProcessor(otlp.OTLPSpanExporter()))
    return provider
