"""Clients that are silent, slow, many or guessing do not keep others from the dashboard."""

from __future__ import annotations

import logging
import os
import resource
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from genmix.dashboard import connections, event_stream, throttle
from genmix.dashboard.server import serve
from genmix.dashboard.throttle import MAX_FAILURES, Throttle, network_of
from genmix.errors import InputError
from tests.support.dashboard_runs import write_long_journal
from tests.support.dashboard_server import serving, wait_until

TOKEN = "a token that is long enough"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("clients")
    write_long_journal(root / "one", 200, dimension=2)
    return root


def connect(url: str, request: str = "") -> socket.socket:
    """A connection on which the beginning of a request, or nothing, has been sent."""
    address = urlsplit(url)
    client = socket.create_connection((address.hostname, address.port), timeout=30)
    client.sendall(request.encode())
    return client


def is_closed(client: socket.socket) -> bool:
    """Whether the server has closed the connection; anything that it sent before is dropped."""
    waiting = select.poll()  # unlike select.select, it works for any number of open files
    waiting.register(client, select.POLLIN)
    try:
        while waiting.poll(0):
            if not client.recv(65536):
                return True
    except OSError:
        return True
    return False


def get(url: str, path: str = "/", **options: Any) -> httpx.Response:
    return httpx.get(f"{url}{path}", timeout=60, verify=False, **options)


# -- connections -------------------------------------------------------------------------------------


def test_a_new_connection_replaces_the_one_that_was_silent_longest(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "connection_limit", lambda: 8)
    with serving(runs) as url, ExitStack() as stack:
        silent = [stack.enter_context(connect(url)) for _ in range(20)]
        wait_until(lambda: sum(map(is_closed, silent)) >= 12)
        assert get(url).status_code == 200
        assert not is_closed(silent[-1])


def test_a_stream_is_not_closed_for_silent_connections(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "connection_limit", lambda: 4)
    with serving(runs) as url, ExitStack() as stack:
        request = "GET /events/one HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        stream = stack.enter_context(connect(url, request))
        wait_until(lambda: b"event: state" in stream.recv(65536, socket.MSG_PEEK))
        silent = [stack.enter_context(connect(url)) for _ in range(12)]
        wait_until(lambda: sum(map(is_closed, silent)) >= 9)
        assert not is_closed(stream)


@pytest.mark.parametrize(
    "begin",
    [
        "",
        "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
        "POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nSec-Fetch-Site: same-origin\r\n"
        "Content-Length: 100\r\n\r\ntoken=",
    ],
    ids=["nothing", "half a header", "half a body"],
)
def test_whoever_does_not_finish_a_request_is_disconnected(
    runs: Path, monkeypatch: pytest.MonkeyPatch, begin: str
) -> None:
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.2)
    monkeypatch.setattr(connections, "SWEEP_INTERVAL", 0.05)
    with serving(runs, token=TOKEN) as url, connect(url, begin) as slow:
        wait_until(lambda: is_closed(slow))


