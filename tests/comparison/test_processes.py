"""Trials in several processes: same results, nothing lost, nothing left running."""

from __future__ import annotations

import importlib
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits

import genmix as gx
from genmix.comparison import plan as plan_module
from genmix.comparison.compare import compare
from genmix.comparison.plan import Plan
from genmix.comparison.trial import TrialStore, run_trial
from genmix.comparison.variant import read_variants
from genmix.comparison.worlds import modes
from genmix.shards import processes
from genmix.shards.processes import run_jobs
from tests.support.jobs import die, slow_square, with_lock
from tests.support.small_comparisons import (
    WORLD,
    FirstArm,
    OneArm,
    plan_of,
    small,
    stored_trials,
)

STOPPABLE = {"repeats": 3, "budget": 60}


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """All trials of this comparison, run in this process."""
    folder = tmp_path_factory.mktemp("complete")
    small(**STOPPABLE, out=folder)
    return stored_trials(folder)


# -- the same results --------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [3, pytest.param(2, marks=pytest.mark.drill)])
def test_results_do_not_depend_on_the_number_of_processes(
    tmp_path: Path, complete: dict[str, str], workers: int
) -> None:
    small(**STOPPABLE, workers=workers, out=tmp_path)
    assert len(complete) == 21
    assert stored_trials(tmp_path) == complete


def test_a_plan_is_the_same_in_another_process() -> None:
    kernel = gx.Gaussian(features=8)
    plan = plan_of(gx.Vendi(kernel=kernel) + 0.2 * gx.Precision(WORLD.reference))
    expected = run_trial(plan, "Mixture-UCB", 1)
    again = pickle.loads(pickle.dumps(plan))
    assert "best" in vars(plan)
    assert "best" not in vars(again)
    assert again.key("Mixture-UCB", 1) == plan.key("Mixture-UCB", 1)
    assert run_trial(again, "Mixture-UCB", 1) == expected


def test_a_policy_of_ones_own_is_compared_in_other_processes() -> None:
    found = small(policies={"uniform": gx.Uniform(), "own": FirstArm()}, repeats=2, workers=2)
    assert found.counts("own")[0, -1].tolist() == [108, 4, 4, 4]


def test_a_kernel_of_ones_own_too() -> None:
    def laplace(x: Any, y: Any) -> Any:
        return np.exp(-np.abs(x[:, None, :] - y[None, :, :]).sum(axis=2))

    found = small(
        objective=gx.RKE(laplace), policies=["mixture-greedy"], repeats=2, budget=40, workers=2
    )
    assert found.pooled("Mixture-Greedy").shape[0] == 2


def test_thread_pools_are_looked_up_again_after_an_import(monkeypatch: pytest.MonkeyPatch) -> None:
    lookups = []

    class Controller(ThreadpoolController):
        def __init__(self) -> None:
            lookups.append(self)
            super().__init__()

    monkeypatch.setattr(processes, "ThreadpoolController", Controller)
    for late in ("imported late", "imported late", "imported later"):
        monkeypatch.setitem(sys.modules, late, ModuleType(late))
        with threadpool_limits(2), processes.one_thread():
            assert {pool["num_threads"] for pool in threadpool_info()} == {1}
    assert len(lookups) == 2


SCRIPT = """
import numpy as np
import genmix as gx
from genmix.shards.processes import run_jobs
from genmix.comparison.worlds import modes
from genmix.policies import Decision

def threads(shared, job):
    from threadpoolctl import threadpool_info
    return {pool["num_threads"] for pool in threadpool_info()}

class Last(gx.Policy):
    def decide(self, situation):
        return Decision(np.eye(len(situation.arms))[-1])

if __name__ == "__main__":
    found = gx.compare(modes(3), {"own": Last()}, 2, objective=gx.RKE(gx.Cosine()), budget=40,
                       warm_start=4, workers=2)
    print(found.counts("own")[:, -1].tolist())
    print([used for _, used in run_jobs(threads, None, range(2), 2)])
"""


