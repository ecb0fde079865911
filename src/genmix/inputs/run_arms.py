"""Read the arms of a run, with the embeddings, quality and cost that the journal stores."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from genmix.core.arrays import as_matrix
from genmix.data.loaded_arm import LoadedArm
from genmix.errors import InputError
from genmix.inputs.generator_identity import identity
from genmix.journal.images import IMAGES
from genmix.journal.integrity import verify
from genmix.journal.reader import JournalReader, Row, embedding_of
from genmix.journal.schema import JOURNAL
from genmix.runs.export import encoder_name
from genmix.runs.prepare import SOURCES


def is_run(path: Path) -> bool:
    """Return whether a path is the folder of a run."""
    return os.path.exists(path / JOURNAL)  # Path.exists raises an error if the name is too long


def run_id(folder: Path) -> str:
    """Return what identifies a run; copies of its folder share it."""
    with JournalReader.open(folder) as journal:
        return str(journal.meta("run") or folder.resolve())


def read_run(folder: Path, name: str | None = None) -> list[LoadedArm]:
    """Return the arms of a run; with ``name``, the labels are ``name/ARM``.

    Arms without samples are left out.
    """
    with JournalReader.open(folder) as journal, journal.snapshot():
        verify(journal)
        rows: dict[str, list[Row]] = {}
        for row in journal.told_rows():
            rows.setdefault(row["arm"], []).append(row)
        settings, encoder = journal.meta("study")["arms"], encoder_name(journal)
        everything = (journal.meta("former arms") or {}) | settings
        sources, columns = journal.meta(SOURCES) or {}, journal.prompt_columns
        base = None if journal.meta("folder") is None else journal.study_folder()
    if not rows:
        raise InputError(f"{folder} has no samples yet; continue it with: genmix resume {folder}")
    return [
        _arm(
            rows[arm],
            arm,
            name,
            folder,
            identity(everything.get(arm), base, sources.get(arm)),
            encoder,
            columns,
        )
        for arm in dict.fromkeys([*settings, *rows])
        if arm in rows
    ]


def _arm(
    rows: list[Row],
    arm: str,
    name: str | None,
    folder: Path,
    generator: str | None,
    encoder: str | None,
    prompt_columns: int,
) -> LoadedArm:
    told = np.stack([embedding_of(row) for row in rows])
    as_matrix(told, f"{folder}, arm {arm!r}")
    prompts, features = np.split(told, [prompt_columns], axis=1)
    images = _complete([row["image"] for row in rows])
    return LoadedArm(
        arm if name is None else f"{name}/{arm}",
        str(folder),
        features,
        prompt_features=prompts if prompt_columns else None,
        prompts=_complete([row["prompt"] for row in rows]),
        texts=_complete([row["text"] for row in rows]),
        images=None if images is None else [folder / IMAGES / Path(name).name for name in images],
        quality=_numbers([row["quality"] for row in rows]),
        cost=_numbers([row["cost"] for row in rows]),
        sample_ids=[row["id"] for row in rows],
        encoder=encoder,
        generator=generator,
    )


def _complete(values: list[Any]) -> list[Any] | None:
    return None if None in values else values


def _numbers(values: list[Any]) -> Any:
    return None if None in values else np.array(values, dtype=np.float64)
