"""Metrics, JSON logs and spans of real runs, as the tools that read them see them."""

from __future__ import annotations

import faulthandler
import http.server
import io
import json
import math
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

import genmix as gx
from genmix.callbacks import JsonLog, Metrics, OpenTelemetry
from genmix.callbacks.json_log import MAX_LINE
from genmix.callbacks.opentelemetry import exporting_provider
from genmix.callbacks.scrape_server import CLIENT_INTERVAL, MAX_CLIENTS
from genmix.cli import app
from genmix.core.masking import remember_secret
from genmix.journal.watching import Watcher
from tests.support.report_runs import feature_run


@pytest.fixture(autouse=True)
def _without_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENMIX_REPORT", "off")


Numbers = dict[str, dict[tuple[str, ...], float]]


def scraped(url: str) -> Numbers:
    """What Prometheus reads: metric name -> label values -> number."""
    with urllib.request.urlopen(url, timeout=30) as page:
        assert page.headers["Content-Type"].startswith("text/plain")
        text = page.read().decode()
    found: Numbers = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


def writing_study(**more: Any) -> dict[str, Any]:
    """Two arms that write, one of which fails at first on every fifth seed."""
    seen: set[int] = set()

    def good(seeds: list[int]) -> list[str]:
        return [f"good {seed}" for seed in seeds]

    def shaky(seeds: list[int]) -> list[str]:
        if seeds[0] % 5 == 4 and seeds[0] not in seen:
            seen.add(seeds[0])
            raise OSError("the key is s3cr3t-passphrase")
        return [f"shaky {seed}" for seed in seeds]

    def encoder(samples: Any) -> Any:
        return np.array([[len(t) % 3, 1.0, sum(map(ord, t)) % 7] for t in samples])

    study = {
        "name": "letters",
        "arms": {"good": good, "shaky": {"function": shaky, "price": 0.25}},
        "encoder": encoder,
        "objective": "vendi",
        "budget": {"samples": 60},
        "retries": {"first_wait": 0.001, "give_up": 20},
    }
    return study | more


class Last:
    """Scrapes at the end of a run, in its thread; the values were taken just before."""

    found: Numbers

    def __init__(self, metrics: Metrics, monkeypatch: pytest.MonkeyPatch) -> None:
        self._metrics, self._monkeypatch = metrics, monkeypatch

    def __call__(self, live: Any) -> None:
        if live.loop.reason is not None and not live.selector.in_flight:
            self._metrics(live)
            self._monkeypatch.setattr("genmix.callbacks.metrics.PATIENCE", 0.0)
            Last.found = scraped(self._metrics.url)


def test_prometheus_reads_a_run_while_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("genmix.callbacks.metrics.PATIENCE", 60.0)
    seen: list[tuple[int, Numbers]] = []
    readers: list[threading.Thread] = []
    study = writing_study()
    write = study["arms"]["good"]

    def patient(seeds: list[int]) -> list[str]:
        for reader in readers:
            reader.join()  # the run does not end before it was scraped
        return write(seeds)

    def start_reader(live: Any) -> None:
        if live.told >= 30 and not readers:
            told = live.told
            read = threading.Thread(target=lambda: seen.append((told, scraped(metrics.url))))
            read.start()
            readers.append(read)

    with Metrics(0) as metrics:
        assert metrics.url.startswith("http://127.0.0.1:")
        assert scraped(metrics.url)["genmix_resolve_seconds_count"][()] == 0  # before the run
        callbacks = [metrics, start_reader, Last(metrics, monkeypatch)]
        run = gx.run(
            study | {"arms": study["arms"] | {"good": patient}},
            tmp_path / "run",
            callbacks=callbacks,
        )
        assert not readers[0].is_alive()
    [(told, found)] = seen
    samples = found["genmix_samples_total"]
    assert {arm for (arm,) in samples} == {"good", "shaky"}
    assert 60 > sum(samples.values()) >= told
    assert found["genmix_budget_samples"][()] == 60
    assert sum(found["genmix_weight"].values()) == pytest.approx(1)
    assert found["genmix_run_info"][("run",)] == 1
    assert sum(found["genmix_in_flight"].values()) <= 8

    last = Last.found
    assert {arm: n for (arm,), n in last["genmix_samples_total"].items()} == run.counts
    failures = run.summary["failures"]["shaky"]
    assert failures >= 1
    assert last["genmix_failures_total"] == {("good",): 0, ("shaky",): failures}
    assert last["genmix_retries_total"] == {("good",): 0, ("shaky",): failures}
    assert last["genmix_in_flight"] == {("good",): 0, ("shaky",): 0}
    assert last["genmix_cost_total"][("shaky",)] == pytest.approx(run.summary["cost"])
    assert last["genmix_pooled_score"][("vendi",)] > 1
    assert last["genmix_score"][("vendi",)] > 1
    assert 0 <= last["genmix_gap"][()] < math.inf
    assert last["genmix_resolve_seconds_count"][()] >= 1
    assert last["genmix_resolve_seconds_sum"][()] > 0
    calls = last["genmix_generation_seconds_count"]
    assert sum(calls.values()) >= 60
    assert last["genmix_encoding_seconds_count"][()] >= 1
    with pytest.raises(OSError, match="refused"):
        scraped(metrics.url)  # the port is closed with the run


