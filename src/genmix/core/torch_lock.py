"""A lock that keeps torch models from running while another model is loaded.

During ``from_pretrained``, transformers changes global torch settings (the default dtype, the weight
initialization). A model loaded or run in another thread during that time could return wrong results.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_changed = threading.Condition()
_computing = 0
_waiting = 0
_loading = False


@contextmanager
def loading() -> Iterator[None]:
    """Hold the lock exclusively: wait until no model is running, and keep others from starting."""
    global _loading, _waiting
    with _changed:
        _waiting += 1
        _changed.wait_for(lambda: not _loading and not _computing)
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
    """Share the lock with other running models; do not nest it or use it inside ``loading``."""
    global _computing
    with _changed:
        _changed.wait_for(lambda: not _loading and not _waiting)
        _computing += 1
    try:
        yield
    finally:
        with _changed:
            _computing -= 1
            _changed.notify_all()
