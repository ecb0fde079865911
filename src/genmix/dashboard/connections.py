"""Limit the connections to the server, so that silent or slow clients cannot keep others out.

The server has a maximum number of connections. Beyond it, a new connection replaces the one that has
waited longest for its client. A client that does not send its request, or does not read the response, is
disconnected after a few seconds.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import time
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 256
REQUEST_SECONDS = 10.0
"""Time allowed for a client to send a complete request."""

RESPONSE_SECONDS = 30.0
"""Time allowed for a client to read the part of a response that is waiting to be sent."""

SWEEP_INTERVAL = 1.0
ACCEPTED_AT_ONCE = 16
"""Connections accepted in a row before the open ones are counted and, if necessary, closed."""

QUEUE_LENGTH = 1024
"""Connections that the operating system holds until the server accepts them."""

RESERVED_FILES = 200
"""File descriptors that are left for journals and other files."""

LOG_INTERVAL = 60.0
"""Seconds before the same message is logged again."""

EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""Errors of ``accept`` that show that the system has run out of resources."""

logger = logging.getLogger("uvicorn.error")


class LimitedProtocol(H11Protocol):
    """An HTTP connection that makes room for others."""

    most = MAX_CONNECTIONS

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.waiting_since = time.monotonic()
        self.blocked_since: float | None = None
        if len(self.connections) > self.most:
            self._make_room()

    def _make_room(self) -> None:
        """Disconnect the client that has kept the server waiting longest; if there is none, this one."""
        idle = [c for c in self.connections if isinstance(c, LimitedProtocol) and c.is_waiting]
        min(idle, key=lambda c: c.waiting_since, default=self).disconnect()

    @property
    def is_waiting(self) -> bool:
        """Whether the next move is the client's: to send a request, or the rest of one."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def disconnect(self) -> None:
        self.connections.discard(self)
        self.transport.abort()

    def on_response_complete(self) -> None:
        self.waiting_since = time.monotonic()  # for the next request
        super().on_response_complete()

    def resume_writing(self) -> None:
        self.blocked_since = None  # the client is reading
        super().resume_writing()

    def check_progress(self, now: float) -> None:
        """Disconnect the client if it has not sent its request or read the response in time."""
        if not self.is_waiting:
            self.waiting_since = now
        if not self.transport.get_write_buffer_size():
            self.blocked_since = None
        elif self.blocked_since is None:
            self.blocked_since = now
        is_late = now - self.waiting_since > REQUEST_SECONDS
        if is_late or now - (self.blocked_since or now) > RESPONSE_SECONDS:
            self.disconnect()


async def sweep(connections: set[Any]) -> None:
    """Disconnect clients that make no progress, until canceled."""
    while True:
        await asyncio.sleep(SWEEP_INTERVAL)
        now = time.monotonic()
        for connection in list(connections):
            if isinstance(connection, LimitedProtocol):
                connection.check_progress(now)


def log_exhaustion_once(loop: asyncio.AbstractEventLoop) -> None:
    """Log one line instead of many tracebacks when no connection can be accepted."""

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in EXHAUSTED:
            logger.error(
                "The dashboard cannot accept connections right now (%s); close other programs or "
                "raise the limit on open files (ulimit -n).",
                error.strerror,
            )
        else:
            loop.default_exception_handler(context)

    loop.set_exception_handler(handle)


class LogOnce(logging.Filter):
    """Drops a message that was logged less than a minute ago."""

    def __init__(self) -> None:
        super().__init__()
        self._logged: dict[tuple[Any, ...], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        key = (record.msg, type(error), str(error)[:200])
        now = time.monotonic()
        self._logged = {k: at for k, at in self._logged.items() if now - at < LOG_INTERVAL}
        if key in self._logged:
            return False
        self._logged[key] = now
        return True


LOG_ONCE = LogOnce()


def connection_limit() -> int:
    """Raise the limit on open files as far as possible, and return how many connections it allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_CONNECTIONS + 2 * RESERVED_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return MAX_CONNECTIONS
    return max(soft // 2 - ACCEPTED_AT_ONCE, 1)
