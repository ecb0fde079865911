"""Read the samples of arms from a feature file, a table or a folder of images."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from genmix.core.numpy_files import NumpyArchive, is_archive
from genmix.core.text import printable, quotable
from genmix.data.features import (
    EMBEDDING,
    TYPES,
    Statistics,
    check_type,
    embedding_column,
    read_file,
)
from genmix.data.image_folder import has_images, image_files
from genmix.data.loaded_arm import LoadedArm, same_kind
from genmix.data.png import SUFFIXES
from genmix.data.samples import FieldError, checked_field
from genmix.data.shard_files import shard_paths
from genmix.data.shards import Shards
from genmix.data.tables import MODEL, PARQUET, READERS, TEXT, is_table, parquet_schema, read_rows
from genmix.data.text_files import is_outside
from genmix.errors import InputError

IMAGE, PROMPT = "image_path", "prompt"
EXTRAS = (MODEL, "quality", "cost", "sample_id")
"""Columns of a table, and arrays of an ``.npz`` file, that describe the samples."""
TYPES_ADVICE = (
    f"use a file of embeddings ({', '.join(TYPES)}), a table ({', '.join(READERS)}), or a folder of images "
    "or embeddings"
)


def read_arm_file(
    path: Path, label: str | None = None, key: str | None = None
) -> list[LoadedArm] | Statistics:
    """Read a feature file, a table of texts, image paths or embeddings, or a folder of images or shards.

    Parameters
    ----------
    path : Path
        A file or folder. A table (JSON Lines, CSV, Parquet, text) has one row per sample.
    label : str, optional
        Name of the arm. By default, the name of the file or folder.
    key : str, optional
        The array, column or field to read: embeddings, or texts.

    Returns
    -------
    list of LoadedArm or Statistics
        One arm, or one per distinct value of ``model_name``, which exports and ``genmix embed`` write;
        with ``label``, these are named ``label/model_name``. A file of ``mu`` and ``sigma`` has no
        samples, only Statistics.
    """
    if os.path.isdir(path):  # Path.is_dir raises an error if the name is too long
        return [_read_folder(path, label or path.resolve().name, key)]
    if not os.path.isfile(path):
        raise InputError(f"no file or folder found at {path}; check the path.")
    if is_table(path):
        return _split(*_read_table(path, key), label)
    check_type(path, TYPES_ADVICE)
    found = _read_features(path, key)
    return found if isinstance(found, Statistics) else _split(*found, label)


def _read_folder(path: Path, label: str, key: str | None) -> LoadedArm:
    """Return the images in a folder, or else its files of embeddings, which are not read yet."""
    if has_images(path) or not shard_paths(path):
        return LoadedArm(label, str(path), images=image_files(path))
    shards = Shards(path, key)
    shards.check_models()
    return LoadedArm(
        label,
        str(path),
        features=shards,
        quality=shards.quality,
        cost=shards.cost,
        encoder=shards.encoder,
    )


def read_table(path: Path, key: str | None = None) -> LoadedArm:
    """Read all samples in a table as one arm, in the order of the rows."""
    return _read_table(path, key)[0]


Loaded = tuple[LoadedArm, Sequence[str] | None]
"""All samples of a file, and the model of each, if the file says so."""


def _split(whole: LoadedArm, models: Sequence[str] | None, label: str | None) -> list[LoadedArm]:
    """Split the samples by model."""
    names = list(dict.fromkeys(models or ()))
    if len(names) <= 1:
        return [_named(whole, label or (names[0] if names else whole.label))]
    rows: dict[str, list[int]] = {name: [] for name in names}
    for row, name in enumerate(models or ()):
        rows[name].append(row)
    prefix = f"{label}/" if label else ""
    return [_named(whole.take(rows[name]), prefix + name) for name in names]


def _named(arm: LoadedArm, label: str) -> LoadedArm:
    return replace(arm, label=label)


# -- feature files -----------------------------------------------------------------------------------


def _read_features(path: Path, key: str | None) -> Loaded | Statistics:
    features = read_file(path, key)
    if isinstance(features, Statistics):
        return features
    extras, encoder = _archive_extras(path, len(features))
    return _arm(path, extras, encoder, features=features)


def _archive_extras(path: Path, count: int) -> tuple[dict[str, list[Any]], str | None]:
    """Return what an ``.npz`` file says about its samples, and the name of the encoder."""
    if path.suffix.lower() != ".npz" or not is_archive(path):
        return {}, None
    with NumpyArchive(path) as content:
        extras = {name: content[name] for name in EXTRAS if name in content}
        encoder = quotable(content["encoder"]) if "encoder" in content else None
    for name, values in extras.items():
        if values.shape != (count,):
            raise InputError(
                f"{path} ({name}) has shape {values.shape}, but the number of samples is {count}; save "
                "one value per sample."
            )
    return {name: values.tolist() for name, values in extras.items()}, encoder


# -- tables ------------------------------------------------------------------------------------------


def _read_table(path: Path, key: str | None) -> Loaded:
    content, column = _content_of(path, key)
    text = column if content == "texts" else TEXT
    places, rows = [], []
    for place, row in read_rows(path, {*EXTRAS, text, IMAGE, PROMPT}):
        places.append(place)
        rows.append(row)
    if not rows:
        raise InputError(f"{path} contains no samples; write one row per sample.")
    columns = {name: [row.get(name) for row in rows] for name in (*EXTRAS, text, IMAGE, PROMPT)}
    if content == "texts":
        check = zip(columns[text], places, strict=True)
        found: dict[str, Any] = {"texts": [_text(value, text, place) for value, place in check]}
    elif content == "images":
        found = {"images": _image_paths(path, columns[IMAGE], places)}
    else:
        texts = columns[text] if all(isinstance(t, str) for t in columns[text]) else None
        found = {"features": read_file(path, key), "texts": texts}
        found["images"] = _images_if_all(path, columns[IMAGE], places)
    return _arm(path, columns, _stored_encoder(path), places, **found)


def _content_of(path: Path, key: str | None) -> tuple[str, str]:
    """Return whether a table contains features, texts or images, and in which column."""
    if path.suffix.lower() in PARQUET:
        schema = parquet_schema(path)
        names, features = set(schema.names), embedding_column(schema, key)
        is_text = key is not None and features is None and key in names
    else:
        first: Mapping[str, Any] = next((row for _, row in read_rows(path)), {})
        names, features = set(first), key or EMBEDDING
        if not isinstance(first.get(features), list):
            features = None
        is_text = key is not None and isinstance(first.get(key), str)
    if features is not None:
        return "features", features
    if is_text or TEXT in names or not names:
        return "texts", key or TEXT
    if key is None and IMAGE in names:
        return "images", IMAGE
    listed = ", ".join(map(printable, sorted(names)))[:300]
    if key is not None:
        missing = f"there is no column {key!r}"
        if key in names:
            missing = f"the column {key!r} contains neither texts nor embeddings"
        raise InputError(
            f"{path}: {missing}; the columns are {listed}; pass the name of another one with --key."
        )
    if path.suffix.lower() == ".csv":
        raise InputError(
            f"{path} has the columns {listed}; choose the texts with --key, or save embeddings in another "
            f"type ({', '.join(TYPES)})."
        )
    raise InputError(
        f"{path} has the columns {listed}; choose the texts or embeddings with --key, or name "
        f"their column {TEXT!r} or {EMBEDDING!r}."
    )


def _stored_encoder(path: Path) -> str | None:
    """Return the encoder that a Parquet file names."""
    if path.suffix.lower() not in PARQUET:
        return None
    name = (parquet_schema(path).metadata or {}).get(b"encoder")
    return None if not name else quotable(name.decode("utf-8", "replace"))


def _text(value: Any, column: str, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{where} has no text under {column!r}; add it, or remove the row.")
    return str(checked_field("text", value))


def _image_paths(path: Path, names: Sequence[Any], places: Sequence[str]) -> list[Path]:
    """Return the images, whose paths are relative to the table; nothing outside its folder is read."""
    found = []
    for name, where in zip(names, places, strict=True):
        file = path.parent / str(name)
        if not isinstance(name, str) or file.suffix.lower() not in SUFFIXES:
            raise InputError(f"{where} has no image under {IMAGE!r}; add its path.")
        if is_outside(file, path.parent) or not os.path.isfile(file):
            raise InputError(
                f"{where}: there is no image {printable(name)} in {path.parent}; correct the path."
            )
        found.append(file)
    return found


def _images_if_all(path: Path, names: Sequence[Any], places: Sequence[str]) -> list[Path] | None:
    try:
        return _image_paths(path, names, places)
    except InputError:
        return None  # the embeddings are enough


# -- what describes the samples ----------------------------------------------------------------------


def _arm(
    path: Path,
    extras: Mapping[str, list[Any]],
    encoder: str | None,
    places: Sequence[str] = (),
    **content: Any,
) -> Loaded:
    numbers = {name: _numbers(path, name, extras.get(name), places) for name in ("quality", "cost")}
    prompts, models = extras.get(PROMPT), extras.get(MODEL)
    has_prompts = prompts is not None and all(isinstance(each, str) for each in prompts)
    whole = LoadedArm(
        path.stem,
        str(path),
        **content,
        **numbers,
        prompts=prompts if has_prompts else None,
        sample_ids=same_kind(extras.get("sample_id")),
        encoder=encoder,
        missing={
            name: places[row] if places else f"{path}, sample {row}"
            for name in numbers
            if (row := _first_gap(extras.get(name))) is not None
        },
    )
    return whole, _models(path, models)


def _models(path: Path, models: Sequence[Any] | None) -> list[str] | None:
    if models is None or all(model is None for model in models):
        return None
    for row, model in enumerate(models):
        if not isinstance(model, str) or not model:
            raise InputError(f"{path}, sample {row} has no {MODEL}; add it to every sample.")
    return [printable(model) for model in models]


def _first_gap(values: Sequence[Any] | None) -> int | None:
    """Return the first row without a value; None if every row has one, or if none does."""
    is_partial = values is not None and None in values and any(v is not None for v in values)
    return values.index(None) if is_partial and values is not None else None


def _numbers(path: Path, name: str, values: Sequence[Any] | None, places: Sequence[str]) -> Any:
    """Return a column of numbers, or None if a sample lacks one."""
    if not values or None in values:
        return None
    found = []
    for row, value in enumerate(values):
        try:
            found.append(checked_field(name, value))
        except FieldError as error:
            where = places[row] if places else f"{path}, sample {row}"
            raise InputError(f"{where} {error}.") from None
    return np.array(found)
