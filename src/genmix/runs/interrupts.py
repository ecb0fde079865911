"""Ctrl-C ends a run cleanly, a second one ends it now: also in a notebook, whose runs have a thread."""

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
GLANCE = 0.1
"""Seconds after which one who waits for a thread looks up: a signal that another thread was given does not
wake it, and what answers signals runs nowhere else."""


class Interrupts:
    """Takes what interrupts the caller to the event loop that the work is done in."""

    def __init__(self) -> None:
        self.are_heard = threading.current_thread() is threading.main_thread()
        """Whether there are any: signals go to the main thread."""
        self._events: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        self._next: list[Callable[[], None]] = []
        self._callers: dict[signal.Signals, Handler] = {}
        """What the caller does at a signal, and will do again when the work is done."""
        self._early = False
        """Whether an interrupt came before there was anything to interrupt."""

    def carry_out(self, work: Coroutine[Any, Any, T]) -> T:
        """The work in an event loop of its own, also where one runs already, as in a notebook."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._run(work)
        with ThreadPoolExecutor(1) as threads, self._passed_on():
            running = threads.submit(self._run, work)
            while wait([running], GLANCE).not_done:
                pass
            return running.result()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        async def noted() -> T:
            self._events, self._task = asyncio.get_running_loop(), asyncio.current_task()
            if self._early:
                self._interrupt()
            return await work

        self._callers = {number: signal.getsignal(number) for number in SIGNALS}
        try:
            return asyncio.run(noted())
        except asyncio.CancelledError as error:
            raise KeyboardInterrupt from error

    @contextmanager
    def _passed_on(self) -> Iterator[None]:
        """Inside, what would interrupt this thread, which waits, interrupts the work."""
        if not self.are_heard:
            yield
            return
        before = signal.signal(signal.SIGINT, lambda *_: self._pass_on())
        try:
            yield
        finally:
            _put_back(signal.SIGINT, before)

    def _pass_on(self) -> None:
        self._early = self._events is None
        if self._events is not None:
            with suppress(RuntimeError):  # it has ended by now
                self._events.call_soon_threadsafe(self._interrupt)

    def _interrupt(self) -> None:
        if self._next:
            self._next.pop(0)()
        elif self._task is not None:
            self._task.cancel()

    @contextmanager
    def answered(self, first: Callable[[], None], second: Callable[[], None]) -> Iterator[None]:
        """Inside, an interrupt calls ``first``; the next one calls ``second`` and cancels the work."""

        def at_once() -> None:
            second()
            assert self._task is not None
            self._task.cancel()

        assert self._events is not None
        self._next = [first, at_once]
        with suppress(RuntimeError):  # in a thread: there it is the caller who hears of them
            for number in SIGNALS:
                self._events.add_signal_handler(number, self._interrupt)
        try:
            yield
        finally:
            self._next = []
            for number in SIGNALS:
                if self._events.remove_signal_handler(number):
                    _put_back(number, self._callers[number])


def _put_back(number: signal.Signals, handler: Handler) -> None:
    if handler is not None:  # one that was not set from Python cannot be
        signal.signal(number, handler)
