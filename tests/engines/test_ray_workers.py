"""Workers of Ray that die, hang or cannot start, with plain classes in their place and no cluster."""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from genmix.cluster.resources import Resources
from genmix.data.samples import Request, Sample
from genmix.encoders.base import EncodingError
from genmix.encoders.cache import CachedEncoder
from genmix.encoders.pixels import PixelsSettings
from genmix.engines.embedding import EmbeddingQueue
from genmix.engines.ray_encoder import RayEncoder
from genmix.engines.ray_engine import RayEngine
from genmix.engines.ray_generator import RayGenerator, Replica
from genmix.engines.ray_workers import EncoderFailure, GeneratorWorker
from genmix.errors import InputError
from genmix.generators.base import Context, GenerationError, Generator, Outcome, Outcomes
from genmix.journal.schema import Entry
from genmix.runs.arm import ArmState, Reply
from genmix.runs.retries import Retries
from genmix.study.sections import Retries as RetrySettings

ray = pytest.importorskip("ray")
from ray.exceptions import ActorDiedError, RaySystemError  # noqa: E402

HANGS: Any = object()
"""The answer of a worker that never answers."""


class Reference:
    """What a call returns at once, in place of Ray's references."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer


@pytest.fixture(autouse=True)
def killed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The workers that were killed; no function of Ray connects to a cluster."""
    found: list[Any] = []
    monkeypatch.setattr(ray, "kill", found.append)
    monkeypatch.setattr(ray, "cancel", lambda call: None)
    monkeypatch.setattr(ray, "wait", wait)
    monkeypatch.setattr(ray, "get", get)
    monkeypatch.setattr(ray, "nodes", list)
    return found


def wait(references: Sequence[Any], num_returns: int, timeout: float | None) -> Any:
    assert num_returns == len(references)
    late = [each for each in references if each.answer is HANGS]
    assert timeout is not None or not late, "nothing would ever stop this wait"
    return [each for each in references if each not in late], late


def get(reference: Any) -> Any:
    if isinstance(reference.answer, Exception):
        raise reference.answer
    return reference.answer


def method(work: Callable[..., Any]) -> Any:
    """A method of a worker that can be called as Ray does."""
    return SimpleNamespace(remote=work)


# -- arms --------------------------------------------------------------------------------------------


def later(value: Any) -> Awaitable[Any]:
    async def work() -> Any:
        if isinstance(value, Exception) and not isinstance(value, GenerationError):
            raise value
        if value is HANGS:
            await asyncio.Event().wait()
        return value

    return work()


class Worker:
    """A worker of an arm: what it answers to ``start`` and ``ping``, and what its calls yield."""

    def __init__(self, outcomes: Iterable[Any] = (), start: Any = None, ping: Any = None) -> None:
        self.start, self.ping = method(lambda: later(start)), method(lambda: later(ping))
        self.close = method(lambda: later(None))

        async def stream(requests: Any) -> Any:
            for outcome in outcomes:
                yield later(outcome)

        self.generate = SimpleNamespace(options=lambda **_: method(stream))


class Described(Generator):
    async def generate(self, requests: Sequence[Request]) -> Outcomes:
        raise AssertionError("a worker generates")
        yield


def arm(create: Callable[[], Any], **options: Any) -> RayGenerator:
    given: Any = {"concurrency": 1, "start_limit": 0.05, "is_billed": True}
    return RayGenerator(Described(), create, resources=needs(**options), **given)


def needs(**options: Any) -> Resources:
    return Resources.model_validate(options)


def outcomes_of(generator: Generator, tickets: int = 1) -> list[Outcome]:
    """What a run receives for a call."""
    events: list[Any] = []
    state = ArmState("a", generator, 1, tickets, Retries(RetrySettings.model_validate({})))
    entries = [Entry(place, "a", place, place, 1.0, 1.0) for place in range(tickets)]
    asyncio.run(state.call(entries, events.append))
    return [event.outcome for event in events if isinstance(event, Reply)]


