"""Stream a run as server-sent events: first the complete data, then every change."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.concurrency import run_in_threadpool

from genmix.errors import GenmixError

POLL_INTERVAL = 0.5
KEEP_ALIVE = 15.0
"""Seconds of silence after which a comment is sent to keep the connection open."""

RunData = dict[str, Any]


async def stream(read: Callable[[], RunData], is_closing: Callable[[], bool]) -> AsyncIterator[str]:
    sent: RunData = {}
    last_sent = time.monotonic()
    while not is_closing():
        message = None
        try:
            data = await run_in_threadpool(read)
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
