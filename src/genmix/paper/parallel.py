"""Independent jobs in several processes; what comes out does not depend on how many there are."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from threadpoolctl import threadpool_limits

from genmix.paper.item import Setting

Job = Callable[[Any, Any], Any]
"""A function of a module, of what all jobs share and of what is this job's."""

_given: list[Any] = []
"""In a worker: the function and what all jobs share, sent once."""


PATIENCE = 3.0
"""Seconds of work that are done before other processes are started, which takes as long."""


def in_parallel(
    setting: Setting, title: str, job: Job, shared: Any, parts: Sequence[Any]
) -> list[Any]:
    """``job(shared, part)`` for every part, in order, each on one thread."""
    return _told(setting, title, len(parts), _results(setting.workers, job, shared, list(parts)))


def _results(workers: int, job: Job, shared: Any, parts: list[Any]) -> Iterator[Any]:
    begun = time.monotonic()
    while parts and (workers < 2 or len(parts) < 2 or time.monotonic() < begun + PATIENCE):
        yield _alone(job, shared, parts.pop(0))
    if not parts:
        return
    crew = min(workers, len(parts))
    pool = ProcessPoolExecutor(crew, get_context("spawn"), _begin, (job, shared))
    try:
        yield from pool.map(_do, parts)
    finally:
        pool.shutdown(cancel_futures=True)


def _told(setting: Setting, title: str, total: int, results: Iterable[Any]) -> list[Any]:
    """The results, with a line of progress now and then."""

    def watched() -> Iterator[Any]:
        for done, result in enumerate(results, 1):
            if done % max(1, total // 4) == 0 or done == total:
                setting.progress(f"{title}: {done}/{total}")
            yield result

    return list(watched())


def _alone(job: Job, shared: Any, part: Any) -> Any:
    with threadpool_limits(1):
        return job(shared, part)


def _begin(job: Job, shared: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends the workers
    _given[:] = [job, shared]


def _do(part: Any) -> Any:
    return _alone(_given[0], _given[1], part)
