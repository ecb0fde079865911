"""Stream runs as server-sent events: first the complete data, then every change."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from genmix.errors import GenmixError

MAX_STREAMS = 50
"""Maximum number of open streams; other pages ask for the data every few seconds instead."""

RETRY_AFTER = 10
"""Seconds after which a page without a stream should try again."""

MAX_READERS = 4
POLL_INTERVAL = 0.5
KEEP_ALIVE = 15.0
"""Seconds of silence after which a comment is sent to keep the connection open."""

RunData = dict[str, Any]


class EventStreams:
    """The open streams. However many of them follow a run, it is read only once per interval."""

    def __init__(self, read: Callable[[str], RunData], is_closing: Callable[[], bool]) -> None:
        self._read, self._is_closing = read, is_closing
        self._threads = ThreadPoolExecutor(MAX_READERS, thread_name_prefix="genmix-stream")
        self._reads: dict[str, tuple[float, asyncio.Future[RunData]]] = {}
        self.open = 0

    @property
    def are_exhausted(self) -> bool:
        return self.open >= MAX_STREAMS

    def response(self, name: str) -> StreamingResponse:
        """Return the stream of one run; it counts as open until the client disconnects."""
        self.open += 1
        return _CountedResponse(self, stream(lambda: self._shared(name), self._is_closing))

    async def _shared(self, name: str) -> RunData:
        """Return the data that another stream is reading or has just read, or read it."""
        now = time.monotonic()
        self._reads = {
            key: (at, reading)
            for key, (at, reading) in self._reads.items()
            if not reading.done() or now - at < POLL_INTERVAL / 2
        }
        if name not in self._reads:
            loop = asyncio.get_running_loop()
            reading = loop.run_in_executor(self._threads, self._read, name)
            reading.add_done_callback(lambda done: done.cancelled() or done.exception())
            self._reads[name] = now, reading
        return await asyncio.shield(self._reads[name][1])


class _CountedResponse(StreamingResponse):
    def __init__(self, streams: EventStreams, content: AsyncIterator[str]) -> None:
        super().__init__(content, media_type="text/event-stream")
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._streams.open -= 1


async def stream(
    read: Callable[[], Awaitable[RunData]], is_closing: Callable[[], bool]
) -> AsyncIterator[str]:
    sent: RunData = {}
    last_sent = time.monotonic()
    while not is_closing():
        message = None
        try:
            data = await read()
        except FileNotFoundError:
            yield event("gone", {})
            return
        except GenmixError as error:
            message = event("trouble", {"error": str(error)})
        else:
            changed = {k: v for k, v in data.items() if k not in sent or sent[k] != v}
            sent = data
            if changed:
                message = event("state", changed)
        if message is None and time.monotonic() - last_sent > KEEP_ALIVE:
            message = ": keep-alive\n\n"
        if message is not None:
            yield message
            last_sent = time.monotonic()
        await asyncio.sleep(POLL_INTERVAL)


def event(kind: str, content: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps(content, allow_nan=False)}\n\n"