def test_whoever_trickles_a_header_is_disconnected(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte is progress of a kind, but the time is for the whole request."""
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.3)
    monkeypatch.setattr(connections, "SWEEP_INTERVAL", 0.05)

    def trickle() -> bool:
        try:
            slow.sendall(b"x")
        except OSError:
            return True
        return is_closed(slow)

    with serving(runs) as url, connect(url, "GET / HTTP/1.1\r\nX: ") as slow:
        wait_until(trickle)


def test_whoever_does_not_read_is_disconnected(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "RESPONSE_SECONDS", 0.3)
    monkeypatch.setattr(connections, "SWEEP_INTERVAL", 0.05)
    (runs / "one" / "report.html").write_bytes(b"x" * 50_000_000)
    request = "GET /report/one HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with serving(runs) as url, connect(url, request) as lazy:
        states = lambda: Path("/proc/net/tcp").read_text()  # noqa: E731
        port = f":{lazy.getsockname()[1]:04X} "
        wait_until(
            lambda: sum(port in line and " 01 " in line for line in states().splitlines()) < 2
        )
        assert get(url).status_code == 200
    (runs / "one" / "report.html").unlink()


def test_an_answer_in_progress_is_not_late(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.1)
    monkeypatch.setattr(connections, "SWEEP_INTERVAL", 0.02)
    with (
        serving(runs) as url,
        httpx.stream("GET", f"{url}/events/one", timeout=60, verify=False) as stream,
    ):
        lines = stream.iter_lines()
        assert "event: state" in next(lines)
        time.sleep(0.5)
        assert not stream.is_closed
        assert get(url).status_code == 200


def test_a_connection_waits_only_since_its_last_response(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a client that polls on one connection is disconnected, and first when there are many."""
    made: list[connections.LimitedProtocol] = []
    connect_one = connections.LimitedProtocol.connection_made

    def record(self: connections.LimitedProtocol, transport: Any) -> None:
        connect_one(self, transport)
        made.append(self)

    monkeypatch.setattr(connections, "SWEEP_INTERVAL", 600.0)
    monkeypatch.setattr(connections.LimitedProtocol, "connection_made", record)
    with serving(runs) as url, httpx.Client(verify=False) as client:
        for _ in range(3):
            before = time.monotonic()
            assert client.get(url).status_code == 200
            wait_until(lambda before=before: made[0].waiting_since > before)
    assert len(made) == 1


def test_the_limit_follows_the_limit_on_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = connections.MAX_CONNECTIONS + 2 * connections.RESERVED_FILES
    infinity, changed = resource.RLIM_INFINITY, []
    monkeypatch.setattr(resource, "setrlimit", lambda kind, limits: changed.append(limits))
    for limits, connections_allowed in {
        (1024, 4096): connections.MAX_CONNECTIONS,
        (256, 4096): connections.MAX_CONNECTIONS,
        (256, infinity): connections.MAX_CONNECTIONS,
        (infinity, infinity): connections.MAX_CONNECTIONS,
        (64, 128): 48,
        (20, 20): 1,
    }.items():
        monkeypatch.setattr(resource, "getrlimit", lambda kind, limits=limits: limits)
        assert connections.connection_limit() == connections_allowed
    assert changed == [(wanted, 4096), (wanted, infinity), (128, 128), (20, 20)]


def test_a_failure_to_accept_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    import asyncio

    async def fail_often() -> None:
        loop = asyncio.get_running_loop()
        connections.log_exhaustion_once(loop)
        for _ in range(2000):
            error = OSError(24, "Too many open files")
            loop.call_exception_handler({"message": "accept", "exception": error})

    connections.logger.addFilter(once := connections.LogOnce())
    try:
        with caplog.at_level(logging.ERROR):
            connections.logger.propagate, before = True, connections.logger.propagate
            asyncio.run(fail_often())
    finally:
        connections.logger.removeFilter(once)
        connections.logger.propagate = before
    assert [r.exc_info for r in caplog.records] == [None]
    assert "Too many open files" in caplog.text


# -- event streams -----------------------------------------------------------------------------------


def test_too_many_streams_are_refused_until_one_is_closed(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "MAX_STREAMS", 2)
    with serving(runs) as url:
        with ExitStack() as stack:
            for _ in range(2):
                request = "GET /events/one HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
                stream = stack.enter_context(connect(url, request))
                assert b"200 OK" in stream.recv(65536)
            refused = get(url, "/events/one")
            assert refused.status_code == 503
            assert refused.headers["retry-after"] == str(event_stream.RETRY_AFTER)
            assert "open event streams" in refused.json()["error"]
            assert get(url, "/state/one").json()["samples"] == 200  # what the page does instead

        def is_accepted() -> bool:
            with httpx.stream("GET", f"{url}/events/one", timeout=60, verify=False) as stream:
                return stream.status_code == 200

        wait_until(is_accepted)


def test_streams_of_one_run_share_a_reader(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    reads: list[str] = []

    def read(name: str) -> dict[str, Any]:
        reads.append(name)
        time.sleep(0.05)
        return {"name": name}

    async def follow() -> list[dict[str, Any]]:
        streams = event_stream.EventStreams(read, lambda: False)
        return await asyncio.gather(*(streams._shared("ab"[i % 2]) for i in range(20)))

    assert [found["name"] for found in asyncio.run(follow())] == ["a", "b"] * 10
    assert sorted(reads) == ["a", "b"]


# -- tokens ------------------------------------------------------------------------------------------


def test_whoever_guesses_tokens_has_to_wait(runs: Path) -> None:
    page = {"sec-fetch-site": "same-origin"}
    guesses: list[Callable[[str, str], httpx.Response]] = [
        lambda url, token: get(url, "/runs", params={"token": token}),
        lambda url, token: get(url, "/runs", headers={"authorization": f"Bearer {token}"}),
        lambda url, token: httpx.post(
            f"{url}/login", data={"token": token}, headers=page, timeout=60, verify=False
        ),
    ]
    with serving(runs, token=TOKEN) as url, httpx.Client(verify=False) as browser:
        assert browser.get(f"{url}/", params={"token": TOKEN}).status_code == 303
        codes = [guesses[i % 3](url, f"guess {i}").status_code for i in range(MAX_FAILURES + 3)]
        assert codes == [401] * MAX_FAILURES + [429] * 3
        for guess in guesses:  # even if the next guess is right
            answer = guess(url, TOKEN)
            assert answer.status_code == 429
            assert 0 < int(answer.headers["retry-after"]) <= 60
        assert "try again in" in answer.json()["error"]
        assert browser.get(f"{url}/runs").status_code == 200  # whoever is logged in stays so
        shown = get(url, params={"token": "x"}, headers={"accept": "text/html"})
        assert "Too many wrong tokens" in shown.text


def test_repeating_a_wrong_token_is_one_guess(runs: Path) -> None:
    """A page with an old link must not lock its own user out."""
    with serving(runs, token=TOKEN) as url:
        for _ in range(2 * MAX_FAILURES):
            assert get(url, "/runs", params={"token": "old"}).status_code == 401
        assert get(url, "/runs", params={"token": TOKEN}).status_code == 303


def test_a_cookie_cannot_be_computed_from_a_guess(runs: Path) -> None:
    with serving(runs, token=TOKEN) as one, serving(runs, token=TOKEN) as other:
        cookies = {get(url, params={"token": TOKEN}).headers["set-cookie"] for url in (one, other)}
        values = {cookie.partition("=")[2].partition(";")[0] for cookie in cookies}
    assert len(values) == 2
    assert min(map(len, values)) >= 40


def test_old_guesses_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(throttle.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(throttle, "MAX_CLIENTS", 100)
    guesses = Throttle()
    for i in range(MAX_FAILURES):
        guesses.record_failure("10.0.0.1", f"{i}")
        now[0] += 1
    assert guesses.seconds_to_wait("10.0.0.1") == pytest.approx(60 - MAX_FAILURES)
    assert guesses.seconds_to_wait("10.0.0.2") == 0
    now[0] += 60 - MAX_FAILURES
    assert guesses.seconds_to_wait("10.0.0.1") == 0
    for i in range(1000):
        guesses.record_failure(f"10.1.{i // 250}.{i % 250}", "x")
    assert len(guesses._failures) == 100


@pytest.mark.parametrize(
    "client, network",
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3::9", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("testclient", "testclient"),
    ],
)
def test_clients_are_told_apart_by_their_network(client: str, network: str) -> None:
    assert network_of(client) == network


@pytest.mark.parametrize("token", ["x", "fifteen letters", "  short         "])
def test_short_tokens_are_for_this_machine_only(tmp_path: Path, token: str) -> None:
    with pytest.raises(InputError, match=r"fewer than 16 characters; choose a longer one"):
        serve([str(tmp_path)], "0.0.0.0", 0, token)
    with serving(tmp_path, token=token.strip()) as url:
        assert get(url, params={"token": token.strip()}).status_code == 303


# -- the drill ---------------------------------------------------------------------------------------


@contextmanager
def dashboard_process(runs: Path, log: Path) -> Iterator[str]:
    """The command in a process of its own, with the usual limit of 1,024 open files."""

    def limit_files() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))

    command = [sys.executable, "-m", "genmix", "dashboard", str(runs), "--port", "0"]
    with log.open("wb") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, preexec_fn=limit_files
        )
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip().rstrip("/")
        finally:
            process.terminate()
            process.wait(20)
            process.stdout.close()


