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
from genmix.journal.prompts import embeddings_of_prompts, prompt_of_ticket
from genmix.journal.reader import JournalReader, Row
from genmix.journal.schema import JOURNAL
from genmix.runs.export import encoder_name
from genmix.runs.prepare import SOURCES

OUTPUT, PROMPT = "output embedding", "prompt embedding"
"""Keys of the embeddings of a sample and of its prompt, beside the columns of the journal."""


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
        embeddings, prompts = embeddings_of_prompts(journal), prompt_of_ticket(journal)
        for row in journal.told_rows():
            prompt = embeddings.get(prompts.get(row["id"], -1))
            found = row | {OUTPUT: journal.output_of(row), PROMPT: prompt}
            rows.setdefault(row["arm"], []).append(found)
        settings, encoder = journal.study()["arms"], encoder_name(journal)
        everything = (journal.meta("former arms") or {}) | settings
        sources = journal.meta(SOURCES) or {}
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
) -> LoadedArm:
    features, prompts = (_stacked([row[key] for row in rows]) for key in (OUTPUT, PROMPT))
    as_matrix(features, f"{folder}, arm {arm!r}")
    images = _complete([row["image"] for row in rows])
    return LoadedArm(
        arm if name is None else f"{name}/{arm}",
        str(folder),
        features,
        prompt_features=prompts,
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


def _stacked(rows: list[Any]) -> Any:
    return None if any(row is None for row in rows) else np.stack(rows)


def _numbers(values: list[Any]) -> Any:
    return None if None in values else np.array(values, dtype=np.float64)
