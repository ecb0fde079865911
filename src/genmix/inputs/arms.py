"""Turn command-line arguments ``PATH`` and ``NAME=PATH`` into labeled arms."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import reduce
from pathlib import Path

from genmix.data.arm_files import read_arm_file
from genmix.data.features import Statistics
from genmix.data.loaded_arm import LoadedArm
from genmix.errors import InputError
from genmix.inputs.run_arms import is_run, read_run


def load_arms(arguments: Sequence[str], key: str | None = None) -> list[LoadedArm]:
    """Read the samples of every argument, and label them.

    Parameters
    ----------
    arguments : sequence of str
        ``PATH`` or ``NAME=PATH``. A path is a feature file, a table of texts or embeddings, a folder of
        images, or a run folder. A run and a table with ``model_name`` have several arms, which NAME prefixes.
    key : str, optional
        The array, column or field to read from files.

    Returns
    -------
    list of LoadedArm
        Arms with distinct labels. Texts and images are not embedded yet; see ``embed_arms``.

    Raises
    ------
    InputError
        If an input cannot be read, or two arms have the same label. Arms of several runs with
        equal labels and equal settings are joined instead.
    """
    found: dict[str, LoadedArm] = {}
    paths: dict[str, Path] = {}
    for argument in arguments:
        name, path = split_name(argument)
        for arm in _samples_at(path, name, key):
            if arm.label not in found:
                found[arm.label], paths[arm.label] = arm, path
            elif arm.generator is not None and arm.generator == found[arm.label].generator:
                both = (found[arm.label], arm)
                common_encoder((each.source, each.encoder) for each in both)
                found[arm.label] = found[arm.label].joined(arm)
            else:
                first = paths[arm.label]
                raise InputError(
                    f"{first} and {path} would both be named {arm.label!r}; name them, e.g. "
                    f"first={first} second={path}."
                )
    return list(found.values())


def load_samples(path: Path, key: str | None = None) -> LoadedArm | Statistics:
    """Read all samples at a path as one set, or the statistics in a file of ``mu`` and ``sigma``."""
    if is_run(path):
        return reduce(LoadedArm.joined, read_run(path))
    found = read_arm_file(path, None, key)
    return found if isinstance(found, Statistics) else reduce(LoadedArm.joined, found)


def _samples_at(path: Path, name: str | None, key: str | None) -> list[LoadedArm]:
    if is_run(path):
        return read_run(path, name)
    found = read_arm_file(path, name, key)
    if isinstance(found, Statistics):
        raise InputError(
            f"{path} has only mu and sigma, but an arm needs samples; pass a file of samples."
        )
    return found


def split_name(argument: str) -> tuple[str | None, Path]:
    """Split ``NAME=PATH``; a file whose name contains ``=`` is a path."""
    name, sign, rest = argument.partition("=")
    if not sign or os.path.exists(argument):
        return None, Path(argument)
    if not name or not rest:
        raise InputError(f"{argument!r} is not NAME=PATH; pass both, e.g. sdxl=a/features.npz.")
    return name, Path(rest)


def common_encoder(stated: Iterable[tuple[str, str | None]]) -> tuple[str, str] | None:
    """Return the first source that names an encoder, and the name; refuse samples of different encoders.

    ``stated`` contains sources, e.g. files, and the encoders that they name.
    """
    known = [(source, name) for source, name in stated if name is not None]
    for source, name in known:
        if name != known[0][1]:
            raise InputError(
                f"{known[0][0]} was embedded with {known[0][1]!r}, but {source} with {name!r}; embed "
                "both with the same encoder."
            )
    return known[0] if known else None
