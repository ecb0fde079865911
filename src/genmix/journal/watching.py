"""Tell other tools what a run does as it happens; the journal records it for later."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

from genmix.core.text import quotable

Report = Callable[[Exception], None]
"""Called with an error that occurred within a span."""


def ignore(_: Exception) -> None:
    return


class Watcher:
    """Receives the events of a run and the spans of its work. By default, it ignores them.

    Events are what the journal records under the same names (``start``, ``suspend``, ``finished``, …),
    and ``sample``, ``failure``, ``retry`` and ``progress``. The spans are ``generate``, ``encode`` and
    ``solve``. Both have named values, e.g. ``arm`` and ``tickets``. All calls come from one thread.
    """

    def __call__(self, live: Any) -> None:
        """Do nothing; a watcher is a callback, which is called with the running study."""

    def event(self, name: str, /, **values: Any) -> None:
        """Receive an event."""

    def span(self, name: str, /, **values: Any) -> AbstractContextManager[Report]:
        """Return a context that lasts as long as the work."""
        return nullcontext(ignore)


class Watchers(Watcher):
    """Several watchers. One that raises an error is dropped with a warning; the run continues."""

    def __init__(self, watchers: Iterable[Watcher] = ()) -> None:
        self._watchers = list(watchers)

    def event(self, name: str, /, **values: Any) -> None:
        for watcher in list(self._watchers):
            self._guard(watcher, lambda each: each.event(name, **values))

    @contextmanager
    def span(self, name: str, /, **values: Any) -> Iterator[Report]:
        reports: list[tuple[Watcher, Report]] = []

        def report(error: Exception) -> None:
            for watcher, each in reports:
                self._guard(watcher, lambda _, report=each: report(error))  # type: ignore[misc]

        with ExitStack() as stack:

            def enter(watcher: Watcher) -> None:
                span = watcher.span(name, **values)
                reports.append((watcher, span.__enter__()))
                stack.callback(self._guard, watcher, lambda _: span.__exit__(None, None, None))

            for watcher in list(self._watchers):
                self._guard(watcher, enter)
            yield report

    def _guard(self, watcher: Watcher, work: Callable[[Watcher], Any]) -> None:
        if watcher not in self._watchers:
            return
        try:
            work(watcher)
        except Exception as error:  # third-party tools can raise anything
            self._watchers.remove(watcher)
            warnings.warn(
                f"{type(watcher).__name__} stopped watching this run: {quotable(error)}",
                RuntimeWarning,
                stacklevel=2,
            )
