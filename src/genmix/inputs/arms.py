"""Turn command-line arguments ``PATH`` and ``NAME=PATH`` into labeled arms."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path

from genmix.core.text import listed
from genmix.data.arm_files import read_arm_file
from genmix.data.features import Statistics
from genmix.data.loaded_arm import LoadedArm
from genmix.errors import InputError
from genmix.inputs.run_arms import is_run, read_run, run_id


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
        If an input cannot be read, or a run is given twice, or two arms have the same label. Arms of
        several runs with equal labels are joined if they are the same generator, and labeled ``RUN/ARM``
        if that is not known.
    """
    given = [split_name(argument) for argument in arguments]
    _check_runs_differ([path for _, path in given if is_run(path)])
    found: dict[str, list[tuple[Path, LoadedArm]]] = {}
    for name, path in given:
        for arm in _samples_at(path, name, key):
            found.setdefault(arm.label, []).append((path, arm))
    labeled: dict[str, tuple[Path, LoadedArm]] = {}
    for same_label in found.values():
        for path, arm in _combined(same_label):
            if arm.label in labeled:
                raise _ambiguous(arm.label, labeled[arm.label][0], path)
            labeled[arm.label] = path, arm
    return [arm for _, arm in labeled.values()]


def _check_runs_differ(folders: Sequence[Path]) -> None:
    """Refuse to count the samples of a run twice."""
    seen: dict[str, Path] = {}
    for folder in folders:
        first = seen.setdefault(run_id(folder), folder)
        if first is not folder:
            raise InputError(f"{first} and {folder} are the same run; pass each run once.")


def _combined(arms: Sequence[tuple[Path, LoadedArm]]) -> Sequence[tuple[Path, LoadedArm]]:
    """Join the samples of one generator in several runs; an unknown generator is kept apart."""
    generators = {arm.generator for _, arm in arms}
    first, *others = (path for path, _ in arms)
    if not others:
        return arms
    if None in generators and all(is_run(path) for path, _ in arms):
        has_names = len({path.name for path, _ in arms}) == len(arms)
        return [
            (path, replace(arm, label=f"{path.name if has_names else path}/{arm.label}"))
            for path, arm in arms
        ]
    if None in generators or len(generators) > 1:
        other = next((p for p, arm in arms if arm.generator != arms[0][1].generator), others[0])
        raise _ambiguous(arms[0][1].label, first, other, _difference(generators))
    common_encoder((arm.source, arm.encoder) for _, arm in arms)
    return [(first, reduce(LoadedArm.joined, [arm for _, arm in arms]))]


def _ambiguous(label: str, first: Path, second: Path, why: str = "") -> InputError:
    return InputError(
        f"{first} and {second} would both be named {label!r}{why}; name them, e.g. "
        f"first={first} second={second}."
    )


def _difference(generators: Collection[str | None]) -> str:
    """Say which settings of the generators differ, if that is known."""
    known = [json.loads(each) for each in generators if each is not None]
    if len(known) < 2:
        return ""
    keys = sorted({key for each in known for key in each})
    different = [key for key in keys if any(each.get(key) != known[0].get(key) for each in known)]
    verb = "differs" if len(different) == 1 else "differ"
    return f", but they are different generators (their {listed(different)} {verb})"


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
