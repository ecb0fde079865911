"""A run as a stream of server-sent events: what changed, as soon as it did."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.concurrency import run_in_threadpool

from genmix.errors import GenmixError

EVERY = 0.5
"""Seconds between two looks at the journal."""

QUIET = 15.0
"""Seconds after which a silent stream says that it is still there."""

State = dict[str, Any]


async def stream(read: Callable[[], State], is_closing: Callable[[], bool]) -> AsyncIterator[str]:
    """The whole state first, then those of its parts that changed."""
    sent: State = {}
    spoke = time.monotonic()
    while not is_closing():
        try:
            state = await run_in_threadpool(read)
        except FileNotFoundError:
            yield event("gone", {})
            return
        except GenmixError as error:
            yield event("trouble", {"error": str(error)})
            spoke = time.monotonic()
        else:
            news = {k: v for k, v in state.items() if k not in sent or sent[k] != v}
            sent = state
            if news:
                yield event("state", news)
                spoke = time.monotonic()
        if time.monotonic() - spoke > QUIET:
            yield ": still here\n\n"
            spoke = time.monotonic()
        await asyncio.sleep(EVERY)


def event(kind: str, content: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps(content, allow_nan=False)}\n\n"
