"""One queue for the events of concurrent tasks, so that a single coroutine can handle them in order."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Generic, TypeVar

E = TypeVar("E")


class Inbox(Generic[E]):
    """Receives events from tasks; a task's result is an event too, unless it is None."""

    def __init__(self) -> None:
        self._events: list[E] = []
        self._has_arrived = asyncio.Event()
        self._tasks: set[asyncio.Task[E | None]] = set()
        self._error: BaseException | None = None

    def put(self, event: E) -> None:
        self._events.append(event)
        self._has_arrived.set()

    def spawn(self, work: Coroutine[Any, Any, E | None]) -> None:
        """Run a coroutine concurrently."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[E | None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        self._error = self._error or task.exception()
        if self._error is not None:
            self._has_arrived.set()
        elif (event := task.result()) is not None:
            self.put(event)

    async def wait(self, seconds: float) -> None:
        """Wait until an event has arrived, but no longer than this.

        Raises the error of a task that failed; without that, its events would be missing forever.
        """
        self._has_arrived.clear()
        if not self._events and self._error is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._has_arrived.wait()
        if self._error is not None:
            raise self._error

    def take(self, kind: type | None = None) -> E | None:
        """Remove and return the first event, of this kind if there is one; None if there are no events."""
        if not self._events:
            return None
        kinds = (k for k, event in enumerate(self._events) if kind and isinstance(event, kind))
        return self._events.pop(next(kinds, 0))

    async def cancel(self) -> None:
        """Cancel the tasks that are still running, and wait until they have ended."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
