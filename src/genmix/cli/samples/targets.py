"""Check the output file of a command before any work: it must be writable and must not be an input."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from genmix.cli.samples.sample_options import InputOptions
from genmix.core.atomic import check_folder, check_writable, is_same_file
from genmix.errors import InputError


def check_output(target: Path, option: str, given: InputOptions) -> None:
    """Refuse a file that cannot be written, is an input, or belongs to a run."""
    from genmix.inputs.run_arms import is_run
    from genmix.journal.study_files import is_needed
    from genmix.journal.targets import owner_of

    for source in _sources(given):
        if is_run(source):
            owner = owner_of(target, source)
            if owner is None and is_needed(target, source):
                raise InputError(
                    f"{option} would replace {target}, an input of the run in {source}; write to "
                    "another file."
                )
        else:
            _check_not_input(target, option, source)
            owner = owner_of(target)
        if owner is not None:
            raise InputError(
                f"{option} is {target}, which belongs to the run in {owner}; write to another file."
            )
    check_writable(target)


def check_output_folder(folder: Path, option: str) -> None:
    """Refuse a folder that cannot be written to, or that contains a run."""
    from genmix.inputs.run_arms import is_run
    from genmix.journal.targets import owner_of

    if is_run(folder) or owner_of(folder) is not None:
        raise InputError(
            f"{option} is {folder}, which contains a run; choose another folder for the results."
        )
    check_folder(folder)


def _sources(given: InputOptions) -> Iterator[Path]:
    """Iterate over the files and folders that a command reads."""
    from genmix.inputs import split_name

    for argument in given.inputs:
        yield split_name(argument)[1]
    reference = getattr(given, "reference", None)
    if reference is not None:
        yield reference
    if given.encoder is not None:
        yield Path(given.encoder)  # a study file, or a run folder
        yield Path(given.encoder.rpartition(":")[0] or given.encoder)  # FILE.py:FUNCTION


def _check_not_input(target: Path, option: str, source: Path) -> None:
    if not os.path.isdir(source):
        is_input = os.path.exists(source) and is_same_file(target, source)
    else:
        is_input = os.path.exists(target) and any(is_same_file(target, f) for f in _files(source))
    if is_input:
        raise InputError(f"{option} would replace the input {target}; write to another file.")
    if os.path.isdir(source) and _would_be_read(target, source):
        raise InputError(
            f"{option} would add {target} to the samples in {source}; write to another folder."
        )


def _files(folder: Path) -> Iterator[Path]:
    """Iterate over the samples in a folder: images, or else files of embeddings."""
    from genmix.data.image_folder import has_images, image_files
    from genmix.data.shard_files import shard_paths

    yield from image_files(folder) if has_images(folder) else shard_paths(folder)


def _would_be_read(target: Path, folder: Path) -> bool:
    """Return whether a new file would be one of the samples of a folder."""
    from genmix.data.image_folder import has_images
    from genmix.data.shard_files import SUFFIXES, shard_paths

    is_inside = Path(os.path.realpath(target)).is_relative_to(os.path.realpath(folder))
    if not is_inside or target.suffix.lower() not in SUFFIXES:
        return False
    return not has_images(folder) and bool(shard_paths(folder))
