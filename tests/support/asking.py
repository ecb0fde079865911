"""Run generators in tests that do not use asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from genmix.data.samples import Request
from genmix.generators import collect


def use(generator: Any, work: Callable[[Any], Any]) -> Any:
    """What ``work`` gives with the generator, which is closed after it."""

    async def session() -> Any:
        try:
            return await work(generator)
        finally:
            await generator.close()

    return asyncio.run(session())


def ask(generator: Any, count: int = 1) -> list[Any]:
    requests = [Request(index, 100 + index) for index in range(count)]
    return use(generator, lambda g: collect(g, requests))
