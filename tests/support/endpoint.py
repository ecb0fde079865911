"""An OpenAI-style server on this machine that can be told to misbehave.

with Endpoint() as endpoint:
    endpoint.url                                  # http://127.0.0.1:PORT/v1
    endpoint.behave([error(429, retry_after=1), HALF, None])    # the next calls; None is well
    endpoint.behave(lambda call: NOT_JSON if call.number % 3 == 0 else None)
    endpoint.requests                             # what was asked, as Calls
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

VOCABULARY = """
amber bay canyon delta ember fjord grove harbour island juniper kestrel lagoon meadow north
orchard prairie quarry river summit tide upland valley willow yonder
"""
WORDS = VOCABULARY.split()

DIMENSION = 16
"""Of the embeddings."""


@dataclass(frozen=True)
class Call:
    """One request as it arrived."""

    number: int
    """Of the calls to this server, from 0."""
    route: str
    """Behind the /v1: /chat/completions, /completions, /embeddings, /models."""
    headers: dict[str, str]
    """Names in lower case."""
    payload: dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """What to say instead of the truth, or how to say it."""

    status: int = 200
    body: bytes | None = None
    """None: what a well-behaved server would say."""
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    """Seconds before anything is said."""
    share: float = 1.0
    """How much of the body is sent before the connection is closed."""


def error(status: int, message: str = "no", code: str | None = None, **headers: Any) -> Answer:
    """An error as OpenAI words it; ``retry_after=2`` becomes the header Retry-After."""
    body = {"error": {"message": message, "type": "test", "code": code}}
    named = {name.replace("_", "-"): str(value) for name, value in headers.items()}
    return Answer(status, json.dumps(body).encode(), named)


def says(body: Any) -> Answer:
    """A reply of status 200 with this JSON body."""
    return Answer(body=json.dumps(body).encode())


HALF = Answer(share=0.5)
NOT_JSON = Answer(body=b"<html>busy</html>")
NO_CHOICES = says({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 0}})
EMPTY = says(
    {
        "choices": [{"message": {"content": " "}, "text": " ", "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 1},
    }
)

Behaviour = Callable[[Call], Answer | None]


class Endpoint:
    """The server; a context manager. Texts depend on the prompt and the seed alone."""

    def __init__(self) -> None:
        self.requests: list[Call] = []
        self._behaviour: Behaviour = lambda call: None
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Endpoint:
        serve = self._server.serve_forever
        threading.Thread(target=serve, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def behave(self, plan: Behaviour | Iterable[Answer | None]) -> None:
        """How to answer: a function of every call, or answers for the next POSTs; None is well."""
        if callable(plan):
            self._behaviour = plan
            return
        answers: Iterator[Answer | None] = iter(list(plan))
        self._behaviour = lambda call: None if call.route == "/models" else next(answers, None)

    def answer(self, route: str, headers: dict[str, str], payload: dict[str, Any]) -> Answer:
        with self._lock:
            call = Call(len(self.requests), route, headers, payload)
            self.requests.append(call)
        told = self._behaviour(call) or Answer()
        if told.body is not None:
            return told
        body = _ROUTES[route](payload) if route in _ROUTES else None
        status = told.status if body is not None else 404
        content = json.dumps(body if body is not None else {"error": "no such route"}).encode()
        return Answer(status, content, told.headers, told.delay, told.share)


def _handler(endpoint: Endpoint) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._reply({})

        def do_POST(self) -> None:
            self._reply(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _reply(self, payload: dict[str, Any]) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            told = endpoint.answer(self.path.removeprefix("/v1"), headers, payload)
            if told.delay:
                threading.Event().wait(told.delay)
            assert told.body is not None
            self.send_response(told.status)
            named = {"Content-Type": "application/json", **told.headers}
            for name, value in named.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(told.body)))
            self.end_headers()
            self.wfile.write(told.body[: int(len(told.body) * told.share)])
            if told.share < 1:
                self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            """Keep the terminal quiet."""

        def handle(self) -> None:
            try:
                super().handle()
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True  # the client has left

    return Handler


def text_for(prompt: str, seed: int | None, most: int | None = None) -> str:
    """The text that the server writes: 5 to 12 words, ``most`` at most."""
    digest = hashlib.blake2b(f"{prompt}\0{seed}".encode()).digest()
    words = [WORDS[byte % len(WORDS)] for byte in digest[: 5 + digest[-1] % 8]]
    return " ".join(words[:most])


def tokens_in(text: str) -> int:
    return len(text.split())


def vector_for(text: str) -> list[float]:
    """A unit vector that depends on the text alone."""
    seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
    row = np.random.default_rng(seed).standard_normal(DIMENSION)
    return [float(x) for x in row / np.linalg.norm(row)]


def _reply_of(payload: dict[str, Any], asked: str, tokens: int) -> tuple[str, dict[str, Any]]:
    most = payload.get("max_tokens", payload.get("max_completion_tokens"))
    text = text_for(asked, payload.get("seed"), most)
    count = tokens_in(text)
    usage = {"prompt_tokens": tokens, "completion_tokens": count, "total_tokens": tokens + count}
    return text, usage


def _chat(payload: dict[str, Any]) -> dict[str, Any]:
    messages = payload["messages"]
    asked = "\n".join(f"{message['role']}: {message['content']}" for message in messages)
    tokens = sum(tokens_in(message["content"]) + 4 for message in messages)
    text, usage = _reply_of(payload, asked, tokens)
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"object": "chat.completion", "choices": [choice], "usage": usage}


def _completion(payload: dict[str, Any]) -> dict[str, Any]:
    text, usage = _reply_of(payload, payload["prompt"], tokens_in(payload["prompt"]))
    choice = {"index": 0, "text": text, "finish_reason": "stop"}
    return {"object": "text_completion", "choices": [choice], "usage": usage}


def _embeddings(payload: dict[str, Any]) -> dict[str, Any]:
    texts = [payload["input"]] if isinstance(payload["input"], str) else payload["input"]
    rows: list[Any] = [vector_for(text) for text in texts]
    if payload.get("encoding_format") == "base64":
        rows = [base64.b64encode(np.asarray(row, "<f4").tobytes()).decode() for row in rows]
    data = [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(rows)]
    count = sum(map(tokens_in, texts))
    usage = {"prompt_tokens": count, "total_tokens": count}
    return {"object": "list", "data": data, "model": payload["model"], "usage": usage}


def _models(_: dict[str, Any]) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": "test", "object": "model"}]}


_ROUTES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "/chat/completions": _chat,
    "/completions": _completion,
    "/embeddings": _embeddings,
    "/models": _models,
}