def test_a_port_in_use_is_one_sentence_before_anything_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        with pytest.raises(gx.InputError, match=rf"port {port} \(.*in use\); choose another port"):
            Metrics(port)
        out = tmp_path / "run"
        done = genmix("run", study_file(tmp_path), "--out", out, "--metrics", port)
        assert done.exit_code == 2
        assert done.stderr.count("\n") == 1
        assert done.stderr.startswith(f"genmix: could not serve metrics on 127.0.0.1 port {port}")
        assert not out.exists()
    bad = genmix("run", study_file(tmp_path), "--metrics", "many")
    assert "--metrics is 'many'; pass a port" in bad.stderr


@pytest.mark.parametrize("command", ["run", "resume"])
def test_a_wrong_folder_is_refused_before_metrics_are_served(command: str, tmp_path: Path) -> None:
    out = tmp_path / "taken"
    out.mkdir()
    (out / "notes.txt").touch()
    given = (study_file(tmp_path), "--out", out) if command == "run" else (out,)
    refused = genmix(command, *given, "--metrics", 0)
    assert refused.exit_code == 2
    assert "metrics are served" not in refused.stderr
    words = "contains other files (notes.txt)" if command == "run" else "is not a run folder"
    assert words in refused.stderr


def test_bad_clients_disturb_neither_the_run_nor_prometheus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent: list[socket.socket] = []

    class Rude:
        def __call__(self, live: Any) -> None:
            if live.told >= 20 and not silent:
                address = ("127.0.0.1", int(metrics.url.split(":")[2].split("/")[0]))
                silent.extend(socket.create_connection(address) for _ in range(MAX_CLIENTS - 2))
                rude = socket.create_connection(address)
                rude.sendall(b"\x16\x03\x01 nonsense\r\n\r\n")
                rude.close()

    with Metrics(0) as metrics:
        run = feature_run(tmp_path, 60, callbacks=[metrics, Rude(), Last(metrics, monkeypatch)])
    assert run.status == "finished"
    assert sum(Last.found["genmix_samples_total"].values()) == 60
    for each in silent:
        each.close()


def test_a_run_does_not_wait_for_clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither for 200 silent ones, nor for one that never reads an answer too large for the buffers."""
    monkeypatch.setattr("genmix.callbacks.scrape_server.CLIENT_SECONDS", 3600.0)
    monkeypatch.setattr("genmix.callbacks.metrics.PATIENCE", 3600.0)
    clients: list[socket.socket] = []
    is_answering = threading.Event()
    collect = Metrics.collect

    def large(self: Metrics) -> list[Any]:
        family = self._families.GaugeMetricFamily("large", "", labels=["n"])
        for n in range(500):
            family.add_metric([f"{n}" + 100_000 * "x"], n)
        found = [*collect(self), family]
        is_answering.set()
        return found

    class Rude:
        def __call__(self, live: Any) -> None:
            if live.told >= 20 and not clients:
                address = ("127.0.0.1", int(metrics.url.split(":")[2].split("/")[0]))
                clients.append(socket.create_connection(address))
                clients[0].sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
                clients.extend(socket.create_connection(address) for _ in range(200))
            if live.told >= 30:
                assert is_answering.wait(600)

    monkeypatch.setattr(Metrics, "collect", large)
    with Metrics(0) as metrics:
        run = feature_run(tmp_path, 60, callbacks=[metrics, Rude()])
    assert run.status == "finished"
    for each in clients:
        each.close()


def test_clients_are_answered_one_after_another() -> None:
    """Many requests leave time for the run."""
    with Metrics(0) as metrics:
        start = time.perf_counter()
        for _ in range(20):
            scraped(metrics.url)
        assert time.perf_counter() - start >= 19 * CLIENT_INTERVAL


def test_metrics_of_a_busy_run_are_the_previous_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scrape during a long solve does not wait for it."""
    monkeypatch.setattr("genmix.callbacks.metrics.PATIENCE", 0.01)
    found: list[Numbers] = []

    class Busy:
        def __call__(self, live: Any) -> None:
            if live.told >= 20 and not found:
                found.append(scraped(metrics.url))  # blocks the thread of the run meanwhile

    with Metrics(0) as metrics:
        feature_run(tmp_path, 40, callbacks=[metrics, Busy()])
    assert sum(found[0]["genmix_samples_total"].values()) <= 20


