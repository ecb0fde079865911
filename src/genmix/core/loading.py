"""Keeps torch models from being loaded while others are loaded or at work in this process.

While ``from_pretrained`` runs, transformers changes torch for the whole process (its default dtype, how
weights are initialised); a model that loads or computes in another thread meanwhile comes out wrong.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_changed = threading.Condition()
_at_work = 0
_waiting = 0
_loading = False


@contextmanager
def loading() -> Iterator[None]:
    """Alone: waits until no model is at work, and lets none begin."""
    global _loading, _waiting
    with _changed:
        _waiting += 1
        _changed.wait_for(lambda: not _loading and not _at_work)
        _waiting -= 1
        _loading = True
    try:
        yield
    finally:
        with _changed:
            _loading = False
            _changed.notify_all()


@contextmanager
def computing() -> Iterator[None]:
    """Beside others that compute; never inside ``loading`` or itself."""
    global _at_work
    with _changed:
        _changed.wait_for(lambda: not _loading and not _waiting)
        _at_work += 1
    try:
        yield
    finally:
        with _changed:
            _at_work -= 1
            _changed.notify_all()
