"""A dashboard server in a thread of the test."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from genmix.dashboard.app import make_app
from genmix.dashboard.security import Access
from genmix.dashboard.server import listen


@contextmanager
def serving(root: Path, token: str | None = None, host: str = "127.0.0.1") -> Iterator[str]:
    """Yield its URL, without a trailing slash."""
    listening = listen("127.0.0.1", 0)
    port = listening.getsockname()[1]
    servers: list[uvicorn.Server] = []
    app = make_app(root, Access(host, port, token), lambda: servers[0].should_exit)
    servers.append(uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)))
    thread = threading.Thread(target=servers[0].run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not servers[0].started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        servers[0].should_exit = True
        thread.join(10)
        listening.close()
        assert not thread.is_alive()


def wait_until(condition: object, seconds: float = 60.0) -> None:
    """Wait for a condition. Only a failing test waits the full time."""
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition never became true"
        time.sleep(0.05)
