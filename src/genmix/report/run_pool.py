"""Load the samples of a run into the statistics of its objective, without generating or solving again."""

from __future__ import annotations

from typing import Any

import numpy as np

from genmix.core.arrays import Vector
from genmix.core.python_objects import missing_in
from genmix.encoders.references import Note, read_reference
from genmix.errors import GenmixError, StorageError
from genmix.journal.prompts import dimension_of_prompts
from genmix.journal.reader import JournalReader
from genmix.journal.schema import JournalStep, embedding_of
from genmix.objectives import Batch, FrechetDistance, Objective, QualityVendi, Sum, Vendi
from genmix.objectives.pool import Pool
from genmix.runs.snapshot import SNAPSHOT, read_snapshot
from genmix.study.components import make_objective
from genmix.study.study import study_from

MAX_READ = 20_000
"""Maximum number of samples to read from the journal if there is no snapshot."""

LARGE_MATRIX = 1000
"""Size of a matrix above which its eigendecomposition makes a solve slow."""


def load_pool(journal: JournalReader, note: Note) -> Pool | None:
    """Load all samples; return None during the warm start, or if the objective cannot be built."""
    pool = _from_snapshot(journal, note)
    return _from_journal(journal, note) if pool is None else pool


def is_heavy(pool: Pool) -> bool:
    """Return whether a solve takes seconds because it decomposes a large matrix."""
    return matrix_size(pool) > LARGE_MATRIX


def matrix_size(pool: Pool) -> int:
    """Return the size of the largest matrix that a solve decomposes; 0 if there is none."""
    objective = pool.objective
    parts = [part for _, part in objective.terms] if isinstance(objective, Sum) else [objective]
    return max(_size(part, pool) for part in parts)


def _size(part: Objective, pool: Pool) -> int:
    if isinstance(part, Vendi | QualityVendi):
        columns: int | None = part.kernel.columns(pool.tally.dimension)
        samples = sum(pool.tally.counts)
        return samples if columns is None else min(samples, columns)
    return pool.tally.dimension if isinstance(part, FrechetDistance) else 0


def _from_snapshot(journal: JournalReader, note: Note) -> Pool | None:
    """Load the last snapshot and add the samples told since; None if it cannot be used."""
    try:
        saved = read_snapshot(journal)
    except StorageError as error:
        path = journal.path.with_name(SNAPSHOT)
        note(
            f"{path} cannot be used ({str(error).rstrip('.')}); the report was computed from the "
            f"journal instead, and `genmix resume {path.parent}` writes the file again."
        )
        return None
    pool = None if saved is None else saved.selector.pool()
    if saved is not None and pool is not None:
        _add(pool, [told for told in journal.steps(saved.step) if told.kind == "told"])
    return pool


def _add(pool: Pool, told: list[JournalStep]) -> None:
    for index, arm in enumerate(pool.arms):
        mine = [step for step in told if step.arm == arm]
        if mine:
            rows = np.stack([np.asarray(step.embedding, dtype=np.float64) for step in mine])
            numbers = [_column([getattr(s, key) for s in mine]) for key in ("quality", "cost")]
            pool.tally.add(index, Batch(rows, *numbers))


def _column(values: list[float | None]) -> Vector | None:
    return None if None in values else np.array(values, dtype=np.float64)


def _from_journal(journal: JournalReader, note: Note) -> Pool | None:
    """Load the samples from the journal if the study's reference can be read without an encoder."""
    plan = study_from(journal.study())
    told = journal.told_numbers()
    by_arm: dict[str, list[Any]] = {}
    for sample in told:
        by_arm.setdefault(sample[1], []).append(sample)
    full = {arm: samples for arm, samples in by_arm.items() if len(samples) >= plan.warm_start}
    if not full or len(told) > MAX_READ:
        return None
    rows = {
        arm: np.stack([embedding_of(row) for row in journal.samples_of([s[0] for s in samples])])
        for arm, samples in full.items()
    }
    columns = (
        {arm: _column([s[i] for s in samples]) for arm, samples in full.items()} for i in (2, 3)
    )
    quality, cost = ({arm: c for arm, c in each.items() if c is not None} for each in columns)
    base = journal.study_folder()
    try:
        objective = make_objective(
            plan,
            lambda path: read_reference(path, base, None, lambda _: None),
            dimension_of_prompts(journal),
        )
        return Pool.of(rows, objective, quality, cost, journal.meta("encoder"))
    except (GenmixError, OSError):  # the reference is missing, or needs an encoder
        for each in missing_in([plan.objective, plan.reference])[:1]:
            note(
                f"the objective contains the Python object {each.label}, which a journal cannot store; "
                "the report omits what it would have to compute with it."
            )
        return None