def study_file(folder: Path) -> Path:
    rows = np.random.default_rng(0).normal(size=(2, 60, 3))
    for name, each in zip("ab", rows, strict=True):
        np.save(folder / f"{name}.npy", each)
    arms = "".join(f"  {n}: {{kind: recorded, path: {n}.npy}}\n" for n in "ab")
    path = folder / "study.yaml"
    path.write_text(f"name: t\narms:\n{arms}objective: vendi\nbudget: {{samples: 40}}\n")
    return path


def genmix(*arguments: Any) -> Result:
    return CliRunner(env={"GENMIX_REPORT": "off"}).invoke(app, list(map(str, arguments)))


# -- JSON lines --------------------------------------------------------------------------------------


def test_every_line_on_stderr_is_a_json_object(tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = genmix("run", study_file(tmp_path), "--out", out, "--log-json", "--metrics", 0)
    assert done.exit_code == 0, done.stderr
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert all({"time", "level", "event"} <= set(line) for line in lines)
    names = [line["event"] for line in lines]
    assert names.count("sample") == 40
    assert names[-1] == "exit"
    assert {"note", "start", "progress", "finished"} <= set(names)
    [metrics] = [line for line in lines if "metrics are served" in line.get("message", "")]
    assert "http://127.0.0.1:" in metrics["message"]
    [last] = [line for line in lines if line["event"] == "finished"]
    assert last["level"] == "info"
    progress = [line for line in lines if line["event"] == "progress"]
    assert progress[-1]["samples"] == 40
    assert "Report" not in done.stdout  # the result is still a table on stdout
    assert "vendi" in done.stdout


def test_errors_are_json_objects_too(tmp_path: Path) -> None:
    done = genmix("run", tmp_path / "missing.yaml", "--log-json")
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert done.exit_code == 2
    assert "missing.yaml" in lines[0]["message"]
    assert lines[-1] == lines[-1] | {"event": "exit", "level": "error", "code": 2}
    assert "missing.yaml" in lines[-1]["message"]


def test_failures_and_retries_are_logged_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("genmix.core.masking._forms", ())
    remember_secret("s3cr3t-passphrase")
    stream = io.StringIO()
    gx.run(writing_study(), tmp_path / "run", callbacks=[JsonLog(stream)])
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    failures = [line for line in lines if line["event"] == "failure"]
    retries = [line for line in lines if line["event"] == "retry"]
    assert len(failures) == len(retries) >= 1
    assert all(line["arm"] == "shaky" and line["level"] == "warning" for line in failures)
    assert all("***" in line["message"] for line in failures)
    assert all(line["seconds"] > 0 for line in retries)
    assert "s3cr3t" not in stream.getvalue()


def test_a_suspension_is_not_called_a_retirement(tmp_path: Path) -> None:
    def broken(seeds: list[int]) -> list[str]:
        raise OSError("down")

    study = writing_study(retries={"attempts": 1, "suspend_after": 1, "probe_after": 1000})
    study["arms"]["shaky"] = broken
    stream = io.StringIO()
    with pytest.warns(UserWarning, match="never delivered a sample"):
        run = gx.run(study, tmp_path / "run", callbacks=[JsonLog(stream)])
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["arm"] for line in lines if line["event"] == "suspend"] == ["shaky"]
    assert all(line["event"] != "retire" for line in lines)
    assert (run.summary["suspended"], run.summary["retired"]) == (["shaky"], [])


def test_what_python_code_prints_becomes_events() -> None:
    stream = io.StringIO()
    log = JsonLog(stream)
    with log.capturing():
        print("first\nsecond", file=sys.stderr)
        sys.stderr.write("no end of line")
        log.event("odd", value=float("nan"), thing=Path("x"), none=None)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line.get("message") for line in lines] == ["first", "second", None, "no end of line"]
    assert lines[2]["value"] is None
    assert lines[2]["thing"] == "x"
    assert "none" not in lines[2]


def captured(write: Callable[[], object]) -> list[str]:
    """The messages of what is written to stderr."""
    stream = io.StringIO()
    log = JsonLog(stream)
    with log.capturing():
        write()
    return [json.loads(line)["message"] for line in stream.getvalue().splitlines()]


