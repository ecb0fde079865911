"""Notes on stderr about inputs that are valid, but possibly not what the user meant."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from genmix.cli import print_note
from genmix.cli.samples.sample_options import KernelName

if TYPE_CHECKING:
    from genmix.cli.samples.arguments import Inputs
    from genmix.data.loaded_arm import LoadedArm
    from genmix.objectives import Objective

MANY_PAIRS = 2e9
"""Pairs of samples that an exact kernel compares in about ten seconds."""

SLOW, SECONDS_PER_NOTE = 2.0, 5.0
"""Seconds before the first note on a search for neighbors, and between two of them."""


# -- exact kernels -----------------------------------------------------------------------------------


def note_many_pairs(given: Inputs, kernel: KernelName | None, repeats: int = 1) -> None:
    """Warn that an exact kernel is slow if it compares many pairs of samples ``repeats`` times."""
    from genmix.data.shards import Shards, fits_in_memory

    count = sum(given.counts.values())
    shards = [arm.features for arm in given.loaded if isinstance(arm.features, Shards)]
    if shards and not fits_in_memory(count, shards[0].shape[1]):
        return  # refused
    compared = max(_compared(given.objective, count), default=0)
    if repeats * compared**2 > MANY_PAIRS:
        advice = "; use --features 512 for a faster approximation"
        if kernel is KernelName.polynomial:
            advice = ""
        print_note(f"comparing {compared:,} samples with each other can take minutes{advice}.")


def _compared(objective: Objective, count: int) -> list[int]:
    """Return the number of samples that each exact kernel compares, with those of its reference."""
    from genmix.data.reference import Samples
    from genmix.objectives import RKE, KernelDistance, Sum

    if isinstance(objective, Sum):
        return [n for _, term in objective.terms for n in _compared(term, count)]
    if not isinstance(objective, RKE | KernelDistance) or objective.kernel.columns(1) is not None:
        return []  # Vendi refuses an exact kernel for many samples
    reference = getattr(objective, "reference", None)
    return [count + (len(reference.points) if isinstance(reference, Samples) else 0)]


# -- nearest neighbors -------------------------------------------------------------------------------


@contextmanager
def notes_on_neighbors() -> Iterator[None]:
    """Say from time to time how far a search for nearest neighbors is, if it takes long."""
    from genmix.kernels.neighbor_progress import reporting_neighbors

    due = monotonic() + SLOW

    def report(title: str, done: int, total: int) -> None:
        nonlocal due
        if monotonic() > due:
            due = monotonic() + SECONDS_PER_NOTE
            print_note(f"{title}: {done:,} of {total:,} samples")

    with reporting_neighbors(report):
        yield


# -- folders -----------------------------------------------------------------------------------------


def note_subfolders(inputs: Sequence[str], arms: Sequence[LoadedArm]) -> None:
    """Say that a folder is one arm if it is the only input and all its files are in several subfolders."""
    from genmix.data.shards import Shards
    from genmix.inputs import split_name

    name, folder = split_name(inputs[0])
    if len(inputs) > 1 or len(arms) > 1 or name is not None or not folder.is_dir():
        return
    samples = arms[0].features
    files = [f.path for f in samples.files] if isinstance(samples, Shards) else arms[0].images
    inside = sorted({_subfolder(file, folder) for file in files or ()})
    if len(inside) > 1 and folder not in inside:
        listed = shlex.join(map(str, inside[:2])) + (" …" if len(inside) > 2 else "")
        print_note(
            f"{folder} is read as one arm, although its files are in {len(inside)} subfolders; pass {listed} "
            "to make each of them an arm."
        )


def _subfolder(file: Path, folder: Path) -> Path:
    """Return the immediate subfolder that contains a file; the folder itself if none does."""
    parts = file.relative_to(folder).parts if file.is_relative_to(folder) else ()
    return folder / parts[0] if len(parts) > 1 else folder
