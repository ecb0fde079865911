"""The world of a study with recorded arms, or of a finished run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from genmix.comparison.worlds import World
from genmix.core.python_objects import missing_in
from genmix.data.samples import Request, Sample
from genmix.encoders.base import Encoder
from genmix.encoders.references import read_reference
from genmix.errors import InputError, StorageError
from genmix.generators.base import GenerationError, Generator, collect
from genmix.generators.recorded import RecordedArm
from genmix.journal.integrity import verify
from genmix.journal.reader import JournalReader
from genmix.journal.schema import JOURNAL, embedding_of
from genmix.objectives import Objective, Sum
from genmix.runs.interrupts import Interrupts
from genmix.runs.prepare import close_all, make_encoder, make_generators
from genmix.runs.result import Run
from genmix.runs.snapshot import read_snapshot
from genmix.study.components import make_objective, reference_paths
from genmix.study.objects import name_of_reference
from genmix.study.parsing import study_file
from genmix.study.study import Study, read_study, study_from

BATCH_SIZE = 64


@dataclass(frozen=True)
class StudyWorld:
    """A world with the objective and the options of the study it came from."""

    world: World
    objective: Objective
    options: dict[str, Any]


def read_study_world(study: Any, objective: Objective | None = None) -> StudyWorld:
    """Read the world from a study file, a dict, a run folder or a Run.

    ``objective`` replaces that of the study.
    """
    if isinstance(study, Run):
        return _of_run(study.folder, objective)
    if isinstance(study, Mapping):
        return _of_study(study_from(study), Path.cwd(), objective)
    if isinstance(study, Study):
        return _of_study(study, Path.cwd(), objective)
    if not isinstance(study, str | os.PathLike):
        raise InputError(
            f"cannot compare policies on {study!r}; pass a study, a run folder or arrays."
        )
    place = Path(study)
    if (place / JOURNAL).exists():
        return _of_run(place, objective)
    return _of_study(read_study(place), study_file(place).parent, objective)


def _options(study: Study) -> dict[str, Any]:
    options = {
        "warm_start": study.warm_start,
        "draw": study.draw,
        "resolve_growth": study.resolve_growth,
        "seed": study.seed,
    }
    return options | ({} if study.budget.samples is None else {"rounds": study.budget.samples})


def _of_run(folder: Path, objective: Objective | None) -> StudyWorld:
    """Read the samples of all arms of a run that have any; they become the whole population."""
    with JournalReader.open(folder) as journal, journal.snapshot():
        verify(journal)
        study = study_from(journal.study())
        rows: dict[str, list[Any]] = {}
        extras: dict[str, list[tuple[float | None, float | None]]] = {}
        for row in journal.told_rows():  # including arms that the study no longer contains
            rows.setdefault(row["arm"], []).append(embedding_of(row))
            extras.setdefault(row["arm"], []).append((row["quality"], row["cost"]))
        encoder_name = journal.meta("encoder")
        if objective is None:
            objective = _objective_of_run(journal, study)
    _check_choice(list(rows), folder)
    order = sorted(rows, key=[*study.arms, *rows].index)
    pools = {label: np.array(rows[label], dtype=float) for label in order}
    world = _world(study.name, pools, encoder_name, {label: extras[label] for label in order})
    return StudyWorld(world, objective, _options(study))


def _check_choice(arms: Sequence[str], where: object) -> None:
    """Refuse a world in which every policy does the same thing."""
    if len(arms) < 2:
        found = f"samples of only one arm, {arms[0]!r}" if arms else "no samples"
        raise InputError(
            f"{where} has {found}, but policies choose between arms; use at least two."
        )


def _objective_of_run(journal: JournalReader, study: Study) -> Objective:
    """Build the objective; references that were passed as arrays are in the snapshot."""
    home, saved = journal.study_folder(), _saved_references(journal, study)
    needed = missing_in([study.objective, study.reference])
    own = next((each for each in needed if each not in saved), None)
    if own is not None:
        raise InputError(
            f"the objective of {journal.path.parent} contains the Python object {own.label}, which a "
            "journal cannot store; pass objective=."
        )
    encoder = make_encoder(study, home)

    def read(path: str) -> Any:
        return saved[path] if path in saved else read_reference(path, home, encoder, _quiet)

    try:
        return make_objective(study, read)
    finally:
        Interrupts().run(close_all({}, encoder))


def _saved_references(journal: JournalReader, study: Study) -> dict[str, Any]:
    """Return the references in the snapshot by their names; they are read only if one is missing."""
    names = [path for path in reference_paths(study) if missing_in(path)]
    try:
        snapshot = read_snapshot(journal) if names else None
    except StorageError:
        return {}
    if snapshot is None:
        return {}
    objective = snapshot.selector.objective
    terms = [t for _, t in objective.terms] if isinstance(objective, Sum) else [objective]
    found = [t.reference for t in terms if hasattr(t, "reference")]
    return {name_of_reference(each): each for each in found}


def _of_study(study: Study, folder: Path, objective: Objective | None) -> StudyWorld:
    live = [label for label, arm in study.arms.items() if not isinstance(arm, RecordedArm)]
    if live:
        raise InputError(
            f"arm {live[0]!r} is not recorded, so every policy would generate its own samples; run the "
            "study once with 'policy: uniform', and compare on its run folder."
        )
    _check_choice(list(study.arms), "the study")
    encoder = make_encoder(study, folder)
    generators = make_generators(study, folder)
    try:
        pools, extras = {}, {}
        for label, generator in generators.items():
            samples = Interrupts().run(_all_samples(generator, label))
            pools[label] = _embedded(samples, encoder, label)
            extras[label] = [(sample.quality, sample.cost) for sample in samples]
        if objective is None:
            objective = make_objective(
                study, lambda path: read_reference(path, folder, encoder, _quiet)
            )
    finally:
        Interrupts().run(close_all(generators, encoder))
    name = None if encoder is None else encoder.name
    return StudyWorld(_world(study.name, pools, name, extras), objective, _options(study))


def _world(
    name: str,
    pools: dict[str, Any],
    encoder: str | None,
    extras: Mapping[str, Sequence[tuple[float | None, float | None]]],
) -> World:
    """Create a world, with mean costs if every arm has costs, and qualities if every sample has one."""
    known = {arm: [cost for _, cost in each if cost is not None] for arm, each in extras.items()}
    costs = {arm: float(np.mean(each)) for arm, each in known.items() if each}
    rated = all(quality is not None for each in extras.values() for quality, _ in each)
    qualities = {arm: np.array([q for q, _ in each], dtype=float) for arm, each in extras.items()}
    return World(
        name,
        pools,
        encoder=encoder,
        costs=costs if len(costs) == len(pools) else None,
        qualities=qualities if rated else None,
    )


async def _all_samples(generator: Generator, label: str) -> list[Sample]:
    total = generator.available()
    assert total is not None
    found: list[Sample] = []
    for start in range(0, total, BATCH_SIZE):
        places = range(start, min(start + BATCH_SIZE, total))
        for outcome in await collect(generator, [Request(place, 0) for place in places]):
            if isinstance(outcome, GenerationError):
                raise InputError(f"arm {label!r}: {outcome}")
            found.append(outcome)
    return found


def _embedded(samples: Sequence[Sample], encoder: Encoder | None, label: str) -> Any:
    vectors = [sample.vector for sample in samples if sample.vector is not None]
    if len(vectors) == len(samples) and encoder is None:
        return np.array(vectors, dtype=float)
    if encoder is None:
        raise InputError(
            f"arm {label!r} has no embeddings and the study has no encoder; add an encoder."
        )
    parts = [
        encoder.encode(samples[k : k + BATCH_SIZE]) for k in range(0, len(samples), BATCH_SIZE)
    ]
    return np.concatenate(parts).astype(float)


def _quiet(line: str) -> None:
    """Ignore progress messages."""
