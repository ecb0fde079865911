"""Export a run's data set as JSONL, Parquet, a Hugging Face dataset or a feature file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np

from genmix.core.atomic import ADVICE, draft_of, draft_path, sweep_drafts_of
from genmix.core.optional import require_all
from genmix.core.text import one_line
from genmix.data.features import EMBEDDING
from genmix.data.loaded_arm import LoadedArm
from genmix.data.prompts import Prompt
from genmix.data.write_features import write_table
from genmix.errors import InputError, StorageError
from genmix.journal.images import IMAGES, read_image
from genmix.journal.integrity import verify
from genmix.journal.kept import choose_kept, current_kept, keep_rules
from genmix.journal.prompts import prompt_of_ticket, prompts_of
from genmix.journal.reader import JournalReader, Row
from genmix.journal.schema import embedding_of
from genmix.journal.targets import check_target
from genmix.runs.snapshot import read_snapshot

Form = Literal["parquet", "jsonl", "hf", "npz"]

COLUMNS = {
    "sample_id": "int64",
    "model_name": "string",
    "round": "int64",
    "prompt": "string",
    "text": "string",
    "image_path": "string",
    "source": "string",
    "weight_at_draw": "float64",
    "propensity": "float64",
    "quality": "float64",
    "cost": "float64",
    "input_tokens": "int64",
    "output_tokens": "int64",
}

PROMPT_COLUMNS = {"prompt_id": "int64", "group": "string"}
"""Additional columns for studies with prompts: the row of the prompt in its file, and its group."""

FEATURES = "features.npz"
VECTORS = "precomputed"
"""The encoder of studies whose arms return vectors; its name does not say what computed them."""
ROWS_PER_BATCH = 1000
KEPT = "kept"
"""The column that says whether the run keeps a sample, if its study has ``keep``."""
ARROW = {"bool": "bool_"}
"""Names of types in Arrow, where they differ."""


def export(
    run: str | os.PathLike[str],
    to: Form,
    out: str | os.PathLike[str] | None = None,
    *,
    embeddings: bool = False,
    all: bool = False,
) -> Path:
    """Write the samples of a run as a data set, one row per sample.

    If the study has ``keep``, these are the kept samples, and the column ``kept`` says so. An existing file
    is replaced only once the new one is complete.

    Parameters
    ----------
    run : str or path
        The run folder.
    to : {"parquet", "jsonl", "hf", "npz"}
        The format; ``hf`` is a folder that ``datasets.load_dataset`` reads, with images included, and
        ``npz`` is a feature file without texts and images.
    out : str or path, optional
        The file or folder to write. Default: ``samples.parquet``, ``samples.jsonl``, ``hf`` or
        ``features.npz`` in the run folder.
    embeddings : bool, default False
        Add the embeddings as the column ``embedding``. A feature file always has them.
    all : bool, default False
        Also write the samples that the run does not keep.

    Returns
    -------
    Path
        The file or folder.

    Raises
    ------
    InputError
        If the format is unknown, or ``out`` is one of the run's own files.
    StorageError
        If the journal is corrupt, or the data set cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import genmix as gx
    >>> folder = tempfile.TemporaryDirectory()
    >>> np.save(f"{folder.name}/cats.npy", np.random.default_rng(0).normal(size=(100, 4)))
    >>> arms = {"cats": {"kind": "recorded", "path": f"{folder.name}/cats.npy"}}
    >>> study = {"arms": arms, "objective": "vendi", "budget": {"samples": 40}}
    >>> run = gx.run(study, f"{folder.name}/run")
    >>> path = gx.export(run.folder, "parquet")
    >>> path.name
    'samples.parquet'
    >>> folder.cleanup()
    """
    if to not in ("parquet", "jsonl", "hf", "npz"):
        raise InputError(f"{to!r} is not an export format; use parquet, jsonl, hf or npz.")
    if to in ("parquet", "hf"):
        _parquet(f"exporting to {to}")  # fail before any work if it is missing
    folder = Path(run)
    if out is not None:
        check_target(Path(out), folder, "samples.jsonl" if to == "jsonl" else None)
    if to == "npz" and Path(out or FEATURES).suffix != ".npz":
        raise InputError(f"{out} is not an .npz file; use a name that ends in .npz.")
    with JournalReader.open(folder) as journal:
        with journal.snapshot():
            verify(journal)
        data = DataSet.of(journal, embeddings, all)
        if to == "hf":
            return _write_hf(data, folder, Path(out or folder / "hf"))
        target = Path(out or folder / (FEATURES if to == "npz" else f"samples.{to}"))
        sweep_drafts_of(target)
        if to == "npz":
            return _write_features(data, target)
        with draft_of(target) as draft:
            if to == "jsonl":
                with draft.open("wb") as file:
                    _write_lines(data, file)
            else:
                _write_parquet(data, draft)
        return target


def write_lines(
    run: str | os.PathLike[str], file: BinaryIO, *, embeddings: bool = False, all: bool = False
) -> None:
    """Write the samples of a run as JSONL to an open file, e.g. to stdout."""
    with JournalReader.open(Path(run)) as journal:
        with journal.snapshot():
            verify(journal)
        _write_lines(DataSet.of(journal, embeddings, all), file)


@dataclass(frozen=True)
class DataSet:
    """The samples and columns of an export."""

    journal: JournalReader
    embeddings: bool = False
    has_kept: bool = False
    """Whether the study keeps only some of the samples."""
    kept: frozenset[int] | None = None
    """The kept samples; None if they are unknown, or if the study keeps all."""
    all: bool = True
    """Whether to include samples that are not kept."""

    @classmethod
    def of(cls, journal: JournalReader, embeddings: bool = False, all: bool = False) -> DataSet:
        """Find the kept samples, and choose them again if ``kept.json`` is missing."""
        if keep_rules(journal) is None:
            return cls(journal, embeddings)
        found = current_kept(journal) or _choose_again(journal)
        if found is None and not all:
            folder = journal.path.parent
            raise InputError(
                f"{folder} has not chosen the samples to keep yet; finish it with `genmix resume {folder}`, "
                "or export all samples with --all."
            )
        ids = None if found is None else found["ids"]
        return cls(journal, embeddings, True, None if ids is None else frozenset(ids), all)

    @property
    def columns(self) -> dict[str, str]:
        """The types of the columns by name."""
        found = COLUMNS | (PROMPT_COLUMNS if self.prompts else {})
        return found | ({KEPT: "bool"} if self.has_kept else {})

    @cached_property
    def prompts(self) -> dict[int, Prompt]:
        """The prompt that each ticket answers; empty if the study has no prompts."""
        found = {prompt.id: prompt for prompt in prompts_of(self.journal)}
        return {t: found[prompt] for t, prompt in prompt_of_ticket(self.journal).items()}

    def told_rows(self) -> Iterator[tuple[int, Row]]:
        """Iterate over the samples as the journal stores them, with their numbers from 1."""
        for number, row in enumerate(self.journal.told_rows(), start=1):
            if self.all or self.kept is None or row["id"] in self.kept:
                yield number, row

    def rows(self) -> Iterator[Row]:
        """Iterate over the samples in order; on request, with their embeddings as lists."""
        for number, row in self.told_rows():
            kept = None if self.kept is None else row["id"] in self.kept
            yield {
                "sample_id": row["id"],
                "model_name": row["arm"],
                "round": number,
                "prompt": row["prompt"],
                "text": row["text"],
                "image_path": None if row["image"] is None else f"{IMAGES}/{row['image']}",
                "source": row["source"],
                "weight_at_draw": row["weight"],
                "propensity": row["propensity"],
                "quality": row["quality"],
                "cost": row["cost"],
                "input_tokens": row["input_tokens"],
                "output_tokens": row["output_tokens"],
                **self._prompt_fields(row["id"]),
                **({KEPT: kept} if self.has_kept else {}),
                **({EMBEDDING: self.journal.output_of(row).tolist()} if self.embeddings else {}),
            }

    def _prompt_fields(self, ticket: int) -> Row:
        found = self.prompts.get(ticket)
        return {} if found is None else {"prompt_id": found.id, "group": found.group}


def _choose_again(journal: JournalReader) -> dict[str, Any] | None:
    """Choose the samples to keep with the objective in the snapshot; None if there is no snapshot."""
    try:
        saved = read_snapshot(journal)
    except StorageError:
        return None
    if saved is None:
        return None
    return choose_kept(journal, saved.selector.objective, journal.meta("study").get("seed", 0))


def _write_lines(data: DataSet, file: BinaryIO) -> None:
    for row in data.rows():
        file.write(f"{one_line(row)}\n".encode())


def _write_parquet(data: DataSet, path: Path, images: Path | None = None) -> None:
    """Write a Parquet file; to include images as a column, pass the run folder as ``images``."""
    arrow, parquet = _parquet()
    schema = _schema(arrow, data, images is not None)
    if data.embeddings:
        number = getattr(arrow, _embedding_dtype(data.journal))()
        schema = schema.append(arrow.field(EMBEDDING, arrow.list_(number)))
        name = encoder_name(data.journal)
        schema = schema if name is None else schema.with_metadata({"encoder": name})
    with parquet.ParquetWriter(path, schema) as writer:
        for batch in _batches(data.rows()):
            if images is not None:
                for row in batch:
                    row["image"] = _image(images, row["image_path"])
            writer.write_table(arrow.Table.from_pylist(batch, schema=schema))


def encoder_name(journal: JournalReader) -> str | None:
    """Return the encoder that computed the embeddings; None if the arms returned vectors."""
    name: str | None = journal.meta("encoder")
    return None if name == VECTORS else name


def _embedding_dtype(journal: JournalReader) -> str:
    """Return the narrowest dtype that represents all embeddings exactly."""
    is_double = any(embedding_of(row).dtype == np.float64 for row in journal.told_rows())
    return "float64" if is_double else "float32"


def _write_features(data: DataSet, target: Path) -> Path:
    """Write the embeddings of the samples and the arm of each, in the order of the samples."""
    journal, found = data.journal, [row for _, row in data.told_rows()]
    if not found:
        raise InputError(f"{journal.path.parent} has no samples yet; resume the run first.")
    quality, cost = ([row[key] for row in found] for key in ("quality", "cost"))
    whole = LoadedArm(
        "",
        str(journal.path.parent),
        np.stack([journal.output_of(row) for row in found]),
        quality=None if None in quality else np.array(quality),
        cost=None if None in cost else np.array(cost),
        sample_ids=[row["id"] for row in found],
        encoder=encoder_name(journal),
    )
    return write_table(target, whole, [row["arm"] for row in found])


def _parquet(what: str = "exporting Parquet") -> list[Any]:
    return require_all(("pyarrow", "pyarrow.parquet"), extra="export", what=what)


def _batches(found: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Split rows into batches; yield at least one, so that an empty table still has columns."""
    yield list(islice(found, ROWS_PER_BATCH))
    while batch := list(islice(found, ROWS_PER_BATCH)):
        yield batch


