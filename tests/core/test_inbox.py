"""The queue of events: nothing is lost, and a task that fails is not silent."""

from __future__ import annotations

import asyncio

import pytest

from genmix.core.inbox import Inbox


def test_events_stay_until_they_are_taken_and_a_kind_goes_first() -> None:
    async def main() -> None:
        inbox: Inbox[object] = Inbox()
        for event in ("a", 1, "b"):
            inbox.put(event)
        await inbox.wait(0)
        assert inbox.take(int) == 1
        await inbox.wait(60)  # does not wait: two events are still there
        assert [inbox.take(int), inbox.take(), inbox.take()] == ["a", "b", None]
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
