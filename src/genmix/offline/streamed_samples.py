"""Samples for ``keep`` that do not fit in memory: shards that can be read at any row."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import numpy as np

from genmix.core.atomic import ADVICE, draft_path, make_folder, sweep
from genmix.data.shard_files import ShardFile, open_shard, shifted
from genmix.data.shards import Shards
from genmix.data.streamed_rows import StreamedRows, blocks_of
from genmix.errors import InputError, StorageError
from genmix.objectives import Batch, Objective, Sum
from genmix.shards.settings import current
from genmix.shards.statistics import exact_kernel_error

UNPACKED = "_unpacked"
"""The folder for copies; a name with an underscore is not read as a folder of shards."""


def unpacked_rows(shards: Shards, copies: ExitStack) -> StreamedRows:
    """Return rows that can be read in any order until ``copies`` closes.

    Compressed files, Parquet and arrays in Fortran order are copied to ``.npy`` files in the cache folder,
    with the precision in which they are stored. No other call uses the copies. Those of killed processes
    are removed by the next call.
    """
    packed = sum(each.is_packed for each in shards.files)
    folder = draft_path(current().place / UNPACKED / uuid4().hex)
    if packed:
        copies.callback(shutil.rmtree, folder, ignore_errors=True)
        make_folder(folder, "set GENMIX_CACHE to another folder")
        sweep(folder.parent)
    files, done = [], 0
    for each in shards.files:
        if each.is_packed:
            files.append(open_shard(_copy(each, folder / f"{done}.npy")))
            done += 1
            current().progress("unpacking shards", done, packed)
        else:
            files.append(each)
    return StreamedRows(shards.with_files(files))


def _copy(file: ShardFile, target: Path) -> Path:
    header = {"descr": np.lib.format.dtype_to_descr(file.dtype), "fortran_order": False}
    try:
        with target.open("wb") as out:
            np.lib.format.write_array_header_1_0(
                out, header | {"shape": (file.rows, file.dimension)}
            )
            for block in file.stored(file.height):
                out.write(np.ascontiguousarray(block, dtype=file.dtype).tobytes())
    except OSError as error:
        raise StorageError(f"could not write {target} ({error.strerror}); {ADVICE}.") from error
    return target


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