def test_a_progress_bar_is_logged_line_by_line() -> None:
    def write() -> None:
        for n in range(3):
            sys.stderr.write(f"\r{n}/3")
        sys.stderr.write("\r\ndone\r\n")

    assert captured(write) == ["0/3", "1/3", "2/3", "done"]


def test_a_line_without_end_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its memory and time are limited as well, and a secret at the cut is not revealed."""
    monkeypatch.setattr("genmix.core.masking._forms", ())
    remember_secret("s3cr3t-passphrase")
    sizes: list[int] = []

    def write() -> None:
        for n in range(500):
            sys.stderr.write(f"{n} s3cr3t-passphrase " * 200)
            sizes.append(len(sys.stderr.buffer._rest))

    [message] = captured(write)
    assert MAX_LINE // 2 < len(message) <= MAX_LINE
    assert message.endswith("499 ***")
    assert "s3c" not in message
    assert "phrase" not in message
    assert max(sizes) < 10 * MAX_LINE


def test_captured_stderr_works_like_a_file(capfd: pytest.CaptureFixture[str]) -> None:
    def write() -> None:
        sys.stderr.buffer.write("bytes: é\n".encode())
        print("text: é \udcff", file=sys.stderr)
        assert sys.stderr.encoding == "utf-8"
        assert not sys.stderr.isatty()  # no colors in the log
        assert sys.stderr.fileno() == number
        code = "import sys; print('child', file=sys.stderr)"
        subprocess.run([sys.executable, "-c", code], stderr=sys.stderr, check=True)
        faulthandler.dump_traceback(all_threads=False)

    number = sys.stderr.fileno()
    assert captured(write) == ["bytes: é", "text: é \\udcff"]
    written = capfd.readouterr().err  # a file descriptor cannot be captured
    assert written.startswith("child\n")
    assert "most recent call first" in written


def test_threads_write_whole_lines() -> None:
    def write() -> None:
        def work(name: str) -> None:
            for n in range(200):
                sys.stderr.write(f"{name} {n}\n{name} again {n}\n")

        threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    found = captured(write)
    for name in "abcd":
        own = [line for line in found if line.startswith(f"{name} ")]
        assert own == [f"{name}{kind} {n}" for n in range(200) for kind in ("", " again")]
    assert len(found) == 4 * 400


def test_a_finalizer_may_write_while_a_line_is_written() -> None:
    class Stream(io.StringIO):
        depth = 0

        def flush(self) -> None:
            if self.depth == 0:
                self.depth = 1
                print("from a finalizer", file=sys.stderr)

    stream = Stream()
    with JsonLog(stream).capturing():
        print("first", file=sys.stderr)
    messages = [json.loads(line)["message"] for line in stream.getvalue().splitlines()]
    assert messages == ["first", "from a finalizer"]


# -- spans -------------------------------------------------------------------------------------------


def test_spans_of_generation_and_encoding(tmp_path: Path) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    inner = provider.get_tracer("user")
    study = writing_study(budget={"samples": 30})
    write = study["arms"]["good"]

    def traced(seeds: list[int]) -> list[str]:
        with inner.start_as_current_span("request"):
            return write(seeds)

    study["arms"]["good"] = traced
    gx.run(study, tmp_path / "run", callbacks=[OpenTelemetry(provider)])
    spans = exporter.get_finished_spans()
    calls = [span for span in spans if span.name == "genmix.generate"]
    batches = [span for span in spans if span.name == "genmix.encode"]
    generated = [
        t for span in calls if span.status.is_ok for t in span.attributes["genmix.tickets"]
    ]
    encoded = [ticket for span in batches for ticket in span.attributes["genmix.tickets"]]
    assert sorted(generated) == sorted(encoded)
    assert len(set(encoded)) >= 30
    assert {span.attributes["genmix.arm"] for span in calls} == {"good", "shaky"}
    assert {span.attributes["genmix.run"] for span in batches} == {"run"}
    failed = [span for span in calls if not span.status.is_ok]
    assert len(failed) >= 1
    assert "OSError" in failed[0].status.description
    ids = {span.context.span_id for span in calls if span.attributes["genmix.arm"] == "good"}
    children = [span for span in spans if span.name == "request"]
    assert children
    assert all(span.parent.span_id in ids for span in children)


def test_spans_hide_what_the_log_hides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Known secrets, and lines that look like one."""
    monkeypatch.setattr("genmix.core.masking._forms", ())
    remember_secret("s3cr3t-passphrase")
    error = OSError(
        "tried s3cr3t-passphrase\n401, Authorization: Bearer sk-abcdefghij0123456789\nend"
    )
    exporter, provider, stream = InMemorySpanExporter(), TracerProvider(), io.StringIO()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    arm = "api_key=abcdefghij0123456789"
    with OpenTelemetry(provider).span("generate", arm=arm, tickets=[1, 2]) as report:
        report(error)
    JsonLog(stream).event("failure", arm=arm, message=str(error))
    [span], logged = exporter.get_finished_spans(), json.loads(stream.getvalue())
    assert logged["message"].splitlines()[::2] == ["tried ***", "end"]
    assert "sk-" not in logged["message"]
    assert span.status.description == logged["message"]
    assert [e.attributes["exception.message"] for e in span.events] == [logged["message"]]
    assert span.attributes["genmix.arm"] == logged["arm"] != arm
    assert span.attributes["genmix.tickets"] == (1, 2)


