"""The queue of events: nothing is lost, and a task that fails is not silent."""

from __future__ import annotations

import asyncio

import pytest

from genmix.core.inbox import Inbox


def test_events_stay_until_they_are_taken() -> None:
    async def main() -> None:
        inbox: Inbox[object] = Inbox()
        inbox.put("a")
        inbox.put(1)
        await inbox.wait(60)  # does not wait: two events are already there
        assert inbox.take() == ["a", 1]
        assert inbox.take() == []
        await inbox.wait(0)

    asyncio.run(main())


def test_the_error_of_a_task_is_raised_by_the_next_wait() -> None:
    async def main() -> None:
        inbox: Inbox[object] = Inbox()

        async def fails() -> None:
            raise ZeroDivisionError

        inbox.spawn(fails())
        with pytest.raises(ZeroDivisionError):
            await inbox.wait(60)

    asyncio.run(main())