def failure(generator: Generator) -> GenerationError:
    [outcome] = outcomes_of(generator)
    assert isinstance(outcome, GenerationError)
    return outcome


def test_an_error_with_a_wait_suspends_an_arm_at_once_but_not_for_good() -> None:
    retries = Retries(RetrySettings.model_validate({"probe_after": 20}))
    error = GenerationError("no room.", retryable=False, retry_after=0.0)
    assert retries.record_failure(1, error) is None
    assert (retries.should_suspend, retries.is_permanent) == (True, False)
    assert retries.suspend() == 20
    assert retries.record_failure(2, GenerationError("no key.", retryable=False)) is None
    assert (retries.should_suspend, retries.is_permanent) == (True, True)
    retries.record_success(3)
    assert (retries.should_suspend, retries.is_permanent) == (False, False)


def test_an_arm_for_which_no_node_has_room_is_suspended_at_once() -> None:
    generator = arm(lambda: Worker(start=HANGS), replicas=2)
    error = failure(generator)  # its other worker may have room
    assert "its worker did not start within 0.05 seconds" in str(error)
    assert error.retryable
    error = failure(generator)
    assert "check that a node of the cluster has room" in str(error)
    assert (error.retryable, error.retry_after, error.may_be_charged) == (False, 0.0, False)


def test_a_worker_that_cannot_be_created_is_created_at_the_next_call() -> None:
    answers = [RaySystemError("the control store cannot be reached"), Worker()]

    def create() -> Any:
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    async def start() -> None:
        replica = Replica(create, needs())
        with pytest.raises(GenerationError, match=r"cannot start .*RaySystemError") as caught:
            await replica.started(5)
        assert (caught.value.retryable, caught.value.retry_after) == (False, 0.0)
        assert await replica.started(5) is replica.actor is not None
        assert await replica.started(5) is replica.actor

    asyncio.run(start())


def test_an_error_that_is_not_from_ray_is_one_sentence() -> None:
    def create() -> Any:
        raise ValueError("the options\nare wrong")

    assert str(failure(arm(create))) == (
        "its worker cannot start (ValueError: the options are wrong)."
    )


def test_several_calls_notice_the_same_death_but_create_one_worker(killed: list[Any]) -> None:
    created: list[Worker] = []

    def create() -> Worker:
        created.append(Worker())
        return created[-1]

    async def die() -> None:
        replica = Replica(create, needs())
        actors = [await replica.started(5) for _ in range(3)]
        errors = [replica.lose(actors[0], ActorDiedError())]
        await replica.started(5)  # another call has a new worker before the others notice
        errors += [replica.lose(actor, ActorDiedError()) for actor in actors[1:]]
        assert await replica.started(5) is created[1]
        assert all(error.retryable and error.may_be_charged for error in errors)

    asyncio.run(die())
    assert len(created) == 2
    assert killed == created[:1]


@pytest.mark.parametrize("most", [0, 2])
def test_an_arm_is_suspended_once_its_worker_was_restarted_too_often(most: int) -> None:
    generator = arm(lambda: Worker([ActorDiedError()]), max_restarts=most)
    for _ in range(2):  # again after a probe
        errors = [failure(generator) for _ in range(most + 1)]
        assert [error.retryable for error in errors] == [True] * most + [False]
        assert errors[-1].retry_after == 0.0
        assert errors[-1].may_be_charged
        assert f"max_restarts ({most})" in str(errors[-1])


def test_without_a_limit_a_worker_is_always_restarted() -> None:
    generator = arm(lambda: Worker([ActorDiedError()]))
    assert all(failure(generator).retryable for _ in range(20))


def test_an_answer_that_cannot_be_sent_does_not_kill_the_worker(killed: list[Any]) -> None:
    error = ray.exceptions.RayTaskError("generate", "a traceback", TypeError("cannot pickle it"))
    found = failure(arm(lambda: Worker([error])))
    assert str(found) == "the call failed on its worker (TypeError: cannot pickle it)."
    assert killed == []


