"""Folders of shards as samples for ``genmix keep``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genmix.cli.samples.arguments import Inputs
from genmix.cli.samples.shard_options import EngineName, ShardOptions
from genmix.errors import InputError

if TYPE_CHECKING:
    from genmix.data.shards import Shards
    from genmix.objectives import Batch
    from genmix.offline.keeping import Rules


def has_shards(given: Inputs) -> bool:
    from genmix.data.shards import Shards

    return any(isinstance(arm.features, Shards) for arm in given.loaded)


def small_shards_loaded(given: Inputs) -> Inputs:
    """Return the same samples; shards that fit in memory together are loaded."""
    from genmix.data.shards import Shards, fits_in_memory

    size = sum(len(arm) for arm in given.loaded)
    found = [arm.features for arm in given.loaded if isinstance(arm.features, Shards)]
    if not found or not fits_in_memory(size, found[0].shape[1]):
        return given
    loaded = [
        arm.take(range(len(arm))) if isinstance(arm.features, Shards) else arm
        for arm in given.loaded
    ]
    return replace(given, loaded=loaded)


def check_shards(
    options: ShardOptions, given: Inputs, rules: Rules, out: str, predict: int | None
) -> None:
    """Refuse options without effect, and what needs samples in memory that do not fit there."""
    from genmix.data.shards import fits_in_memory

    if options.engine is EngineName.ray or options.workers is not None:
        name = "--workers" if options.workers is not None else "--engine ray"
        raise InputError(f"genmix keep runs in a single process; remove {name}.")
    if not has_shards(given):
        return
    if predict is not None:
        raise InputError(
            "--predict compares sets of several sizes, which needs all samples in memory; remove the option."
        )
    count, dimension = rules.count(sum(map(len, given.loaded))), _joined(given).shape[1]
    if Path(out).suffix.lower() != ".json" and not fits_in_memory(count, dimension):
        raise InputError(
            f"{count:,} kept samples do not fit in memory; write their row numbers with --out NAME.json."
        )


def streamed_batch(given: Inputs) -> Batch:
    """Return the samples of all arms as one set that is read in blocks; nothing is read yet."""
    import numpy as np

    from genmix.data.streamed_rows import StreamedRows
    from genmix.objectives import Batch

    columns = [[getattr(arm, name) for arm in given.loaded] for name in ("quality", "cost")]
    numbers: list[Any] = [
        None if any(each is None for each in column) else np.concatenate(column)
        for column in columns
    ]
    return Batch(StreamedRows(_joined(given)), *numbers)


@contextmanager
def readable(given: Inputs, batch: Batch) -> Iterator[Batch]:
    """Yield the samples, checked; shards can be read in any order inside the ``with`` block."""
    from genmix.offline.streamed_samples import check_streamed, unpacked_rows

    if not has_shards(given):
        yield batch
        return
    with ExitStack() as copies:
        unpacked = replace(batch, embeddings=unpacked_rows(_joined(given), copies))
        check_streamed(given.objective, unpacked)
        yield unpacked


def _joined(given: Inputs) -> Shards:
    """Return the files of all arms, in their order."""
    from genmix.shards.arms import shards_of

    parts = [shards_of(arm.features, arm.label) for arm in given.loaded]
    return parts[0].with_files([file for part in parts for file in part.files])
