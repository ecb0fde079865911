"""The statistics of shards: every file is summarized alone, and the results are merged in order.

So the statistics do not depend on the number of workers, nor on where an earlier computation was interrupted.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from genmix.core.arrays import Vector
from genmix.core.description import is_built_in, to_plain
from genmix.data.shard_files import ShardFile, shifted
from genmix.data.shards import fits_in_memory
from genmix.errors import InputError
from genmix.objectives import Batch, Objective
from genmix.objectives.kernel_sums import ExactPairTally
from genmix.objectives.tally import CompositeTally, Tally
from genmix.objectives.vendi import GramTally
from genmix.shards.arms import StreamedArm
from genmix.shards.saved_progress import SavedProgress, digest
from genmix.shards.settings import current

LOG = logging.getLogger("genmix.shards")

Pick = tuple[int, Any]
"""A slot of a tally, and the rows of an arm that belong there, in ascending order; None for all rows."""


@dataclass(frozen=True)
class Request:
    """Statistics to compute: an objective with fixed bandwidths, and which rows go where."""

    objective: Objective
    picks: Sequence[Sequence[Pick]]
    """For each arm."""
    slots: int
    is_checked: bool = False
    """Whether the samples were checked before."""


def all_rows(objective: Objective, arms: int) -> Request:
    """Request the statistics of all samples, with one slot per arm."""
    return Request(objective, [[(arm, None)] for arm in range(arms)], arms)


@dataclass(frozen=True)
class _Shared:
    """What all jobs have in common."""

    objectives: tuple[Objective, ...]
    is_checked: tuple[bool, ...]
    dimension: int
    token: str = field(default_factory=lambda: uuid4().hex)


@dataclass(frozen=True)
class _Job:
    """One file, and for each request which of its rows belong to which slot."""

    file: ShardFile
    picks: tuple[tuple[Pick, ...], ...]
    quality: Vector | None
    cost: Vector | None


def statistics(
    arms: Sequence[StreamedArm], requests: Sequence[Request], title: str = "reading shards"
) -> list[Tally]:
    """Compute the statistics of several requests while reading every file once."""
    settings = current()
    objectives, checked = zip(*((r.objective, r.is_checked) for r in requests), strict=True)
    shared = _Shared(objectives, checked, arms[0].shards.shape[1])
    totals = [_with_slots(t, r.slots) for t, r in zip(_empties(shared), requests, strict=True)]
    _check_memory(totals, arms)
    jobs = list(_jobs(arms, requests))
    saved = SavedProgress(_folder(requests), _description(arms, requests))
    done, states = saved.read()
    if done:
        for total, state in zip(totals, states, strict=True):
            total.load_state_dict(state)
        LOG.info("continuing after %s of %s shards", f"{done:,}", f"{len(jobs):,}")

    def states_now() -> list[Any]:
        return [total.state_dict() for total in totals]

    is_merged = True  # whether the statistics are those of exactly ``done`` files
    try:
        with closing(_results(shared, jobs[done:])) as results:
            for job, parts in zip(jobs[done:], results, strict=True):
                is_merged = False
                _merge(totals, parts, job, shared)
                done += 1
                is_merged = True
                saved.offer(done, states_now)
                settings.progress(title, done, len(jobs))
    except BaseException:
        if done and is_merged and saved.write(done, states_now()):
            every = f"{len(jobs):,} shards"
            LOG.info(
                "%s of %s are saved; run the same command again to continue", f"{done:,}", every
            )
        raise
    saved.finish(done, states_now)
    return totals


def _results(shared: _Shared, jobs: Sequence[_Job]) -> Generator[Any, None, None]:
    """Yield the results of all jobs in their order."""
    settings = current()
    if not jobs:
        return
    if settings.engine == "ray":
        from genmix.shards.ray_tasks import run_on_ray

        portable = [replace(job, file=job.file.elsewhere()) for job in jobs]
        tasks = run_on_ray(_summarize, shared, portable, settings.workers, settings.address)
        with closing(tasks) as finished:
            for job, result in zip(jobs, finished, strict=True):
                job.file.check_unchanged()
                yield result
        return
    from genmix.shards.processes import run_jobs  # not everybody needs processes

    tasks = run_jobs(_summarize, shared, jobs, settings.workers, in_order=True)
    with closing(tasks) as finished:
        for _, result in finished:
            yield result


def _jobs(arms: Sequence[StreamedArm], requests: Sequence[Request]) -> Iterator[_Job]:
    for i, arm in enumerate(arms):
        for file, (begin, end) in zip(arm.shards.files, arm.shards.bounds(), strict=True):
            picks = tuple(tuple(_within(r.picks[i], begin, end)) for r in requests)
            if any(picks):
                numbers = (v if v is None else v[begin:end] for v in (arm.quality, arm.cost))
                yield _Job(file, picks, *numbers)


def _within(picks: Sequence[Pick], begin: int, end: int) -> Iterator[Pick]:
    """Yield the picks of the rows in a range, counted from its beginning."""
    for slot, rows in picks:
        if rows is None:
            yield slot, None
        else:
            a, b = np.searchsorted(rows, [begin, end]).tolist()
            if a < b:
                yield slot, rows[a:b] - begin


# -- one file ----------------------------------------------------------------------------------------

_LATEST: dict[str, list[Tally]] = {}
"""Empty statistics by token; creating them can take long, e.g. for the neighbors in a reference."""


def _empties(shared: _Shared) -> list[Tally]:
    if shared.token not in _LATEST:
        _LATEST.clear()
        sample = np.empty((1, shared.dimension))
        distinct = {id(each): each for each in shared.objectives}  # all splits share one objective
        made = {key: each.tally(1, sample) for key, each in distinct.items()}
        _LATEST[shared.token] = [made[id(each)] for each in shared.objectives]
    return _LATEST[shared.token]


def _with_slots(empty: Tally, slots: int) -> Tally:
    tally = empty.fork()
    for _ in range(slots - 1):
        tally.grow()
    return tally


def _summarize(shared: _Shared, job: _Job) -> list[Any]:
    """Return the states of the statistics of one file."""
    tallies = [_with_slots(e, len(p)) for e, p in zip(_empties(shared), job.picks, strict=True)]
    for first, rows in job.file.blocks():
        part = slice(first, first + len(rows))
        numbers = (v if v is None else v[part] for v in (job.quality, job.cost))
        block = Batch(rows, *numbers)
        for k, (tally, picks) in enumerate(zip(tallies, job.picks, strict=True)):
            if not shared.is_checked[k]:
                _check(shared.objectives[k], block, job.file, first)
            for slot, (_, wanted) in enumerate(picks):
                chosen = _chosen(block, wanted, first)
                if len(chosen):
                    tally.add(slot, chosen)
    return [tally.state_dict() for tally in tallies]


def _check(objective: Objective, block: Batch, file: ShardFile, first: int) -> None:
    try:
        objective.check(block, file.where)
    except InputError as error:
        raise InputError(shifted(str(error), first)) from None


def _chosen(block: Batch, rows: Any, first: int) -> Batch:
    if rows is None:
        return block
    a, b = np.searchsorted(rows, [first, first + len(block)]).tolist()
    mine = rows[a:b] - first
    numbers = (v if v is None else v[mine] for v in (block.quality, block.cost))
    return Batch(block.embeddings[mine], *numbers)


def _merge(totals: Sequence[Tally], states: Sequence[Any], job: _Job, shared: _Shared) -> None:
    for total, state, empty, picks in zip(totals, states, _empties(shared), job.picks, strict=True):
        if picks:
            part = _with_slots(empty, len(picks))
            part.load_state_dict(state)
            total.merge(part, [slot for slot, _ in picks])


# -- what can be computed, and what was ----------------------------------------------------------------


def _check_memory(tallies: Sequence[Tally], arms: Sequence[StreamedArm]) -> None:
    total = sum(map(len, arms))
    if any(map(holds_samples, tallies)) and not fits_in_memory(total, arms[0].shards.shape[1]):
        raise exact_kernel_error(total)


def exact_kernel_error(total: int) -> InputError:
    return InputError(
        f"an exact kernel compares every pair of the {total:,} samples, which do not fit in memory; use "
        "random features, e.g. Gaussian(features=512), or Cosine()."
    )


def holds_samples(tally: Tally) -> bool:
    """Return whether statistics contain the samples themselves."""
    if isinstance(tally, CompositeTally):
        return any(map(holds_samples, tally.parts))
    return isinstance(tally, GramTally | ExactPairTally)


def _folder(requests: Sequence[Request]) -> Path | None:
    """Return where statistics are saved; None if they depend on code of users, which can change."""
    is_known = all(is_built_in(request.objective) for request in requests)
    return current().place if is_known else None


def _description(arms: Sequence[StreamedArm], requests: Sequence[Request]) -> list[Any]:
    """Return everything that the statistics depend on."""
    numbers = [[a.quality, a.cost] for a in arms]
    files = [[file.identity() for file in arm.shards.files] for arm in arms]
    plans = [
        [to_plain(r.objective), r.slots, digest([[s, rows] for p in r.picks for s, rows in p])]
        for r in requests
    ]
    return [files, numbers, plans]