@pytest.mark.parametrize("error", [RuntimeError("oops"), ActorDiedError()])
def test_a_worker_that_dies_during_the_check_is_reported_by_its_first_call(
    error: Exception,
) -> None:
    asyncio.run(arm(lambda: Worker(ping=error)).ping())


def test_a_check_that_fails_is_an_error_of_the_arm() -> None:
    generator = arm(lambda: Worker(ping=GenerationError("the key is wrong.")))
    with pytest.raises(GenerationError, match="the key is wrong"):
        asyncio.run(generator.ping())


def test_a_wrong_position_is_an_error_with_its_cost_as_on_the_local_engine() -> None:
    given = [(0, Sample(text="x", cost=1.0)), (5, Sample(text="y", cost=7.0))]
    generator = arm(lambda: Worker(given))
    sample, error = outcomes_of(generator, 2)
    assert isinstance(sample, Sample)
    assert isinstance(error, GenerationError)
    assert "position 5" in str(error)
    assert (error.retryable, error.cost) == (False, 7.0)


# -- what runs on the worker of an arm -----------------------------------------------------------------


class Ready(Generator):
    async def generate(self, requests: Sequence[Request]) -> Outcomes:
        for position, _ in enumerate(requests):
            yield position, Sample(text="x")

    async def ping(self) -> None:
        raise OSError("no route")


class Slow:
    """Settings of an arm that takes a while to build."""

    def __init__(self) -> None:
        self.builds = 0

    def build(self, context: Context) -> Generator:
        self.builds += 1
        time.sleep(0.05)
        return Ready()


def test_concurrent_first_calls_build_the_arm_once() -> None:
    settings: Any = Slow()
    worker = GeneratorWorker(settings, Context(Path(), 0, "a"), {})

    async def call(seed: int) -> Any:
        return [each async for each in worker.generate([Request(seed, seed)])]

    async def calls() -> Any:
        return await asyncio.gather(*map(call, range(4)))

    assert all(found[0] == (0, Sample(text="x")) for found in asyncio.run(calls()))
    assert settings.builds == 1


def test_a_check_that_raises_anything_is_an_error_of_the_arm() -> None:
    settings: Any = Slow()
    worker = GeneratorWorker(settings, Context(Path(), 0, "a"), {})

    async def check() -> Any:
        await worker.start()
        return await worker.ping()

    error = asyncio.run(check())
    assert isinstance(error, GenerationError)
    assert str(error) == "its check failed (OSError: no route)."


# -- encoders ----------------------------------------------------------------------------------------


class Embedder:
    """A worker of an encoder: what it answers to each method."""

    def __init__(self, encode: Any = None, present: Any = None, load: Any = None) -> None:
        self.batches: list[list[Sample]] = []

        def embed(samples: list[Sample]) -> Any:
            self.batches.append(samples)
            rows = np.array([[float(len(sample.text or "")), 1.0] for sample in samples])
            is_bad = any(sample.text == "bad" for sample in samples)
            return Reference(encode if is_bad and encode is not None else rows)

        self.encode = method(embed)
        self.present = method(lambda: Reference(present))
        self.load = method(lambda: Reference(load))


def encoder(create: Callable[[], Any], retries: int = 3, **options: Any) -> RayEncoder:
    described: Any = SimpleNamespace(name="stub", dimension=None, close=lambda: None)
    given: Any = {"retries": retries, "start_limit": 7.0, "time_limit": lambda n: 4.0}
    return RayEncoder(described, create, resources=needs(**options), **given)


def texts(*words: str) -> list[Sample]:
    return [Sample(text=word) for word in words]


class Pool:
    """Creates the given workers in turn."""

    def __init__(self, *workers: Any) -> None:
        self.workers, self.created = list(workers), 0

    def __call__(self) -> Any:
        self.created += 1
        return self.workers[self.created - 1]


