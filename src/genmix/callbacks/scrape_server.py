"""A small HTTP server for one kind of page, in threads that a bad client cannot exhaust."""

from __future__ import annotations

import socket
import threading
import time
from http.server import ThreadingHTTPServer
from typing import Any

from genmix.core.listening import cannot_listen

MAX_CLIENTS = 16
"""Maximum number of clients at the same time; others are disconnected."""

CLIENT_SECONDS = 5.0
"""A client that is silent for this long is disconnected."""

CLIENT_INTERVAL = 0.02
"""Seconds between clients, so that many requests take little time from the run."""


class ScrapeServer(ThreadingHTTPServer):
    """Answers a limited number of clients at the same time."""

    daemon_threads = True
    request_queue_size = 128  # clients that wait for their turn

    def __init__(self, *arguments: Any) -> None:
        self._free = threading.Semaphore(MAX_CLIENTS)
        self._is_open = True
        super().__init__(*arguments)

    @classmethod
    def start(cls, host: str, port: int, handler: Any, registry: Any) -> ScrapeServer:
        """Serve the metrics of a registry in a thread; ``handler`` is Prometheus' own class."""
        settings = {"registry": registry, "timeout": CLIENT_SECONDS}
        try:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            kind: Any = type("ScrapeServer", (cls,), {"address_family": family})
            server: ScrapeServer = kind((host, port), type("Handler", (handler,), settings))
        except (OSError, OverflowError) as error:
            raise cannot_listen("serve metrics", host, port, error) from error
        threading.Thread(target=server.serve_forever, name="genmix-metrics", daemon=True).start()
        return server

    def stop(self) -> None:
        """Close the port. Stopping again has no effect."""
        if self._is_open:
            self._is_open = False
            self.shutdown()
            self.server_close()

    def server_bind(self) -> None:
        """Bind without looking up the name of this machine, which can take seconds."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)
        time.sleep(CLIENT_INTERVAL)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect or send nonsense."""
