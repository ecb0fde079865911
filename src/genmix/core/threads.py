"""Blocking work beside the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[threading.Event], T]) -> T:
    """What ``work`` returns or raises; the event it is given is set when nobody waits for it any more.

    The thread is a daemon: work that hangs keeps neither the event loop nor the process from ending.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()
    abandoned = threading.Event()

    def run() -> None:
        try:
            settle: Callable[[], None] = partial(outcome.set_result, work(abandoned))
        except BaseException as error:
            settle = partial(outcome.set_exception, _awaitable(error))
        with suppress(RuntimeError):  # the loop is closed: nobody is interested
            loop.call_soon_threadsafe(lambda: None if outcome.done() else settle())

    threading.Thread(target=run, name="genmix-generator", daemon=True).start()
    try:
        return await outcome
    finally:
        abandoned.set()


def _awaitable(error: BaseException) -> Exception:
    """The error, unless it is of those that would end more than the work itself."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return RuntimeError(f"it ended with {type(error).__name__}")
