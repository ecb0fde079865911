"""One queue for the events of concurrent tasks, so that a single coroutine can handle them in order."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

E = TypeVar("E")


class Inbox(Generic[E]):
    """Receives events from tasks; a task's result is an event too, unless it is None."""

    def __init__(self) -> None:
        self._events: asyncio.Queue[E] = asyncio.Queue()
        self._tasks: set[asyncio.Task[E | None]] = set()

    def put(self, event: E) -> None:
        self._events.put_nowait(event)

    def spawn(self, work: Coroutine[Any, Any, E | None]) -> None:
        """Run a coroutine concurrently."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[E | None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (event := task.result()) is not None:
            self.put(event)

    async def wait(self, seconds: float) -> list[E]:
        """Wait for at least one event, but no longer than this, and return all that have arrived."""
        try:
            async with asyncio.timeout(seconds):
                first = await self._events.get()
        except TimeoutError:
            return []
        return [first, *self.take_all()]

    def take_all(self) -> list[E]:
        """Return the events that have arrived, without waiting."""
        return [self._events.get_nowait() for _ in range(self._events.qsize())]

    async def cancel(self) -> None:
        """Cancel the tasks that are still running, and wait until they have ended."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