def test_only_the_late_worker_is_killed_and_its_batch_is_not_repeated(killed: list[Any]) -> None:
    hanging, other, new = Embedder(HANGS), Embedder(), Embedder()
    remote = encoder(Pool(hanging, other, new), replicas=2)
    with pytest.raises(EncodingError, match="did not finish within 4 seconds"):
        remote.encode(texts("bad", "fine"))
    assert killed == [hanging]
    assert remote.encode(texts("good", "fine"))[:, 0].tolist() == [4, 4]
    assert [len(each.batches) for each in (hanging, other, new)] == [1, 2, 1]


def test_the_run_leaves_the_time_limit_to_the_workers(tmp_path: Path) -> None:
    """The start of a worker that replaces a late one must not count against the next sample."""

    class SlowPool(Pool):
        def __call__(self) -> Any:
            time.sleep(0.1)
            return super().__call__()

    remote = encoder(SlowPool(Embedder(HANGS), Embedder()))
    queue = EmbeddingQueue(CachedEncoder(remote, tmp_path), time_limit=lambda samples: 0.01)
    found = []
    for ticket, word in enumerate(("bad", "good")):
        queue.put(Entry(ticket, "a", 0, 0, 1.0, 1.0), Sample(text=word))
        batch = asyncio.run(queue.embed(queue.take_batch()))
        queue.finish(batch)
        found.append((batch.is_late, batch.error is None))
    assert found == [(True, False), (False, True)]


def test_a_part_is_embedded_again_only_if_its_worker_died(killed: list[Any]) -> None:
    dying, other, new = Embedder(ActorDiedError()), Embedder(), Embedder()
    pool = Pool(dying, other, new)
    rows = encoder(pool, replicas=2).encode(texts("bad", "longer"))
    assert rows[:, 0].tolist() == [3, 6]
    assert (killed, pool.created, len(other.batches)) == ([dying], 3, 1)


def test_a_batch_that_kills_every_worker_fails() -> None:
    pool = Pool(*(Embedder(ActorDiedError()) for _ in range(9)))
    with pytest.raises(EncodingError, match=r"a worker of the encoder died .ActorDiedError"):
        encoder(pool, retries=2).encode(texts("bad"))
    assert pool.created == 3


def test_an_encoder_for_which_no_node_has_room_is_refused(killed: list[Any]) -> None:
    pool = Pool(Embedder(), Embedder(present=HANGS))
    with pytest.raises(InputError, match="did not start within 7 seconds; check that a node"):
        encoder(pool, replicas=2).load()
    assert len(killed) == 2  # nothing waits for room after that


def test_a_worker_that_no_node_could_ever_hold_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = {"Alive": True, "Resources": {"CPU": 4.0}}
    monkeypatch.setattr(ray, "nodes", lambda: [node])
    why = (
        "it needs 2 GPUs, and no node of the cluster has any; request fewer resources, or add a node that "
        "has enough."
    )
    error = failure(arm(lambda: Worker(start=HANGS), num_gpus=2))
    assert str(error) == f"its worker did not start within 0.05 seconds: {why}"
    with pytest.raises(InputError) as caught:
        encoder(Pool(Embedder(present=HANGS)), num_gpus=2).load()
    assert str(caught.value) == f"a worker of the encoder did not start within 7 seconds: {why}"


def test_an_encoder_that_cannot_be_created_or_loaded_is_refused(killed: list[Any]) -> None:
    def create() -> Any:
        raise RaySystemError("the control store cannot be reached")

    with pytest.raises(InputError, match=r"cannot be created .RaySystemError"):
        encoder(create).load()
    for answer in (EncoderFailure("no such model.", is_fatal=False), ActorDiedError()):
        worker = Embedder(load=answer)
        with pytest.raises(InputError, match=r"no such model|died"):
            encoder(Pool(worker)).load()
        assert killed[-1] is worker


def test_a_call_that_the_run_abandoned_creates_no_worker_after_the_end() -> None:
    pool = Pool(Embedder())
    remote = encoder(pool)
    remote.close()
    with pytest.raises(EncodingError, match="closed"):
        remote.encode(texts("word"))
    assert pool.created == 0


# -- the address of a cluster --------------------------------------------------------------------------


