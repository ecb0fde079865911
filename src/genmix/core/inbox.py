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

    @property
    def is_empty(self) -> bool:
        return not self._events

    def spawn(self, work: Coroutine[Any, Any, E | None]) -> None:
        """Run a coroutine concurrently."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[E | None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            self.fail(error)
        elif (event := task.result()) is not None:
            self.put(event)

    @property
    def has_failed(self) -> bool:
        return self._error is not None

    def fail(self, error: BaseException) -> None:
        """Let the next ``wait`` raise an error; the first one counts."""
        self._error = self._error or error
        self._has_arrived.set()

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

    def take(self) -> list[E]:
        """Remove and return the events that have arrived, in this order."""
        taken, self._events = self._events, []
        return taken

    async def cancel(self) -> None:
        """Cancel the tasks that are still running, and wait until they have ended."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
