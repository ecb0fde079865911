"""Generators with a model in this process: samples arrive one by one, and models are shared."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from threading import Event

import pytest

from genmix.generators import Context, GenerationError, Generator, Request, Sample, collect
from genmix.generators.local_models import (
    AbandonedError,
    LocalGenerator,
    LocalModelSettings,
    SharedModel,
    SharedModels,
)

REQUESTS = [Request(index, index) for index in range(3)]


class StubSettings(LocalModelSettings):
    def build(self, context: Context) -> Generator:
        raise NotImplementedError


class Stub(LocalGenerator[str]):
    """Writes the seed after the model's name; the second request waits for an event."""

    def __init__(self, shared: SharedModel[str]) -> None:
        super().__init__(StubSettings(model="stub"), shared)
        self.proceed = Event()

    def make(self, model: str, requests: Sequence[Request], stop: Event) -> list[Sample]:
        (request,) = requests
        while request.index == 1 and not self.proceed.wait(0.01):
            if stop.is_set():
                raise AbandonedError
        return [Sample(text=f"{model} {request.seed}")]


def stub() -> Stub:
    models: SharedModels[str] = SharedModels()
    return Stub(models.acquire("key", lambda: "model"))


def test_a_sample_arrives_before_the_next_one_is_made() -> None:
    async def listen(generator: Stub) -> list[int]:
        found = []
        async for position, outcome in generator.generate(REQUESTS):
            assert outcome == Sample(text=f"model {position}")
            found.append(position)
            generator.proceed.set()
        return found

    assert asyncio.run(listen(stub())) == [0, 1, 2]


def test_a_caller_that_leaves_frees_the_model() -> None:
    async def leave(generator: Stub) -> bool:
        stream = generator.generate(REQUESTS)
        await anext(stream)
        await stream.aclose()
        assert generator._shared is not None
        return await asyncio.to_thread(generator._shared.lock.acquire, timeout=30)

    assert asyncio.run(leave(stub()))


def test_a_closed_arm_generates_nothing() -> None:
    async def ask(generator: Stub) -> None:
        await generator.close()
        await generator.close()
        await collect(generator, REQUESTS)

    with pytest.raises(GenerationError, match="the arm is closed") as caught:
        asyncio.run(ask(stub()))
    assert not caught.value.retryable


def test_a_model_is_loaded_once_and_freed_by_its_last_user() -> None:
    loads: list[str] = []
    models: SharedModels[str] = SharedModels()

    def load() -> str:
        loads.append("model")
        return "model"

    first, second = models.acquire("key", load), models.acquire("key", load)
    assert first is second
    assert (first.get(), second.get(), loads) == ("model", "model", ["model"])
    first.release()
    assert models.acquire("key", load) is second
    second.release()
    second.release()
    assert models.acquire("key", load) is not second
