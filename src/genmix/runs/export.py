"""The data set of a run, one row a sample, in the forms that others read."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from genmix.core.atomic import draft_of, draft_path, sweep_drafts_of
from genmix.core.optional import need
from genmix.errors import InputError
from genmix.runs.images import FOLDER, read_image
from genmix.runs.journal import Journal

Form = Literal["parquet", "jsonl", "hf"]

COLUMNS = (
    "sample_id",
    "model_name",
    "round",
    "prompt",
    "text",
    "image_path",
    "source",
    "weight_at_draw",
    "propensity",
    "quality",
    "cost",
    "input_tokens",
    "output_tokens",
)

OWN_FILES = (
    "journal.sqlite",
    "journal.sqlite-shm",
    "journal.sqlite-wal",
    "lock",
    "report.html",
    "resume.log",
    "selector.npz",
    "study.yaml",
    "summary.json",
    "weights.json",
)

ROWS_AT_ONCE = 1000


def export(
    run: str | os.PathLike[str], to: Form, out: str | os.PathLike[str] | None = None
) -> Path:
    """Write the told samples of a run and give the path; an old file stays until the new one is whole."""
    if to not in ("parquet", "jsonl", "hf"):
        raise InputError(f"cannot export to {to!r}: give parquet, jsonl or hf.")
    folder = Path(run)
    check_target(folder, None if out is None else Path(out))
    journal = Journal.open(folder, readonly=True)
    try:
        if to == "hf":
            return _hf(journal, folder, Path(out or folder / "hf"))
        target = Path(out or folder / f"samples.{to}")
        sweep_drafts_of(target)
        with draft_of(target) as draft:
            (_jsonl if to == "jsonl" else _parquet)(journal, draft)
        return target
    finally:
        journal.close()


def check_target(folder: Path, out: Path | None) -> None:
    """Refuse to write over the run itself, or over anything that is no plain file."""
    if out is None:
        return
    if out.resolve().parent == folder.resolve() and out.name in OWN_FILES:
        raise InputError(f"{out} belongs to the run: name another file.")
    if out.is_symlink() or (out.exists() and not out.is_file()):
        raise InputError(f"{out} is there already and no plain file: name another.")


def rows(journal: Journal) -> Iterator[dict[str, Any]]:
    """Every told sample, in the order in which they were told."""
    for number, row in enumerate(journal.told_rows(), start=1):
        yield {
            "sample_id": row["id"],
            "model_name": row["arm"],
            "round": number,
            "prompt": row["prompt"],
            "text": row["text"],
            "image_path": None if row["image"] is None else f"{FOLDER}/{row['image']}",
            "source": row["source"],
            "weight_at_draw": row["weight"],
            "propensity": row["propensity"],
            "quality": row["quality"],
            "cost": row["cost"],
            "input_tokens": row["input_tokens"],
            "output_tokens": row["output_tokens"],
        }


def _jsonl(journal: Journal, path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        for row in rows(journal):
            file.write(one_line(row) + "\n")


def one_line(row: dict[str, Any]) -> str:
    """JSON that every reader takes for one line, also those that break lines at odd characters."""
    text = json.dumps(row, ensure_ascii=False)
    for character in ("\x85", "\u2028", "\u2029"):
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _parquet(journal: Journal, path: Path, images: Path | None = None) -> None:
    """With ``images``, the pictures themselves go into a column that image data sets have."""
    arrow = need("pyarrow", "export", "exporting Parquet")
    parquet = need("pyarrow.parquet", "export", "exporting Parquet")
    schema = _schema(arrow, images is not None)
    with parquet.ParquetWriter(path, schema) as writer:
        for batch in _batches(rows(journal)):
            if images is not None:
                for row in batch:
                    row["image"] = _picture(images, row["image_path"])
            writer.write_table(arrow.Table.from_pylist(batch, schema=schema))


def _batches(found: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    batch: list[dict[str, Any]] = []
    for row in found:
        batch.append(row)
        if len(batch) == ROWS_AT_ONCE:
            yield batch
            batch = []
    yield batch


def _picture(folder: Path, path: str | None) -> dict[str, Any] | None:
    return None if path is None else {"bytes": read_image(folder, path), "path": path}


def _schema(arrow: Any, pictures: bool) -> Any:
    kinds = {
        **dict.fromkeys(("sample_id", "round", "input_tokens", "output_tokens"), arrow.int64()),
        **dict.fromkeys(("weight_at_draw", "propensity", "quality", "cost"), arrow.float64()),
    }
    fields = [(name, kinds.get(name, arrow.string())) for name in COLUMNS]
    if pictures:
        fields.append(
            ("image", arrow.struct([("bytes", arrow.binary()), ("path", arrow.string())]))
        )
    return arrow.schema(fields)


def _hf(journal: Journal, folder: Path, out: Path) -> Path:
    """A folder that ``datasets.load_dataset`` takes as it is."""
    if out.exists():
        raise InputError(f"{out} is there already: name another folder, or remove it.")
    sweep_drafts_of(out)
    draft = draft_path(out)
    has_images = any(row["image_path"] for row in rows(journal))
    try:
        (draft / "data").mkdir(parents=True)
        target = draft / "data" / "train-00000-of-00001.parquet"
        _parquet(journal, target, folder if has_images else None)
        (draft / "README.md").write_text(_card(journal, has_images), encoding="utf-8")
        weights = folder / "weights.json"
        if weights.exists():
            shutil.copy(weights, draft / "weights.json")
        draft.rename(out)
    except OSError as error:
        shutil.rmtree(draft, ignore_errors=True)
        raise InputError(f"{out} could not be written: {error.strerror or error}.") from error
    return out


def _card(journal: Journal, has_images: bool) -> str:
    study = journal.meta("study")
    kinds = dict.fromkeys(("sample_id", "round", "input_tokens", "output_tokens"), "int64")
    kinds |= dict.fromkeys(("weight_at_draw", "propensity", "quality", "cost"), "float64")
    features = [f"  - name: {name}\n    dtype: {kinds.get(name, 'string')}" for name in COLUMNS]
    if has_images:
        features.append("  - name: image\n    dtype: image")
    lines = "\n".join(features)
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

Samples of {len(study["arms"])} generators, drawn by genmix {journal.meta("genmix")} from the mixture
that it learnt meanwhile. One row a sample, in the order in which they came;
`weights.json` holds the final mixture.
"""
