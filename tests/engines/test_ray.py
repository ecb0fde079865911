"""Runs on a Ray cluster: the same data set, and nothing lost or counted twice when workers die."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import genmix as gx
from genmix.engines import ray_engine
from genmix.engines.ray_engine import RayEngine
from genmix.errors import InputError
from genmix.generators.base import Context
from genmix.generators.callable import CallableArm
from genmix.journal.reader import JournalReader
from genmix.journal.schema import Entry
from genmix.runs.arm import ArmState
from genmix.runs.retries import Retries
from genmix.study.sections import Retries as RetrySettings
from tests.support import ray_runs
from tests.support.ray_runs import check_counted_once, data_set, failures, study, wait_for, workers

pytestmark = pytest.mark.ray

PATIENT = {"attempts": 50, "first_wait": 0.05, "longest_wait": 0.5, "suspend_after": 50}
"""Retries for runs whose workers are killed all the time."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A cluster on this machine with two CPUs; runs in this process use it."""
    ray = pytest.importorskip("ray")
    yield ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    ray.shutdown()


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Embeddings of one test must not spare the encoder the work in another one."""
    monkeypatch.setenv("GENMIX_CACHE", str(tmp_path / "cache"))


def test_three_arms_and_an_encoder_give_the_same_data_set_as_locally(
    cluster: Any, tmp_path: Path
) -> None:
    path = study(tmp_path)
    gx.run(path, tmp_path / "local")
    (tmp_path / "cache" / "embeddings.sqlite").unlink()
    run = gx.run(path, tmp_path / "remote", engine="ray")
    assert run.status == "finished"
    assert data_set(tmp_path / "remote") == data_set(tmp_path / "local")
    wait_for(lambda: not workers(tmp_path, "encoder"))  # they end with the run
    assert len(list((tmp_path / "traces").glob("arm-*"))) == 3
    assert len(list((tmp_path / "traces").glob("encoder-*"))) == 1
    assert "engine: ray" in (tmp_path / "remote" / "study.yaml").read_text().replace('"', "")


@pytest.mark.parametrize(
    "engines",
    [("ray", "local"), pytest.param(("local", "ray"), marks=pytest.mark.drill)],
    ids="-".join,
)
def test_an_interrupted_run_continues_on_the_other_engine(
    cluster: Any, tmp_path: Path, engines: tuple[str, str]
) -> None:
    path = study(tmp_path, engine=engines[0])

    def stop(live: Any) -> None:
        if live.told == 25:
            live.loop.stop("interrupted")

    whole = gx.run(path, tmp_path / "whole", engine="local")
    assert gx.run(path, tmp_path / "run", callbacks=[stop]).status == "interrupted"
    notes: list[str] = []
    run = gx.resume(tmp_path / "run", engine=engines[1], note=notes.append)
    assert (run.status, run.counts) == ("finished", whole.counts)
    assert data_set(tmp_path / "run") == data_set(tmp_path / "whole")
    assert f"engine is now {engines[1]}; it was {engines[0]}" in notes


class Killer(threading.Thread):
    """Kills a random worker now and then, until it is stopped."""

    def __init__(self, folder: Path, pause: float, seed: int = 0) -> None:
        super().__init__(daemon=True)
        self._folder, self._pause, self._rng = folder, pause, random.Random(seed)
        self._over = threading.Event()
        self.kills = 0

    def run(self) -> None:
        while not self._over.wait(self._pause):
            if alive := workers(self._folder):
                os.kill(self._rng.choice(alive), signal.SIGKILL)
                self.kills += 1

    def __enter__(self) -> Killer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()


def run_with_killer(folder: Path, samples: int, pause: float, **changes: Any) -> Killer:
    path = study(folder, samples, 0.05, retries=PATIENT, engine="ray", in_flight=8, **changes)
    with Killer(folder, pause) as killer:
        run = gx.run(path, folder / "run")
    assert run.status == "finished"
    check_counted_once(folder / "run", samples)
    return killer


def test_nothing_is_lost_or_counted_twice_when_workers_are_killed(
    cluster: Any, tmp_path: Path
) -> None:
    killer = run_with_killer(tmp_path, 90, 1.0, of_arms={"batch": 2})
    assert killer.kills >= 1
    messages = [failure["message"] for failure in failures(tmp_path / "run")]
    assert all("worker" in message for message in messages)


@pytest.mark.drill
def test_a_worker_is_killed_every_few_seconds(cluster: Any, tmp_path: Path) -> None:
    killer = run_with_killer(tmp_path, 1500, 2.0, of_arms={"resources": {"replicas": 2}})
    assert killer.kills >= 5
    print(f"{killer.kills} kills, {len(failures(tmp_path / 'run'))} failed attempts, 1,500 samples")


def test_a_killed_controller_continues_on_a_fresh_cluster(cluster: Any, tmp_path: Path) -> None:
    path = study(tmp_path, pause=0.02, engine="ray")
    command = [sys.executable, "-m", "genmix", "run", str(path), "--out", "run", "--quiet"]
    process = subprocess.Popen(
        command, cwd=tmp_path, env=ray_runs.ENVIRONMENT, start_new_session=True
    )
    wait_for(lambda: ray_runs.told(tmp_path / "run") >= 10)
    orphans = workers(tmp_path)
    assert orphans
    process.kill()
    process.wait()
    wait_for(lambda: not any(map(ray_runs.is_alive, orphans)))
    before = ray_runs.told(tmp_path / "run")
    assert 10 <= before < 60
    assert gx.resume(tmp_path / "run").status == "finished"
    gx.run(path, tmp_path / "whole", engine="local")
    assert data_set(tmp_path / "run")[0] == data_set(tmp_path / "whole")[0]


BROKEN = """
import sys
if "default_worker" in sys.argv[0]:
    raise OSError("libcuda.so was not found")
