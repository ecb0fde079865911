"""Saved state: a single ``.npz`` file with plain arrays and a JSON header. Pickle is never used.

The file contains a digest of its content, so that a changed number is noticed. Files from older versions
have none; the checksums of the zip format still detect most damage to them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from genmix.core.atomic import draft_of
from genmix.core.numpy_files import NumpyArchive, check_archive, is_archive
from genmix.errors import InputError

ARRAY = "__array__"
HEADER = "json"
DIGEST = "digest"


def save(path: str | os.PathLike[str], state: Mapping[str, Any]) -> None:
    """Atomically write nested dicts and lists of JSON values and arrays."""
    arrays: list[Any] = []
    header = json.dumps(_without_arrays(state, arrays))
    named = {str(i): array for i, array in enumerate(arrays)}
    digest = np.array(_digest(header, named))
    with draft_of(Path(path)) as draft, draft.open("wb") as file:
        content = {HEADER: np.array(header), DIGEST: digest, **named}
        np.savez(file, allow_pickle=False, **content)


def load(path: str | os.PathLike[str]) -> Any:
    """Read a state written by :func:`save`.

    Raises
    ------
    InputError
        If there is no such file, or it is damaged or not a saved state.
    """
    if not Path(path).exists():
        raise InputError(f"there is no file {path}; pass a file that save() wrote.")
    if Path(path).is_file() and is_archive(Path(path)):
        check_archive(Path(path))
    try:
        with NumpyArchive(Path(path)) as content:
            arrays = {name: content[name] for name in content}
        header, digest = str(arrays.pop(HEADER)), arrays.pop(DIGEST, None)
        state = _with_arrays(json.loads(header), arrays)
    except (KeyError, ValueError, RecursionError, MemoryError) as error:
        raise InputError(
            f"{path} is not a saved state, or it is damaged; pass a file that save() wrote."
        ) from error
    if digest is not None and str(digest) != _digest(header, arrays):
        raise InputError(f"{path} has changed since it was saved; restore it from a backup.")
    return state


def _digest(header: str, arrays: Mapping[str, Any]) -> str:
    digest = blake2b(header.encode(), digest_size=16)
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


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
