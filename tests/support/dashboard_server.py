"""A dashboard server in a thread of the test."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from genmix.dashboard.server import listen, make_server


@contextmanager
def serving(
    root: Path | Mapping[str, Path], token: str | None = None, host: str = "127.0.0.1"
) -> Iterator[str]:
    """Yield its URL, without a trailing slash."""
    listening = listen("127.0.0.1", 0)
    port = listening.getsockname()[1]
    server = make_server(listening, root, host, token)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
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
