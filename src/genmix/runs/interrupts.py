"""Handle Ctrl-C: the first ends a run cleanly, the second immediately, even in a notebook's thread."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

T = TypeVar("T")
SIGNALS = (signal.SIGINT, signal.SIGTERM)
Handler = Callable[..., Any] | int | None
POLL = 0.1
"""Seconds between wake-ups of the waiting main thread. Signal handlers run only in that thread, and a
signal that is delivered to another thread does not wake it."""


class Interrupts:
    """Runs a coroutine and passes the caller's interrupts on to it."""

    def __init__(self) -> None:
        self.are_received = threading.current_thread() is threading.main_thread()
        """Whether this thread receives interrupts; only the main thread does."""
        self._events: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        self._handlers: list[Callable[[], None]] = []
        """Handlers for the next interrupts, one each; any later interrupt cancels the task."""
        self._previous: dict[signal.Signals, Handler] = {}
        """The caller's signal handlers."""
        self._is_pending = False
        """Whether an interrupt arrived before the event loop was running."""

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in a new event loop, even if one is already running, as in a notebook."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._run_here(work)
        with ThreadPoolExecutor(1) as threads, self._forwarded():
            running = threads.submit(self._run_here, work)
            while wait([running], POLL).not_done:
                pass
            return running.result()

    def _run_here(self, work: Coroutine[Any, Any, T]) -> T:
        async def main() -> T:
            self._events, self._task = asyncio.get_running_loop(), asyncio.current_task()
            if self._is_pending:
                self._interrupt()
            return await work

        self._previous = {number: signal.getsignal(number) for number in SIGNALS}
        try:
            return asyncio.run(main())
        except asyncio.CancelledError as error:
            raise KeyboardInterrupt from error

    @contextmanager
    def _forwarded(self) -> Iterator[None]:
        """Forward interrupts from this waiting thread to the worker thread."""
        if not self.are_received:
            yield
            return
        before = signal.signal(signal.SIGINT, lambda *_: self._forward())
        try:
            yield
        finally:
            _reinstall(signal.SIGINT, before)

    def _forward(self) -> None:
        self._is_pending = self._events is None
        if self._events is not None:
            with suppress(RuntimeError):  # the event loop is closed
                self._events.call_soon_threadsafe(self._interrupt)

    def _interrupt(self) -> None:
        if self._handlers:
            self._handlers.pop(0)()
        elif self._task is not None:
            self._task.cancel()

    @contextmanager
    def handled(self, first: Callable[[], None], second: Callable[[], None]) -> Iterator[None]:
        """Call ``first`` on the first interrupt; on the second, call ``second`` and cancel the work."""

        def stop_now() -> None:
            second()
            assert self._task is not None
            self._task.cancel()

        assert self._events is not None
        self._handlers = [first, stop_now]
        with suppress(RuntimeError):  # not the main thread: the caller forwards its interrupts
            for number in SIGNALS:
                self._events.add_signal_handler(number, self._interrupt)
        try:
            yield
        finally:
            self._handlers = []
            for number in SIGNALS:
                if self._events.remove_signal_handler(number):
                    _reinstall(number, self._previous[number])


def _reinstall(number: signal.Signals, handler: Handler) -> None:
    if handler is not None:  # None: it was not installed from Python
        signal.signal(number, handler)
