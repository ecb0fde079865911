"""Independent jobs in worker processes (joblib), one BLAS thread each."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from threadpoolctl import threadpool_limits

from genmix.errors import GenmixError

Job = Callable[[Any, Any], Any]
"""A function of the data that all jobs share and of one job."""

SAFE_PATH = "PYTHONSAFEPATH"
"""Workers start with ``python -m``, which would otherwise import modules from the current folder."""

POLL_SECONDS = 0.2


def run_jobs(
    function: Job, shared: Any, jobs: Sequence[Any], workers: int | None = None
) -> Generator[tuple[int, Any], None, None]:
    """Yield ``(index, function(shared, job))`` as jobs finish, by default on one process per core.

    Every job runs on one thread, so results do not depend on the number of processes. Closing the
    generator or raising an exception stops the workers.
    """
    import joblib

    workers = min(joblib.cpu_count() if workers is None else workers, len(jobs))
    if workers > 1:
        yield from _in_workers(function, shared, jobs, workers)
    else:
        for index, job in enumerate(jobs):
            yield index, _on_one_thread(function, shared, job)


def _in_workers(
    function: Job, shared: Any, jobs: Sequence[Any], workers: int
) -> Generator[tuple[int, Any], None, None]:
    import joblib

    with TemporaryDirectory() as scratch, _safe_path():
        file = Path(scratch, "shared.pickle")  # loaded once per worker, not once per job
        joblib.dump(joblib.wrap_non_picklable_objects((function, shared), keep_wrapper=False), file)
        with joblib.parallel_config(backend="loky", inner_max_num_threads=1):
            parallel = joblib.Parallel(
                workers,
                return_as="generator_unordered",
                batch_size=1,
                initializer=_start_worker,
                initargs=(os.getpid(),),
            )
            results = parallel(
                joblib.delayed(_run_job)(str(file), index, job) for index, job in enumerate(jobs)
            )
        try:
            # Avoid ``yield from``, so that joblib's generator is closed only below.
            while (finished := next(results, None)) is not None:
                yield finished
        except BrokenProcessPool as error:
            raise GenmixError(
                "a worker process was killed, perhaps because memory ran out; try again with fewer workers."
            ) from error
        finally:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # joblib warns about canceled jobs
                results.close()


@contextmanager
def _safe_path() -> Iterator[None]:
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[SAFE_PATH]
        else:
            os.environ[SAFE_PATH] = before


# -- in a worker -------------------------------------------------------------------------------------


def _start_worker(parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and stops its workers
    threading.Thread(target=_exit_after, args=(parent,), daemon=True).start()


def _exit_after(parent: int) -> None:
    """End this process soon after its parent, even if the parent was killed."""
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
    with threadpool_limits(1):
        return function(shared, job)
