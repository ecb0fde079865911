"""A small real server with an OpenAI-style embeddings endpoint, under the control of a test."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

KEY = "sk-test-3141592653589793"


def vector_of(text: str, dimension: int) -> list[float]:
    """A vector that only the text decides."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
    return np.random.default_rng(seed).standard_normal(dimension).tolist()


class EmbeddingsServer:
    """Answers rightly, unless ``plan`` holds something else for the next request."""

    def __init__(self, key: str | None = None) -> None:
        self.key = key
        self.plan: deque[tuple[int, dict[str, str], bytes]] = deque()
        self.requests: list[dict[str, Any]] = []
        self.dimension = 8
        self.url = ""

    def fail(self, status: int, body: str = "{}", **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.plan.append((status, named, body.encode()))

    def answer(self, request: dict[str, Any]) -> bytes:
        self.requests.append(request)
        dimension = request.get("dimensions", self.dimension)
        data = [
            {"object": "embedding", "index": i, "embedding": vector_of(text, dimension)}
            for i, text in enumerate(request["input"])
        ]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        shuffled = data[::-1]  # the order is in the index, not in the list
        answer = {"object": "list", "model": "tiny", "data": shuffled, "usage": usage}
        return json.dumps(answer).encode()


@contextmanager
def serving(key: str | None = None) -> Iterator[EmbeddingsServer]:
    server = EmbeddingsServer(key)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.path == "/v1/models"
            self._send(200 if known else 404, {}, b'{"object": "list", "data": []}')

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path != "/v1/embeddings":
                self._send(404, {}, b"{}")
            elif server.plan:
                self._send(*server.plan.popleft())
            else:
                self._send(200, {}, server.answer(body))

        def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
            given = self.headers.get("Authorization", "")
            if server.key is not None and given != f"Bearer {server.key}":
                message = f"Incorrect API key provided: {given}"  # as careless servers do
                status, body = 401, json.dumps({"error": {"message": message}}).encode()
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{listening.server_port}/v1"
    thread = threading.Thread(target=listening.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()