def test_a_client_address_in_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda *_, **__: pytest.fail("Ray was started"))
    monkeypatch.setenv("RAY_ADDRESS", "ray://127.0.0.1:10001")
    pattern = r"^ray://127.0.0.1:10001 is a Ray client address.*; unset RAY_ADDRESS, and start"
    for address in (None, "auto"):
        with pytest.raises(InputError, match=pattern):
            RayEngine.connect(address, 60.0)


def test_an_address_from_the_environment_is_named_as_such(
    free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    address = f"127.0.0.1:{free_port}"
    where = f"^cannot connect to the Ray cluster at {address}"
    with pytest.raises(
        InputError, match=rf"{where} \(Conn.*\); start it, or correct the address\.$"
    ):
        RayEngine.connect(address, 60.0)
    monkeypatch.setenv("RAY_ADDRESS", address)
    pattern = (
        rf"{where}, the address in RAY_ADDRESS \(.*; start it, or correct or unset RAY_ADDRESS\.$"
    )
    for given in (None, "auto"):  # Ray itself prefers the variable to auto
        with pytest.raises(InputError, match=pattern):
            RayEngine.connect(given, 60.0)


@pytest.fixture
def free_port() -> Iterator[int]:
    """A port on which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.mark.parametrize(
    ("address", "variable", "advice"),
    [("auto", None, "leave out the address"), (None, "auto", "unset RAY_ADDRESS")],
)
def test_without_a_cluster_auto_says_how_to_start_one(
    address: str | None, variable: str | None, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(*_: Any, **__: Any) -> None:
        raise ConnectionError("Could not find any running Ray instance. Please specify …")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", find)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if variable is not None:
        monkeypatch.setenv("RAY_ADDRESS", variable)
    with pytest.raises(InputError) as caught:
        RayEngine.connect(address, 60.0)
    assert str(caught.value) == (
        f"no Ray cluster is running on this machine; start one with 'ray start --head', or {advice}."
    )


@pytest.mark.parametrize("presses", [1, 2])
def test_the_first_ctrl_c_waits_until_ray_has_started_and_the_second_does_not(
    presses: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []

    def start(*_: Any, **__: Any) -> None:
        for _press in range(presses):
            signal.raise_signal(signal.SIGINT)
        steps.append("started")

    monkeypatch.setattr(ray, "is_initialized", lambda: "started" in steps)
    monkeypatch.setattr(ray, "init", start)
    monkeypatch.setattr(ray, "shutdown", lambda: steps.append("stopped"))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        RayEngine.connect(None, 60.0)
    assert steps == (["started", "stopped"] if presses == 1 else [])
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("address", [None, "auto", "127.0.0.1:6379", "localhost:6379"])
def test_the_existing_connection_is_used(
    address: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect_to(monkeypatch, "127.0.0.1:6379")
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9999")  # it is for new connections
    RayEngine.connect(address, 60.0).close()  # would disconnect if it were the engine's own


@pytest.mark.parametrize("address", ["127.0.0.1:9999", "ray://127.0.0.1:6379", "local"])
def test_another_address_than_that_of_the_connection_is_refused(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect_to(monkeypatch, "127.0.0.1:6379")
    with pytest.raises(InputError, match=f"not to {address}|is a Ray client address"):
        RayEngine.connect(address, 60.0)


def connect_to(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    context = SimpleNamespace(gcs_address=address)
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "get_runtime_context", lambda: context)
    monkeypatch.setattr(ray, "shutdown", lambda: pytest.fail("the connection was closed"))


def test_the_engine_ends_encoders_of_a_start_that_failed(
    tmp_path: Path, killed: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even on a connection that it does not own, where nothing else would end them."""
    engine = RayEngine(60.0, is_owner=False)
    monkeypatch.setattr(RayEngine, "_creator", lambda *given: lambda: Embedder())
    made: Any = engine.encoder(PixelsSettings(kind="pixels"), tmp_path)
    made._actors = ["worker"]
    engine.close()
    engine.close()
    assert killed == ["worker"]
