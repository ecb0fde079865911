"""Run blocking work in threads, so that the event loop stays responsive."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class _End:
    error: Exception | None = None


async def iterate_in_thread(
    work: Callable[[threading.Event], Iterable[T]],
) -> AsyncGenerator[T, None]:
    """Yield the items of ``work(stop)``, which runs in a thread; set ``stop`` when the caller exits.

    The thread is a daemon: work that hangs blocks neither the event loop nor process exit.
    """
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[T | _End] = asyncio.Queue()
    stop = threading.Event()

    def put(item: T | _End) -> None:
        with suppress(RuntimeError):  # the event loop is closed
            loop.call_soon_threadsafe(arrived.put_nowait, item)

    def run() -> None:
        end = _End()
        try:
            for item in work(stop):
                put(item)
        except BaseException as error:
            end = _End(_raisable(error))
        put(end)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(run,), name="genmix-generator", daemon=True).start()
    try:
        while not isinstance(item := await arrived.get(), _End):
            yield item
        if item.error is not None:
            raise item.error
    finally:
        stop.set()


async def in_thread(work: Callable[[], T]) -> T:
    """Run ``work()`` in a thread; return its result or raise its exception.

    Unlike with ``asyncio.to_thread``, the end of the event loop does not wait for canceled work.
    """
    async with aclosing(iterate_in_thread(lambda _: [work()])) as items:
        return await anext(items)


def _raisable(error: BaseException) -> Exception:
    """Replace exceptions that must not reach the event loop, e.g. SystemExit or StopIteration."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration | StopAsyncIteration):
        return error
    return RuntimeError(f"the work ended with {type(error).__name__}")