def test_workers_know_main_and_not_the_modules_of_the_current_folder(tmp_path: Path) -> None:
    """They write a lot to stderr, too, and have one BLAS thread each."""
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "random.py").write_text("raise RuntimeError('not yours')")
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.stderr.write('x' * 200_000)")
    (tmp_path / "script.py").write_text(SCRIPT)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    kept = {key: value for key, value in os.environ.items() if key not in threads}
    done = subprocess.run(
        [sys.executable, str(tmp_path / "script.py")],
        cwd=tmp_path / "here",
        env={**kept, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines() == ["[[4, 4, 4, 28], [4, 4, 4, 28]]", "[{1}, {1}]"]
    assert len(done.stderr) > 3 * 200_000


# -- finished trials are kept ------------------------------------------------------------------------


STOPPED = """
import os, signal, sys
import genmix as gx
from genmix.comparison.worlds import modes

def progress(done, total):
    if done >= 4:
        os.kill(os.getpid(), int(sys.argv[2]))

gx.compare(modes(3), repeats=3, objective=gx.RKE(gx.Cosine()), budget=60, warm_start=4, workers=2,
           out=sys.argv[1], progress=progress)
"""


def reset_interrupts() -> None:
    """A shell starts background jobs with SIGINT ignored, and their children inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_comparison_that_was_stopped_continues(
    tmp_path: Path, complete: dict[str, str], how: signal.Signals
) -> None:
    stopped = subprocess.run(
        [sys.executable, "-c", STOPPED, str(tmp_path), str(int(how))],
        stderr=subprocess.DEVNULL,
        preexec_fn=reset_interrupts,
    )
    assert stopped.returncode != 0
    done = stored_trials(tmp_path)
    assert 4 <= len(done) < len(complete)
    small(**STOPPABLE, out=tmp_path)
    assert stored_trials(tmp_path) == complete
    assert done.items() <= complete.items()


ENDLESS = """
import sys
import genmix as gx
from genmix.comparison.worlds import modes

print("ready", flush=True)
try:
    gx.compare(modes(3), objective=gx.Vendi(), budget=10**6, warm_start=4, workers=2)
except KeyboardInterrupt:
    sys.exit(130)
"""


def children(pid: int) -> list[int]:
    listed = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True)
    return [int(child) for child in listed.stdout.split()]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(
    "how",
    [signal.SIGKILL, signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.drill)],
)
def test_processes_end_with_their_parent(how: signal.Signals) -> None:
    """Ctrl-C reaches the whole process group, as in a terminal."""
    parent = subprocess.Popen(
        [sys.executable, "-c", ENDLESS],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=reset_interrupts,
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"ready\n"
    started: list[int] = []
    while len(started) < 3 and parent.poll() is None:  # two workers, and what watches over them
        time.sleep(0.05)
        started = children(parent.pid)
    if how == signal.SIGINT:
        os.killpg(parent.pid, how)
    else:
        parent.send_signal(how)
    assert parent.wait(60) == (130 if how == signal.SIGINT else -how)
    deadline = time.monotonic() + 120
    while any(map(is_running, started)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(is_running, started))
    parent.stdout.close()


def test_more_repeats_and_policies_use_what_is_there(tmp_path: Path) -> None:
    small(out=tmp_path, policies=["mixture-greedy"], repeats=2)
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "runs").iterdir()}
    counted: list[tuple[int, int]] = []
    more = ["mixture-greedy", "uniform"]
    small(out=tmp_path, policies=more, repeats=4, progress=lambda *at: counted.append(at))
    assert counted[0] == (2, 8)
    assert counted[-1] == (8, 8)
    assert all(file.stat().st_mtime_ns == then for file, then in before.items())


def test_other_settings_are_other_trials() -> None:
    plans = [
        plan_of(gx.Vendi()),
        plan_of(gx.Vendi(order=2)),
        plan_of(gx.Vendi(), seed=1),
        plan_of(gx.Vendi(), rounds=121),
        plan_of(gx.Vendi(), draw="tracking"),
        Plan.of(modes(4), gx.Vendi(), read_variants(None), 2, plan_of(gx.Vendi()).options),
    ]
    keys = [plan.key("Mixture-Greedy", 0) for plan in plans]
    assert len(set(keys)) == len(keys)
    assert plans[0].key("Mixture-Greedy", 1) != keys[0]
    assert plans[0].key("Mixture-UCB", 0) != keys[0]


def test_the_keys_of_trials_are_stable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The version is part of a key, and so are the random streams: trials with other draws do not mix.

    Trials from before private streams (the first had the key 68b7de68…) are computed again.
    """
    monkeypatch.setattr(plan_module, "__version__", "0.1.0")
    world = gx.World("w", WORLD.arms, costs={a: float(i) for i, a in enumerate(WORLD.arms)})
    options = plan_of(gx.Vendi()).options
    keys = {
        "cc71ea8722f23bc0a45cd87b578bb056": (gx.RKE(gx.Cosine()), "Mixture-Greedy", 0),
        "326197d5a3ac1da0aaea34be8e078a62": (gx.Vendi(), "Mixture-UCB", 1),
        "d2f9a66bf3d6afedc3259b83da17d16b": (gx.Vendi() + 0.5 * gx.Cost(), "Mixture oracle", 1),
    }
    for key, (objective, label, repeat) in keys.items():
        plan = Plan.of(world, objective, read_variants(None), 2, options)
        assert plan.key(label, repeat) == key
    content = {"label": "old", "repeat": 1, "times": [2], "pooled": {"loss": [0.5]}}
    content |= {"mixture": {}, "counts": [[1, 1]], "weights": [[0.5, 0.5]]}
    store = TrialStore(tmp_path)
    (tmp_path / "k.json").write_text(json.dumps(content))
    assert store.read("k", "new").label == "new"
    assert store.read("k", "new").pooled == {"loss": [0.5]}


def test_policies_that_no_key_tells_apart_do_not_share_a_trial(tmp_path: Path) -> None:
    found = small(policies={"first": OneArm(0), "last": OneArm(3)}, out=tmp_path, repeats=1)
    assert found.counts("first")[0, -1].tolist() == [108, 4, 4, 4]
    assert found.counts("last")[0, -1].tolist() == [4, 4, 4, 108]
    again = small(policies={"first": OneArm(2)}, out=tmp_path, repeats=1)
    assert again.counts("first")[0, -1].tolist() == [4, 4, 108, 4]


# -- failures ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2])
def test_a_failing_trial_ends_in_a_sentence(workers: int) -> None:
    with pytest.raises(gx.InputError, match="the policy gave up"):
        small(policies={"own": FirstArm(fails=True)}, workers=workers)


def test_a_killed_worker_ends_in_a_sentence() -> None:
    with pytest.raises(gx.GenmixError, match="a worker process was killed"):
        list(run_jobs(die, None, range(2), 2))
    again = run_jobs(slow_square, None, range(2), 2)  # new workers take their place
    assert sorted(again) == [(0, 0), (1, 1)]


def test_files_in_the_way_end_in_a_sentence(tmp_path: Path) -> None:
    """Folders where the files of the trials should be."""
    plan = plan_of(gx.RKE(gx.Cosine()), repeats=3)
    for trial in plan.trials:
        (tmp_path / "runs" / f"{plan.key(*trial)}.json").mkdir(parents=True)
    with pytest.raises(gx.StorageError, match="corrupt"):
        small(out=tmp_path)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_folder_that_cannot_be_written_ends_in_a_sentence(tmp_path: Path, workers: int) -> None:
    (tmp_path / "runs").write_text("in the way")
    with pytest.raises(gx.StorageError, match="runs"):
        small(out=tmp_path, workers=workers)


def test_a_corrupt_trial_is_named(tmp_path: Path) -> None:
    given = {"out": tmp_path, "policies": ["uniform"], "repeats": 1}
    small(**given)
    (file,) = (tmp_path / "runs").iterdir()
    file.write_text("{", "utf-8")
    with pytest.raises(gx.StorageError, match=f"{file.name} is corrupt .*; delete it"):
        small(**given)


def test_stopping_early_stops_the_workers(recwarn: pytest.WarningsRecorder) -> None:
    class Enough(Exception):
        pass

    def progress(done: int, total: int) -> None:
        if done:
            raise Enough

    with pytest.raises(Enough):
        compare(WORLD, repeats=50, objective=gx.Vendi(), budget=200, workers=2, progress=progress)
    assert not recwarn.list


def test_what_cannot_be_pickled_runs_in_this_process() -> None:
    assert sorted(run_jobs(with_lock, threading.Lock(), [5, 6], 2)) == [(0, 5), (1, 6)]


def test_workers_do_not_outlive_the_call_and_know_the_code_of_today(tmp_path: Path) -> None:
    """Edit a module between two calls, as in a notebook, from another folder."""
    module = tmp_path / "edited_module.py"
    sys.path.insert(0, str(tmp_path))
    try:
        for version in (1, 2):
            module.write_text(f"def function(shared, job):\n    return {version}\n")
            os.utime(module, (version, version))
            sys.modules.pop("edited_module", None)
            importlib.invalidate_caches()
            function = importlib.import_module("edited_module").function
            found = [result for _, result in run_jobs(function, None, range(2), 2)]
            assert found == [version, version]
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("edited_module", None)


def test_a_relative_folder_is_that_of_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        small(out="found", policies=["uniform"], repeats=2, workers=2)
        assert list((tmp_path / name / "found" / "runs").iterdir())


def test_one_comparison_does_not_end_another() -> None:
    running = run_jobs(slow_square, None, range(6), 2)
    next(running)
    other = run_jobs(slow_square, None, range(6), 2)
    next(other)
    other.close()
    assert len(list(running)) == 5
