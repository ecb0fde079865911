"""Samples for ``keep`` that do not fit in memory: shards that can be read at any row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from genmix.core.atomic import draft_of
from genmix.data.shard_files import ShardFile, open_shard, shifted
from genmix.data.shards import Shards
from genmix.data.streamed_rows import StreamedRows, blocks_of
from genmix.errors import InputError
from genmix.objectives import Batch, Objective, Sum
from genmix.shards.saved_progress import digest
from genmix.shards.settings import current
from genmix.shards.statistics import exact_kernel_error


def unpacked_rows(shards: Shards) -> StreamedRows:
    """Return rows that can be read in any order.

    Compressed files and Parquet are copied to ``.npy`` files in the cache folder, with the precision in
    which they are stored. A copy that exists is used again.
    """
    packed = sum(each.is_packed for each in shards.files)
    files, done = [], 0
    for each in shards.files:
        if each.is_packed:
            files.append(open_shard(_copy(each, current().place / "unpacked")))
            done += 1
            current().progress("unpacking shards", done, packed)
        else:
            files.append(each)
    return StreamedRows(shards.with_files(files))


def _copy(file: ShardFile, folder: Path) -> Path:
    target = folder / f"{digest(file.identity())}.npy"
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    header = {"descr": np.lib.format.dtype_to_descr(file.dtype), "fortran_order": False}
    with draft_of(target) as draft, draft.open("wb") as out:
        np.lib.format.write_array_header_1_0(out, header | {"shape": (file.rows, file.dimension)})
        for block in file.stored(file.height):
            out.write(np.ascontiguousarray(block, dtype=file.dtype).tobytes())
    return target


def remove_copies(shards: Shards) -> None:
    """Remove the copies of compressed files and Parquet that ``unpacked_rows`` made."""
    for each in shards.files:
        if each.is_packed:
            (current().place / "unpacked" / f"{digest(each.identity())}.npy").unlink(
                missing_ok=True
            )


def blocks_of_batch(batch: Batch) -> Iterator[Batch]:
    """Yield a batch in blocks of bounded memory; a batch in memory is one block."""
    for part, rows in blocks_of(batch.embeddings):
        yield Batch(rows, *(v if v is None else v[part] for v in (batch.quality, batch.cost)))


def check_streamed(objective: Objective, batch: Batch) -> None:
    """Reject samples on which the objective is not defined, and objectives that need all of them."""
    dimension = batch.embeddings.shape[1]
    parts = [part for _, part in objective.terms] if isinstance(objective, Sum) else [objective]
    kernels = (getattr(part, "kernel", None) for part in parts)
    if any(each is not None and each.columns(dimension) is None for each in kernels):
        raise exact_kernel_error(len(batch))
    first = 0
    for block in blocks_of_batch(batch):
        try:
            objective.check(block, "X")
        except InputError as error:
            raise InputError(shifted(str(error), first)) from None
        first += len(block)
