"""Work in threads: it sees the caller's context, and nobody waits for it after a cancellation."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from genmix.core.streams import _version as version
from genmix.core.streams import streams_of_version
from genmix.core.threads import in_thread
from genmix.runs.session import Session


def test_the_thread_sees_the_context_of_the_caller() -> None:
    async def main() -> int:
        with streams_of_version(1):
            return await in_thread(version.get)

    assert asyncio.run(main()) == 1


def test_the_end_does_not_wait_for_a_canceled_solve() -> None:
    """A second Ctrl-C cancels; the solve would otherwise be waited for."""
    started, release, finished = threading.Event(), threading.Event(), threading.Event()

    def solve(told: Any) -> None:
        started.set()
        release.wait(20)
        finished.set()

    session: Any = SimpleNamespace(
        selector=SimpleNamespace(will_solve=lambda count: False),
        _next_step=lambda: 0,
        _update_selector=solve,
    )

    async def main() -> None:
        task = asyncio.create_task(Session.tell(session, [(None, None, np.zeros(3))]))  # type: ignore[list-item]
        while not started.is_set():
            await asyncio.sleep(0.01)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())
    assert not finished.is_set()
    release.set()
