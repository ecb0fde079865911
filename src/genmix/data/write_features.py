"""Write embeddings, with labels and what else is known of the samples, to a feature file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from genmix.core.atomic import draft_of
from genmix.core.optional import require_all
from genmix.data.features import EMBEDDING
from genmix.data.loaded_arm import LoadedArm
from genmix.data.tables import MODEL, PARQUET
from genmix.errors import InputError


def write_features(path: Path, arms: Sequence[LoadedArm]) -> Path:
    """Write the embeddings of arms to an ``.npz``, ``.npy`` or ``.parquet`` file, atomically.

    Parameters
    ----------
    path : Path
        ``.npz``: the arrays ``features``, ``model_name``, ``quality``, ``cost``, ``sample_id`` and
        ``encoder``. ``.parquet``: the same as columns, with texts and image paths; the encoder is in the
        metadata.
        ``.npy``: only the embeddings, of a single arm.
    arms : sequence of LoadedArm
        Arms with features. What one of them lacks, e.g. the quality, is left out.

    Returns
    -------
    Path
        The file. Every genmix command that reads feature files finds the same arms in it.
    """
    check_target(path)
    widths = {arm.label: arm.features.shape[1] for arm in arms if arm.features is not None}
    (first, width), *others = widths.items()
    for label, other in others:
        if other != width:
            raise InputError(
                f"arm {first!r} has {width} dimensions, but arm {label!r} has {other}; embed both with the "
                "same encoder."
            )
    labels = [arm.label for arm in arms for _ in range(len(arm))]
    return write_table(path, reduce(LoadedArm.joined, arms), labels)


def write_table(path: Path, whole: LoadedArm, labels: Sequence[str]) -> Path:
    """Write all samples in their order, with the arm of each; see ``write_features``."""
    WRITERS[path.suffix.lower()](path, whole, labels)
    return path


def check_target(path: Path) -> None:
    """Raise an error if this is not the name of a feature file, or if a package for it is missing."""
    if path.suffix.lower() not in WRITERS:
        raise InputError(
            f"{path} is not a feature file; use a name that ends in .npz, .npy or .parquet."
        )
    if path.suffix.lower() in PARQUET:
        _parquet()


def check_arms(path: Path, count: int) -> None:
    """Raise InputError if a file cannot contain this number of arms."""
    if path.suffix.lower() == ".npy" and count > 1:
        raise InputError(
            f"{path} can contain only one arm, but there are {count}; write an .npz or .parquet file."
        )


def _write_npy(path: Path, whole: LoadedArm, labels: Sequence[str]) -> None:
    check_arms(path, len(set(labels)))
    with draft_of(path) as draft, draft.open("wb") as file:
        np.save(file, np.asarray(whole.features), allow_pickle=False)


def _write_npz(path: Path, whole: LoadedArm, labels: Sequence[str]) -> None:
    known = {"quality": whole.quality, "cost": whole.cost, "sample_id": whole.sample_ids}
    known |= {MODEL: labels, "encoder": whole.encoder}
    arrays = {name: np.asarray(value) for name, value in known.items() if value is not None}
    with draft_of(path) as draft, draft.open("wb") as file:
        np.savez(file, allow_pickle=False, features=np.asarray(whole.features), **arrays)


def _write_parquet(path: Path, whole: LoadedArm, labels: Sequence[str]) -> None:
    arrow, parquet = _parquet()
    columns = {
        name: arrow.array(value)
        for name, value in sample_columns(whole, labels, path.parent).items()
    }
    columns[EMBEDDING] = embedding_array(arrow, np.asarray(whole.features))
    table = arrow.table(columns)
    if whole.encoder is not None:
        table = table.replace_schema_metadata({"encoder": whole.encoder})
    with draft_of(path) as draft:
        parquet.write_table(table, draft)


def _parquet() -> list[Any]:
    return require_all(("pyarrow", "pyarrow.parquet"), extra="export", what="writing Parquet")


def sample_columns(whole: LoadedArm, labels: Sequence[str], folder: Path) -> dict[str, list[Any]]:
    """Return what is known of the samples, except for their embeddings, for a table in a folder."""
    known: dict[str, Any] = {"sample_id": whole.sample_ids, MODEL: labels, "prompt": whole.prompts}
    known |= {"text": whole.texts, "image_path": _image_paths(whole.images, folder)}
    known |= {"quality": whole.quality, "cost": whole.cost}
    return {
        name: np.asarray(value).tolist() if name in ("quality", "cost") else list(value)
        for name, value in known.items()
        if value is not None
    }


def embedding_array(arrow: Any, rows: Any) -> Any:
    """Convert embeddings ``(n, d)`` to an Arrow array of lists."""
    flat = arrow.array(np.ascontiguousarray(rows).reshape(-1))
    return arrow.FixedSizeListArray.from_arrays(flat, rows.shape[1])


def _image_paths(images: Sequence[Path] | None, folder: Path) -> list[str] | None:
    """Return paths relative to the folder of the table; an image outside of it has an absolute path."""
    if images is None:
        return None
    root, found = folder.resolve(), [image.resolve() for image in images]
    return [
        (image.relative_to(root) if image.is_relative_to(root) else image).as_posix()
        for image in found
    ]


WRITERS: dict[str, Callable[[Path, LoadedArm, Sequence[str]], None]] = {
    ".npz": _write_npz,
    ".npy": _write_npy,
    ".parquet": _write_parquet,
    ".pq": _write_parquet,
}
"""Writers by file extension."""
