"""Run independent jobs in worker processes (joblib) with one BLAS thread each."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import lru_cache
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Any

from threadpoolctl import ThreadpoolController

from genmix.errors import GenmixError, StorageError

Job = Callable[[Any, Any], Any]
"""A function that takes the data shared by all jobs, and one job."""

WORKER_ENVIRONMENT = {
    "PYTHONSAFEPATH": "1",  # python -m would otherwise import modules from the current folder
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}

POLL_SECONDS = 0.2


def run_jobs(
    function: Job,
    shared: Any,
    jobs: Sequence[Any],
    workers: int | None = None,
    *,
    in_order: bool = False,
) -> Generator[tuple[int, Any], None, None]:
    """Yield ``(index, function(shared, job))`` as jobs finish, using one process per core by default.

    With ``in_order``, the results come in the order of the jobs, and at most twice as many as workers wait.
    Every job runs on one thread, so results do not depend on the number of processes. If ``shared``
    cannot be pickled, the jobs run in this process. The workers exit when the generator ends.
    """
    import joblib

    workers = min(joblib.cpu_count() if workers is None else workers, len(jobs))
    with TemporaryDirectory() as scratch:
        file = Path(scratch, "shared.pickle")  # loaded once per worker, not once per job
        if workers > 1 and _dump(function, shared, file):
            yield from _in_workers(file, jobs, workers, in_order)
        else:
            for index, job in enumerate(jobs):
                yield index, _on_one_thread(function, shared, job)


def _dump(function: Job, shared: Any, file: Path) -> bool:
    """Write the data that the workers share; return False if it cannot be pickled, e.g. because of a lock."""
    import joblib

    wrapped = joblib.wrap_non_picklable_objects((function, shared), keep_wrapper=False)
    try:
        joblib.dump(wrapped, file)
    except OSError as error:
        raise StorageError(
            f"could not write {file} ({error.strerror}); free some space for temporary files."
        ) from error
    except Exception:  # pickling runs third-party code, which can raise anything
        return False
    return True


def _in_workers(
    file: Path, jobs: Sequence[Any], workers: int, in_order: bool
) -> Iterator[tuple[int, Any]]:
    """Yield results from worker processes that serve only this call and exit when it ends."""
    from multiprocessing import resource_tracker

    from joblib.externals.loky import ProcessPoolExecutor
    from joblib.externals.loky.backend import resource_tracker as loky_tracker

    for tracker in (resource_tracker, loky_tracker):  # starting a tracker unblocks interrupts
        tracker.ensure_running()
    executor = ProcessPoolExecutor(
        workers, initializer=_start_worker, initargs=(os.getpid(),), env=WORKER_ENVIRONMENT
    )
    # A queue instead of as_completed, which an interrupt can leave with the locks of futures held.
    finished: SimpleQueue[Future[tuple[int, Any]]] = SimpleQueue()
    waiting, latest = enumerate(jobs), Future[Any]()

    def submit(count: int) -> None:
        nonlocal latest
        with _without_interrupts():  # workers start with the first job and inherit the signal mask
            for index, job in islice(waiting, count):
                latest = executor.submit(_run_job, str(file), index, job)
                latest.add_done_callback(finished.put)

    try:
        submit(2 * workers)  # no more, because loky cannot abandon jobs that it has not queued yet
        for result in _results(finished, len(jobs), in_order):
            submit(1)
            yield result
    except BrokenProcessPool as error:
        raise GenmixError(
            "a worker process was killed, perhaps because memory ran out; try again with fewer workers."
        ) from error
    finally:
        _wait_until_queued(latest)
        executor.shutdown(wait=True, kill_workers=True)


def _wait_until_queued(latest: Future[Any]) -> None:
    """Wait up to a second until loky has queued the latest job; otherwise its thread fails in shutdown."""
    end = time.monotonic() + 1.0
    while not (latest.running() or latest.done()) and time.monotonic() < end:
        time.sleep(0.001)


def _results(
    finished: SimpleQueue[Future[tuple[int, Any]]], count: int, in_order: bool
) -> Iterator[tuple[int, Any]]:
    """Yield results as they come or, with ``in_order``, hold them until it is their turn."""
    held: dict[int, Any] = {}
    for turn in range(count):
        while not held or (in_order and turn not in held):
            index, result = finished.get().result()
            held[index] = result
        index = turn if in_order else next(iter(held))
        yield index, held.pop(index)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Defer Ctrl-C in this thread, and block it in processes started inside the context."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# -- in a worker -------------------------------------------------------------------------------------


def _start_worker(parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and stops its workers
    threading.Thread(target=_exit_after, args=(parent,), daemon=True).start()


def _exit_after(parent: int) -> None:
    """Exit soon after the parent process ends, even if it was killed."""
    while os.getppid() == parent:
        time.sleep(POLL_SECONDS)
    os._exit(1)


def _run_job(file: str, index: int, job: Any) -> tuple[int, Any]:
    return index, _on_one_thread(*_load(file), job)


@lru_cache(maxsize=1)
def _load(file: str) -> tuple[Job, Any]:
    import joblib

    function, shared = joblib.load(file)
    return function, shared


def _on_one_thread(function: Job, shared: Any, job: Any) -> Any:
    with one_thread():
        return function(shared, job)


# -- threads -----------------------------------------------------------------------------------------


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS and OpenMP to one thread, so that results are identical in every process."""
    with _libraries(len(sys.modules)).limit(limits=1):
        yield


@lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    """Find the thread pools, which takes milliseconds; repeat it only after new imports."""
    return ThreadpoolController()