def test_nothing_is_imported_unless_it_is_asked_for(tmp_path: Path) -> None:
    code = (
        "import sys; from genmix.callbacks import *; from genmix.cli import app\n"
        f"try: app(['run', {str(study_file(tmp_path))!r}, '--out', 'r', '--quiet'])\n"
        "except SystemExit: pass\n"
        "print([m for m in sys.modules if m.startswith(('opentelemetry', 'prometheus'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | {"GENMIX_REPORT": "off"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_otlp_reaches_a_collector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command exports to the endpoint that the standard variable names."""
    received: list[tuple[str, int]] = []

    class Collector(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append((self.path, len(body)))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        endpoint = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        done = genmix("run", study_file(tmp_path), "--out", tmp_path / "run", "--otel")
        server.shutdown()
    assert done.exit_code == 0, done.stderr
    assert "could not be exported" not in done.stderr
    assert received  # all spans are exported when the command ends
    assert all(path == "/v1/traces" and size > 0 for path, size in received)


OTEL_RUN = """
import sys
from genmix.callbacks import opentelemetry
opentelemetry.EXPORT_SECONDS = 0.5
from genmix.cli import app
app(["run", *sys.argv[1:], "--otel", "--log-json", "--quiet"])
"""


@pytest.mark.parametrize("is_open", [True, False])
def test_a_collector_that_is_down_neither_delays_the_end_nor_prints_after_it(
    tmp_path: Path, is_open: bool
) -> None:
    """Whether it refuses connections, or accepts them and never replies."""
    with socket.create_server(("127.0.0.1", 0)) as collector:
        port = collector.getsockname()[1]
        if not is_open:
            collector.close()
        variables = {
            "GENMIX_REPORT": "off",
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "600",
        }
        study = [str(study_file(tmp_path)), "--out", str(tmp_path / "run")]
        done = subprocess.run(
            [sys.executable, "-c", OTEL_RUN, *study],
            env=os.environ | variables,
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        )
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert lines[-1] == lines[-1] | {"event": "exit", "code": 0}
    [told] = [line for line in lines if "the last spans could not" in line.get("message", "")]
    assert "within 0.5 seconds; check OTEL_EXPORTER_OTLP_ENDPOINT" in told["message"]


def test_a_provider_that_the_user_configured_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr("opentelemetry.trace.get_tracer_provider", lambda: provider)
    with exporting_provider(pytest.fail) as found:
        assert found is provider
    with provider.get_tracer("user").start_as_current_span("later"):
        pass
    assert [span.name for span in exporter.get_finished_spans()] == ["later"]


# -- watchers ----------------------------------------------------------------------------------------


def test_a_watcher_that_fails_is_dropped(tmp_path: Path) -> None:
    class Bad(Watcher):
        calls = 0

        def event(self, name: str, /, **values: Any) -> None:
            self.calls += 1
            raise ConnectionError("away")

    class BadSpan(Watcher):
        def span(self, name: str, /, **values: Any) -> Any:
            raise ConnectionError("no span")

    bad, stream = Bad(), io.StringIO()
    with pytest.warns(RuntimeWarning, match="stopped watching this run") as told:
        run = feature_run(tmp_path, 40, callbacks=[bad, BadSpan(), JsonLog(stream)])
    assert run.status == "finished"
    assert bad.calls == 1
    assert len(told) == 2
    assert stream.getvalue().count('"event": "sample"') == 40


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, make in (
        ("prometheus_client", lambda: Metrics(0)),
        ("opentelemetry", OpenTelemetry),
    ):
        for name in [m for m in sys.modules if m == module or m.startswith(f"{module}.")]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(gx.InputError, match="install it with pip install"):
            make()
