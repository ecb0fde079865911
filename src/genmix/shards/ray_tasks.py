"""Run independent jobs as tasks on a Ray cluster."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from itertools import islice
from typing import Any

from genmix.cluster.connection import connect
from genmix.core.text import describe_error
from genmix.errors import GenmixError
from genmix.shards.processes import Job, one_thread

WAITING = 2
"""Number of tasks per worker that are submitted before their results are needed."""


def run_on_ray(
    function: Job, shared: Any, jobs: Sequence[Any], workers: int | None, address: str | None
) -> Generator[Any, None, None]:
    """Yield ``function(shared, job)`` for all jobs in their order.

    Without an address, the existing connection of this process or ``$RAY_ADDRESS`` is used, or a cluster is
    started on this machine and stopped at the end.
    """
    is_owner = connect(address)
    import ray

    waiting, pending = iter(jobs), deque[Any]()
    try:
        task, data = ray.remote(num_cpus=1)(_run), ray.put((function, shared))
        at_once = workers or WAITING * max(1, int(ray.cluster_resources().get("CPU", 1)))
        pending.extend(task.remote(data, job) for job in islice(waiting, at_once))
        while pending:
            result = _result(ray, pending[0])
            pending.popleft()
            pending.extend(task.remote(data, job) for job in islice(waiting, 1))
            yield result
    finally:
        try:
            for each in pending:
                ray.cancel(each, force=True)
        finally:
            if is_owner:
                ray.shutdown()


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