def make(seeds):
    return ["x" for _ in seeds]
"""


def test_an_arm_whose_worker_cannot_start_is_suspended_with_its_error(
    cluster: Any, tmp_path: Path
) -> None:
    broken = {"kind": "callable", "function": "broken:make"}
    path = study(tmp_path, more_arms={"broken": broken}, engine="ray", in_flight=4)
    (tmp_path / "broken.py").write_text(BROKEN)
    with pytest.warns(UserWarning, match="'broken' never delivered a sample.*libcuda"):
        run = gx.run(path, tmp_path / "run")
    assert run.status == "finished"
    assert (run.counts["broken"], sum(run.counts.values())) == (0, 60)
    with JournalReader.open(tmp_path / "run") as journal:
        retired = [e for e in journal.events() if e["kind"] == "retire"]
    assert retired[0]["arm"] == "broken"
    assert "libcuda.so was not found" in retired[0]["detail"]["why"]


def test_the_run_finishes_when_one_of_two_nodes_is_removed(tmp_path: Path) -> None:
    script = [sys.executable, "-m", "tests.engines.two_nodes", str(tmp_path)]
    done = subprocess.run(
        script, env=ray_runs.ENVIRONMENT, capture_output=True, text=True, timeout=170
    )
    assert done.returncode == 0, done.stderr[-3000:]
    check_counted_once(tmp_path / "run", 150)
    assert json.loads(done.stdout.splitlines()[-1])["status"] == "finished"


# -- time limits and costs ---------------------------------------------------------------------------


def outcome_of(folder: Path, start_limit: float, timeout: float, **settings: Any) -> Any:
    """The outcome of one call to an arm with a price on Ray."""
    ray_runs.write_arms(folder)
    slow = {"function": "arms:make_slowly", "arguments": {"pause": 0.01, "until": "go"}}
    arm = CallableArm.model_validate({"kind": "callable", "price": 0.5, **slow, **settings})
    retries = Retries(RetrySettings.model_validate({"timeout": timeout}))
    events: list[Any] = []

    async def call() -> None:
        engine = RayEngine(start_limit, is_owner=False)
        generator = engine.generator(arm, Context(folder, 0, "a"))
        await generator.ping()  # wait until the worker has started, or the limit is over
        state = ArmState("a", generator, 1, 1, retries)
        await state.call([Entry(0, "a", 0, 7, 1.0, 1.0)], events.append)
        await generator.close()

    asyncio.run(call())
    return events[0].outcome


def test_a_call_that_takes_too_long_is_canceled_and_may_be_charged(
    cluster: Any, tmp_path: Path
) -> None:
    error = outcome_of(tmp_path, 120.0, 0.5)
    assert str(error) == "no answer within 0.5 seconds."
    assert error.may_be_charged
    assert error.retryable


def test_a_worker_for_which_no_node_has_room_is_an_error_that_costs_nothing(
    cluster: Any, tmp_path: Path
) -> None:
    error = outcome_of(tmp_path, 0.2, 60.0, resources={"num_gpus": 1})
    assert "its worker did not start within 0.2 seconds: it needs 1 GPU, and no node" in str(error)
    assert not error.may_be_charged
    assert (error.retryable, error.retry_after) == (False, 0.0)  # suspended until the next probe


@pytest.mark.drill
def test_an_arm_for_which_no_node_has_room_does_not_delay_the_others(
    cluster: Any, tmp_path: Path
) -> None:
    absent = {
        "kind": "callable",
        "function": "arms:make",
        "arguments": {"letters": "ab"},
        "resources": {"num_gpus": 1},
    }
    path = study(tmp_path, more_arms={"absent": absent}, engine="ray", retries={"timeout": 10})
    with pytest.warns(UserWarning, match="'absent' never delivered a sample.*did not start"):
        run = gx.run(path, tmp_path / "run")
    assert (run.status, run.counts["absent"], sum(run.counts.values())) == ("finished", 0, 60)
    assert 1 <= len(failures(tmp_path / "run")) <= 5  # one for each ticket in flight


def test_an_arm_whose_worker_may_not_be_restarted_waits_for_its_probe(
    cluster: Any, tmp_path: Path
) -> None:
    arm = {
        "kind": "callable",
        "function": "arms:make",
        "arguments": {"letters": "ab"},
        "resources": {"max_restarts": 0},
    }
    path = study(tmp_path, 20, engine="ray", retries={"probe_after": 0.5}, arms={"a": arm})
    killed: list[int] = []

    def kill(live: Any) -> None:
        if live.told == 8 and not killed:
            killed.extend(workers(tmp_path, "arm"))
            os.kill(killed[0], signal.SIGKILL)

    run = gx.run(path, tmp_path / "run", callbacks=[kill])
    assert (run.status, run.counts) == ("finished", {"a": 20})
    [failure] = failures(tmp_path / "run")
    assert (
        "max_restarts (0) does not allow another restart until the next probe" in failure["message"]
    )
    with JournalReader.open(tmp_path / "run") as journal:
        assert [e["kind"] for e in journal.events() if e["arm"]] == ["suspend"]
    assert len(list((tmp_path / "traces").glob("arm-*"))) == 2


@pytest.mark.parametrize("price", [0.25, pytest.param(None, marks=pytest.mark.drill)])
def test_a_request_lost_with_its_worker_counts_at_its_maximum_cost(
    cluster: Any, tmp_path: Path, price: float | None
) -> None:
    ray_runs.write_arms(tmp_path)
    slow = {"function": "arms:make_slowly", "arguments": {"pause": 0.01, "until": "go"}}
    arms = {"slow": {"kind": "callable", "price": price, **slow}}
    path = study(tmp_path, 6, engine="ray", retries=PATIENT, arms=arms, warm_start=3)

    def kill() -> None:
        os.kill(wait_for(lambda: workers(tmp_path, "slow"))[0], signal.SIGKILL)
        (tmp_path / "go").touch()

    thread = threading.Thread(target=kill)
    thread.start()
    run = gx.run(path, tmp_path / "run")
    thread.join()
    assert run.counts == {"slow": 6}
    [failure] = failures(tmp_path / "run")
    assert "died" in failure["message"]
    assert failure["cost"] == price
    assert run.summary["cost"] == pytest.approx(7 * (price or 0.0))


# -- secrets -----------------------------------------------------------------------------------------

PROGRAM = """
import hashlib, json, os, sys
digest = hashlib.sha256(os.environ["MY_SERVICE_TOKEN"].encode()).hexdigest()
for line in sys.stdin:
    index = json.loads(line)["index"]
    print(json.dumps({"index": index, "text": f"{digest} {index}"}), flush=True)
