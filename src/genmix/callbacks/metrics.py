"""Serve the metrics of a running study to Prometheus."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from genmix.callbacks.scrape_server import ScrapeServer
from genmix.core.optional import require
from genmix.journal.watching import Report, Watcher, ignore

if TYPE_CHECKING:
    from genmix.runs.result import Run
    from genmix.runs.timeline import Live

PATIENCE = 1.0
"""Seconds that a scrape waits for current values while the run is busy; then it gets the previous ones."""

SOLVE_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)

BY_ARM = {
    "genmix_samples": ("counter", "Samples told to the selector, including earlier sessions."),
    "genmix_failures": ("counter", "Failed attempts in this session."),
    "genmix_retries": ("counter", "Attempts that were repeated in this session."),
    "genmix_cost": ("counter", "Cost paid, including failures and earlier sessions."),
    "genmix_in_flight": ("gauge", "Tickets that were issued and are not finished."),
    "genmix_weight": ("gauge", "Weight in the mixture."),
}
"""Metrics with one value per arm."""


class Metrics(Watcher):
    """A callback that serves the metrics of a run in Prometheus' text format.

    The port is opened at once and closed at the end of the run; as a context manager, it is also closed
    if the run raises an error. A scrape reads the current values, or the previous ones if the run is
    busy for more than a second. Clients can neither change nor delay the run.

    Parameters
    ----------
    port : int
        The port to listen on; 0 picks a free one.
    host : str, default "127.0.0.1"
        The address to listen on. There is no access control: use another address only in a network that
        you trust.

    Attributes
    ----------
    url : str
        The address of the metrics.

    Raises
    ------
    InputError
        If the port is in use, or the ``prometheus-client`` package is not installed.

    Examples
    --------
    >>> import genmix as gx
    >>> from genmix.callbacks import Metrics
    >>> with Metrics(9464) as metrics:  # doctest: +SKIP
    ...     gx.run("study.yaml", callbacks=[metrics])
    """

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        client = require("prometheus_client", extra="metrics", what="Metrics()")
        self._families = client.metrics_core
        registry = client.CollectorRegistry()
        self._solves = client.Histogram(
            "genmix_resolve_seconds",
            "Time to add samples and re-solve the mixture.",
            buckets=SOLVE_SECONDS,
            registry=registry,
        )
        self._generation = client.Summary(
            "genmix_generation_seconds",
            "Time of the calls to a generator.",
            ["arm"],
            registry=registry,
        )
        self._encoding = client.Summary(
            "genmix_encoding_seconds", "Time of the batches of the encoder.", registry=registry
        )
        registry.register(self)
        self._retries: Counter[str] = Counter()
        self._latest: list[Any] = []
        self._is_wanted, self._has_arrived = threading.Event(), threading.Event()
        self._live: tuple[Live, asyncio.AbstractEventLoop] | None = None
        self._server = ScrapeServer.start(host, port, client.exposition.MetricsHandler, registry)
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._server.server_address[1]}/metrics"

    def __enter__(self) -> Metrics:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop serving. Closing again has no effect."""
        self._live = None
        self._server.stop()

    # -- what the run reports, in its own thread -------------------------------------------------

    def __call__(self, live: Live) -> None:
        """Take the current values if a client waits for them, and at the end of the run."""
        if self._live is None or self._live[0] is not live:
            self._live = live, asyncio.get_running_loop()
        elif not self._is_wanted.is_set() and live.loop.reason is None:
            return
        self._is_wanted.clear()
        self._latest = list(self._values(live))
        self._has_arrived.set()

    def event(self, name: str, /, **values: Any) -> None:
        if name == "retry":
            self._retries[values["arm"]] += 1

    @contextmanager
    def span(self, name: str, /, **values: Any) -> Iterator[Report]:
        start = time.perf_counter()
        yield ignore
        seconds = time.perf_counter() - start
        if name == "generate":
            self._generation.labels(values["arm"]).observe(seconds)
        else:
            {"encode": self._encoding, "solve": self._solves}[name].observe(seconds)

    def finish(self, run: Run) -> None:
        """Stop serving at the end of a run."""
        self.close()

    # -- what a scrape reads, in the thread of its connection -----------------------------------

    def collect(self) -> list[Any]:
        """Ask the run for its current values; return the previous ones if it is busy or has ended."""
        if (running := self._live) is not None:  # another thread may close it
            live, loop = running
            self._has_arrived.clear()
            self._is_wanted.set()
            with suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(live.loop.wake)
                self._has_arrived.wait(PATIENCE)
        return self._latest

    def _values(self, live: Live) -> Iterator[Any]:
        selector, loop = live.selector, live.loop
        # rate() misses the first failure if the series begins with it.
        none = dict.fromkeys(selector.counts, 0)
        found = {
            "genmix_samples": selector.counts,
            "genmix_failures": none | loop.failures,
            "genmix_retries": none | self._retries,
            "genmix_cost": loop.money.spent,
            "genmix_in_flight": none | Counter(ticket.arm for ticket in selector.in_flight),
            "genmix_weight": selector.mixture,
        }
        for name, (kind, text) in BY_ARM.items():
            yield self._family(kind, name, text, "arm", found[name])
        latest = live.timeline.latest
        for kind, text in (("score", "of the mixture"), ("pooled", "of all samples")):
            values = {k: v for k, v in (getattr(latest, kind, None) or {}).items() if v is not None}
            name = "genmix_score" if kind == "score" else "genmix_pooled_score"
            yield self._family("gauge", name, f"Score {text}.", "name", values)
        run = {live.folder.resolve().name: 1.0}
        yield self._family("gauge", "genmix_run_info", "The run folder.", "run", run)
        if math.isfinite(selector.gap):
            text = "Upper bound on how far the loss of the mixture is above the minimum."
            yield self._families.GaugeMetricFamily("genmix_gap", text, selector.gap)
        budget = live.study.budget.samples
        if budget is not None:
            text = "Samples that the run may generate."
            yield self._families.GaugeMetricFamily("genmix_budget_samples", text, budget)

    def _family(self, kind: str, name: str, text: str, label: str, values: Any) -> Any:
        families = self._families.CounterMetricFamily, self._families.GaugeMetricFamily
        family = families[kind == "gauge"](name, text, labels=[label])
        for key, value in values.items():
            family.add_metric([key], value)
        return family
