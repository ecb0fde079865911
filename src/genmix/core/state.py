"""Saved state: a single ``.npz`` file with plain arrays and a JSON header. Pickle is never used."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from genmix.core.atomic import draft_of
from genmix.errors import InputError

ARRAY = "__array__"
HEADER = "json"


def save(path: str | os.PathLike[str], state: Mapping[str, Any]) -> None:
    """Atomically write nested dicts and lists of JSON values and arrays."""
    arrays: list[Any] = []
    header = json.dumps(_without_arrays(state, arrays))
    named = {str(i): array for i, array in enumerate(arrays)}
    with draft_of(Path(path)) as draft, draft.open("wb") as file:
        np.savez(file, allow_pickle=False, **{HEADER: np.array(header)}, **named)


def load(path: str | os.PathLike[str]) -> Any:
    """Read a state written by :func:`save`."""
    try:
        with np.load(path, allow_pickle=False) as content:
            arrays = {name: content[name] for name in content}
        return _with_arrays(json.loads(str(arrays[HEADER])), arrays)
    except (KeyError, ValueError, EOFError, OSError, BadZipFile) as error:
        raise InputError(f"{path} is not a saved state; pass a file that save() wrote.") from error


def _without_arrays(value: Any, arrays: list[Any]) -> Any:
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {ARRAY: len(arrays) - 1}
    if isinstance(value, Mapping):
        return {key: _without_arrays(item, arrays) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_arrays(item, arrays) for item in value]
    return value


def _with_arrays(value: Any, arrays: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        if ARRAY in value:
            return arrays[str(value[ARRAY])]
        return {key: _with_arrays(item, arrays) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_arrays(item, arrays) for item in value]
    return value