"""


def test_a_secret_reaches_the_worker_but_no_log_and_no_command_line(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "ray-7f3c9b21d8e64aa0"
    monkeypatch.setenv("MY_SERVICE_TOKEN", secret)
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "program.py"]
    arm = {"kind": "command", "command": command, "env": ["MY_SERVICE_TOKEN"]}
    seen: list[str] = []

    def look(live: Any) -> None:
        if live.told == 6:
            for process in Path("/proc").glob("[0-9]*"):
                try:
                    seen.append((process / "cmdline").read_text(errors="replace"))
                except OSError:
                    continue

    path = study(tmp_path, 12, engine="ray", arms={"program": arm}, warm_start=3)
    run = gx.run(path, tmp_path / "run", callbacks=[look])
    assert run.counts == {"program": 12}
    session = Path(cluster.address_info["session_dir"])
    files = [*session.rglob("*"), *(tmp_path / "run").rglob("*")]
    texts = [path.read_bytes() for path in files if path.is_file()]
    assert len(texts) > 5
    assert not any(secret.encode() in text for text in texts)
    assert seen
    assert not any(secret in line for line in seen)


# -- encoders ----------------------------------------------------------------------------------------


def test_a_batch_is_split_among_the_workers_of_the_encoder(cluster: Any, tmp_path: Path) -> None:
    encoder = {"kind": "callable", "function": "arms:embed", "resources": {"replicas": 2}}
    of_arms = {"batch": 5}
    path = study(tmp_path, of_arms=of_arms, encoder=encoder, engine="ray", in_flight=15)
    assert gx.run(path, tmp_path / "run").status == "finished"
    check_counted_once(tmp_path / "run", 60)
    assert len(list((tmp_path / "traces").glob("encoder-*"))) == 2


@pytest.mark.parametrize("engine", ["local", "ray"])
def test_a_sample_that_hangs_the_encoder_is_the_only_one_rejected(
    cluster: Any, tmp_path: Path, engine: str
) -> None:
    poison = {"kind": "callable", "function": "arms:make_poison", "arguments": {"at": 12}}
    encoder = {"kind": "callable", "function": "arms:embed", "timeout": 2.0}
    path = study(tmp_path, 20, engine=engine, arms={"a": poison}, encoder=encoder, in_flight=1)
    run = gx.run(path, tmp_path / "run")
    assert (run.status, run.counts) == ("finished", {"a": 20})
    [failure] = failures(tmp_path / "run")
    assert (failure["stage"], failure["ticket"]) == ("encode", 11)
    assert "did not finish within 2 seconds" in failure["message"]


def test_an_encoder_for_which_no_node_has_room_is_refused_in_time(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_engine, "ENCODER_START_LIMIT", 0.5)
    resources = {"num_gpus": 1}
    encoder = {"kind": "callable", "function": "arms:embed", "resources": resources}
    path = study(tmp_path, encoder=encoder, engine="ray")
    with pytest.raises(InputError, match=r"did not start within 0\.5 seconds: it needs 1 GPU"):
        gx.run(path, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_function_that_cannot_be_sent_is_refused(cluster: Any, tmp_path: Path) -> None:
    lock = threading.Lock()

    def make(seeds: list[int]) -> list[str]:
        with lock:
            return ["x" for _ in seeds]

    def embed(texts: list[str]) -> Any:
        with lock:
            return [[1.0] for _ in texts]

    settings = {"objective": "vendi", "budget": {"samples": 20}, "engine": "ray"}
    for parts, what in (
        ({"arms": {"bad": make}, "encoder": len}, "arm 'bad': it"),
        ({"arms": {"good": sorted}, "encoder": embed}, "the encoder"),
    ):
        with pytest.raises(InputError) as caught:
            gx.run({**settings, **parts}, tmp_path / "run")
        assert str(caught.value) == (
            f"{what} cannot be sent to the workers of Ray (TypeError: cannot pickle '_thread.lock' "
            "object); create such objects inside the function."
        )


def test_the_address_of_another_cluster_is_refused(cluster: Any, tmp_path: Path) -> None:
    path = study(tmp_path, engine="ray")
    with pytest.raises(InputError, match=r"is connected to the Ray cluster at .*, not to"):
        gx.run(path, tmp_path / "run", address="127.0.0.1:1")
    RayEngine.connect(cluster.address_info["gcs_address"], 60.0).close()


@pytest.mark.drill
def test_an_encoder_that_cannot_load_is_refused_before_anything_is_written(
    cluster: Any, tmp_path: Path
) -> None:
    encoder = {"kind": "callable", "function": "broken:embed"}
    path = study(tmp_path, encoder=encoder, engine="ray")
    (tmp_path / "broken.py").write_text(BROKEN)
    with pytest.raises(InputError, match="libcuda"):
        gx.run(path, tmp_path / "run")
    assert not (tmp_path / "run").exists()
