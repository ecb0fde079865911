"""Models that several arms share: loaded once, freed by the last one to let go."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from genmix.core.loading import loading

T = TypeVar("T")


class Shared(Generic[T]):
    """One thing on a shelf. Its lock is held while it is loaded, and by whoever works with it."""

    def __init__(self, key: Hashable, load: Callable[[], T]) -> None:
        self.key, self._load = key, load
        self.lock = threading.RLock()
        self.holders = 0
        self._thing: T | None = None

    def get(self) -> T:
        """The thing, loaded if this is the first time; a failed load is tried again."""
        with self.lock:
            if self._thing is None:
                with loading():
                    self._thing = self._load()
            return self._thing


class Shelf(Generic[T]):
    """Things by what they are made of."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._things: dict[Hashable, Shared[T]] = {}

    def hold(self, key: Hashable, load: Callable[[], T]) -> Shared[T]:
        """A share in the thing; nothing is loaded yet."""
        with self._lock:
            found = self._things.setdefault(key, Shared(key, load))
            found.holders += 1
            return found

    def let_go(self, shared: Shared[T]) -> None:
        with self._lock:
            shared.holders -= 1
            if not shared.holders:
                del self._things[shared.key]
