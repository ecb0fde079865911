"""Run independent jobs as tasks on a Ray cluster."""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

from genmix.core.optional import require
from genmix.core.text import describe_error
from genmix.errors import GenmixError, InputError
from genmix.shards.processes import Job, one_thread

WAITING = 2
"""Number of tasks per worker that are submitted before their results are needed."""


def run_on_ray(
    function: Job, shared: Any, jobs: Sequence[Any], workers: int | None, address: str | None
) -> Generator[Any, None, None]:
    """Yield ``function(shared, job)`` for all jobs in their order.

    Without an address, a cluster is started on this machine and stopped at the end, unless this process is
    connected to one already.
    """
    ray = require("ray", extra="ray", what="the engine ray")
    with _connected(ray, address):
        task = ray.remote(num_cpus=1)(_run)
        at_once = workers or WAITING * max(1, int(ray.cluster_resources().get("CPU", 1)))
        data, waiting, pending = ray.put((function, shared)), iter(jobs), deque[Any]()
        try:
            pending.extend(task.remote(data, job) for job in islice(waiting, at_once))
            while pending:
                result = _result(ray, pending[0])
                pending.popleft()
                pending.extend(task.remote(data, job) for job in islice(waiting, 1))
                yield result
        finally:
            for each in pending:
                ray.cancel(each, force=True)


def _run(data: tuple[Job, Any], job: Any) -> Any:
    function, shared = data
    with one_thread():
        return function(shared, job)


def _result(ray: Any, reference: Any) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, GenmixError):
            raise error.cause from None
        raise
    except ray.exceptions.RayError as error:
        raise GenmixError(
            f"a Ray task failed ({describe_error(error)}); run the command again to continue."
        ) from error


@contextmanager
def _connected(ray: Any, address: str | None) -> Iterator[None]:
    if ray.is_initialized():
        yield
        return
    where = address or os.environ.get("RAY_ADDRESS") or "local"
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    options = {"include_dashboard": False} if where == "local" else {}
    try:
        ray.init(where, log_to_driver=False, logging_level=logging.CRITICAL, **options)
    except Exception as error:  # Ray raises many types
        raise InputError(
            f"cannot connect to the Ray cluster at {where} ({describe_error(error)}); start it, or "
            "correct the address."
        ) from error
    try:
        yield
    finally:
        ray.shutdown()