@contextmanager
def attack(url: str, silent: int, streams: int) -> Iterator[Callable[[], int]]:
    """Open this many silent connections and event streams, and replace those that the server closes.

    At most 100 per second are replaced, because a flood would measure this process instead. Yield a
    counter of all connections made.
    """
    request = "GET /events/one HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    made, is_over = [0], threading.Event()
    begun = [threading.Event(), threading.Event()]

    def keep_open(count: int, what: str, ready: threading.Event) -> None:
        held: list[socket.socket] = []
        while not is_over.is_set():
            if len(held) == count:
                ready.set()
                lost = [client for client in held if is_closed(client)][:50]
                for client in lost:
                    held.remove(client)
                    client.close()
                is_over.wait(1.0)
            else:
                try:
                    held.append(connect(url, what))
                    made[0] += 1
                except OSError:
                    is_over.wait(0.05)
        for client in held:
            client.close()

    threads = [
        threading.Thread(target=keep_open, args=(silent, "", begun[0])),
        threading.Thread(target=keep_open, args=(streams, request, begun[1])),
    ]
    for thread in threads:
        thread.start()
    try:
        for ready in begun:
            assert ready.wait(120)
        yield lambda: made[0]
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


@pytest.mark.long
def test_the_page_answers_during_an_attack(runs: Path, tmp_path: Path) -> None:
    # The attack itself holds 2,100 connections open in this process. The tests above make the same
    # checks with a few connections on any machine.
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 4096:
        pytest.skip(
            "the attack needs 4,096 open files, and the hard limit of this machine is lower"
        )
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    )
    log, waits = tmp_path / "stderr", []
    with dashboard_process(runs, log) as url:
        assert get(url).status_code == 200
        with attack(url, silent=1100, streams=1000) as made:
            end = time.monotonic() + 25
            while time.monotonic() < end:
                for path in ("/", "/run/one", "/runs"):
                    begin = time.monotonic()
                    assert get(url, path).status_code == 200
                    waits.append(time.monotonic() - begin)
                time.sleep(0.2)
            count = made()
        assert get(url).status_code == 200
    print(
        f"{count} hostile connections; {len(waits)} pages, slowest {max(waits):.3f} s, "
        f"{os.stat(log).st_size} bytes logged"
    )
    assert max(waits) < 1.0
    assert os.stat(log).st_size < 10_000
