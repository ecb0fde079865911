"""The samples of a run in its objective's statistics, without drawing or solving anything again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from genmix.core import state
from genmix.core.arrays import Vector
from genmix.errors import GenmixError
from genmix.objectives import FrechetDistance, QualityVendi, Vendi
from genmix.objectives import Batch, Objective, Sum
from genmix.objectives.pool import Pool
from genmix.runs.journal_reader import JournalReader, embedding_of
from genmix.runs.journal_schema import JournalStep
from genmix.runs.references import read_reference
from genmix.runs.session import SNAPSHOT
from genmix.selector.selector import Selector
from genmix.study.study import study_from
from genmix.study.components import make_objective

MOST_READ = 20_000
"""Samples that are taken in from the journal where a run has left no snapshot."""

LARGE_SIDE = 1000
"""Of a matrix whose eigenvalues a solve wants again and again."""


def statistics_of(folder: Path, journal: JournalReader) -> Pool | None:
    """Every told sample; None before the warm start is complete, or if the objective cannot be made."""
    pool = _from_snapshot(folder, journal)
    return _from_journal(journal) if pool is None else pool


def is_heavy(pool: Pool) -> bool:
    """Whether a single solve takes seconds: an eigenproblem of many columns, or of all samples."""
    objective = pool.objective
    parts = [part for _, part in objective.terms] if isinstance(objective, Sum) else [objective]
    return any(_side(part, pool) > LARGE_SIDE for part in parts)


def _side(part: Objective, pool: Pool) -> int:
    if isinstance(part, Vendi | QualityVendi):
        columns: int | None = part.kernel.columns(pool.tally.dimension)
        return sum(pool.tally.counts) if columns is None else columns
    return pool.tally.dimension if isinstance(part, FrechetDistance) else 0


def _from_snapshot(folder: Path, journal: JournalReader) -> Pool | None:
    """What the run saved last, and what was told since."""
    try:
        saved = state.load(folder / SNAPSHOT)
        whose, step = saved["run"], int(saved["step"])
        if whose != journal.meta("run") or step > journal.last_step():
            return None
        pool = Selector.from_state_dict(saved["selector"]).pool()
    except (GenmixError, KeyError, TypeError, ValueError):
        return None  # torn, or of another version: the journal has it all
    if pool is not None:
        _add(pool, [told for told in journal.steps(step) if told.kind == "told"])
    return pool


def _add(pool: Pool, told: list[JournalStep]) -> None:
    for place, arm in enumerate(pool.arms):
        mine = [step for step in told if step.arm == arm]
        if mine:
            rows = np.stack([np.asarray(step.embedding, dtype=np.float64) for step in mine])
            numbers = [_column([getattr(s, key) for s in mine]) for key in ("quality", "cost")]
            pool.tally.add(place, Batch(rows, *numbers))


def _column(values: list[float | None]) -> Vector | None:
    return None if None in values else np.array(values, dtype=np.float64)


def _from_journal(journal: JournalReader) -> Pool | None:
    """From the study itself, if its reference can be read without an encoder."""
    plan = study_from(journal.meta("study"))
    told = journal.told_numbers()
    by_arm: dict[str, list[int]] = {}
    for ticket, arm, _, _ in told:
        by_arm.setdefault(arm, []).append(ticket)
    full = {arm: t for arm, t in by_arm.items() if len(t) >= plan.warm_start}
    if not full or len(told) > MOST_READ:
        return None
    rows = {
        arm: np.stack([embedding_of(row) for row in journal.samples_of(tickets)])
        for arm, tickets in full.items()
    }
    numbers = {ticket: pair for ticket, _, *pair in told}
    quality, cost = (
        {arm: column for arm, t in full.items() if (column := _known(t, i, numbers)) is not None}
        for i in (0, 1)
    )
    base = journal.study_folder()
    try:
        objective = make_objective(plan, lambda path: read_reference(path, base, None, _silent))
        return Pool.of(rows, objective, quality, cost, journal.meta("encoder"))
    except (GenmixError, OSError):
        return None  # the reference is gone, or wants an encoder


def _known(
    tickets: list[int], which: int, numbers: Mapping[int, list[float | None]]
) -> Vector | None:
    return _column([numbers[ticket][which] for ticket in tickets])


def _silent(line: str) -> None:
    pass