def _image(folder: Path, path: str | None) -> dict[str, Any] | None:
    return None if path is None else {"bytes": read_image(folder, path), "path": path}


def _schema(arrow: Any, data: DataSet, has_images: bool) -> Any:
    fields = [
        (name, getattr(arrow, ARROW.get(kind, kind))()) for name, kind in data.columns.items()
    ]
    if has_images:
        fields.append(
            ("image", arrow.struct([("bytes", arrow.binary()), ("path", arrow.string())]))
        )
    return arrow.schema(fields)


def _write_hf(data: DataSet, folder: Path, out: Path) -> Path:
    """Write a folder that ``datasets.load_dataset`` reads."""
    if out.exists():
        raise InputError(f"{out} already exists; remove it, or choose another folder.")
    sweep_drafts_of(out)
    draft = draft_path(out)
    has_images = any(row["image"] for _, row in data.told_rows())
    try:
        (draft / "data").mkdir(parents=True)
        target = draft / "data" / "train-00000-of-00001.parquet"
        _write_parquet(data, target, folder if has_images else None)
        card = _card(data, has_images)
        (draft / "README.md").write_text(card, encoding="utf-8")
        weights = folder / "weights.json"
        if weights.exists():
            shutil.copy(weights, draft / "weights.json")
        draft.rename(out)
    except OSError as error:
        shutil.rmtree(draft, ignore_errors=True)
        raise StorageError(
            f"could not write {out} ({error.strerror or error}); {ADVICE}."
        ) from error
    return out


def _card(data: DataSet, has_images: bool) -> str:
    journal, study = data.journal, data.journal.meta("study")
    columns = data.columns | ({"image": "image"} if has_images else {})
    lines = "\n".join(f"  - name: {name}\n    dtype: {kind}" for name, kind in columns.items())
    if data.embeddings:
        lines += f"\n  - name: {EMBEDDING}\n    sequence: {_embedding_dtype(journal)}"
    return f"""---
configs:
- config_name: default
  data_files:
  - split: train
    path: data/*.parquet
dataset_info:
  features:
{lines}
---

# {study["name"]}

Samples from {len(study["arms"])} generators. genmix {journal.meta("genmix")} learned the mixture
while it drew them. One row per sample, in order; `weights.json` contains the final mixture.
"""
